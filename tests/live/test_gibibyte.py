"""A gibibyte each way past a slow reader: all of it arrives, and no daemon grows by it."""

import threading

import psutil
import pytest

from tests.live.cluster import Lab
from tests.live.contract import PYTHON

SIZE = 1 << 30
GROWTH_BYTES = 48 << 20  # of all daemons of a host together
MAKE = f"seq 200000000 | head -c {SIZE}"
# Reads it all, pauses ten times on the way, and prints what it has read.
TAKE = """
import os, time, zlib
length = sum = pauses = 0
while piece := os.read(0, 1 << 20):
    sum, length = zlib.crc32(piece, sum), length + len(piece)
    if length >> 27 > pauses:
        pauses += 1
        time.sleep(0.3)
print(length, sum)
"""


@pytest.fixture(scope="module")
def lab():
    lab = Lab.up(2)
    for near, far in (lab.hosts, lab.hosts[::-1]):  # allocates what they need once
        lab.run(near, "lbrun", "-H", far, "head", "-c", "100000000", "/dev/zero", text=False)
    yield lab
    lab.down()


class Memory:
    """The peak memory of each host's daemons, sampled ten times a second."""

    def __init__(self, lab):
        self.lab = lab
        self.most = self.before = self._now()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._look)

    def _now(self):
        held = dict.fromkeys(self.lab.hosts, 0)
        for found in self.lab.processes():
            if found.part in ("lim", "lbm"):
                held[found.host] += rss_bytes(found.process.pid)
        return held

    def _look(self):
        while not self.over.wait(0.1):
            self.most = {host: max(held, self.most[host]) for host, held in self._now().items()}

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def growth_bytes(self):
        return {host: most - self.before[host] for host, most in self.most.items()}


def rss_bytes(pid):
    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.NoSuchProcess:
        return 0


@pytest.fixture(scope="module")
def expected(lab):
    script = f'{MAKE} | {" ".join(PYTHON)} -c "$TAKE"'
    return lab.run("h1", "sh", "-c", script, env={"TAKE": TAKE}, check=True).stdout


@pytest.mark.parametrize(
    "script",
    [
        f"lbrun -H h2 sh -c '{MAKE}' | {' '.join(PYTHON)} -c \"$TAKE\"",
        f'{MAKE} | lbrun -H h2 {" ".join(PYTHON)} -c "$TAKE"',
    ],
    ids=["out", "in"],
)
def test_all_of_it_arrives_and_none_of_it_is_retained(lab, script, expected):
    with Memory(lab) as memory:
        ended = lab.run("h1", "sh", "-c", script, env={"TAKE": TAKE}, timeout=300)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, expected, "")
    assert expected.startswith(f"{SIZE} ")
    assert max(memory.growth_bytes().values()) < GROWTH_BYTES, memory.growth_bytes()

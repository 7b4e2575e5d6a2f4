"""Restarts either LBM, or both, at random moments under commands that stream both ways.

The rounds are drawn from the seed, which a failure shows; LBD_RESTART_SEED=S replays it. Nothing
may be lost or repeated, every command ends only by itself, and nothing may be left.
"""

import os
import random
import time

import pytest

from tests.live.cluster import Lab
from tests.live.restarting import SETTINGS, Stream, restart

SEED = os.environ.get("LBD_RESTART_SEED") or os.urandom(4).hex()
ROUNDS, STREAMS = 3, 5
MIB = 1 << 20
STEADY = (
    "import sys, time\n"
    "while data := sys.stdin.buffer.read1(9999):\n"
    "    sys.stdout.buffer.write(data), sys.stdout.buffer.flush(), time.sleep(0.0005)"
)
COMMANDS = (("cat",), ("python3", "-c", STEADY))
PASSING = "while :; do lbrun true 2>/dev/null; done"  # clients that just come and go


@pytest.fixture(scope="module")
def lab():
    lab = Lab.up(2, settings=SETTINGS)
    for near, far in (lab.hosts, lab.hosts[::-1]):  # hosts wait for each other once they have met
        lab.run(near, "lbrun", "-H", far, "true", check=True)
    yield lab
    lab.down()


def known(lab):
    """The number of commands that the LBMs know of."""
    return sum(
        len(lab.ask(host, "lbm", "jobs", all=True, cluster=False)["jobs"]) for host in lab.hosts
    )


@pytest.mark.parametrize("number", range(ROUNDS))
def test_nothing_is_lost_or_repeated(lab, number, monkeypatch):
    rng = random.Random(f"{SEED}:{number}")
    if number % 2:
        monkeypatch.setenv("LBD_FRONT", "python")
    before = known(lab)
    streams = [
        Stream(
            lab, *rng.choice((("h1", "h2"), ("h2", "h1"))), rng.randrange(6 * MIB),
            rng.choice(COMMANDS), seed=rng.random(),
            slow_s=rng.choice((0, 0.002)),
        )
        for _ in range(STREAMS)
    ]  # fmt: skip
    # A client that comes while there is no LBM waits three seconds, in which a busy machine may
    # start none.
    lab.wait_until(lambda: known(lab) == before + STREAMS, "every LBM knows of its commands")
    passing = [lab.popen(host, "sh", "-c", PASSING) for host in lab.hosts]
    for _ in range(rng.randint(1, 2)):
        time.sleep(rng.uniform(0, 0.4))
        restart(lab, *rng.choice((("h1",), ("h2",), ("h1", "h2"), ("h2", "h1"))))
    for process in passing:
        process.terminate()
        process.wait()
    ends = [(*stream.finish(), stream.is_whole()) for stream in streams]
    assert ends == [(0, "", True)] * STREAMS, f"LBD_RESTART_SEED={SEED}\n{lab.logs(30)}"
    lab.wait_until(lambda: not lab.jobs_alive(), "nothing is left", 30, lab.jobs_alive)
    for host in lab.hosts:
        lab.wait_until(
            lambda host=host: not lab.ask(host, "lbm", "status")["slots"]["used"], "no slot is left"
        )

"""An hour of builds, arrays and faults, after which nothing has grown.

Set LBD_SOAK_S=3600 to run it; LBD_SOAK_PLOT=FILE.svg plots what was counted. All work comes from
h1, whose daemons suffer no fault, so that anything they keep by mistake adds up; the others are
killed, stopped and cut off every few seconds. In between the lab is left to become idle, and is
counted. A failure shows the seed: LBD_SOAK_SEED=S replays it.
"""

import os
import random
import statistics
import textwrap
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bench.measure import pss_mib
from tests.live.cluster import FAST, Lab
from tests.live.misfortunes import Misfortunes, set_right

SECONDS = float(os.environ.get("LBD_SOAK_S", "0"))
SEED = os.environ.get("LBD_SOAK_SEED") or os.urandom(4).hex()
PLOT = os.environ.get("LBD_SOAK_PLOT")
ROUNDS = 30
CALM_S = 120.0
KEPT_JOBS = 200
SETTINGS = (
    *FAST, "dispatch.lease_s=2", "dispatch.aside_s=0.5", "dispatch.aside_max_s=1",
    "dispatch.crash_limit=1000", "dispatch.load_ceiling=10000", "lbm.slots=4",
    f"dispatch.jobs_keep={KEPT_JOBS}", "dispatch.output_keep_days=0.0003", "stats.keep_days=0.001",
)  # fmt: skip
MAKEFILE = """
    all: $(addsuffix .out,$(shell seq 40))
    %.out:
    \t@n=0; while [ $$n -lt 2000 ]; do n=$$((n + 1)); done; echo $$n > $@
"""
# Allowed in the second half of the time, relative to the end of the first: more is growth.
GROWTH = {"descriptors": 4.0, "threads": 4.0, "MiB": 6.0, "state MiB": 4.0}

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(not SECONDS, reason="takes an hour: LBD_SOAK_S=3600"),
]


@dataclass(frozen=True)
class Count:
    """A count of one daemon of h1, or of what its host keeps on disk."""

    at_s: float
    part: str
    what: str
    amount: float


def test_nothing_has_grown_after_an_hour(tmp_path):
    print(f"LBD_SOAK_SEED={SEED}, {SECONDS:g} s in {ROUNDS} rounds")
    (tmp_path / "Makefile").write_text(textwrap.dedent(MAKEFILE))
    lab = Lab.up(3, "none", "--mode", "fcfs", settings=SETTINGS)
    counts: list[Count] = []
    try:
        pids = lab.pids()["h1"]
        began_s = time.monotonic()
        for number in range(ROUNDS):
            work(lab, tmp_path, random.Random(f"{SEED}:{number}"), SECONDS / ROUNDS)
            calm(lab)
            assert lab.pids()["h1"] == pids, "a daemon of h1 has begun again"
            counts += counted(lab, pids, time.monotonic() - began_s)
            print(f"round {number + 1} of {ROUNDS}", flush=True)
    finally:
        if PLOT and counts:
            draw(counts, Path(PLOT))
        lab.down()
    assert not (found := grown(counts)), "\n".join(found)


def work(lab, where, rng, seconds):
    """Runs builds and arrays from h1 while faults befall the other hosts."""
    until_s = time.monotonic() + seconds

    def build():
        while time.monotonic() < until_s:
            for path in where.glob("*.out"):
                path.unlink()
            # An attached command whose host is killed fails: make goes on with the others.
            lab.run("h1", "make", "-k", "-j8", "SHELL=lbsh", cwd=where, timeout=300)

    def queue():
        while time.monotonic() < until_s:
            lab.run("h1", "lbrun", "-d", "--array", "1-20", "sh", "-c", "seq 1000", cwd=where)
            time.sleep(1.0)

    threads = [threading.Thread(target=one) for one in (build, queue)]
    for thread in threads:
        thread.start()
    Misfortunes(lab, rng, spared="h1").run(until_s)
    for thread in threads:
        thread.join()


def calm(lab):
    """Waits until all is up and idle."""
    set_right(lab)

    def is_idle():
        return not lab.jobs_alive() and not waiting()

    def waiting():
        told = lab.ask("h1", "lbm", "queue.jobs", ids=["1-1000000"], timeout_s=20)["jobs"]
        return [job["id"] for job in told if not job["finished"]]

    lab.wait_until(is_idle, "all jobs have ended", CALM_S, lambda: (lab.jobs_alive(), waiting()))


def counted(lab, pids, at_s):
    found = []
    for part, pid in pids.items():
        proc = Path(f"/proc/{pid}")
        amounts = {
            "descriptors": len(os.listdir(proc / "fd")),
            "threads": len(os.listdir(proc / "task")),
            "MiB": pss_mib(pid),
        }
        found += [Count(at_s, part, what, amount) for what, amount in amounts.items()]
    for host in lab.hosts:
        kept = {
            path: path.lstat().st_blocks * 512 / (1 << 20)  # for a shim the link, not the program
            for path in lab.paths(host).state.rglob("*")
            if path.is_file()
        }
        largest = max(kept, key=kept.__getitem__)
        print(f"{host}: {sum(kept.values()):.1f} MiB, of it {kept[largest]:.1f} in {largest.name}")
        found.append(Count(at_s, host, "state MiB", sum(kept.values())))
    return found


def grown(counts):
    """Compares the median of the last quarter with that of the second: the first is warm-up."""
    found = []
    for part, what in dict.fromkeys((count.part, count.what) for count in counts):
        amounts = [count.amount for count in counts if (count.part, count.what) == (part, what)]
        quarter = len(amounts) // 4
        before = statistics.median(amounts[quarter : 2 * quarter])
        after = statistics.median(amounts[-quarter:])
        print(f"{part:<11} {what:<12} {before:8.1f} {after:8.1f}")
        if after - before > GROWTH[what]:
            found.append(f"{part}: {what} from {before:.1f} to {after:.1f}: {amounts}")
    return found


def draw(counts, path):
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(len(GROWTH), 1, sharex=True, figsize=(8, 9))
    for what, axis in zip(GROWTH, axes, strict=True):
        for part in dict.fromkeys(count.part for count in counts if count.what == what):
            some = [count for count in counts if (count.part, count.what) == (part, what)]
            axis.plot([one.at_s / 60 for one in some], [one.amount for one in some], label=part)
        axis.set_ylabel(what)
        axis.set_ylim(bottom=0)
        axis.legend(fontsize="small", loc="lower right", ncols=4)
    axes[-1].set_xlabel("minutes")
    figure.tight_layout()
    figure.savefig(path)

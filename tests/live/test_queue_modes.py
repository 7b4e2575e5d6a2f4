"""A queueing discipline with real jobs on two hosts of one slot each.

What each discipline decides is tested in tests/unit/dispatch/core/test_queues.py.
"""

import time

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.queue_past import away, put
from tests.live.queued_jobs import running_on

SETTINGS = (*FAST, "dispatch.lease_s=20", "lbm.slots=1", "tags.cutoffs_s=[1.0]")
BIG, SMALL = ("sh", "big.sh"), ("sh", "small.sh")  # by what is recorded of them


@pytest.fixture(scope="module")
def lab():
    lab = Lab.up(2, "none", "--mode", "sita-e", settings=SETTINGS)
    try:
        with away(lab) as db:
            for command, cpu_s in ((BIG, 500.0), (SMALL, 0.01)):
                put(db, [word.encode() for word in command], time.time() - 1000.0, cpu_s)
        each = {"h1": [1], "h2": [2]}
        lab.wait_until(lambda: tiers(lab) == each, "each host has its tier")
        yield lab
    finally:
        lab.down()


@pytest.fixture
def scripts(tmp_path):
    (tmp_path / "big.sh").write_text("exec sleep 60\n")
    (tmp_path / "small.sh").write_text("echo small\n")
    return tmp_path


def tiers(lab):
    return lab.ask("h1", "lbm", "queue.status")["tiers"]


def submit(lab, where, *words):
    return lab.run("h2", "lbrun", "-d", *words, cwd=where, check=True).stdout.strip()


def hosts_of(lab, ids):
    """The hosts where the jobs ended, after checking that all succeeded."""
    assert lab.run("h1", "lbctl", "wait", "--timeout", "30s", ids).returncode == 0
    told = lab.ask("h1", "lbm", "queue.jobs", ids=[ids], tasks=True)["jobs"]
    return [job["host"] for job in told]


def big_on(lab, where):
    """Starts a big job; returns it and its host."""
    number = submit(lab, where, *BIG)
    return number, lab.wait_until(lambda: running_on(lab, number), "it runs")


def end(lab, number):
    lab.run("h1", "lbctl", "kill", "-s", "KILL", number, check=True)
    lab.run("h1", "lbctl", "wait", "--timeout", "30s", number)


def test_jobs_are_ordered_by_past_runs_and_unknown_ones_go_last(lab, scripts):
    # The new dispatcher may see a host come, go and come again at first.
    assert hosts_of(lab, submit(lab, scripts, "-H", "h1", *SMALL)) == ["h1"]
    assert hosts_of(lab, submit(lab, scripts, "--array", "1-2", *SMALL)) == ["h1", "h1"]
    assert hosts_of(lab, submit(lab, scripts, "expr", "1")) == ["h2"]
    lab.wait_until(
        lambda: hosts_of(lab, submit(lab, scripts, "expr", "1")) == ["h1"], "it has learnt"
    )
    number, host = big_on(lab, scripts)
    assert host == "h2"
    end(lab, number)

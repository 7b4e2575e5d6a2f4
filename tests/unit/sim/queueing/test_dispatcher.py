"""The dispatch simulator against hand counts, itself, and conservation laws."""

from random import Random

import pytest

from lbd.config.dispatch import MODES
from lbd.dispatch.core.disciplines.registry import TIERED, make
from lbd.sim.queueing.dispatcher import Arrival, simulate, single_hosts
from lbd.sim.queueing.report import summary

CUTOFFS = (2.0, 20.0)


def run(mode, jobs, hosts, cutoffs=CUTOFFS, seed=1):
    """`jobs` are (arrival, size) pairs."""
    arrivals = [Arrival(float(at_s), float(size_s), float(size_s)) for at_s, size_s in jobs]
    places = single_hosts(hosts, mode in TIERED)
    return arrivals, simulate(arrivals, make(mode, cutoffs), places, Random(seed))


def drawn(count, seed=3):
    rng = Random(seed)
    at_s, jobs = 0.0, []
    for _ in range(count):
        at_s += rng.expovariate(0.5)
        jobs.append((at_s, rng.paretovariate(1.2)))
    return jobs


def test_one_host_by_hand():
    _, found = run("fcfs", [(0, 3), (1, 2), (10, 1)], 1)
    assert (found.waited_s, found.busy_s, found.ended_s) == ([0.0, 2.0, 0.0], [6.0], 11.0)


def test_tags_by_hand():
    """a (5 s) is killed at 2 and restarts on h2 at once; b (1 s) waits 1 s for a; c (25 s) is
    killed twice, and waits for a on h2 from 5 to 7."""
    arrivals, found = run("tags", [(0, 5), (1, 1), (3, 25)], 3)
    assert found.waited_s == [2.0, 1.0, 2.0 + 2.0 + 20.0]
    assert found.killed_s == [2.0, 0.0, 22.0]
    assert found.busy_s == [2 + 1 + 2, 5 + 20, 25]
    assert found.ended_s == 7 + 20 + 25
    totals = summary(arrivals, found)
    assert totals.waiting_s == pytest.approx((2 + 1 + 24) / 3)
    assert totals.response_s == pytest.approx(totals.waiting_s + 31 / 3)
    assert totals.slowdown == pytest.approx((2 / 5 + 1 / 1 + 24 / 25) / 3)
    assert (totals.wasted_s, totals.max_waiting_s) == (24.0, 24.0)
    assert totals.queueing_s == pytest.approx(3 / 3)
    assert totals.queueing_slowdown == pytest.approx((0 + 1 + 2 / 25) / 3)
    assert totals.p99_slowdown == 1.0
    assert totals.utilisation == pytest.approx((5 / 52, 25 / 52, 25 / 52))


def test_a_job_of_exactly_the_cutoff_ends_there():
    _, found = run("tags", [(0, 2)], 3)
    assert (found.killed_s, found.busy_s) == ([0.0], [2.0, 0.0, 0.0])


@pytest.mark.parametrize("mode", MODES)
def test_work_is_conserved(mode):
    arrivals, found = run(mode, drawn(3000), 3)
    done_s = sum(arrival.size_s for arrival in arrivals) + sum(found.killed_s)
    assert sum(found.busy_s) == pytest.approx(done_s)
    assert min(found.waited_s) >= 0.0
    assert all(w >= k for w, k in zip(found.waited_s, found.killed_s, strict=True))
    if mode != "tags":
        assert sum(found.killed_s) == 0.0


@pytest.mark.parametrize("mode", MODES)
def test_the_same_seed_is_the_same_run(mode):
    _, first = run(mode, drawn(500), 3, seed=5)
    _, again = run(mode, drawn(500), 3, seed=5)
    assert first == again


def test_least_work_is_fcfs_job_by_job():
    """Harchol-Balter, Figure 2: for any sequence of jobs."""
    jobs = drawn(5000)
    _, central = run("fcfs", jobs, 4)
    _, least = run("least-work", jobs, 4)
    assert least.waited_s == pytest.approx(central.waited_s, abs=1e-6)


def test_fcfs_keeps_no_host_idle_beside_a_waiting_job():
    """Kiefer and Wolfowitz: the wait of each job is the least of the hosts' work, sorted."""
    jobs = drawn(2000)
    _, found = run("fcfs", jobs, 3)
    work = [0.0, 0.0, 0.0]
    before_s = 0.0
    for (at_s, size_s), waited_s in zip(jobs, found.waited_s, strict=True):
        work = sorted(max(0.0, left - (at_s - before_s)) for left in work)
        assert waited_s == pytest.approx(work[0], abs=1e-6)
        work[0] += size_s
        before_s = at_s


def test_progress_is_reported():
    seen = []
    arrivals = [Arrival(float(i), 0.5, None) for i in range(10_000)]
    simulate(arrivals, make("fcfs", ()), single_hosts(1, False), Random(1), seen.append)
    assert seen == [0, 4096, 8192]

"""Malleable jobs in a line, job by job."""

from math import exp
from random import Random

import pytest

from lbd.dispatch.core.malleable.decision import Head, Hold
from lbd.sim.queueing.malleable import Decider, Machine, OneLine, alone, oracle
from lbd.sim.queueing.malleable_workload import (
    DAY_S,
    LIFETIMES,
    MalleableArrival,
    MalleableWorkload,
    RecordedWorkload,
    load_of,
)
from lbd.sim.queueing.trace import TraceJob
from lbd.theory.allocation import Malleable
from lbd.theory.lifetimes import UniformLog
from lbd.theory.speedup import Speedup


def job(work_s, parallelism, least=1, most=64):
    return Malleable(least, most, Speedup(parallelism, 0.0), work_s)


def line(name, *arrivals, slots=8, **more):
    found = OneLine(Machine(slots), Decider(name, **more))
    return found.run([MalleableArrival(at_s, one) for at_s, one in arrivals])


BIG, WIDE = job(800.0, 6.0), job(800.0, 8.0)  # 6 slots for 133 s; then 100 s on 8, 400 on 2


def test_avg_takes_free_slots_in_the_order_of_arrival():
    first, second, third = line("AVG", (0.0, BIG), (10.0, WIDE), (20.0, job(60.0, 3.0)))
    assert (first.slots, first.began_s) == (6, 0.0)
    assert (second.slots, second.began_s, second.rebelled) == (2, 10.0, False)
    assert (third.slots, third.began_s) == (3, pytest.approx(800 / 6))  # none was free before
    assert (first.spoiled, second.spoiled, third.spoiled) == (True, False, True)
    assert second.turnaround_s == 400.0


def test_opt_waits_if_it_pays_and_so_do_the_jobs_behind_it():
    _, second, third = line("OPT", (0.0, BIG), (10.0, WIDE), (20.0, job(60.0, 2.0)))
    assert (second.slots, second.began_s, second.rebelled) == (8, pytest.approx(800 / 6), True)
    assert third.began_s == pytest.approx(800 / 6 + 100)  # two were free all along: strict order
    assert third.rebelled is False
    docile = line("OPT", (0.0, job(3000.0, 6.0)), (10.0, WIDE))[1]  # 500 s: longer than 400
    assert (docile.slots, docile.rebelled) == (2, False)


def test_pred_takes_the_returned_slots_and_is_asked_again():
    """The first job is old when the second arrives, and is expected to continue."""
    first, second = line("PRED", (0.0, job(6000.0, 6.0)), (600.0, job(80_000.0, 8.0)))
    assert first.slots == 6
    assert (second.slots, second.rebelled) == (8, True)
    assert second.began_s == pytest.approx(1000.0)


def test_heur_gives_up_after_a_fifth_of_what_it_would_save():
    second = line("HEUR", (0.0, job(60_000.0, 6.0)), (10.0, WIDE))[1]
    assert second.rebelled
    assert second.began_s == pytest.approx(10.0 + 0.2 * (400.0 - 100.0))
    assert second.slots == 2


def test_the_oracle_is_exact():
    machine = Machine(2)
    machine.begin(1, 0.0, 50.0)
    machine.begin(1, 0.0, 500.0)
    machine.free = 1
    answer = oracle(job(1000.0, 8.0), machine, 0.0, Head())
    assert isinstance(answer, Hold)
    assert (answer.slots, answer.ask_at_s) == (2, 50.0)  # 50 + 500 < 500 + 333 < 1000


def test_a_single_malleable_job_changes_nothing_for_the_others():
    machine = Machine(8)
    machine.begin(6, 0.0, 800 / 6)
    one = line("AVG", (0.0, BIG), (10.0, WIDE))[1]
    before = (machine.free, list(machine.running))
    chosen = alone(Decider("OPT"), one, machine, [20.0, 30.0])
    assert (chosen.slots, chosen.rebelled) == (8, True)
    assert one.turnaround_s - chosen.turnaround_s == pytest.approx(400 + 10 - 800 / 6 - 100)
    assert (machine.free, list(machine.running)) == before


def test_predictions_are_judged_by_their_outcomes():
    decider = Decider("PRED")
    rng = Random(1)
    for _ in range(3):
        OneLine(Machine(128), decider).run(MalleableWorkload().day(rng))
    assert len(decider.outcomes) > 100
    assert all(predicted_s > 0 and actual_s > 0 for predicted_s, actual_s in decider.outcomes)
    assert decider.bias.jobs == len(decider.outcomes)
    assert decider.bias.correlation > 0.2


def test_slots_are_never_given_twice():
    rng = Random(2)
    for name in ("AVG", "PRED", "HEUR"):
        served = OneLine(Machine(32), Decider(name)).run(MalleableWorkload(32, 0.9).day(rng))
        edges = sorted(
            edge
            for one in served
            for edge in ((one.began_s, one.slots), (one.began_s + one.duration_s, -one.slots))
        )
        used = 0
        for _, change in sorted(edges, key=lambda edge: (edge[0], edge[1])):
            used += change
            assert used <= 32
        begun = [one.began_s for one in served]
        assert begun == sorted(begun)  # first come, first served
        assert used == 0


def test_the_workload_of_the_paper():
    """254 jobs a day at a load of 0.75: 30,421 in 120 days (section 5.2)."""
    workload = MalleableWorkload()
    assert workload.rate_per_s * DAY_S * 120 == pytest.approx(30_421, rel=0.01)
    days = [workload.day(Random(n)) for n in range(20)]
    jobs = [one.job for day in days for one in day]
    assert len(jobs) == pytest.approx(20 * 253.5, rel=0.05)
    assert min(one.work_s for one in jobs) >= exp(2)
    assert sum(one.work_s for one in jobs) / len(jobs) == pytest.approx(LIFETIMES.mean_s, rel=0.1)
    assert all(1 <= one.speedup.parallelism <= 128 and one.speedup.sigma <= 2 for one in jobs)


def test_the_jobs_of_a_trace_would_take_as_long_as_they_did_on_as_many_slots():
    jobs = tuple(TraceJob(100.0 + 60.0 * n, 30.0 * (n + 1), None, 2**n) for n in range(5))
    recorded = RecordedWorkload(jobs, 16)
    day = recorded.day(Random(1))
    assert [one.after_s for one in day] == [0.0, 60.0, 120.0, 180.0, 240.0]
    for ran, one in zip(jobs, day, strict=True):
        assert one.job.run_s(ran.slots) == pytest.approx(ran.run_s)
    assert {one.job.speedup for one in day} != {one.job.speedup for one in recorded.day(Random(2))}
    works_s = [one.job.work_s for one in day]
    known = recorded.lifetimes(day)
    assert known != LIFETIMES
    assert known.shortest_s < max(works_s)
    assert min(works_s) < known.longest_s


def test_the_gaps_of_a_trace_are_stretched_to_a_load():
    jobs = tuple(TraceJob(60.0 * n, 100.0, None, 4) for n in range(10))
    day = RecordedWorkload(jobs, 16, load=0.5).day(Random(3))
    assert load_of(day, 16) == pytest.approx(0.5)
    assert day[0].after_s == 0
    with pytest.raises(ValueError, match="came at once"):
        RecordedWorkload(jobs[:1], 16, load=0.5).day(Random(3))


def test_a_predictor_knows_the_lifetimes_it_is_given():
    """Older than all that have ended: as long again; among jobs that live for days it is young."""
    short, long = Machine(8, lifetimes=UniformLog(1.0, 600.0)), Machine(8)
    waits = []
    for machine in (short, long):
        machine.begin(6, 0.0, 1e6)
        waits.append(machine.copy().releases(590.0).median_s(6))
    assert waits[0] < waits[1] / 4

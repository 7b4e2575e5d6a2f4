"""The effect of another dispatch.malleable: the same jobs again, each on other slots."""

from random import Random

import pytest

from lbd.config.dispatch import STRATEGIES
from lbd.sim.malleable_advice import FEWEST, MalleableReplay, PastQueued, best, results

HOSTS = [("h1", 8), ("h2", 8)]


def past(submitted, run_s, held=8, least=1, most=8, waited_s=0.0, command="fit"):
    began = submitted + waited_s
    return PastQueued(submitted, began, began + run_s, least, held, most, "ann", command)


def day(count, gap_s=5.0, seed=1):
    """Returns malleable jobs of about 40 s on eight slots."""
    rng, at, jobs = Random(seed), 1e9, []
    for _ in range(count):
        at += rng.expovariate(1 / gap_s)
        jobs.append(past(at, 40.0 * rng.uniform(0.5, 1.5)))
    return jobs


def singles(until, gap_s, run_s):
    """Returns jobs of one slot each, of which some always run."""
    rng, at, jobs = Random(2), 1e9, []
    while at < until:
        at += rng.expovariate(1 / gap_s)
        jobs.append(past(at, run_s, held=1, least=1, most=1))
    return jobs


def test_too_few_malleable_jobs_give_no_advice():
    jobs = [*day(FEWEST - 1), *(past(1e9 + n, 5.0, 1, 1, 1) for n in range(50))]
    assert results(jobs, HOSTS, "free") == []
    assert results(day(FEWEST), [], "free") == []


def test_a_job_by_itself_takes_as_long_as_it_did():
    jobs = [past(1e9, 40.0), past(1e9 + 100, 20.0, held=1, least=1, most=1)]
    for strategy in STRATEGIES:
        assert MalleableReplay(jobs, HOSTS, strategy, {}).run() == pytest.approx([40.0, 20.0])


def test_on_other_slots_it_takes_longer_by_its_speedup():
    """Nothing else is known of it, so its speedup is assumed to be linear."""
    jobs = [past(1e9, 100.0, held=4, least=4, most=4), past(1e9, 40.0)]
    assert MalleableReplay(jobs, [("h1", 12)], "free", {}).run() == pytest.approx([100.0, 40.0])
    assert MalleableReplay(jobs, [("h1", 8)], "free", {}).run() == pytest.approx([100.0, 80.0])


def test_every_strategy_is_listed_the_current_one_first_and_without_a_saving():
    found = results(day(60), HOSTS, "avg")
    assert [one.strategy for one in found] == ["avg", "free", "pred", "bias", "heur"]
    assert (found[0].saved_s, found[0].is_better) == (0.0, False)
    assert all(one.turnaround_s > 0 for one in found)
    for one in found[1:]:
        assert one.saved_s == pytest.approx(found[0].turnaround_s - one.turnaround_s)
    assert best(found) is None or best(found).saved_s > 0


def test_a_clearly_better_strategy_is_named():
    """Five of eight slots are taken for a moment; a waiting job gets eight, but others wait,
    too."""
    jobs = day(100, gap_s=200.0)
    jobs += singles(jobs[-1].submitted, 3.0, 15.0)
    found = results(jobs, [("h1", 8)], "free")
    chosen = best(found)
    assert chosen.strategy in ("pred", "bias", "heur")
    assert chosen.saved_s > chosen.saved_ci_s > 0
    assert chosen.others_s > found[0].others_s


def test_every_job_ends_even_one_that_no_host_can_take():
    jobs = [*day(FEWEST), past(1e9, 10.0, held=99, least=99, most=99)]
    for one in results(jobs, HOSTS, "heur"):
        assert one.others_s == pytest.approx(10.0)

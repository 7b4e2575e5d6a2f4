"""Downey's strategies, compared with hand calculations and a search over every number of slots."""

from math import exp, inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.config.dispatch import STRATEGIES
from lbd.theory.allocation import (
    Held,
    Malleable,
    Rules,
    by_prediction,
    choose,
    least_turnaround,
    predicted,
    too_late,
)
from lbd.theory.calibration import Correction
from lbd.theory.lifetimes import UniformLog
from lbd.theory.queue_time import Releases
from lbd.theory.speedup import Speedup

LIVES = UniformLog(exp(2), exp(12))
LINEAR = Malleable(1, 16, Speedup(16.0, 0.0), 16_000.0)  # R(n) = 16000/n
SOON = Releases.of([(1.6e5, 16), (1.6e5, 16)], LIVES)  # two that will end within 46 minutes
LATE = Releases.of([(4e4, 16), (4e4, 16)], LIVES)
JOBS = st.builds(
    lambda least, more, a, sigma, work_s: Malleable(least, least + more, Speedup(a, sigma), work_s),
    *(st.integers(1, 20), st.integers(0, 100), st.floats(1, 128), st.floats(0, 2)),
    st.floats(0, 2e5),
)
HELD = st.lists(st.tuples(st.floats(0, 1.6e5), st.integers(1, 40)), max_size=12)


def test_free_and_avg_take_what_is_free():
    job = Malleable(2, 40, Speedup(10.5, 0.5), 1000.0)
    taken = {free: choose("free", job, free, LATE) for free in (2, 10, 12, 40, 99)}
    slots = {free: choice.slots for free, choice in taken.items()}
    assert slots == {2: 2, 10: 10, 12: 12, 40: 40, 99: 40}
    assert all(choice.now for choice in (*taken.values(), choose("avg", job, 2, LATE)))
    assert choose("avg", job, 99, LATE).slots == 11  # ceil(A)
    assert choose("avg", job, 5, LATE).slots == 5
    assert choose("avg", job, 5, LATE).now


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_job_starts_with_fewer_slots_than_it_needs(strategy):
    job = Malleable(8, 16, Speedup(16.0, 0.0), 1000.0)
    choice = choose(strategy, job, 7, LATE)
    assert not choice.now
    assert choice.slots >= 8
    assert choice.reason == "fewer are free than it needs"
    assert choose(strategy, job, 7, Releases.of([], LIVES)).begins_in_s == inf


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_job_that_has_all_it_can_use_does_not_wait(strategy):
    choice = choose(strategy, LINEAR, 16, SOON)
    assert (choice.now, choice.slots) == (True, 16)


def test_pred_waits_only_where_more_slots_end_sooner():
    """One slot now ends after 16,000 s; 16 slots end 1,000 s after they are free."""
    later, now = choose("pred", LINEAR, 1, SOON), choose("pred", LINEAR, 1, LATE)
    assert (later.now, later.slots) == (False, 16)
    assert later.begins_in_s == SOON.median_s(15)
    assert later.ends_in_s < 16_000.0
    assert LATE.median_s(15) == pytest.approx(2.0e4, rel=0.1)  # longer than it runs on one
    assert (now.now, now.slots, now.reason) == (True, 1, "ends first")


def test_bias_decides_by_the_corrected_wait():
    shorter = Correction(0.6, 1.7)  # as the paper found them: long predictions are too long
    assert choose("bias", LINEAR, 1, LATE, shorter).slots == 16
    assert choose("bias", LINEAR, 1, LATE, shorter).begins_in_s == pytest.approx(
        shorter.corrected_s(LATE.median_s(15) or 0.0)
    )
    assert choose("bias", LINEAR, 1, LATE).slots == choose("pred", LINEAR, 1, LATE).slots == 1


def test_a_risk_averse_job_does_not_wait_for_a_small_gain():
    gain_s = 16_000.0 - choose("pred", LINEAR, 1, SOON).ends_in_s
    share = gain_s / 16_000.0
    for risk, now in ((0.0, False), (share * 0.99, False), (share * 1.01, True)):
        assert choose("pred", LINEAR, 1, SOON, rules=Rules(risk=risk)).now == now


def test_when_locked_in_it_gets_no_more():
    locked = LINEAR.locked(4)
    assert choose("pred", locked, 16, SOON).slots == 4
    assert Malleable(8, 16, Speedup(16.0, 0.0), 1.0).locked(4).most == 8


def test_heur_holds_out_for_a_fifth_of_what_it_would_save():
    """R(4) - R(16) = 4000 - 1000 s."""
    first = choose("heur", LINEAR, 4, LATE)
    assert (first.slots, first.begins_in_s) == (16, pytest.approx(600.0))
    again = choose("heur", LINEAR, 8, LATE, held=Held(450.0, 4))
    assert (again.slots, again.begins_in_s) == (16, pytest.approx(150.0))
    almost = choose("heur", LINEAR, 8, LATE, held=Held(599.5, 4))
    assert (almost.slots, almost.begins_in_s) == (16, pytest.approx(0.5))
    over = choose("heur", LINEAR, 8, LATE, held=Held(600.0, 4))
    assert (over.now, over.slots) == (True, 8)
    half = choose("heur", LINEAR, 8, LATE, rules=Rules(fraction=0.5))
    assert (half.now, half.slots) == (True, 8)
    for rules in (Rules(work_above_s=16_000.0), Rules(parallelism_above=16.0)):
        assert choose("heur", LINEAR, 4, LATE, rules=rules).now


@given(JOBS, HELD, st.integers(0, 60))
def test_the_choice_is_the_best_of_all(job, held, free):
    """Compared with every number of slots, within the thousandth that the search allows itself."""
    releases = Releases.of(held, LIVES)
    for strategy, correction in (("pred", None), ("bias", Correction(0.6, 1.7))):
        choice = choose(strategy, job, free, releases, correction)
        queue = predicted(free, releases, correction)
        most = min(job.useful, free + releases.total)
        if most < job.least:
            assert choice.begins_in_s == inf
            continue
        ends = {n: queue(n) + job.run_s(n) for n in range(job.least, most + 1)}
        assert choice.ends_in_s == pytest.approx(ends[choice.slots], rel=1e-4)
        assert choice.ends_in_s <= min(ends.values()) * 1.0011 + 1e-6
        assert choice.now == (choice.slots <= free)


def test_an_oracle_decides_by_what_it_knows():
    waits = {2: 100.0, 4: 200.0, 8: 9000.0}
    oracle = lambda n: next(wait for slots, wait in waits.items() if n <= slots)  # noqa: E731
    releases = Releases.of([(1.0, 2), (1.0, 2), (1.0, 3)], LIVES)
    choice = by_prediction(Malleable(1, 8, Speedup(8.0, 0.0), 4000.0), 1, oracle, releases)
    assert (choice.slots, choice.begins_in_s) == (4, pytest.approx(200.0))


def test_a_job_that_needs_just_what_one_other_holds_takes_it_when_that_ends():
    soon = {2: 10.0}
    releases = Releases.of([(1.0, 4), (1.0, 3), (1.0, 2)], LIVES)
    job = Malleable(2, 8, Speedup(8.0, 0.0), 4000.0)
    choice = by_prediction(job, 0, lambda n: soon.get(n, 9000.0), releases)
    assert (choice.slots, choice.begins_in_s) == (2, pytest.approx(10.0))


def test_a_decision_makes_few_predictions():
    """100 jobs and 1000 slots: not every number of slots is worth a prediction."""
    rng = Random(1)
    held = [(exp(rng.uniform(0, 11)), rng.randint(1, 20)) for _ in range(100)]
    releases, asked = Releases.of(held, LIVES), []
    queue = predicted(8, releases)

    def counting(slots):
        asked.append(slots)
        return queue(slots)

    job = Malleable(1, 500, Speedup(500.0, 1.0), 1e5)
    by_prediction(job, 8, counting, releases)
    assert 0 < len(asked) < 150


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Malleable(0, 2, Speedup(1.0, 0.0), 1.0), "0 to 2"),
        (lambda: Malleable(3, 2, Speedup(1.0, 0.0), 1.0), "3 to 2"),
        (lambda: Malleable(1, 2, Speedup(1.0, 0.0), -1.0), "work of -1"),
        (lambda: Malleable(1, 2, Speedup(1.0, 0.0), inf), "work of inf"),
    ],
)
def test_invalid_jobs(call, said):
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.parametrize(
    ("within_s", "bound_s", "late"),
    [(0.5, 1.0, False), (0.0, 1.0, True), (-1.0, 1.0, True), (0.0, inf, False)],
)
def test_slots_that_cannot_come_in_time_are_not_searched(within_s, bound_s, late):
    assert too_late([4], within_s, bound_s, lambda _slots, _s: True) is late
    assert too_late([4, 8], 1.0, 1.0, lambda slots, _s: slots == 8) is False
    assert too_late([4], 1.0, 1.0, lambda _slots, _s: False) is True


@pytest.mark.parametrize("seed", range(6))
def test_of_very_many_numbers_of_slots_the_best_is_found(seed):
    """In stretches, with and without a check of what can come in time at all."""
    rng = Random(seed)
    held = [(exp(rng.uniform(0, 11)), rng.randint(1, 12)) for _ in range(rng.choice((3, 30)))]
    releases, free = Releases.of(held, LIVES), rng.randrange(4)
    a, sigma = rng.uniform(20, 200), rng.choice((0.0, 0.5, 2.0))
    job = Malleable(1 + free, 200, Speedup(a, sigma), 10.0 ** rng.uniform(2, 6))
    queue = predicted(free, releases)
    most = min(job.useful, free + releases.total)
    ends = {n: queue(n) + job.run_s(n) for n in range(free + 1, most + 1)}
    by = lambda slots, t_s: releases.comes_by(slots - free, t_s)  # noqa: E731
    for found in (
        least_turnaround(job, free, queue, releases),
        least_turnaround(job, free, queue, releases, inf, by),
    ):
        assert found.ends_in_s == pytest.approx(ends[found.slots], rel=1e-4)
        assert found.ends_in_s <= min(ends.values()) * 1.0011
    assert least_turnaround(job, free, queue, releases, min(ends.values()) / 2, by) is None


def test_all_free_and_held_slots_are_available_in_the_end():
    releases = Releases.of([(5.0, 2), (9.0, 1)], UniformLog(1.0, 100.0))
    queue = predicted(4, releases)
    assert [queue(slots) for slots in (1, 4)] == [0.0, 0.0]
    assert 0.0 < queue(5) <= queue(7) < inf
    assert queue(8) == inf

"""Sleiman's formulas, compared with the paper's numbers and simulated tasks."""

import heapq
import math
from random import Random
from statistics import fmean, pvariance

import pytest

from lbd.theory.target_time import (
    STEERED,
    Batch,
    SeenDrain,
    TaskMean,
    end_left,
    equal_tasks_s,
    first_slots,
    harmonic,
    harmonic_2,
    last_of_equal_s,
    mean_left_s,
    next_slots,
    slots_for_mean,
    variance_left_s2,
    variance_steered_s2,
)


def epoch(moment, ended, tasks, *more):
    """The moment of the time until the `ended`-th task ends (section III)."""
    return moment(tasks, *more) - moment(tasks - ended, *more)


def drawn_ends_s(rng, tasks, slots, mean_s=1.0):
    """Returns when each task ends, in order: a list schedule of exponential tasks."""
    busy = [rng.expovariate(1 / mean_s) for _ in range(min(slots, tasks))]
    heapq.heapify(busy)
    for _ in range(tasks - len(busy)):
        now_s = busy[0]
        yield heapq.heapreplace(busy, now_s + rng.expovariate(1 / mean_s))
    yield from sorted(busy)


@pytest.mark.parametrize("n", [0, 1, 5, 100, 101, 150, 4000])
def test_harmonic_sums(n):
    expected = math.fsum(1 / i for i in range(1, n + 1))
    assert harmonic(n) == pytest.approx(expected, rel=1e-14, abs=0.0)
    expected = math.fsum(1 / i**2 for i in range(1, n + 1))
    assert harmonic_2(n) == pytest.approx(expected, rel=1e-14, abs=0.0)


def test_the_numbers_that_the_paper_prints():
    assert mean_left_s(64, 4, 1.0) == pytest.approx(205 / 12, rel=1e-14)
    assert mean_left_s(64, 4, 1.0) == pytest.approx(17.0833, abs=5e-5)
    assert mean_left_s(128, 4, 1.0) == pytest.approx(33.0833, abs=5e-5)
    assert variance_left_s2(64, 4, 1.0) == pytest.approx(5.1795, rel=0.005)  # simulated there
    assert epoch(variance_left_s2, 60, 64, 4, 1.0) == pytest.approx(3.7433, rel=0.005)
    assert variance_left_s2(4, 4, 1.0) / variance_left_s2(64, 4, 1.0) == pytest.approx(
        0.3, abs=0.03
    )


@pytest.mark.parametrize(("tasks", "slots"), [(20, 3), (4, 4), (3, 7), (9, 1)])
def test_moments_of_every_epoch(tasks, slots):
    rng, mean_s = Random(5), 2.5
    runs = [list(drawn_ends_s(rng, tasks, slots, mean_s)) for _ in range(8000)]
    for ended in range(1, tasks + 1):
        seen = [run[ended - 1] for run in runs]
        expected_s = epoch(mean_left_s, ended, tasks, slots, mean_s)
        expected_s2 = epoch(variance_left_s2, ended, tasks, slots, mean_s)
        assert fmean(seen) == pytest.approx(expected_s, abs=5 * math.sqrt(expected_s2 / 8000))
        assert pvariance(seen) == pytest.approx(expected_s2, rel=0.15)


def test_before_and_in_the_drain_as_in_section_three():
    for ended in range(60):
        assert epoch(mean_left_s, ended, 64, 4, 3.0) == pytest.approx(3.0 * ended / 4)
        assert epoch(variance_left_s2, ended, 64, 4, 3.0) == pytest.approx(9.0 * ended / 16)
    for ended in range(60, 65):
        expected = 3.0 * (60 / 4 + harmonic(4) - harmonic(64 - ended))
        assert epoch(mean_left_s, ended, 64, 4, 3.0) == pytest.approx(expected)
    assert mean_left_s(0, 4, 1.0) == variance_left_s2(0, 4, 1.0) == 0.0


@pytest.mark.parametrize("tasks", [1, 2, 7, 64])
def test_the_fewest_sufficient_slots_are_found(tasks):
    for within_s in (1.0, 2.0, 5.0, 11.0, 17.0833334, 40.0, 80.0):
        does = [p for p in range(1, 31) if mean_left_s(tasks, p, 1.0) <= within_s]
        assert slots_for_mean(tasks, within_s, 1.0, 30) == (does[0] if does else None)


def test_for_an_impossible_target_all_slots_are_used_at_first():
    assert first_slots(64, 205 / 12, 1.0, 100) == 4
    assert first_slots(64, 0.5, 1.0, 10) == 10
    assert first_slots(3, 0.5, 1.0, 10) == 3


@pytest.mark.parametrize(
    ("slots", "left", "time_left_s", "most", "expected"),
    [
        (4, 64, 205 / 12 + 1e-9, 100, 4),  # on time
        (4, 64, 16.0, 100, 5),  # late
        (4, 64, 2.0, 100, 5),  # very late: still only one up
        (4, 64, 60.0, 100, 3),  # early: one down
        (1, 64, 900.0, 100, 1),  # the paper's procNeeded would say 0
        (4, 3, 0.1, 100, 3),  # no more than tasks
        (4, 64, 2.0, 4, 4),  # no more than allowed
        (9, 64, 99.0, 4, 4),
        (4, 0, 5.0, 100, 0),
        (4, 64, -3.0, 100, 5),  # past the target
    ],
)
def test_one_step_of_daa(slots, left, time_left_s, most, expected):
    assert next_slots(slots, left, time_left_s, 1.0, most) == expected


def test_equal_tasks():
    assert [equal_tasks_s(n, 4, 2.0) for n in (0, 1, 4, 5, 64)] == [0, 2, 2, 4, 32]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda: mean_left_s(-1, 4, 1.0), "tasks left"),
        (lambda: mean_left_s(3, 0, 1.0), "slots"),
        (lambda: mean_left_s(3, 1, 0.0), "mean task time"),
        (lambda: mean_left_s(3, 1, math.nan), "mean task time"),
        (lambda: SeenDrain([]), "above 0"),
        (lambda: SeenDrain([1.0, 0.0]), "above 0"),
        (lambda: SeenDrain([1.0, math.inf]), "above 0"),
        (lambda: harmonic(-1), "0 or more"),
        (lambda: harmonic_2(-1), "0 or more"),
        (lambda: TaskMean(0.0), "above 0"),
        (lambda: TaskMean(1.0, 0.0), "above 0"),
        (lambda: TaskMean(1.0, math.inf), "above 0"),
        (lambda: TaskMean(math.inf, 1.0), "above 0"),
    ],
)
def test_invalid_arguments(asked, said):
    with pytest.raises(ValueError, match=said) as caught:
        asked()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tasks", [0, 1, 2, 5, 40])
def test_an_observed_drain(tasks):
    # Equal tasks: what is left of each is uniform; the last of P ends after P/(P + 1).
    assert SeenDrain([7.0] * 3)(tasks) == pytest.approx(tasks / (tasks + 1))
    rng = Random(15)
    drain = SeenDrain([rng.expovariate(1 / 30) for _ in range(20_000)])
    assert drain(tasks) == pytest.approx(harmonic(tasks), rel=0.06)


def test_a_drain_is_what_is_left_of_tasks_observed_at_random():
    rng, seen = Random(16), [1.0, 2.0, 2.0, 15.0]

    def left():
        return rng.choices(seen, weights=seen)[0] * rng.random()

    drawn = fmean(max(left() for _ in range(3)) for _ in range(40_000))
    assert SeenDrain(seen)(3) * fmean(seen) == pytest.approx(drawn, rel=0.02)


def test_a_longer_drain_requires_more_slots_earlier():
    tailed = SeenDrain([1.0] * 20 + [30.0])
    left_s = mean_left_s(64, 4, 1.0)
    assert mean_left_s(64, 4, 1.0, tailed) > left_s
    assert next_slots(4, 64, left_s + 1e-9, 1.0, 100) == 4
    assert next_slots(4, 64, left_s + 1e-9, 1.0, 100, tailed) == 5
    batch = Batch(65, left_s + 1.0, 4, 100, TaskMean(1.0, 1e12), drain=tailed)
    batch.began(0.0)
    assert batch.ended(1.0) == 5


# -- the mean, and a batch in progress ------------------------------------------------------------


def test_the_learnt_mean_is_not_misled_by_the_short_tasks_that_end_first():
    rng, mean_s = Random(11), 10.0
    of_ended, learnt = [], []
    for _ in range(3000):
        batch = Batch(50, 1e9, 20, 20, TaskMean(mean_s, 1e-9))
        ends = [rng.expovariate(1 / mean_s) for _ in range(20)]
        for _ in ends:
            batch.began(0.0)
        first = sorted(ends)[:10]
        for end_s in first:
            batch.ended(end_s)
        of_ended.append(fmean(first))
        learnt.append(batch.mean.mean_s)
    assert fmean(of_ended) < 0.5 * mean_s
    assert fmean(learnt) == pytest.approx(mean_s, rel=0.03)


def test_the_interval_covers_the_error_of_a_learnt_mean():
    rng, inside, runs = Random(12), 0, 2000
    for _ in range(runs):
        mean_s = 10.0
        seen = TaskMean(1.0, 1e-9)
        seen.ended, seen.worked_s = 25, sum(rng.expovariate(1 / mean_s) for _ in range(25))
        end = end_left(40, 4, seen)
        *_, last_s = drawn_ends_s(rng, 40, 4, mean_s)
        inside += abs(last_s - end.mean_s) <= 1.645 * end.sd_s
    assert inside / runs == pytest.approx(0.9, abs=0.03)
    sure = end_left(40, 4, TaskMean(mean_s, 1e12))
    assert sure.sd_s == pytest.approx(math.sqrt(variance_left_s2(40, 4, mean_s)))


def test_a_batch_gives_slots_back_takes_more_and_ends():
    batch = Batch(10, target_s=100.0, slots=3, most=4, mean=TaskMean(10.0))
    for _ in range(3):
        batch.began(0.0)
    assert (batch.left, batch.waiting) == (10, 7)
    assert batch.ended(1.0) == 2  # far ahead: the slot is not filled again
    assert batch.ended(98.0) == 3  # far behind
    assert batch.ended(99.0) == 4
    for _ in range(4):
        batch.began(99.0)
    assert batch.ended(99.5) == 4  # as many as it may have
    assert batch.limit(2, 99.5) == 2
    assert batch.end(99.5).mean_s == pytest.approx(mean_left_s(6, 2, batch.mean.mean_s))
    batch.began(99.5)
    with pytest.raises(ValueError, match="1 or more"):
        batch.limit(0, 99.5)


def test_a_lost_task_waits_again_and_its_work_indicates_long_tasks():
    batch = Batch(2, target_s=10.0, slots=2, most=2, mean=TaskMean(4.0, 1.0))
    batch.began(0.0)
    batch.began(0.0)
    assert batch.lost(6.0) == 2
    assert (batch.waiting, batch.running, batch.mean.ended) == (1, 1, 0)
    assert batch.mean.mean_s == pytest.approx(4.0 + 12.0)
    batch.began(6.0)
    assert batch.ended(7.0) == 1
    assert batch.ended(8.0) == 0
    assert batch.end(8.0).mean_s == 0.0
    with pytest.raises(ValueError, match="no task runs"):
        batch.ended(9.0)
    with pytest.raises(ValueError, match="no task waits"):
        batch.began(9.0)


def test_for_one_task_one_slot_is_enough():
    assert first_slots(1, 0.0, 10.0, 5) == 1
    assert first_slots(3, 0.0, 10.0, 5) == 3
    assert first_slots(9, 0.0, 10.0, 5) == 5
    with pytest.raises(ValueError, match="0 slots"):
        variance_steered_s2(4, 0, 10.0)


@pytest.mark.parametrize(("left", "slots"), [(64, 4), (64, 16), (6, 4), (4, 4), (3, 9)])
def test_steering_corrects_all_but_a_few_tasks_before_the_drain(left, slots):
    at_once = min(left, slots)
    free = min(left - at_once, STEERED)
    expected = 100.0 * (free / slots**2 + sum(1 / n**2 for n in range(1, at_once + 1)))
    assert variance_steered_s2(left, slots, 10.0) == pytest.approx(expected)
    assert variance_steered_s2(left, slots, 10.0) <= variance_left_s2(left, slots, 10.0)


def test_a_batch_with_fewer_slots_allowed_takes_no_more():
    batch = Batch(64, 100.0, 8, 8, TaskMean(10.0, 1e9))
    assert batch.slots == 8
    batch.limit(3, 0.0)
    assert (batch.most, batch.slots) == (3, 3)
    batch.limit(8, 0.0)
    assert batch.most == 8


def test_the_suspended_time_of_a_task_does_not_count():
    batch = Batch(4, 100.0, 2, 2, TaskMean(10.0, 1.0))
    for _ in range(2):
        batch.began(0.0)
    batch.stood(3.0, 5.0)
    assert batch.mean.worked_s == 2 * 5.0 - 3.0
    batch.stood(50.0, 5.0)
    assert batch.mean.worked_s == 0.0


@pytest.mark.parametrize(("extra", "slots"), [(0, 2), (3, 3), (9, 4)])
def test_tasks_that_are_likely_to_continue_for_long_count_more(extra, slots):
    """Three slots work on tasks of 10 s, and 30 s are left."""
    batch = Batch(6, 30.0, 3, 9, TaskMean(10.0), learns=False, extra=extra)
    for _ in range(3):
        batch.began(0.0)
    enough = [n for n in (2, 3, 4) if mean_left_s(5 + extra, n, 10.0) <= 30.0]
    assert batch.ended(0.0) == min(enough, default=4)


class PlainBatch:
    """A simple model: it lists what was done, and adds it up each time."""

    def __init__(self, tasks, target_s, slots, most, prior):
        self.waiting, self.target_s, self.slots, self.most, self.prior = (
            tasks, target_s, slots, most, prior
        )  # fmt: skip
        self.begun_s = []
        self.done_s = self.ended = 0

    def mean_s(self, now_s):
        worked_s = self.done_s + sum(now_s - begun_s for begun_s in self.begun_s)
        tasks, each_s = self.prior
        return (tasks * each_s + worked_s) / (tasks + self.ended)

    def stops(self, which, now_s, *, ended):
        self.done_s += now_s - self.begun_s.pop(which)
        self.ended, self.waiting = self.ended + ended, self.waiting + (not ended)
        left = self.waiting + len(self.begun_s)
        had, most = max(1, self.slots), max(1, min(self.most, left))
        tries = [min(max(1, n), most) for n in (had - 1, had, had + 1)]
        does = [
            n for n in tries if mean_left_s(left, n, self.mean_s(now_s)) <= self.target_s - now_s
        ]
        self.slots = min([*does, tries[-1]][0], left)


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_agrees_with_a_simple_model(seed):
    rng, now_s = Random(seed), 0.0
    tasks, slots, most = rng.randint(1, 30), rng.randint(1, 6), rng.randint(1, 6)
    target_s, prior = rng.uniform(10.0, 300.0), (rng.choice((0.5, 3.0)), 10.0)
    batch = Batch(tasks, target_s, min(slots, most), most, TaskMean(prior[1], prior[0]))
    plain = PlainBatch(tasks, target_s, min(slots, most), most, prior)
    for _ in range(200):
        now_s += rng.choice((0.0, rng.expovariate(0.5)))
        match rng.randrange(6):
            case 0 | 1 if plain.waiting:
                batch.began(now_s)
                plain.waiting -= 1
                plain.begun_s.append(now_s)
            case 2 | 3 if plain.begun_s:
                ended = rng.random() < 0.8
                plain.stops(rng.randrange(len(plain.begun_s)), now_s, ended=ended)
                assert (batch.ended if ended else batch.lost)(now_s) == plain.slots
            case 4 if plain.waiting and rng.random() < 0.2:
                batch.withdrawn()
                plain.waiting -= 1
            case 5 if rng.random() < 0.2:
                plain.most = rng.randint(1, 6)
                plain.slots = min(plain.slots, plain.most)
                assert batch.limit(plain.most, now_s) == plain.slots
        left = plain.waiting + len(plain.begun_s)
        assert (batch.left, batch.waiting, batch.running) == (
            left, plain.waiting, len(plain.begun_s)
        )  # fmt: skip
        found = batch.end(now_s)
        assert batch.mean.mean_s == pytest.approx(plain.mean_s(now_s))
        assert found.mean_s == pytest.approx(
            mean_left_s(left, max(1, plain.slots), plain.mean_s(now_s))
        )
    for nothing in (batch.withdrawn, lambda: batch.began(now_s)):
        batch.waiting = 0
        with pytest.raises(ValueError, match="no task waits"):
            nothing()


@pytest.mark.parametrize("seed", range(20))
def test_equal_tasks_on_slots_that_come_free_one_by_one(seed):
    """Compared with giving each task the first free slot."""
    rng = Random(seed)
    free_s = [rng.choice([0.0, 1.0, 7.5, rng.uniform(0, 30)]) for _ in range(rng.randint(1, 9))]
    waiting, mean_s = rng.randint(0, 40), rng.choice([2.0, 7.5, 0.1])
    slots_s, last_s = sorted(free_s), 0.0
    for _ in range(waiting):
        last_s = slots_s[0] + mean_s
        slots_s = sorted([last_s, *slots_s[1:]])
    assert last_of_equal_s(waiting, free_s, mean_s) == pytest.approx(last_s, abs=1e-6)


def test_equal_tasks_that_all_begin_now_run_in_whole_rounds():
    assert last_of_equal_s(20, [0.0] * 4, 6.0) == pytest.approx(equal_tasks_s(20, 4, 6.0))
    with pytest.raises(ValueError, match="1 or more"):
        last_of_equal_s(1, [], 6.0)

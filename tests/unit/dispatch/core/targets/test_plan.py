"""What arrays with a target get: alone, several together, and where the target is impossible."""

from dataclasses import replace
from random import Random

import pytest

from lbd.dispatch.core.discipline import QueuedJob, Target
from lbd.dispatch.core.targets.arrays import Targets
from lbd.dispatch.core.targets.plan import (
    SURE,
    ArrayOutlook,
    Begins,
    Within,
    late_s,
    needed,
    share,
    slot_times_s,
    unknown_mean,
)
from lbd.dispatch.core.targets.target_array import TargetArray
from lbd.dispatch.core.targets.task_times import Earlier
from lbd.model import JobId
from lbd.theory.target_time import Batch, End, TaskMean, mean_left_s

KNOWN = 1e12  # tasks: a mean that is certain


def array(left, target_s, mean_s=10.0, most=1000):
    return Batch(left, target_s, 1, most, TaskMean(mean_s, KNOWN))


def test_an_impossible_target_is_reported_with_the_earliest_end():
    line = ArrayOutlook(8, 60.0, Within(583.0, 418.0, 747.0)).warning("the target")
    assert line == (
        "the target (in 1m00s) cannot be met with 8 tasks at once: expected to end in 9m43s"
        " (likely 6m58s to 12m27s)"
    )
    past = ArrayOutlook(3, -5.0, Within(60.0, 4.0, 224.0)).warning("the deadline")
    assert past.startswith("the deadline (in 0s) cannot be met")
    assert "(likely 4.0s to 3m44s)" in past
    sure = ArrayOutlook(8, 4.9, Within(24.4, 24.4, 24.4)).warning("the deadline")
    assert sure.endswith("expected to end in 24s")


def test_a_warning_is_no_surer_than_its_interval():
    """It said that a deadline in 20 s "cannot be met", and would likely be from 6 s on."""

    def said(low_s, mean_s, high_s):
        end = Within(mean_s, low_s, high_s)
        return ArrayOutlook(4, 20.0, end).warning("the deadline").partition(": ")[0]

    whole = "the deadline (in 20s) {} with 4 tasks at once"
    assert said(6.3, 36.0, 103.0) == whole.format("will probably not be met")
    assert said(20.5, 36.0, 103.0) == whole.format("cannot be met")
    assert said(6.3, 15.0, 30.0) == whole.format("may not be met")


def test_a_time_of_which_little_is_known_is_not_likely_to_be_now():
    for sd_s in (0.0, 5.0, 60.0, 600.0):
        found = Within.of(End(60.0, sd_s))
        assert found.mean_s == 60.0
        assert 0.0 < found.low_s <= 60.0 <= found.high_s
    near = Within.of(End(600.0, 40.0))
    assert near.low_s == pytest.approx(600.0 - 40.0 * SURE, abs=4.0)
    assert near.high_s == pytest.approx(600.0 + 40.0 * SURE, abs=4.0)
    assert Within.of(End(0.0, 3.0)) == Within(0.0, 0.0, 0.0)


@pytest.mark.parametrize(("left_s", "either_way_s"), [(600.0, 49.0), (60.0, 4.9), (6.0, 1.0)])
def test_no_end_is_surer_than_jobs_are_alike_or_than_the_clock_shows(left_s, either_way_s):
    """An interval of one second was false each time it was shown."""
    found = Within.of(End(left_s, 0.0))
    assert found.low_s == pytest.approx(left_s - either_way_s, abs=0.1 + left_s / 200)
    assert found.high_s == pytest.approx(left_s + either_way_s, abs=0.1 + left_s / 200)


def test_the_end_of_two_is_not_before_the_ends_of_both_at_their_earliest():
    wait, run = Within(56.0, 50.0, 3600.0), Within(18.0, 12.0, 30.0)
    found = wait.then(run)
    assert found.mean_s == 74.0
    assert 62.0 <= found.low_s < 74.0 < 3562.0 < found.high_s
    assert Begins.at(5.0).first.then(run) == Within(23.0, 17.0, 35.0)


@pytest.mark.parametrize(
    ("begins_s", "slots", "found_s"),
    [
        ([33.0, 35.0, 39.0, 40.0, 41.0], 3, (33.0, 35.0, 40.0)),  # at 39 its own first has ended
        ([33.0, 39.0, 45.0], 4, (33.0,)),  # all of them one after the other
        ([0.0, 0.0, 0.0], 2, (0.0, 0.0)),
        ([], 2, ()),
    ],
)
def test_when_each_slot_comes_free_for_an_array(begins_s, slots, found_s):
    assert slot_times_s(begins_s, 6.0, slots) == found_s


def test_if_nothing_is_known_all_slots_together_could_just_do_it():
    mean = unknown_mean(100, 1000.0, 20)
    assert mean_left_s(100, 20, mean.mean_s) == pytest.approx(1000.0)
    for asked in (lambda: unknown_mean(0, 10.0, 1), lambda: unknown_mean(3, 0.0, 1)):
        with pytest.raises(ValueError, match="above 0"):
            asked()


def test_tasks_of_several_slots_take_as_many_of_the_shared_slots():
    arrays = {"a": array(64, 100.0), "b": array(64, 100.0)}
    given = share(arrays, 13, 0.0, {"a": 1, "b": 3})
    assert given["a"] + 3 * given["b"] <= 13
    assert given["a"] >= 1
    assert given["b"] >= 1
    assert share({"a": array(3, 1e6)}, 13, 0.0, {"a": 3}) == {"a": 4}


def test_if_there_is_enough_for_all_nobody_is_limited():
    arrays = {"a": array(64, 170.9), "b": array(10, 100.0)}
    assert share(arrays, 40, 0.0) == {"a": 40, "b": 40}
    arrays["c"] = array(0, 5.0)
    assert "c" not in share(arrays, 40, 0.0)
    assert share({}, 40, 0.0) == {}


def best_by_trying(arrays, slots, now_s):
    """Returns the smallest worst lateness over every division."""
    a, b = arrays.values()
    return min(
        max(late_s(a, first, now_s), late_s(b, slots - first, now_s)) for first in range(1, slots)
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_latest_array_is_as_little_late_as_possible(seed):
    rng = Random(seed)
    arrays = {
        name: array(rng.randint(5, 300), rng.uniform(20, 500), rng.uniform(1, 30)) for name in "ab"
    }
    needs = [needed(batch, 12, 0.0) for batch in arrays.values()]
    given = share(arrays, 12, 0.0)
    if sum(needs) <= 12:
        assert given == {"a": 12, "b": 12}
        return
    assert sum(given.values()) == 12
    worst = max(late_s(arrays[name], given[name], 0.0) for name in "ab")
    assert worst == pytest.approx(best_by_trying(arrays, 12, 0.0))
    assert all(given[name] <= need for name, need in zip("ab", needs, strict=True))


def test_with_fewer_slots_than_arrays_the_latest_go_first():
    arrays = {"early": array(10, 9999.0), "late": array(10, 1.0), "later": array(10, -100.0)}
    assert share(arrays, 2, 0.0) == {"early": 0, "late": 1, "later": 1}
    assert share(arrays, 0, 0.0) == {"early": 0, "late": 0, "later": 0}
    with pytest.raises(ValueError, match="0 or more"):
        share(arrays, -1, 0.0)


def test_an_array_that_is_late_in_any_case_takes_no_more_slots_than_tasks():
    arrays = {"last": array(1, -500.0), "long": array(100, 50.0)}
    assert share(arrays, 8, 0.0) == {"last": 1, "long": 7}


@pytest.mark.parametrize("seed", range(30))
def test_no_more_slots_are_given_than_exist_whatever_the_widths(seed):
    rng = Random(seed)
    slots, widths = rng.randint(1, 20), {name: rng.randint(1, 5) for name in "abc"}
    arrays = {name: array(rng.randint(1, 40), rng.uniform(20, 500)) for name in "abc"}
    given = share(arrays, slots, 0.0, widths)
    needs = {n: needed(one, slots // widths[n], 0.0) for n, one in arrays.items()}
    if sum(needs[name] * widths[name] for name in "abc") > slots:
        used = sum(given[name] * widths[name] for name in "abc")
        assert used <= slots
        short = [widths[name] for name in "abc" if given[name] < needs[name]]
        assert min(short, default=99) > slots - used  # nor is a slot left that some array could use


FIRST = 1000, 4, 0.0  # planned for this many tasks and slots, at this time; the target is at 100 s


@pytest.mark.parametrize(
    ("left", "most", "running", "now_s", "is_steered", "may"),
    [
        (1000, 4, 0, 0.0, False, False),
        (990, 4, 0, 0.0, False, False),
        (989, 4, 0, 0.0, False, True),
        (1011, 4, 2, 0.0, False, True),
        (1000, 5, 0, 0.0, False, True),
        (1000, 3, 2, 0.0, False, True),
        (1000, 4, 0, 1.0, False, False),
        (1000, 4, 0, 1.1, False, True),
        (1000, 4, 2, 1.1, False, False),  # time alone changes nothing while some run
        (500, 5, 2, 50.0, True, False),  # one step at a time
        (500, 4, 0, 50.0, True, True),
    ],
)
def test_when_an_array_is_planned_again(left, most, running, now_s, is_steered, may):
    batch = replace(array(left, 100.0), waiting=left - running, running=running)
    planned = TargetArray(QueuedJob(JobId("1")), 100.0, batch, most=most, is_steered=is_steered)
    planned.planned = FIRST
    assert planned.may_plan(now_s) is may


def test_the_arrays_with_targets_of_a_user_and_of_a_host_are_limited(monkeypatch):
    monkeypatch.setattr("lbd.dispatch.core.targets.arrays.ARRAYS_OF_USER", 2)
    monkeypatch.setattr("lbd.dispatch.core.targets.arrays.ARRAYS_OF_HOST", 3)
    targets = Targets(lambda _: 4)

    def may_come(user, origin):
        return not targets.why_not(user, origin)

    for number, user in enumerate(("ann", "ann", "bob"), 1):
        assert may_come(user, "h1")
        targets.came(
            QueuedJob(JobId("1"), array=number, target=Target(9.0), user=user, origin="h1")
        )
    found = {(user, host): may_come(user, host) for user in ("ann", "bob") for host in ("h1", "h2")}
    assert found == {
        ("ann", "h1"): False, ("ann", "h2"): False, ("bob", "h1"): False, ("bob", "h2"): True
    }  # fmt: skip


def test_what_is_known_of_arrays_that_never_come_is_forgotten(monkeypatch):
    monkeypatch.setattr("lbd.dispatch.core.targets.arrays.EXPECTED_MAX", 5)
    targets = Targets(lambda _: 4)
    for number in range(1, 40):
        targets.expect(number, Earlier((1.0,)))
    assert 0 < len(targets._expected) <= 5
    assert 39 in targets._expected

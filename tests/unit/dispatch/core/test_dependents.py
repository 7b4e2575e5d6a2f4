"""Jobs that are not in the queue yet: how conditions are written and shown, and long chains."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbd.dispatch.core.dependencies import conditions
from lbd.dispatch.core.dependencies.conditions import (
    Condition,
    How,
    conditions_of,
    waited_for,
    why_never,
    written,
)
from lbd.dispatch.core.dependencies.dependents import Dependents, Due, Waits
from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.lifecycle import LOOKS_MAX, Lifecycle
from lbd.dispatch.core.records import Met
from lbd.model import JobId

OK, FAILED, ANY = How.OK, How.FAILED, How.ANY


def test_conditions_are_read_as_they_were_written():
    text = written([("ok", 12, 12, "12"), ("failed", 20, 29, "20"), ("any", 25, 25, "20_6")])
    assert conditions_of(text, None) == (
        Condition(OK, 12, 12, "12"),
        Condition(FAILED, 20, 29, "20"),
        Condition(ANY, 25, 25, "20_6"),
    )
    assert conditions_of("task:20-24:1-9:2", 5) == (Condition(OK, 22, 22, "20_5"),)
    assert conditions_of("", 3) == ()
    with pytest.raises(ValueError, match="this is not a task"):
        conditions_of("task:20-24:1-9:2", None)


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ([(OK, "12")], "after 12 has succeeded"),
        ([(OK, "12"), (OK, "13_4")], "after 12 and 13_4 have succeeded"),
        ([(ANY, "7"), (OK, "12")], "after 12 has succeeded, after 7 has ended"),
        ([(FAILED, "1"), (FAILED, "2"), (FAILED, "3")], "after 1, 2 and 3 have failed"),
        ([(ANY, str(n)) for n in range(1, 8)], "after 1, 2, 3, 4 and 3 more have ended"),
    ],
)
def test_conditions_are_shown_in_words(conditions, said):
    assert waited_for([Condition(how, 1, 1, shown) for how, shown in conditions]) == said


@pytest.mark.parametrize(
    ("condition", "on_record", "said"),
    [
        (Condition(OK, 3, 3, "3"), True, "waiting for 3 to succeed, but it did not"),
        (Condition(OK, 3, 5, "3"), True, "waiting for 3 to succeed, but a task of 3 did not"),
        (Condition(FAILED, 3, 3, "3"), True, "waiting for 3 to fail, but it succeeded"),
        (Condition(FAILED, 3, 5, "3"), True, "waiting for 3 to fail, but all its tasks succeeded"),
        (Condition(OK, 3, 5, "3"), False, "for job 3, whose outcome is no longer on record"),
    ],
)
def test_the_reason_why_a_condition_is_never_met(condition, on_record, said):
    assert why_never(condition, on_record=on_record).endswith(said)


@pytest.mark.parametrize(
    ("how", "open_jobs", "bad", "on_record", "verdict"),
    [
        (OK, 0, False, 3, ""), (OK, 1, False, 3, None), (OK, 1, True, 3, "never"),
        (OK, 0, False, 2, "never"), (FAILED, 1, True, 3, None), (FAILED, 0, True, 3, ""),
        (FAILED, 0, False, 3, "never"), (FAILED, 0, False, 2, "never"), (FAILED, 0, True, 2, ""),
        (ANY, 1, True, 3, None), (ANY, 0, True, 3, ""), (ANY, 0, False, 2, ""),
    ],
)  # fmt: skip
def test_a_condition_is_met_undecided_or_never_met(how, open_jobs, bad, on_record, verdict):
    dependents, job = Dependents(), JobId("9")
    dependents.park(job, Waits((Condition(how, 1, 3, "1"),)))
    assert dependents.verdict(job, 0.0) is None  # not counted yet
    assert dependents.uncounted() == [(1, 3)]
    assert dependents.uncounted() == []  # a count is under way
    dependents.counted((1, 3), open_jobs, on_record, bad=bad)
    found = dependents.verdict(job, 0.0)
    assert found == verdict if verdict != "never" else found


def test_a_job_that_ends_while_it_is_counted_counts_once():
    dependents, job = Dependents(), JobId("9")
    dependents.park(job, Waits((Condition(OK, 1, 2, "1"),)))
    dependents.uncounted()
    dependents.ended(QueuedJob(JobId("2"), array=1), well=False)
    dependents.counted((1, 2), 1, 2, bad=False)  # as the ledger had it before
    assert dependents.verdict(job, 0.0)


def test_an_answer_about_a_job_that_restarted_meanwhile_is_requested_again():
    dependents, job = Dependents(), JobId("9")
    dependents.park(job, Waits((Condition(FAILED, 1, 1, "1"),)))
    dependents.uncounted()
    dependents.came_again(QueuedJob(JobId("1")))
    dependents.counted((1, 1), 0, 1, bad=True)
    assert dependents.verdict(job, 0.0) is None
    assert dependents.uncounted() == [(1, 1)]


def test_an_answer_counts_only_for_jobs_that_waited_when_it_was_requested():
    """Two ask the ledger at the same time, and the first gets its answer last."""
    dependents, job = Dependents(), JobId("9")
    dependents.park(JobId("8"), Waits((Condition(OK, 1, 1, "1"),)))
    assert dependents.uncounted() == [(1, 1)]
    dependents.drop(JobId("8"))
    dependents.ended(QueuedJob(JobId("1")), well=False)  # no job waits for it just now
    dependents.park(job, Waits((Condition(OK, 1, 1, "1"),)))
    assert dependents.uncounted() == []  # an answer is on its way
    dependents.counted((1, 1), 0, 1, bad=False)
    assert dependents.verdict(job, 0.0) is None
    assert dependents.uncounted() == [(1, 1)]
    dependents.came_again(QueuedJob(JobId("1")))
    assert dependents.uncounted() == []
    dependents.counted((1, 1), 0, 1, bad=True)
    assert dependents.verdict(job, 0.0) is None
    assert dependents.uncounted() == [(1, 1)]
    dependents.counted((1, 1), 1, 1, bad=False)
    dependents.ended(QueuedJob(JobId("1")), well=True)
    assert dependents.verdict(job, 0.0) == ""


def test_nothing_is_kept_of_a_job_that_has_left():
    dependents = Dependents()
    for number in (8, 9):
        dependents.park(JobId(str(number)), Waits((Condition(OK, 1, 3, "1"),), 5.0))
    for number in (8, 9):
        dependents.drop(JobId(str(number)))
    assert not dependents.waits
    assert not dependents._watched
    assert not dependents._arrays
    dependents.passed(10.0)
    assert not dependents._begins


def test_a_long_chain_ends_with_its_first_job():
    life, rng = Lifecycle(make("fcfs", ()), Terms()), Random(1)
    life.submitted([QueuedJob(JobId("1"))], 0.0, rng)
    for number in range(2, 1500):
        waits = Waits((Condition(OK, number - 1, number - 1, str(number - 1)),))
        life.submitted_early([(QueuedJob(JobId(str(number))), waits)], 0.0, rng)
    for span in life.dependents.uncounted():
        life.counted(span, 1, 0.0, rng, bad=False)
    assert len(life.jobs) == 1499
    life.kill(JobId("1"), 0, 0.0, rng)
    while life.dependents.due:
        life.look_on(0.0, rng)
    assert not life.jobs
    assert not life.dependents.waits


def test_an_array_joins_the_queue_in_short_steps():
    life, rng = Lifecycle(make("fcfs", ()), Terms()), Random(1)
    life.submitted([QueuedJob(JobId("1"))], 0.0, rng)
    waits = [Waits((Condition(OK, 1, 1, "1"),)) for _ in range(2 * LOOKS_MAX + 1)]
    tasks = [(QueuedJob(JobId(str(n)), array=2), one) for n, one in enumerate(waits, 2)]
    life.submitted_early(tasks, 0.0, rng)
    for span in life.dependents.uncounted():
        life.counted(span, 1, 0.0, rng, bad=False)
    while life.dependents.due:
        assert not life.look_on(0.0, rng)
    life.dependents.ended(QueuedJob(JobId("1")), well=True)
    joined = []
    while life.dependents.due:
        joined.append(sum(isinstance(one, Met) for one in life.look_on(0.0, rng)))
    assert joined == [LOOKS_MAX, LOOKS_MAX, 1]
    assert not life.dependents.waits


def test_what_the_tasks_of_an_array_wait_for_is_read_once_for_all(monkeypatch):
    """Each task would take as long as the list of indexes is long: hours, for a large array."""
    read: list[str] = []

    class Counted(conditions.TaskIndexes):
        def __init__(self, text):
            read.append(text)
            super().__init__(text)

    monkeypatch.setattr(conditions, "TaskIndexes", Counted)
    text = "ok:7-7:7 task:20-22:3,9,11"
    found = [conditions_of(text, index) for index in (3, 9, 11)]
    assert [one[-1].first for one in found] == [20, 21, 22]
    assert len(read) <= 1
    assert all(one[0] is found[0][0] for one in found)
    plain = "ok:7-7:7 any:8-8:8"
    assert conditions_of(plain, 1) is conditions_of(plain, 2)


def test_what_is_to_be_counted_is_found_without_a_look_at_the_rest():
    dependents, rest = Dependents(), range(1, 1000)
    for number in rest:
        job = JobId(str(number + 1000))
        dependents.park(job, Waits((Condition(OK, number, number, str(number)),)))
    assert len(dependents.uncounted()) == 999
    for number in rest:
        dependents.counted((number, number), 1, 0, bad=False)

    class Unread(dict):
        def items(self):
            raise AssertionError("all that is watched was looked at")

    dependents._watched = Unread(dependents._watched)
    assert dependents.uncounted() == []
    dependents.came_again(QueuedJob(JobId("5")))
    assert dependents.uncounted() == [(5, 5)]
    dependents.not_counted([(5, 5)])
    assert dependents.uncounted() == [(5, 5)]
    dependents.not_counted([(5, 5)])
    dependents.drop(JobId("1005"))
    assert dependents.uncounted() == []


class Counted(dict):
    """Counts the look-ups of something."""

    looks = 0

    def __getitem__(self, key):
        self.looks += 1
        return super().__getitem__(key)


def test_what_ends_costs_a_step_for_each_that_waits_for_it_however_much_else_that_waits_for():
    """At each end all conditions of all waiting jobs were examined: hours for one user's jobs."""
    dependents, waiting, others = Dependents(), 50, 200
    each = tuple(Condition(OK, number, number, str(number)) for number in range(1, others + 1))
    for job in range(1000, 1000 + waiting):
        dependents.park(JobId(str(job)), Waits(each), "ann", "h1")
    for span in dependents.uncounted():
        dependents.counted(span, 1, 1, bad=False)
    watched = dependents._watched = Counted(dependents._watched)

    def look():
        found = {job: dependents.verdict(job, 0.0) for job in list(dependents.due)}
        dependents.due = Due()
        return found

    assert set(look().values()) == {None}
    watched.looks = 0
    for number in range(others, 1, -1):  # first those that are not being counted yet
        dependents.ended(QueuedJob(JobId(str(number))), well=True)
        look()
    assert watched.looks < 3 * waiting * others
    dependents.ended(QueuedJob(JobId("1")), well=True)
    assert set(look().values()) == {""}
    assert watched.looks < 6 * waiting * others


def test_a_job_that_restarted_is_waited_for_again_whatever_was_met_before():
    dependents, job = Dependents(), JobId("9")
    dependents.park(job, Waits(tuple(Condition(OK, n, n, str(n)) for n in (1, 2, 3))))
    for span in dependents.uncounted():
        dependents.counted(span, 1, 1, bad=False)
    for number in ("1", "2"):
        dependents.ended(QueuedJob(JobId(number)), well=True)
        assert dependents.verdict(job, 0.0) is None
    dependents.came_again(QueuedJob(JobId("1")))
    dependents.ended(QueuedJob(JobId("3")), well=True)
    assert dependents.verdict(job, 0.0) is None
    assert dependents.uncounted() == [(1, 1)]
    dependents.counted((1, 1), 1, 1, bad=False)
    dependents.due = Due()
    dependents.ended(QueuedJob(JobId("1")), well=True)
    assert list(dependents.due) == [job]
    assert dependents.verdict(job, 0.0) == ""


def test_a_job_that_arrives_after_everything_is_decided_learns_of_it():
    for well, how, found in ((False, OK, True), (True, FAILED, True), (True, OK, False)):
        dependents, job = Dependents(), JobId("9")
        one = Condition(how, 1, 1, "1")
        dependents.park(JobId("8"), Waits((Condition(ANY, 1, 1, "1"), Condition(ANY, 2, 2, "2"))))
        for span in dependents.uncounted():
            dependents.counted(span, 1, 1, bad=False)
        dependents.ended(QueuedJob(JobId("1")), well=well)
        dependents.park(job, Waits((Condition(ANY, 2, 2, "2"), one)))
        assert job in dependents.due
        assert bool(dependents.verdict(job, 0.0)) is found


def test_conditions_of_a_user_and_of_a_host_are_counted_until_they_leave():
    dependents = Dependents()
    two = (Condition(OK, 1, 1, "1"), Condition(OK, 2, 2, "2"))
    for number, user in ((8, "ann"), (9, "bob"), (10, "eve")):
        dependents.park(JobId(str(number)), Waits(two), user, "h1")
    assert dependents.why_not("ann", "h1", 2, 4) == ""
    assert "ann in the queue wait for 2" in dependents.why_not("ann", "h2", 3, 4)
    assert "h1 in the queue wait for 6" in dependents.why_not("dan", "h1", 3, 4)
    assert dependents.why_not("ann", "h1", 0, 0) == ""
    dependents.drop(JobId("8"))
    dependents.drop(JobId("8"))
    assert dependents.why_not("ann", "h1", 4, 4) == ""
    dependents.drop(JobId("9"))
    dependents.drop(JobId("10"))
    assert not dependents._of_user
    assert not dependents._of_origin


def test_times_of_who_waits_no_longer_are_forgotten():
    """For example a job with --begin in a hundred years, ended and submitted again without end."""
    dependents = Dependents()
    dependents.park(JobId("1"), Waits((), 5.0))
    for number in range(2, 5000):
        dependents.park(JobId(str(number)), Waits((), 1e10))
        dependents.begins_at(JobId("1"), 5.0 + number)
        dependents.drop(JobId(str(number)))
    assert len(dependents._begins) < 1100
    dependents.due = Due()
    dependents.passed(6000.0)
    assert set(dependents.due) == {JobId("1")}


def test_a_job_that_waits_only_for_a_time_is_not_delayed_by_conditions_already_met():
    dependents, job = Dependents(), JobId("9")
    dependents.park(job, Waits((Condition(ANY, 1, 1, "1"),), begin=100.0))
    dependents.counted(*dependents.uncounted(), 1, 1, bad=False)
    dependents.ended(QueuedJob(JobId("1")), well=True)
    assert dependents.verdict(job, 0.0) is None
    dependents.due = Due()
    dependents.ended(QueuedJob(JobId("1")), well=True)  # reported twice
    assert dependents.verdict(job, 99.0) is None
    dependents.due = Due()
    dependents.passed(99.0)
    assert list(dependents.due) == []
    dependents.passed(100.0)
    assert list(dependents.due) == [job]
    assert dependents.verdict(job, 100.0) == ""


SPANS = ((1, 1), (2, 2), (3, 5), (6, 6))  # jobs; the third is an array
CONDITIONS = st.lists(
    st.tuples(st.sampled_from((OK, FAILED, ANY)), st.sampled_from(SPANS)), min_size=1, max_size=4
)


def by_hand(conditions, ended):
    """Decides by hand: True if the job may start, False if it never can, None if it still waits."""
    found = []
    for how, (first, last) in conditions:
        well = [ended.get(number) for number in range(first, last + 1)]
        if how is OK and False in well:
            found.append(False)
        elif None in well:
            found.append(None)
        else:
            found.append(how is not FAILED or False in well)
    return False if False in found else None if None in found else True


@settings(max_examples=150, deadline=None)
@given(st.lists(CONDITIONS, min_size=1, max_size=3), st.permutations(range(1, 7)), st.data())
def test_a_waiting_job_learns_of_what_decides_it_whatever_ends_first(waiting, order, data):
    dependents, ended = Dependents(), {}
    for number, wanted in enumerate(waiting):
        found = tuple(Condition(how, *span, str(span[0])) for how, span in wanted)
        dependents.park(JobId(f"w{number}"), Waits(found), "ann", "h1")
    for first, last in dependents.uncounted():
        dependents.counted((first, last), last - first + 1, last - first + 1, bad=False)
    assert dependents.uncounted() == []
    dependents.due = Due()
    for number in order:
        ended[number] = well = data.draw(st.booleans())
        array = 3 if 3 <= number <= 5 else 0
        dependents.ended(QueuedJob(JobId(str(number)), array=array), well=well)
        looked_at = {job: dependents.verdict(job, 0.0) for job in dependents.due}
        dependents.due = Due()
        for job in list(dependents.waits):
            may_begin = by_hand(waiting[int(job[1:])], ended)
            verdict = looked_at.get(job)
            assert (None if verdict is None else not verdict) is may_begin
            if may_begin is not None:
                dependents.drop(job)
    left = dependents._watched, dependents._unasked, dependents._arrays, dependents.waits
    assert left == ({}, {}, {}, {})
    assert not dependents._of_user
    assert not dependents._of_origin


def test_a_job_that_is_cancelled_while_it_waits_waits_no_longer():
    life, rng = Lifecycle(make("fcfs", ()), Terms()), Random(1)
    life.submitted([QueuedJob(JobId("1"))], 0.0, rng)
    waits = Waits((Condition(OK, 1, 1, "1"),), begin=50.0)
    life.submitted_early([(QueuedJob(JobId("2")), waits)], 0.0, rng)
    life.kill(JobId("2"), 0, 0.0, rng)
    assert not life.dependents.waits
    assert life.tick(60.0, rng) == []


def test_a_job_that_waits_for_a_time_joins_the_queue_at_that_time():
    life, rng = Lifecycle(make("fcfs", ()), Terms()), Random(1)
    life.submitted_early([(QueuedJob(JobId("1")), Waits((), begin=50.0))], 0.0, rng)
    assert [life.tick(at_s, rng) for at_s in (49.0, 50.0)] == [[], [Met(JobId("1"))]]

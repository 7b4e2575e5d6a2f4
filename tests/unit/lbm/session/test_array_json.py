"""What is said of an array as a whole."""

import pytest

from lbd.lbm.session.queue_json import (
    acted_json,
    array_json,
    counts_json,
    expected_end,
    which_task,
)
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.one_line import TEXT_CHARS_MAX


@pytest.mark.parametrize(
    ("states", "like"),
    [(("done", "failed", "failed"), "1_2, which failed"), (("done", "running"), "1_1")],
)
def test_the_first_failed_task_is_named(states, like):
    tasks = [
        pb.JobInfo(array_id=1, array_index=index, state=state)
        for index, state in enumerate(states, 1)
    ]
    assert which_task(tasks) == f"1 is an array; name one of its tasks, like {like}"


def test_the_held_jobs_among_those_waited_for_are_counted():
    """A job that is tried again by itself is not among them."""
    array = pb.JobInfo(array=pb.ArrayInfo(tasks={"pending": 5, "done": 1}, held=3))
    reasons = ("held by ann", "held for a while: h1 is away", "2 jobs are ahead of it")
    alone = [pb.JobInfo(state="pending", reason=reason) for reason in reasons]
    found = counts_json([array, *alone, pb.JobInfo(state="cancelled", reason="held by ann")])
    assert (found["open"], found["held"]) == (8, 4)


def test_the_first_jobs_and_tasks_that_did_not_succeed_are_named():
    bad = [pb.BadTaskInfo(index=index, state="failed") for index in (7, 9)]
    jobs = [
        pb.JobInfo(array_id=3, array=pb.ArrayInfo(tasks={"done": 5, "failed": 2}, bad=bad)),
        pb.JobInfo(array_id=4, array=pb.ArrayInfo(tasks={"done": 5, "cancelled": 2})),
        pb.JobInfo(array_id=5, array=pb.ArrayInfo(tasks={"done": 5})),
        *(pb.JobInfo(id=6 + at, state=state) for at, state in enumerate(("running", "done"))),
        *(pb.JobInfo(id=8 + at, state="lost") for at in range(20)),
    ]
    names = ["3_7", "3_9", "4", "8", "9", "10", "11", "12"]
    assert counts_json(jobs)["bad"] == names


def test_why_a_task_could_not_be_started_is_one_line():
    bad = [pb.BadTaskInfo(index=1, exit_status=125, reason="no\nfile"), pb.BadTaskInfo(index=2)]
    failed = array_json(pb.ArrayInfo(bad=bad))["failed"]
    assert [one["reason"] for one in failed] == ["no file", None]


def test_when_an_array_ends():
    unknown = array_json(pb.ArrayInfo(expected_by="why"))
    assert (unknown["expected_end"], unknown["expected_end_90"]) == (None, None)
    assert (unknown["expected_by"], unknown["expected_from"]) == ("why", 0)
    ends = {"expected_end": 34.0, "expected_low": 30.0, "expected_high": 41.0, "comparable": 21}
    found = array_json(pb.ArrayInfo(**ends))
    assert (found["expected_end"], found["expected_end_90"]) == (34.0, [30.0, 41.0])
    assert found["expected_from"] == 21


def test_a_client_that_waits_is_told_when_its_array_ends():
    array = pb.JobInfo(id=3, array=pb.ArrayInfo(expected_end=34.0))
    steered = pb.JobInfo(array=pb.ArrayInfo(), target=pb.TargetInfo(by=40.0, expected_end=35.0))
    assert expected_end([array]) == 34.0
    assert expected_end([steered]) == 35.0
    rough = pb.JobInfo(array=pb.ArrayInfo(expected_end=34.0, is_rough=True))
    for others in (
        [array, steered],
        [rough],
        [pb.JobInfo(array=pb.ArrayInfo())],
        [pb.JobInfo()],
        [],
    ):
        assert expected_end(others) is None


def test_how_its_end_is_foretold_is_one_line_of_a_bounded_length():
    told = array_json(pb.ArrayInfo(expected_by="as \x1b[2J\nsaid" * 20_000))["expected_by"]
    assert told.startswith("as ?[2J said")
    assert len(told) <= TEXT_CHARS_MAX


def test_ids_that_no_job_can_have_are_left_out():
    """A dispatcher that lied made Python refuse to read a number of 5,000 digits."""
    reply = pb.ActReply(done_ids=["7", "12_3", "9" * 5000, "12_" + "9" * 5000])
    assert acted_json(reply)["done"] == [7, "12_3"]

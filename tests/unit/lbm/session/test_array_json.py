"""What is said of an array as a whole."""

import pytest

from lbd.lbm.session.queue_json import counts_json, which_task
from lbd.net.gen import dispatch_pb2 as pb


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

"""What is said of an array if one of its tasks must be named."""

import pytest

from lbd.lbm.session.queue_json import which_task
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

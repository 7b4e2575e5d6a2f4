"""Which jobs the LBM asks the dispatcher for."""

import pytest

from lbd.keeper.local_account import Asker
from lbd.net.gen import dispatch_pb2 as pb
from tests.unit.lbm.session.test_whose_jobs import NAME, OWN, Queue, answers

JUST_ENDED = {"tasks": True, "ended_since": 5, "of_user": "bob"}


@pytest.mark.parametrize(
    ("question", "asker", "expected"),
    [
        ({"all": True}, None, pb.JobsAsked(ended_too=True, by_array=True)),
        (JUST_ENDED, None, pb.JobsAsked(ended_since=5.0, of_user="bob")),
        # of others they see none
        (JUST_ENDED, Asker(NAME, OWN),
         pb.JobsAsked(ended_since=5.0, user=NAME, uid=OWN, of_user="bob")),
    ],
)  # fmt: skip
async def test_no_more_jobs_are_asked_for_than_the_question_wants(question, asker, expected):
    queue = Queue()
    await answers(queue, "uid").jobs(question, asker)
    assert queue.asked == [expected]


@pytest.mark.parametrize("when", [-1.0, float("nan"), float("inf"), "today", None])
async def test_a_time_is_one(when):
    with pytest.raises(ValueError, match="a time must be in UNIX seconds"):
        await answers(Queue(), "uid").jobs({"ended_since": when}, None)

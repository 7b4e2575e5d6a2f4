"""Whose jobs `lbctl` shows: by name, or where users.map is "uid" by number, on all hosts."""

from types import SimpleNamespace

import pytest

from lbd.config import Config, HostConfig
from lbd.config_access import UsersConfig
from lbd.lbm.account_cache import user_name
from lbd.lbm.questions import Questions
from lbd.lbm.queue_answers import QueueAnswers
from lbd.lbm.state import Job, Jobs
from lbd.lbm.users import Asker
from lbd.model import HostId, JobId
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.gen import lbm_pb2
from lbd.rpc.local import Refusal

OWN, OTHER = 0, 4711  # of two people who have one name on two hosts
NAME = user_name(OWN)
CALLER = SimpleNamespace(uid=OWN)


class Queue:
    """A dispatcher with a job of each, and one of whom it does not say the number."""

    def __init__(self):
        self.asked = []

    async def jobs(self, asked):
        self.asked.append(asked)
        told = [pb.JobTold(id=1, user=NAME, uid=OWN), pb.JobTold(id=2, user=NAME, uid=OTHER)]
        return pb.JobsTold(jobs=[*told, pb.JobTold(id=3, user=NAME)])

    async def act(self, asked):
        self.asked.append(asked)
        return pb.ActReply()


def config(users):
    config = Config(host=HostConfig(name="h1"), users=UsersConfig(map=users))
    return SimpleNamespace(
        host=config.host, users=config.users, dispatch=SimpleNamespace(host="h1")
    )


@pytest.fixture
def queue():
    return Queue()


def answers(queue, users, *, is_admin=False):
    home = SimpleNamespace(queue=queue, config=config(users), files=None)
    return QueueAnswers(home, SimpleNamespace(include=lambda _: is_admin))


@pytest.mark.parametrize(("users", "seen"), [("uid", ["1"]), ("name", ["1", "2", "3"])])
async def test_a_namesakes_jobs_are_not_shown_where_numbers_count(queue, users, seen):
    asked = {"op": "queue.jobs", "ids": ["1-3"]}
    told = await answers(queue, users).answer(asked, CALLER)
    assert [job["id"] for job in told["jobs"]] == seen
    own = await answers(queue, users).jobs(True, Asker(NAME, OWN))
    assert [job["id"] for job in own] == seen
    assert len(await answers(queue, users).jobs(True, None)) == 3
    assert queue.asked[0].uid == OWN


async def test_an_administrator_sees_all(queue):
    told = await answers(queue, "uid", is_admin=True).answer(
        {"op": "queue.jobs", "ids": ["1-3"]}, CALLER
    )
    assert len(told["jobs"]) == 3


async def test_who_has_none_of_them_is_told_so(queue):
    with pytest.raises(Refusal, match="none of these jobs is yours"):
        await answers(queue, "uid").answer(
            {"op": "queue.logs", "ids": ["1"]}, SimpleNamespace(uid=4712)
        )


async def test_the_dispatcher_is_told_the_number_of_who_acts(queue):
    await answers(queue, "uid").answer({"op": "queue.act", "verb": "kill", "ids": ["1"]}, CALLER)
    (asked,) = queue.asked
    assert (asked.user, asked.uid, asked.HasField("uid")) == (NAME, OWN, True)


@pytest.mark.parametrize(
    ("users", "request_of", "seen"),
    [
        ("uid", {"user": "ann", "uid": OTHER}, ["h1-2"]),
        ("uid", {"user": "anna", "uid": OTHER}, ["h1-2"]),
        ("uid", {"user": "ann"}, []),  # of an older release
        ("name", {"user": "ann", "uid": OTHER}, ["h1-1", "h1-2"]),
        ("name", {"user": "ann"}, ["h1-1", "h1-2"]),
        ("uid", {}, ["h1-1", "h1-2", "h1-3"]),  # for an administrator
    ],
)
async def test_of_a_hosts_own_commands_the_same_are_told(users, request_of, seen):
    jobs = Jobs(10)
    for number, uid in ((1, 1000), (2, OTHER), (3, -1)):
        user = "bob" if uid < 0 else "ann"
        name = JobId(f"h1-{number}")
        jobs.add(Job(name, (b"x",), user, HostId("h1"), HostId("h2"), 0.0, uid=uid))
    questions = object.__new__(Questions)
    questions._host = SimpleNamespace(jobs=jobs, config=config(users))
    data = lbm_pb2.JobsRequest(**request_of).SerializeToString()
    reply = await questions.jobs_for_peer(data, None, "h2")
    assert [job.id for job in reply.jobs] == seen

"""A dispatcher's service on a real ledger, and the questions of hosts with certificates."""

import asyncio
import contextlib
from random import Random

from lbd.config.schema import Config
from lbd.dispatch.core.configured import terms_of
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.shares import Rules
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.ledger.sqlite import SqliteLedger
from lbd.dispatch.service import QueueService
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2


class Trust:
    """Knows which host calls."""

    def __init__(self):
        self.name = "h2"

    async def caller(self, context):
        return self.name


class HostConnection:
    """The connection to one host; it records the attempts that the host is to start, and the answer
    to its last heartbeat."""

    def __init__(self):
        self.starts, self.heartbeat, self.is_behind = [], 1, False
        self.answer = None
        self.changes_cpu_s = 0.0

    def start(self, start):
        self.starts.append(start)

    def reply(self, reply):
        self.answer = reply

    def stop(self, *order):
        pass

    settled = stop


async def never_answers():
    raise AssertionError


def request(origin="h2", user="ann", uid=1001, argv=(b"id",), directory=b"/", **more):
    return lbm_pb2.RunRequest(
        origin=origin, user=user, uid=uid, argv=argv, directory=directory, **more
    )


def asking(inner=None, **fields):
    """Returns a submission of ann on h2 with these `fields`; `inner` changes its stored request."""
    inner = {"needs": fields.get("needs", "")} | (inner or {})
    spec = pb.StoredSpec(run_request=request(**inner).SerializeToString(), submitted=1.0)
    values = {
        "user": "ann", "origin": "h2", "uid": 1001, "command": [b"id"], "slots": 1, "count": 1,
        "may_restart": True, "spec": spec,
    } | fields  # fmt: skip
    return pb.SubmitRequest(**values)


class World:
    def __init__(self, path, config=None, rules=None, mode="fcfs", cutoffs_s=()):
        self.ledger = SqliteLedger(path)
        config = config or Config()
        life = Lifecycle(make(mode, cutoffs_s), terms_of(config), rules or Rules())
        self.dispatcher = Dispatcher(config, self.ledger, life, b"secret", rng=Random(1))
        self.trust = Trust()
        self.desk = QueueService(self.dispatcher, self.trust, never_answers)

    async def submit(self, asked):
        return pb.SubmitReply.FromString(await self.desk._submit(asked.SerializeToString(), None))

    async def jobs(self, **asked):
        data = pb.JobsAsked(**asked).SerializeToString()
        return pb.JobsInfo.FromString(await self.desk._jobs(data, None))

    async def act(self, **asked):
        data = pb.ActRequest(**asked).SerializeToString()
        return pb.ActReply.FromString(await self.desk._act(data, None))

    async def status(self):
        return pb.StatusInfo.FromString(await self.desk._status(b"", None))

    def host(self, name, slots=4, **heartbeat):
        """Connects a host with this many slots."""
        line = self.dispatcher.lines.setdefault(name, HostConnection())
        self.dispatcher._heartbeat(
            name, line, pb.Heartbeat(number=1, slots=slots, open_slots=slots, **heartbeat)
        )
        return line


@contextlib.asynccontextmanager
async def opened(path, *given, **named):
    world = World(path, *given, **named)
    following = asyncio.create_task(world.dispatcher._follow_up())
    try:
        yield world
    finally:
        following.cancel()
        await world.ledger.close()

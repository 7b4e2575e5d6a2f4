"""What the dispatcher hears of an LBM that is told to stop."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from lbd.config import Config
from lbd.lbm.attempts import Attempts
from lbd.lbm.state import Slots
from lbd.rpc.gen import dispatch_pb2 as pb

LEASE_S = 5.0


class Line:
    """The dispatcher's end of it, and what finds it."""

    spool, leader = None, "h1"

    def __init__(self):
        self.down, self.up = asyncio.Queue(), asyncio.Queue()

    async def work(self):
        return self

    async def read(self, call, lease_s):
        return (await self.down.get()).SerializeToString()

    async def write(self, data):
        self.up.put_nowait(pb.WorkUp.FromString(data))

    def leads(self, host):
        pass

    def cancel(self):
        pass


class Spool:
    def trim(self, job, number):
        pass

    def sweep(self, keep_days, running):
        pass


async def nothing_beside():
    await asyncio.Event().wait()


@pytest.fixture
async def line():
    line = Line()
    line.spool = Spool()
    return line


@pytest.fixture
async def attempts(line):
    host = SimpleNamespace(config=Config(), slots=Slots(2, max_waiting=10), leaving=False)
    attempts = Attempts(host, line, nothing_beside)
    running = asyncio.create_task(attempts.run())
    yield attempts
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_an_attempt_that_comes_while_it_stops_is_refused(line, attempts):
    first = await asyncio.wait_for(line.up.get(), 5)
    assert not first.beat.drained
    await attempts.end_all()
    attempts.load_is(0.0, False)  # the host itself is not drained
    start = pb.Start(job="12", attempt=1, anchor=first.beat.number, lease_s=LEASE_S)
    line.down.put_nowait(pb.WorkDown(starts=[start]))
    heard, refused = [], []
    while not refused:
        heard.append(await asyncio.wait_for(line.up.get(), 5))
        refused += heard[-1].news
    (news,) = refused
    assert (news.job, news.event, news.stage) == ("12", "refused", "late")
    assert news.reason == "its host's LBM was stopped"
    assert all(up.beat.drained for up in heard if up.HasField("beat"))

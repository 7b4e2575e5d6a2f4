"""Messages of a `-q` client before its job is queued are kept, and honoured."""

import asyncio
import math
import signal
from types import SimpleNamespace

import pytest

from lbd.errors import Unavailable
from lbd.lbm.queue.early_frames import EarlyFrames, OnItsWay
from lbd.local import client_tags as tags

INTERRUPT, USER = ((tags.SIGNAL, bytes((n,))) for n in (signal.SIGINT, signal.SIGUSR1))


class Client:
    def __init__(self):
        self.sent = asyncio.Queue()

    def says(self, *found):
        self.sent.put_nowait(list(found))


@pytest.fixture
async def client():
    return Client()


@pytest.fixture
async def early(client):
    early = EarlyFrames(client.sent.get)
    yield early
    early.close()


async def ignored():
    pass


async def test_other_signals_are_kept_until_the_job_is_queued(client, early):
    work = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(early.meanwhile(work, ignored))
    client.says(USER)
    client.says(USER, (tags.FORCE, b""))
    while client.sent.qsize():  # noqa: ASYNC110  # nobody says so
        await asyncio.sleep(0)
    work.set_result("queued")
    assert await waiting == "queued"
    assert early.kept in ([USER], [USER, (tags.FORCE, b"")])
    client.says(INTERRUPT)
    read = early.kept + await early.read()
    assert USER in read


async def test_an_interrupt_is_handled_at_once(client, early):
    client.says(USER)
    client.says(INTERRUPT)
    work = asyncio.get_running_loop().create_future()
    assert await early.meanwhile(work, ignored) is None
    assert (early.interrupted, early.is_gone) == (signal.SIGINT, False)
    assert not work.done()


async def test_an_interrupt_that_came_with_the_request_counts_before_it_is_submitted(early):
    early.kept = [INTERRUPT]
    assert await early.meanwhile(asyncio.get_running_loop().create_future(), ignored) is None


async def test_the_departure_of_a_client_is_handled_at_once_too(client, early):
    client.says()
    assert await early.meanwhile(asyncio.get_running_loop().create_future(), ignored) is None
    assert (early.interrupted, early.is_gone) == (0, True)


async def test_a_failure_gives_its_reason(early):
    async def fail():
        raise Unavailable("no")

    with pytest.raises(Unavailable, match="no"):
        await early.meanwhile(asyncio.ensure_future(fail()), ignored)


async def test_a_message_being_read_while_the_job_is_queued_is_not_lost(client, early):
    work = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.01, work.set_result, "queued")
    assert await early.meanwhile(work, ignored) == "queued"
    client.says(INTERRUPT)
    assert await early.read() == [INTERRUPT]


async def test_what_nobody_will_read_is_not_kept(client, early):
    """It may arrive without end, while the dispatcher is away."""
    work = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(early.meanwhile(work, ignored))
    for number in range(1000):
        client.says((tags.INPUT, bytes(1 << 16)), (tags.SIGNAL, b"%d" % (number + 10)), (b"?", b""))
    client.says(USER)
    while client.sent.qsize():  # noqa: ASYNC110  # nobody says so
        await asyncio.sleep(0)
    work.set_result("queued")
    await waiting
    assert early.kept in ([], [USER])


@pytest.mark.parametrize(
    ("asked_s", "is_sent", "hosts", "more"),
    [
        (1.0, False, ("h1",), "; nothing was queued"),
        (1.0, True, ("h1",), "; the job may be in the queue all the same: see `lbctl jobs`"),
        (math.inf, False, ("h1",), ""),  # refused before the queue was asked
        (math.inf, True, ("h1",), ""),  # or by the queue
        (1.0, False, (), ""),  # there is no queue
    ],
)
def test_who_cannot_reach_the_dispatcher_learns_whether_anything_was_queued(
    asked_s, is_sent, hosts, more
):
    way, away = OnItsWay(asked_s, is_sent), Unavailable("the dispatcher on h1 cannot be reached")
    assert way.why_failed(away, SimpleNamespace(hosts=hosts)) == f"{away}{more}"

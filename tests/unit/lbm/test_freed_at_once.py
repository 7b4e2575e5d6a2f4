"""What a command has needed is freed with its end: what refers to itself waits for the collector,
which then stops everything for as long as thousands of objects take."""

import asyncio
import contextlib
import errno
import gc
import socket
import weakref
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config
from lbd.errors import LbdError, LostContact
from lbd.keeper.spawn_order import Order
from lbd.lbm.as_user import AsUser
from lbd.lbm.core.jobs import Claims
from lbd.lbm.core.journey import JourneyPhase
from lbd.lbm.inbound.attached_job import AttachedJob
from lbd.lbm.keeper_link import Spawned, SpawnFailed, _answer
from lbd.lbm.link import wire as tags
from lbd.lbm.link.conversation import Stream
from lbd.lbm.link.user_threads import StdFds, UserThreads
from lbd.lbm.queue import submit
from lbd.lbm.queue.early_frames import EarlyFrames
from lbd.lbm.queue.follow import FollowedJobs
from lbd.lbm.session.client import Attending
from lbd.lbm.session.session import Connection
from lbd.lbm.staging.step import run_worker
from lbd.local import client_tags, frames
from lbd.local.budget import Budget
from lbd.net.gen import lbm_pb2
from tests.unit.lbm.inbound.test_attached_job import exits, host_of
from tests.unit.lbm.outbound.test_remote_run import ENDED, FarHost, run_on
from tests.unit.until import until


@pytest.fixture(autouse=True)
def no_collector():
    gc.disable()
    yield
    gc.enable()


async def test_a_command_that_came_from_another_host():
    host, sent = host_of(), []

    async def write(message):
        sent.extend(tag for _, tag, _ in tags.unpack(message))

    async def run():
        request = lbm_pb2.RunRequest(
            job_id="h1-1", origin="h1", user="ann", argv=[b"true"], directory=b"/", wants_stdin=True
        )
        talk = Stream(write).converse(1)
        job = AttachedJob(host, talk, Claims(host.jobs))
        serving = asyncio.create_task(job.serve(request))
        await until(lambda: tags.STARTED in sent)
        exits(host)
        host.link.spawned.clear()
        await asyncio.wait_for(serving, 20)
        talk.close()
        return weakref.ref(job)

    job = await run()
    await until(lambda: tags.ENDED in sent)
    assert job() is None


async def test_a_client_with_its_command():
    async def run():
        client, ours = socket.socketpair()
        ours.setblocking(False)
        home = SimpleNamespace(
            config=Config(), threads=UserThreads(), long_requests=Budget(1 << 20, 1 << 20)
        )
        connection = Connection(ours, home, None)

        async def run():
            connection.descriptors(keep=False).close()
            return False

        command = SimpleNamespace(
            run=run, journey=SimpleNamespace(phase=JourneyPhase.DONE), client=connection
        )
        connection.command = command
        await connection._attend(command)
        connection.close()
        client.close()
        return weakref.ref(connection)

    connection = await run()
    await asyncio.sleep(0)
    assert connection() is None


async def test_a_run_on_another_host_with_who_follows_it():
    class Follower:
        run = None

        def input_taken(self):
            pass

    far, follower = FarHost(), Follower()
    follower.run = run_on(far)
    await follower.run.start(lbm_pb2.RunRequest(job_id="1"))
    follower.run.attach(StdFds())
    far.says(tags.ENDED, ENDED)
    await follower.run.follow(follower)
    follower.run.close()
    freed = weakref.ref(follower)
    del follower
    assert freed() is None


# What failed: a task or future holds its exception, and that the frames it was raised in.


class Held:
    """Stands for a request of megabytes."""


async def holding(held, work):
    await work(held)


async def is_freed(work):
    """Whether nothing of failed work is kept: `work` is given an object, and fails."""
    held = Held()
    freed = weakref.ref(held)
    with contextlib.suppress(LbdError, OSError, ValueError):
        await holding(held, work)
    del held
    with contextlib.suppress(AssertionError, TimeoutError):
        await until(lambda: freed() is None, 1.0)
    return freed() is None


class Refusing:
    """A keeper that can start nothing."""

    uid, _jobs = 1000, {}

    async def spawn(self, order, descriptors, stopped, limit=b""):
        spawned = Spawned(stopped)
        spawned.fail(SpawnFailed("fork", errno.EAGAIN))
        return spawned


async def test_an_order_that_could_not_be_carried_out():
    turn, keeper = asyncio.Semaphore(), Refusing()
    await turn.acquire()
    assert await is_freed(lambda _: _answer(keeper, Order(job="a"), turn))
    assert await is_freed(lambda _: run_worker(keeper, Order(job="a"), []))
    assert await is_freed(lambda _: AsUser(keeper, None).begin(1000, Order(), 1.0))


@pytest.mark.parametrize("is_broken", [True, False])
async def test_who_waited_for_another_host(is_broken):
    async def write(_message):
        pass

    talk = Stream(write).converse(1)
    if is_broken:
        talk.lose(LostContact("lost contact with h2"))
    assert await is_freed(lambda _: talk.read(0.0))
    assert await is_freed(lambda _: talk.read(0.0))


async def test_a_client_that_is_gone_or_breaks_the_protocol():
    async def breaks():
        raise ValueError

    class Followed(FollowedJobs):
        async def follow(self):
            raise OSError

        async def leave(self):
            pass

    async def follow(held):
        async def listen():
            await asyncio.get_running_loop().create_future()
            return held

        await Followed(None, None, "ann", 1000, "", "7", "7", None, "").attend(listen, [])

    async def attend(held):
        async def listen():
            listened.append(held)
            raise ValueError

        listened = []
        attending = Attending(listen, lambda: None)
        await asyncio.wait([attending.listen()])
        await attending.end()

    async def early(held):
        async def listen():
            listened.append(held)
            raise ValueError

        listened = []
        early = EarlyFrames(listen)
        early._reading = asyncio.create_task(early._read())
        await asyncio.wait([early._reading])
        early.close()

    for one in (follow, attend, early):
        assert await is_freed(one), one


async def test_a_client_that_breaks_the_protocol_before_its_job_is_queued(monkeypatch):
    async def take(*_):
        await gone.wait()

    gone = asyncio.Event()

    monkeypatch.setattr(submit, "take", take)
    ours, theirs = socket.socketpair()

    async def queue(held):
        async def listen():
            raise ValueError

        asked = submit.read_queued(frames.field(client_tags.ARGUMENT, b"true"))
        asked[0].argv = held
        home = SimpleNamespace(queue=True, files=True)
        try:
            await submit.serve_queued(home, (None, None), (ours, listen), asked, [], lambda: None)
        finally:
            gone.set()

    with ours, theirs:
        assert await is_freed(queue)

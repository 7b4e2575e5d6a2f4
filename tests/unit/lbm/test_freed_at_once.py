"""What a command has needed is freed with its end: what refers to itself waits for the collector,
which then stops everything for as long as thousands of objects take."""

import asyncio
import gc
import socket
import weakref
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config
from lbd.lbm.core.jobs import Claims
from lbd.lbm.core.journey import JourneyPhase
from lbd.lbm.inbound.attached_job import AttachedJob
from lbd.lbm.link import wire as tags
from lbd.lbm.link.conversation import Stream
from lbd.lbm.link.user_threads import StdFds, UserThreads
from lbd.lbm.session.session import Connection
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

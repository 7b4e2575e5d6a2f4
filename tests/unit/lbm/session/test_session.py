"""The tasks of one client's connection, at its end."""

import asyncio
import contextlib
import socket
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config
from lbd.lbm.core.journey import JourneyPhase
from lbd.lbm.link.user_threads import UserThreads
from lbd.lbm.session.session import Connection, end
from lbd.local.budget import Budget


async def returned():
    return True


async def failed(problem):
    raise problem


async def task_of(coroutine):
    task = asyncio.create_task(coroutine)
    await asyncio.wait((task,), timeout=0 if coroutine.__name__ == "sleep" else None)
    return task


async def test_what_goes_on_is_cancelled_and_what_has_returned_is_left():
    lasting, over = await task_of(asyncio.sleep(3600)), await task_of(returned())
    await end(lasting, over, None)
    assert lasting.cancelled()
    assert over.result() is True


async def test_what_a_client_has_sent_wrongly_is_nobody_elses_trouble():
    await end(await task_of(failed(ValueError())), await task_of(failed(BrokenPipeError())))


async def test_an_error_of_ours_is_not_hidden():
    with pytest.raises(RuntimeError):
        await end(await task_of(failed(RuntimeError())))


async def test_a_command_whose_client_goes_away_as_it_is_to_run_it_has_ended():
    """It stayed in the list of those that run for ever, without a process."""
    client, ours = socket.socketpair()
    ours.setblocking(False)
    home = SimpleNamespace(
        config=Config(), threads=UserThreads(), long_requests=Budget(1 << 20, 1 << 20)
    )
    connection = Connection(ours, home, None)
    ended = []

    async def run():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        command.journey.phase = JourneyPhase.HERE
        return True

    journey = SimpleNamespace(phase=JourneyPhase.ASKING, stay=SimpleNamespace(is_measured=False))
    command = SimpleNamespace(run=run, journey=journey, far=None,
                              ended_here=lambda: ended.append(True))  # fmt: skip
    client.close()
    async with asyncio.timeout(20):
        await connection._attend(command)
    assert ended == [True]
    connection.close()

"""The tasks of one client's connection, at its end."""

import asyncio
import contextlib
import socket
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config
from lbd.lbm.core.journey import JourneyPhase
from lbd.lbm.link.user_threads import UserThreads
from lbd.lbm.session.client import Attending
from lbd.lbm.session.session import Connection
from lbd.local.budget import Budget


async def attended(listening, journey):
    """Returns the outcome for a client that listens this way."""
    attending = Attending(lambda: listening, lambda: None)
    try:
        attending.listen()
        return await attending.run(journey)
    finally:
        await attending.end()


async def returned():
    return True


async def failed(problem):
    raise problem


async def test_a_silent_client_is_listened_to_only_as_long_as_the_command_takes():
    async with asyncio.timeout(20):
        assert await attended(asyncio.sleep(3600), returned()) is True


@pytest.mark.parametrize("problem", [ValueError(), BrokenPipeError()])
async def test_an_invalid_message_of_a_client_ends_only_its_command(problem):
    async with asyncio.timeout(20):
        assert await attended(failed(problem), asyncio.sleep(3600, result=True)) is False


async def test_an_error_of_our_own_is_not_hidden():
    with pytest.raises(RuntimeError):
        await attended(failed(RuntimeError()), asyncio.sleep(3600, result=True))


async def test_stopping_the_lbm_cancels_both():
    task = asyncio.create_task(attended(asyncio.sleep(3600), asyncio.sleep(3600, result=True)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_command_whose_client_goes_away_as_it_is_to_run_it_has_ended():
    """It stayed in the list of running commands for ever, without a process."""
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

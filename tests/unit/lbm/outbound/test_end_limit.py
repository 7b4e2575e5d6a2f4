"""Commands that their host had to end, and whose end it does not report."""

import asyncio
import os
import time
from types import SimpleNamespace

import pytest

from lbd.errors import LostContact
from lbd.lbm.link import wire
from lbd.lbm.link.user_threads import StdFds
from lbd.lbm.outbound import end_limit, remote_command
from lbd.lbm.outbound.remote_command import RemoteCommand
from lbd.net.gen import lbm_pb2
from tests.unit.lbm.outbound.far_host import FarHost, run_on, with_an_output

ENDED = lbm_pb2.Ended(exit_status=124, cause="timeout").SerializeToString()
LOST = "^h2 did not report the end of the command within 0.02 s after it was killed$"
PIPE_BYTES, MORE_BYTES = 1 << 16, 1 << 14


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    for name in ("LOOK_S", "CATCH_UP_S"):
        monkeypatch.setattr(end_limit, name, 0.02)


async def read_all(pipe, count):
    while count:
        data = await asyncio.to_thread(os.read, pipe, min(count, PIPE_BYTES))
        assert data, "it was closed"
        count -= len(data)


async def running(far):
    run = run_on(far)
    await run.start(lbm_pb2.RunRequest(job_id="1"))
    return run, asyncio.create_task(run.follow(None))


@pytest.mark.parametrize("last", [[], [(wire.EXITED, bytes(1))]])
async def test_a_host_that_does_not_report_the_end_is_given_up(last):
    """`lbrun` waited for ever, whatever time limit it had, and lbctl kill did not end it."""
    far = FarHost()
    run, following = await running(far)
    for one in last:
        far.says(*one)
    await asyncio.sleep(0)
    run.end_limit.set(0.02, "after it was killed")
    with pytest.raises(LostContact, match=LOST):
        await asyncio.wait_for(following, 10)
    run.close()


def stand_still():
    time.sleep(0.01)


async def test_an_end_that_arrived_while_we_stood_still_is_not_lost():
    far = FarHost()
    run, following = await running(far)
    await asyncio.sleep(0)
    run.end_limit.set(0.0, "after it was killed")
    asyncio.get_running_loop().call_later(0.001, far.says, wire.ENDED, ENDED)
    stand_still()  # both the limit and the message are due now, the limit first
    assert (await asyncio.wait_for(following, 10)).cause == "timeout"
    run.close()


async def test_the_first_limit_holds():
    far = FarHost()
    run, following = await running(far)
    for within_s in (1000.0, 0.02, 2000.0):
        run.end_limit.set(within_s, "after it was killed")
    with pytest.raises(LostContact, match=LOST):
        await asyncio.wait_for(following, 10)
    run.close()


async def test_a_host_that_prints_on_without_end_is_given_up():
    far = FarHost()
    async with with_an_output(far) as (run, following, shown):
        run.end_limit.set(0.02, "after it was killed")
        while not following.done():
            far.says(wire.STDOUT, b"more")
            await asyncio.to_thread(os.read, shown, 100)
        with pytest.raises(LostContact, match=LOST):
            await following


async def test_a_slow_reader_gets_all_that_was_printed_before_the_end():
    far = FarHost()
    async with with_an_output(far) as (run, following, shown):
        run.end_limit.set(0.02, "after it was killed")
        far.says(wire.STDOUT, bytes(PIPE_BYTES + MORE_BYTES))
        done, _ = await asyncio.wait([following], timeout=0.2)
        assert not done
        far.says(wire.STDOUT, bytes(MORE_BYTES))
        far.says(wire.ENDED, ENDED)
        await read_all(shown, PIPE_BYTES + 2 * MORE_BYTES)
        assert (await asyncio.wait_for(following, 10)).cause == "timeout"


async def test_a_slow_reader_does_not_let_a_host_print_without_end(monkeypatch):
    monkeypatch.setattr(end_limit, "LATE_BYTES", 4 * MORE_BYTES)
    far = FarHost()
    async with with_an_output(far) as (run, following, shown):
        run.end_limit.set(0.02, "after it was killed")
        far.says(wire.STDOUT, bytes(PIPE_BYTES + MORE_BYTES))  # something is always unread
        while not following.done():
            far.says(wire.STDOUT, bytes(MORE_BYTES))
            await read_all(shown, MORE_BYTES)
            await asyncio.sleep(0.01)
        with pytest.raises(LostContact, match=LOST):
            await following


class Lbrun:
    """The client of a command with a time limit."""

    def __init__(self, timeout_s):
        self.timeout_s = timeout_s

    async def descriptors(self, *, keep):
        return StdFds(None, None, None)

    def input_taken(self):
        pass


@pytest.mark.parametrize("limit_s", [0.0, 0.01])
async def test_the_end_is_awaited_after_a_time_limit_and_after_a_kill(monkeypatch, limit_s):
    lbm = SimpleNamespace(kill_grace_s=0.0, orphan_after_s=0.01)
    monkeypatch.setattr(remote_command, "BUSY_S", 0.0)
    run, lbrun = run_on(FarHost()), Lbrun(limit_s)
    await run.start(lbm_pb2.RunRequest(job_id="1"))
    command = object.__new__(RemoteCommand)
    command.run, command._client, command._request = run, lbrun, lbrun
    command.staging = None
    command._home = SimpleNamespace(config=SimpleNamespace(lbm=lbm))
    following = asyncio.create_task(command.follow(keep=False))
    done, _ = await asyncio.wait([following], timeout=0.2)
    assert bool(done) == bool(limit_s)
    if not limit_s:
        command.force()
    with pytest.raises(LostContact, match=r" after it (began with a time limit of|was killed)"):
        await asyncio.wait_for(following, 10)
    run.close()

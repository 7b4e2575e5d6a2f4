"""Transfers of an attached command's files that their host does not end."""

import asyncio
import os
from types import SimpleNamespace

import pytest

from lbd.config.schema import StageConfig
from lbd.lbm.core.jobs import Job
from lbd.lbm.core.journey import Journey, JourneyPhase
from lbd.lbm.core.next_host_after_refusal import Bounds, Demands
from lbd.lbm.handover.codec import Fd
from lbd.lbm.link import wire
from lbd.lbm.link.user_threads import StdFds
from lbd.lbm.outbound.command import Command
from lbd.lbm.outbound.remote_command import RemoteCommand
from lbd.lbm.session.peer_process import Traits
from lbd.lbm.session.request import ClientRequest
from lbd.lbm.staging import attached_transfer
from lbd.lbm.staging.attached_files import Staging
from lbd.lbm.staging.attached_transfer import LULL_S, FilesPace, Transfer
from lbd.model import HostId, JobId
from lbd.net.gen import lbm_pb2
from tests.unit.lbm.outbound.far_host import FarHost, run_on

ENDED = lbm_pb2.Ended(exit_status=0, cause="exited").SerializeToString()
NOTHING_CAME = f"h2 has sent next to nothing of the files for {LULL_S:g} s"
NOT_ENDED = "h2 did not end the transfer of the files within 0.02 s after it was told to"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(attached_transfer, "TOLD_S", 0.02)


@pytest.fixture
def in_no_time(monkeypatch):
    """A minute passes in 60 ms."""
    monkeypatch.setattr(attached_transfer, "TICK_S", 0.001)
    passes = FilesPace.passes
    monkeypatch.setattr(
        FilesPace, "passes", lambda pace, s, moved, **how: passes(pace, 1000.0 * s, moved, **how)
    )


class Peer:
    def traits(self):
        return Traits()


class Lbrun:
    """The client's pipes."""

    def __init__(self):
        self.pipe = -1

    async def open(self, _tag, _body):
        self.pipe, far = os.pipe()
        return Fd(far)

    async def outcome(self):
        os.close(self.pipe)
        return ""


def staging_on(far, timeout_s=0.0):
    request = ClientRequest([b"true"], fetch=[b"out"], timeout_s=timeout_s)
    job = Job(JobId("h1-1"), (b"true",), "ann", HostId("h1"), HostId("h2"), 1.0)
    new_run = lambda: run_on(far)  # noqa: E731
    return Staging(StageConfig(), "h2", new_run, Lbrun(), job, request, (os.getuid(), Peer()))


def fetching(staging, show=lambda _: None):
    return asyncio.create_task(staging.fetch(0, 0.0, show))


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def moving(staging):
    """Until the files are on their way."""
    await until(lambda: staging._step is not None and staging._step._run.is_following)


@pytest.mark.parametrize("way", ["kill", "interrupt"])
async def test_a_transfer_that_its_host_does_not_end_ends_with_its_command(way):
    """An `lbrun` waited for it for ever: only kill -9 ended it."""
    staging = staging_on(FarHost())
    command, remote = object.__new__(Command), object.__new__(RemoteCommand)
    command.journey = Journey(Demands("auto"), Bounds(HostId("h1"), 0.0, 0.0))
    command.journey.phase = JourneyPhase.FETCHING
    command.remote, remote.staging = remote, staging
    remote._job = SimpleNamespace(reason="")
    following = fetching(staging)
    await moving(staging)
    if way == "kill":
        command.force()
    else:
        remote.signal(2)
    assert await asyncio.wait_for(following, 10) == f"--fetch {NOT_ENDED}"


async def test_a_transfer_that_its_host_never_begins_ends_with_its_command():
    far = FarHost()
    far.starts = False
    staging = staging_on(far)
    following = fetching(staging)
    await until(lambda: staging._step is not None and far.stream.conversations)
    far.says(wire.QUEUED, b"all are in use")
    staging.force()
    assert await asyncio.wait_for(following, 10) == f"--fetch: {NOT_ENDED}"


async def test_a_host_that_sends_nothing_is_given_up(in_no_time):
    staging = staging_on(FarHost())
    assert await asyncio.wait_for(fetching(staging), 10) == f"--fetch {NOTHING_CAME}"


async def test_a_host_that_takes_nothing_is_given_up(in_no_time):
    far = FarHost()
    transfer = Transfer(run_on(far), FilesPace(sends=False), lambda _: None)
    await transfer.start(lbm_pb2.RunRequest(job_id="1"))
    source, packing = os.pipe()
    following = asyncio.create_task(transfer.follow(StdFds(Fd(source), None, None)))
    done, _ = await asyncio.wait([following], timeout=0.2)
    assert not done  # there is nothing that it could take yet
    os.write(packing, b"x")
    ended, why = await asyncio.wait_for(following, 10)
    assert (ended, why) == (None, f"has taken next to nothing of the files for {LULL_S:g} s")
    transfer.close()
    os.close(packing)


async def test_a_host_that_its_owner_needs_may_take_its_time(in_no_time):
    shown = []
    far = FarHost()
    staging = staging_on(far)
    following = fetching(staging, shown.append)
    await moving(staging)
    far.says(wire.STILL, b"its owner is back")
    done, _ = await asyncio.wait([following], timeout=0.2)
    assert not done
    assert shown == ["its owner is back"]
    far.says(wire.ENDED, ENDED)
    assert await asyncio.wait_for(following, 10) == ""


async def test_one_that_its_user_has_stopped_may_take_its_time(in_no_time):
    far = FarHost()
    staging = staging_on(far)
    following = fetching(staging)
    await moving(staging)
    staging.signal(20)
    done, _ = await asyncio.wait([following], timeout=0.2)
    assert not done
    staging.signal(18)
    assert await asyncio.wait_for(following, 10) == f"--fetch {NOTHING_CAME}"


async def test_a_slow_reader_here_is_not_the_hosts_fault(in_no_time):
    far = FarHost()
    staging = staging_on(far)
    following = fetching(staging)
    await moving(staging)
    far.says(wire.STDOUT, bytes(1 << 17))  # more than the pipe takes
    done, _ = await asyncio.wait([following], timeout=0.2)
    assert not done
    left = 1 << 17
    while left:
        left -= len(await asyncio.to_thread(os.read, staging._pipes.pipe, left))
    far.says(wire.ENDED, ENDED)
    assert await asyncio.wait_for(following, 10) == ""


async def test_a_suspended_one_does_not_outlast_the_time_limit(in_no_time):
    far = FarHost()
    staging = staging_on(far, timeout_s=3.0)
    following = fetching(staging)
    await moving(staging)
    far.says(wire.STILL, b"its owner is back")
    assert await asyncio.wait_for(following, 10) == (
        "--fetch h2 did not send the files within 3 s after the end of the command, which had a "
        "time limit of 3 s"
    )


@pytest.mark.parametrize(
    ("bytes_per_s", "limit_s", "goes_on_s"),
    [
        (0, 0.0, (60, 61)),
        (1, 0.0, (60, 62)),
        (1 << 11, 0.0, (119, 122)),
        (1 << 12, 0.0, None),
        (1 << 16, 10.0, (69, 71)),
        (1 << 17, 10.0, (104, 106)),
        (1 << 18, 10.0, None),
    ],
)
def test_how_long_a_host_may_dribble(bytes_per_s, limit_s, goes_on_s):
    pace = FilesPace(sends=True, within_s=limit_s and limit_s + 42, limit_s=limit_s)
    seconds = range(1, 100_000)
    gone = (s for s in seconds if pace.passes(1.0, bytes_per_s, is_suspended=False))
    ended_s = next(gone, None)
    assert (ended_s is None) == (goes_on_s is None)
    assert ended_s is None or goes_on_s[0] <= ended_s <= goes_on_s[1]


def test_what_came_fast_is_no_credit_for_a_lull():
    pace = FilesPace(sends=True)
    assert not pace.passes(1.0, 1 << 30, is_suspended=False)
    assert pace.passes(LULL_S + 1, 0, is_suspended=False)

"""A command on its way out is unchanged by a restart of its LBM."""

import asyncio
import contextlib
import itertools
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config, HostConfig, LimConfig
from lbd.errors import LostContact
from lbd.lbm.core import journey_events as e
from lbd.lbm.core.jobs import Jobs, LocalCap
from lbd.lbm.core.journey import JourneyPhase
from lbd.lbm.link import wire
from lbd.lbm.link.user_threads import StdFds, UserThreads
from lbd.lbm.link.window import budget_of_windows
from lbd.lbm.outbound import end_limit
from lbd.lbm.outbound.command import Command
from lbd.lbm.session.request import ClientRequest
from lbd.local.client_tags import FLAG_PAUSES
from lbd.local.rate_limit import TimeShares
from lbd.model import HostId, JobState, Verdict
from lbd.net.gen import lbm_pb2
from tests.unit.lbm.handover.passing import handed_over
from tests.unit.lbm.outbound.test_remote_run import ENDED, FarHost

H1, H2 = HostId("h1"), HostId("h2")
REQUEST = ClientRequest([b"cc", b"x.c"], depth=1)


def a_command(number=1, hold_limit_s=30.0):
    """Returns a command in an LBM that has just been started."""
    config = Config(host=HostConfig(name="h1"), lim=LimConfig(hold_limit_s=hold_limit_s))
    home = SimpleNamespace(
        config=config,
        streams=SimpleNamespace(shares=TimeShares()),
        looker=None,
        own_needs=SimpleNamespace(hold=lambda _job, _grant: None),
        unshared=None,
        threads=UserThreads(),
        jobs=Jobs(10, own=H1, numbers=itertools.count(number)),
        cap=LocalCap(2),
        windows=budget_of_windows(),
        commands={},
        eligible=None,
    )
    pipes = SimpleNamespace(threads=home.threads.of(os.getuid()))
    client = SimpleNamespace(peer=SimpleNamespace(pid=0), pipes=pipes, input_taken=lambda: None)
    return Command(home, client, REQUEST, "ann", 1000), home


def over(command, taker, talks=None):
    """Hands the command of one LBM over to another."""
    taker.take_up(handed_over(command.left()), talks)


def on_its_way():
    """Returns a command that is about to be sent to h2."""
    command, home = a_command()
    life = (
        e.Judged(leaves=True), e.Looked(), e.LimSaid(Verdict.THERE, H2, "h2:1", "lowest"),
    )  # fmt: skip
    for event in life:
        command.journey.handle(event, 1.0)
    return command, home


def test_the_journey_and_its_job_are_unchanged():
    command, _ = on_its_way()
    command.job.start(H2, "lowest", 17.0)
    command.journey.search.refused(H2, e.Refused("no", "exec", 2))
    taker, _ = a_command(2)
    over(command, taker)
    assert (taker.journey, taker.job) == (command.journey, command.job)
    assert taker.journey.search.demands is taker.journey.demands
    assert (taker.job.id, taker.job.state) == ("h1-1", JobState.RUNNING)
    assert taker._books.job is taker.job


def test_its_resumption_is_reported_after_a_restart_too():
    command, _ = on_its_way()
    command._books.pauses.are_wanted = True
    command._books.pauses.line(H2, "h2's owner is back")
    taker, _ = a_command(2)
    over(command, taker)
    assert taker._books.pauses.line(H2, "") == "h2: goes on"


def test_no_pauses_are_left_unless_there_were_some():
    command, _ = on_its_way()
    assert command.left().pauses is None
    taker, _ = a_command(2)
    taker._request = replace(REQUEST, flags=FLAG_PAUSES)
    over(command, taker)
    assert taker._books.pauses.are_wanted, "as its request asks"


def test_the_latest_report_of_the_host_counts():
    command, _ = on_its_way()
    taker, _ = a_command(2, hold_limit_s=5.0)
    over(command, taker)
    journey = taker.journey
    assert journey.bounds is journey.search.bounds
    assert journey.bounds.hold_limit_s == 5.0


def test_a_turn_is_still_taken():
    command, _ = on_its_way()
    command.journey.stay.has_turn = True
    taker, home = a_command(2)
    over(command, taker)
    assert home.cap.running == {1: {"h1-1"}}


class Talks:
    """The conversations of the LBM that takes over."""

    def __init__(self, far):
        self.far = far

    def of(self, run):
        return self.far.stream.converse(run.number)


@contextlib.asynccontextmanager
async def followed_further(end_within_s=None):
    """Yields the LBM that takes over a running command, its host, and a pipe's end with the
    output. Its host is to report the end within that time."""
    command, home = on_its_way()
    home.streams = FarHost()
    command.journey.handle(e.Sent(), 1.0)
    command.journey.handle(e.StartedThere(), 1.0)
    shown, printing = os.pipe()
    command.remote = command._remote(command.journey.place)
    run = command.remote.run
    await run.start(lbm_pb2.RunRequest(job_id="h1-1"))
    run.attach(StdFds(None, printing, None))
    following = asyncio.create_task(run.follow(None))
    await asyncio.sleep(0)  # it has the descriptors
    if end_within_s is not None:
        run.end_limit.set(end_within_s, "after it was killed")
    taker, home = a_command(2)
    home.streams = far = FarHost()
    over(command, taker, Talks(far))
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following
    yield taker, far, shown
    os.close(shown)


async def test_a_running_command_is_followed_further():
    """The LBM that takes over receives its output, then its end."""
    async with followed_further() as (taker, far, shown):
        (follow,) = taker.journey.resumed(2.0)
        assert isinstance(follow, e.Follow)
        asyncio.get_running_loop().call_soon(far.says, wire.STDOUT, b"out")
        asyncio.get_running_loop().call_soon(far.says, wire.ENDED, ENDED)
        ended = await asyncio.wait_for(taker._answer(follow), 30)
        assert (ended.cause, ended.untouched) == ("evicted", False)
        assert os.read(shown, 100) == b"out"


async def test_a_killed_command_whose_host_does_not_end_it_is_given_up_by_the_next_lbm(monkeypatch):
    """Its user had to kill it again."""
    monkeypatch.setattr(end_limit, "CATCH_UP_S", 0.02)
    async with followed_further(end_within_s=0.1) as (taker, _, _):
        with pytest.raises(LostContact, match=r"within 0\.1 s after it was killed"):
            await asyncio.wait_for(taker.remote.run.follow(None), 10)


def test_the_request_of_a_command_that_may_have_started_or_was_evicted_is_not_repeated():
    command, _ = on_its_way()
    assert not command.journey.is_irrevocable
    command.journey.handle(e.Sent(), 1.0)
    assert command.journey.is_irrevocable
    command.journey.handle(e.StartedThere(), 1.0)
    command.journey.handle(e.Ended(137, "evicted", untouched=True), 1.0)
    assert command.journey.phase is JourneyPhase.LOOKING
    assert command.journey.is_irrevocable

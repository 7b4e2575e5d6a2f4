"""A dispatcher that was stopped, or suspended with its host, for longer than its leases."""

import asyncio

import pytest

from lbd.dispatch import daemon
from lbd.dispatch.core.records import Cause, Ending
from lbd.model import HostId, JobId
from lbd.process.boot_clock import clock_s
from tests.unit.dispatch.services import asking, opened

H1 = HostId("h1")


@pytest.fixture
async def world(tmp_path, monkeypatch):
    async with opened(tmp_path / "ledger.sqlite") as world:
        world.skipped_s = 0.0
        monkeypatch.setattr(daemon, "clock_s", lambda: clock_s() + world.skipped_s)
        world.host(H1)
        await world.submit(asking())
        await world.dispatcher.settled()
        ticking = asyncio.create_task(world.dispatcher._tick())
        await asyncio.sleep(0)
        yield world
        ticking.cancel()


async def ticks():
    await asyncio.sleep(2.5 * daemon.TICK_S)


async def test_an_end_in_the_meantime_is_heard_and_the_job_not_rerun(world):
    life = world.dispatcher.life
    (live,) = life.leased.values()
    until_s, world.skipped_s = live.lease.until_s, 10 * life.terms.waited_s
    await ticks()
    assert live.lease is not None, "it was taken for lost before its host was heard"
    assert live.lease.until_s >= until_s + world.skipped_s
    ended = Ending(Cause.EXITED, 0)
    world.dispatcher.carry(
        life.ended(H1, JobId("1"), 1, ended, daemon.clock_s(), world.dispatcher.rng)
    )
    await world.dispatcher.settled()
    (job,) = (await world.jobs(selectors=["1"], ended_too=True, user="ann")).jobs
    assert (job.state, job.attempt) == ("done", 1)


async def test_a_job_whose_host_stays_silent_after_that_is_lost(world):
    life = world.dispatcher.life
    (live,) = life.leased.values()
    world.skipped_s = 10 * life.terms.waited_s
    await ticks()
    live.lease.until_s -= life.terms.waited_s  # as if it had passed
    await ticks()
    assert live.crashes == 1

"""What `lbctl status` and `lbctl jobs` say of the queue is so now, and tiers are those in use."""

import asyncio

import pytest

from lbd.config import Config
from lbd.config_dispatch import DispatchConfig
from lbd.dispatch.jobs import Cause, Ending
from lbd.model import JobId
from lbd.rpc.gen import dispatch_pb2 as pb
from tests.unit.dispatch.desks import asking, opened

TAGS = Config(dispatch=DispatchConfig(mode="tags"))
CUTOFFS_S = (1.0, 10.0)


@pytest.fixture
async def tags(tmp_path):
    path = tmp_path / "ledger.sqlite"
    async with opened(path, TAGS, mode="tags", cutoffs_s=CUTOFFS_S) as world:
        yield world


async def test_the_numbers_are_those_of_now(tmp_path):
    """They once came with heartbeats alone: for ten seconds five jobs were none."""
    async with opened(tmp_path / "ledger.sqlite") as world:
        world.host("h3", slots=1)
        for _ in range(5):
            await world.submit(asking())
        told = await world.status()
        assert (told.mode, told.queued, told.running) == ("fcfs", 4, 1)
        assert list(told.tiers) == []


async def test_each_host_has_its_tiers(tags):
    for name in ("h1", "h2", "h3"):
        tags.host(name)
    told = await tags.status()
    assert {row.host: list(row.tiers) for row in told.tiers} == {"h1": [1], "h2": [2], "h3": [3]}


async def test_a_job_that_may_not_restart_is_shown_in_the_last_tier(tags):
    """It waits there, runs there, and has run there."""
    for name in ("h1", "h2", "h3"):
        line = tags.host(name, slots=1)
    await tags.submit(asking(may_restart=False))
    await tags.submit(asking(may_restart=False))
    assert await tiers(tags, "2") == [("pending", 3)]
    async with asyncio.timeout(10):
        while not line.starts:  # noqa: ASYNC110  # nobody says so
            await asyncio.sleep(0.01)
    heard(tags, "h3", event="begun")
    await tags.dispatcher.settled()
    assert await tiers(tags) == [("running", 3)]
    heard(tags, "h3", event="ended", cause="exited", exit_status=0)
    await tags.dispatcher.settled()
    assert await tiers(tags) == [("done", 3)]


async def test_one_that_is_cut_off_waits_in_the_next_tier(tags):
    await tags.submit(asking())
    tags.host("h1")
    life = tags.dispatcher.life
    cut = Ending(Cause.CUT, 137, 9, 1.0)
    tags.dispatcher.carry(life.ended("h1", JobId("1"), 1, cut, 1.0, tags.dispatcher.dice))
    await tags.dispatcher.settled()
    ((state, tier),) = await tiers(tags)
    assert (state, tier) == ("pending", 2)


def heard(world, host, **news):
    up = pb.WorkUp(news=[pb.News(job="1", attempt=1, **news)])
    world.dispatcher.heard(host, world.dispatcher.lines[host], up)


async def tiers(world, job="1"):
    told = await world.jobs(selectors=[job], user="ann", ended_too=True)
    assert told.error == ""
    return [(job.state, job.tier) for job in told.jobs]

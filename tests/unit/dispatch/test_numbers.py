"""`lbctl status` and `lbctl jobs` show the present state of the queue, and the tiers in use."""

import asyncio

import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import Config
from lbd.dispatch.core.ledger_room import Disk
from lbd.dispatch.core.records import Cause, Ending
from lbd.model import JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen.lbm_pb2 import RunRequest
from tests.unit.dispatch.services import asking, opened

TAGS = Config(dispatch=DispatchConfig(mode="tags"))
CUTOFFS_S = (1.0, 10.0)


@pytest.fixture
async def tags(tmp_path):
    path = tmp_path / "ledger.sqlite"
    async with opened(path, TAGS, mode="tags", cutoffs_s=CUTOFFS_S) as world:
        yield world


async def test_the_numbers_are_current(tmp_path):
    """They once came only with heartbeats: for ten seconds five jobs counted as none."""
    async with opened(tmp_path / "ledger.sqlite") as world:
        line = world.host("h3", slots=1)
        for _ in range(5):
            await world.submit(asking())
        told = await world.status()
        assert (told.queued, told.running) == (5, 0), "it has not begun, as `lbctl jobs` says"
        await begun(line)
        heard(world, "h3", event="begun")
        told = await world.status()
        assert (told.mode, told.queued, told.running) == ("fcfs", 4, 1)
        assert list(told.tiers) == []


async def test_the_status_says_that_the_ledger_is_full(tmp_path, monkeypatch):
    async with opened(tmp_path / "ledger.sqlite") as world:
        assert (await world.status()).full == ""
        monkeypatch.setattr(world.ledger, "disk", lambda: Disk(0, 1 << 30, "/var/lib/lbd"))
        assert (await world.status()).full.startswith("/var/lib/lbd is full, so the queue takes no")


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
    await begun(line)
    heard(tags, "h3", event="begun")
    await tags.dispatcher.settled()
    assert await tiers(tags) == [("running", 3)]
    heard(tags, "h3", event="ended", cause="exited", exit_status=0)
    await tags.dispatcher.settled()
    assert await tiers(tags) == [("done", 3)]


async def test_an_end_that_is_reported_late_is_dated_to_when_its_host_saw_it(tags):
    line = tags.host("h1")
    await tags.submit(asking())
    await begun(line)
    tags.dispatcher.life.jobs[JobId("1")].lease.granted_s -= 60.0  # long enough ago for both
    heard(tags, "h1", sent_s=1018.0, event="begun", at_s=1000.0)
    heard(tags, "h1", sent_s=1018.0, event="ended", cause="exited", exit_status=0, at_s=1003.0)
    await tags.dispatcher.settled()
    (job,) = (await tags.jobs(selectors=["1"], user="ann", ended_too=True)).jobs
    assert job.finished - job.started == pytest.approx(3.0, abs=0.5)


async def test_a_job_that_is_cut_off_waits_in_the_next_tier(tags):
    await tags.submit(asking())
    tags.host("h1")
    life = tags.dispatcher.life
    cut = Ending(Cause.CUT, 137, 9, 1.0)
    tags.dispatcher.carry(life.ended("h1", JobId("1"), 1, cut, 1.0, tags.dispatcher.rng))
    await tags.dispatcher.settled()
    ((state, tier),) = await tiers(tags)
    assert (state, tier) == ("pending", 2)


async def test_each_attempt_is_shown_in_the_tier_it_ran_in(tags):
    first, second = tags.host("h1"), tags.host("h2")
    await tags.submit(asking())
    await begun(first)
    heard(tags, "h1", event="begun")
    cut = Ending(Cause.CUT, 137, 9, 1.0)
    life = tags.dispatcher.life
    tags.dispatcher.carry(life.ended("h1", JobId("1"), 1, cut, 1.0, tags.dispatcher.rng))
    await begun(second)
    heard(tags, "h2", attempt=2, event="begun")
    await tags.dispatcher.settled()
    told = await tags.jobs(selectors=["1"], user="ann", ended_too=True, with_attempts=True)
    (job,) = told.jobs
    assert (job.state, job.host, job.tier) == ("running", "h2", 2)
    assert [(one.number, one.host, one.tier) for one in job.attempts] == [
        (1, "h1", 1),
        (2, "h2", 2),
    ]


async def test_a_single_job_is_shown_with_what_its_user_specified(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        job = asking(key="night", may_restart=False)
        request = RunRequest.FromString(job.spec.run_request)
        request.directory, request.timeout_s, request.memory_bytes = b"/home/ann", 60.0, 1 << 30
        job.spec.run_request = request.SerializeToString()
        job.spec.output, job.spec.error = b"out.%j", b"err"
        await world.submit(job)
        await world.submit(asking())
        look = {"user": "ann", "ended_too": True, "with_attempts": True, "by_array": True}
        (one,) = (await world.jobs(selectors=["1"], **look)).jobs
        assert one.given == pb.GivenInfo(
            directory=b"/home/ann", output=b"out.%j", error=b"err", timeout_s=60.0,
            memory_bytes=1 << 30, key="night",
        )  # fmt: skip
        many = (await world.jobs(selectors=["1-2"], **look)).jobs
        assert [job.HasField("given") for job in many] == [False, False]
        del look["with_attempts"]
        (one,) = (await world.jobs(selectors=["1"], **look)).jobs
        assert not one.HasField("given")


async def begun(line):
    async with asyncio.timeout(10):
        while not line.starts:  # noqa: ASYNC110  # nobody says so
            await asyncio.sleep(0.01)


def heard(world, host, attempt=1, sent_s=0.0, **news):
    up = pb.WorkUp(sent_s=sent_s, reports=[pb.AttemptReport(job="1", attempt=attempt, **news)])
    world.dispatcher.heard(host, world.dispatcher.lines[host], up)


async def tiers(world, job="1"):
    told = await world.jobs(selectors=[job], user="ann", ended_too=True)
    assert told.error == ""
    return [(job.state, job.tier) for job in told.jobs]

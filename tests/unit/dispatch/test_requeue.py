"""Ended jobs that start again, and jobs that an order finds ended: what is known of them then."""

import asyncio
import time

import pytest

from lbd.dispatch.core.records import Cause, Ending
from lbd.dispatch.core.run_times import name_hash
from lbd.dispatch.revival import Revival
from lbd.model import HostId, JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from tests.unit.dispatch.services import asking, opened
from tests.unit.until import until

WHO = {"user": "ann", "uid": 1001}


async def test_a_restarted_job_is_still_known_by_its_command(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        await world.submit(asking(slots_most=4, command=[b"/opt/solve", b"a"]))
        await world.submit(asking(is_array=True, first_index=1, count=2, command=[b"render"]))
        await world.act(verb="kill", selectors=["1-3"], **WHO)
        assert not world.dispatcher.life.jobs
        reply = await world.act(verb="requeue", selectors=["1-3"], **WHO)
        assert (list(reply.errors), list(reply.done_ids)) == ([], ["1", "2_1", "2_2"])
        jobs = world.dispatcher.life.jobs
        assert [jobs[job].job.command for job in "123"] == [
            name_hash(name) for name in ("solve", "render", "render")
        ]


async def test_a_later_dispatcher_asks_hosts_again_that_could_not_start_a_job(tmp_path):
    """A restored job waited for ever if the only host left was one that had refused it."""
    h1, path = HostId("h1"), tmp_path / "ledger.sqlite"
    async with opened(path) as world:
        for name in ("h1", "h2"):
            world.host(HostId(name), slots=1)
        await world.submit(asking(excluded=["h2", "h9"]))
        life, rng = world.dispatcher.life, world.dispatcher.rng
        life.hosts.gone(HostId("h3"), None)
        missing = Ending(Cause.LOST, 2, reason="id: not found")
        world.dispatcher.carry(life.refused(h1, JobId("1"), 1, "exec", missing, clock_s(), rng))
        await world.dispatcher.settled()
        assert life.jobs[JobId("1")].job.barred == {"h1", "h2", "h9"}
    async with opened(path) as world:
        await world.dispatcher._restore()
        assert world.dispatcher.life.jobs[JobId("1")].job.barred == {"h2", "h9"}


async def test_a_target_keeps_its_time_even_under_a_dispatcher_that_found_no_jobs(tmp_path):
    path, array = tmp_path / "ledger.sqlite", {"is_array": True, "first_index": 1, "count": 2}
    async with opened(path) as world:
        await world.submit(asking(**array, target_s=600.0))
        await world.act(verb="kill", selectors=["1-2"], **WHO)
    async with opened(path) as world:
        await world.dispatcher._restore()
        await world.act(verb="requeue", selectors=["1-2"], **WHO)
        (target,) = world.dispatcher.life.queues.targets.arrays.values()
        assert target.until_s - clock_s() == pytest.approx(600.0, abs=30.0)
        assert target.job.target.unix_s - time.time() == pytest.approx(600.0, abs=30.0)


async def test_somebody_without_jobs_is_not_told_that_all_have_ended(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        await world.submit(asking(user="bob", uid=1002))
        for verb in ("kill", "hold"):
            done = await world.act(verb=verb, selectors=["@me"], **WHO)
            assert list(done.errors) == [f"nothing to {verb}: you have no queued jobs"]
        await world.submit(asking(is_array=True, first_index=1, count=2))
        await world.act(verb="kill", selectors=["@me"], **WHO)
        (array,) = (await world.jobs(by_array=True, ended_too=True, **WHO)).jobs
        assert (array.state, array.reason) == ("cancelled", "cancelled before it ran, by ann@h2")
        done = await world.act(verb="kill", selectors=["@me"], **WHO)
        assert list(done.errors) == ["nothing to kill: all these jobs have ended"]


@pytest.mark.parametrize(
    ("ended", "error"),
    [
        ("1", "job 1 has ended"),
        ("1_[2-4]", "these tasks of job 1 have ended"),
        ("1-7", "jobs 1-7 have ended"),
        ("6-8", "jobs 6-7 have ended"),  # of the array 7, whose numbers are 7 to 11
        ("6", "job 6 has ended"),
    ],
)
async def test_of_several_ids_those_are_named_of_which_all_has_ended(tmp_path, ended, error):
    """Of an array beside others nothing was said."""
    array = {"is_array": True, "first_index": 1, "count": 5}
    async with opened(tmp_path / "ledger.sqlite") as world:
        for more in (array, {}, array, {}):
            await world.submit(asking(**more))
        await world.act(verb="kill", selectors=["1-7"], **WHO)
        done = await world.act(verb="kill", selectors=["12", ended], **WHO)
        assert (list(done.done_ids), list(done.errors)) == (["12"], [error])


@pytest.mark.parametrize("gang", [0, 2])
async def test_orders_that_requeue_the_same_job_do_not_wait_for_each_other(
    tmp_path, monkeypatch, gang
):
    """All waited for one that did nothing, for minutes. What the first has read is of the past
    once the job has had another attempt: two attempts would have the same number."""
    has_read, may_go_on = asyncio.Event(), asyncio.Event()

    async def at_leisure(*_):
        if not has_read.is_set():
            has_read.set()
            await may_go_on.wait()

    async with opened(tmp_path / "ledger.sqlite") as world, asyncio.timeout(60.0):
        h2 = world.host(HostId("h2"), slots=4)
        await world.submit(
            asking(**({"is_array": True, "count": gang, "gang": True} if gang else {}))
        )
        jobs = [str(number + 1) for number in range(gang or 1)]

        async def run(attempt):
            await until(lambda: len(h2.starts) == attempt * len(jobs))
            up = pb.WorkUp()
            for job in jobs:
                up.reports.add(job=job, attempt=attempt, event="begun")
                up.reports.add(job=job, attempt=attempt, event="ended", cause="exited")
                up.reports[-1].exit_status = 1
            world.dispatcher.heard(HostId("h2"), h2, up)
            await world.dispatcher.settled()

        await run(1)
        monkeypatch.setattr(Revival, "read_names", at_leisure)
        first = asyncio.create_task(world.act(verb="requeue", selectors=["1"], **WHO))
        await has_read.wait()
        second = await world.act(verb="requeue", selectors=["1"], **WHO)
        assert not second.errors
        await run(2)
        may_go_on.set()
        assert not (await first).errors
        await until(lambda: len(h2.starts) == 3 * len(jobs))
        assert [start.attempt for start in h2.starts[-len(jobs) :]] == [3] * len(jobs)

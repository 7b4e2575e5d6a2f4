"""Ended jobs that start again: what is known of them then."""

import time

import pytest

from lbd.dispatch.core.run_times import name_hash
from lbd.process.boot_clock import clock_s
from tests.unit.dispatch.services import asking, opened

WHO = {"user": "ann", "uid": 1001}


async def test_a_restarted_job_is_still_known_by_its_command(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        await world.submit(asking(slots_most=4, command=[b"/opt/solve", b"a"]))
        await world.submit(asking(is_array=True, first_index=1, count=2, command=[b"render"]))
        await world.act(verb="kill", selectors=["1-3"], **WHO)
        assert not world.dispatcher.life.jobs
        reply = await world.act(verb="requeue", selectors=["1-3"], **WHO)
        assert (list(reply.errors), list(reply.done)) == ([], [1, 2, 3])
        jobs = world.dispatcher.life.jobs
        assert [jobs[job].job.command for job in "123"] == [
            name_hash(name) for name in ("solve", "render", "render")
        ]


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

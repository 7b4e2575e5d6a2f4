"""Nothing that a host reports of an attempt was before its lease."""

import time

import pytest

from lbd.net.gen import dispatch_pb2 as pb
from tests.unit.dispatch.services import asking, opened
from tests.unit.until import until

MONTH_S = 30 * 86400.0


def says(world, line, job, event, ago_s, **more):
    report = pb.AttemptReport(job=job, attempt=1, event=event, at_s=1.0, **more)
    world.dispatcher.heard("h2", line, pb.WorkUp(reports=[report], sent_s=1.0 + ago_s))


async def listed(world, job):
    await world.dispatcher.settled()
    whose = {"user": "ann", "uid": 1001, "by_number": True, "with_attempts": True}
    reply = await world.jobs(selectors=[job], ended_too=True, **whose)
    return reply.jobs[0]


async def leased(world):
    """Returns a job that h2 has, and h2's connection."""
    line = world.host("h2", 1)
    job = str((await world.submit(asking())).first)
    await world.dispatcher.settled()
    await until(lambda: line.starts)
    return job, line


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("says_begun", [False, True])
async def test_an_attempt_neither_begins_nor_ends_before_its_lease(
    tmp_path, says_begun, is_restarted
):
    """It was said to have run for a month before it was submitted, and forecasts of a later
    dispatcher for all users were made of that."""
    path, before = tmp_path / "ledger.sqlite", time.time()
    async with opened(path) as world:
        job, line = await leased(world)
        if not is_restarted:
            await reports(world, line, job, says_begun=says_begun)
            found = await listed(world, job)
    if is_restarted:
        async with opened(path) as world:
            await world.dispatcher._restore()
            await reports(world, world.host("h2", 1), job, says_begun=says_begun)
            found = await listed(world, job)
    async with opened(path) as world:
        await world.dispatcher._restore()
        learnt_s = world.dispatcher.life.queues.resource_times.slots.recent_s
    (attempt,) = found.attempts
    assert found.state == "done"
    assert before <= found.finished
    assert before <= attempt.finished
    if says_begun:
        assert before <= found.started
        assert before <= attempt.started
        assert all(one_s < MONTH_S / 2 for one_s in learnt_s)


async def reports(world, line, job, *, says_begun):
    if says_begun:
        says(world, line, job, "begun", MONTH_S)
    says(world, line, job, "ended", MONTH_S, cause="exited", exit_status=0)


async def test_what_a_host_saw_since_the_lease_is_believed(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        job, line = await leased(world)
        world.dispatcher.life.leased[job].lease.granted_s -= 100.0  # it was away since
        says(world, line, job, "begun", 60.0)
        says(world, line, job, "ended", 20.0, cause="exited", exit_status=0)
        found = await listed(world, job)
    assert found.finished - found.started > 39.9
    assert found.started < time.time() - 59.9

"""What users and a new dispatcher do with a gang, on a real ledger."""

from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Fate
from lbd.model import HostId, JobId, JobState
from tests.unit.dispatch.services import asking, opened

H3 = HostId("h3")
GANG = {"gang": True, "is_array": True, "first_index": 0, "count": 3}
WHO = {"user": "ann", "uid": 1001}


async def ended(world, job, attempt, begun, unix_s, barred=frozenset()):
    """Runs the job on a host and ends it."""
    world.dispatcher.carry([Begin(JobId(job), attempt, H3, 1, None)])
    ending = Ending(Cause.EXITED, 0)
    for state, fate, how, at_s in (
        (JobState.RUNNING, Fate.RUNNING, None, begun),
        (JobState.DONE, Fate.DONE, ending, unix_s),
    ):
        change = Changed(JobId(job), state, 1, attempt, H3, fate, how, 0, "", barred)
        await world.ledger.record([change], at_s)


async def test_an_order_for_a_range_is_carried_out_once_per_gang(world):
    await world.submit(asking(**GANG))
    reply = await world.act(verb="hold", selectors=["1-3"], **WHO)
    assert (list(reply.errors), list(reply.done_ids)) == ([], ["1_0", "1_1", "1_2"])
    assert {job.reason for job in (await world.jobs(**WHO)).jobs} == {"held by ann"}
    reply = await world.act(verb="release", selectors=["1-3"], **WHO)
    assert (list(reply.errors), list(reply.done_ids), list(reply.not_held)) == (
        [],
        ["1_0", "1_1", "1_2"],
        [],
    )
    reply = await world.act(verb="kill", selectors=["1-3"], **WHO)
    assert (list(reply.errors), list(reply.done_ids)) == ([], ["1_0", "1_1", "1_2"])
    assert not world.dispatcher.life.jobs


async def test_a_gang_that_has_ended_is_requeued_as_a_whole(world):
    await world.submit(asking(**GANG))
    await world.act(verb="kill", selectors=["1_1"], **WHO)
    reply = await world.act(verb="requeue", selectors=["1_2"], **WHO)
    assert (list(reply.errors), list(reply.done_ids)) == ([], ["1_2"])
    assert sorted(world.dispatcher.life.jobs) == ["1", "2", "3"]
    line = world.host("h3")
    await world.dispatcher.settled()
    assert [list(start.gang_hosts) for start in line.starts] == [["h3"] * 3] * 3


async def test_a_gang_that_may_not_restart_is_not_requeued(world):
    await world.submit(asking(**GANG | {"may_restart": False}))
    await world.act(verb="kill", selectors=["1"], **WHO)
    reply = await world.act(verb="requeue", selectors=["1"], **WHO)
    assert list(reply.errors) == [
        "job 1_0 was submitted with --no-restart: submit it again instead"
    ]


async def test_no_job_of_a_gang_that_is_not_requeued_is_reported_as_requeued(world):
    await world.submit(asking(**GANG | {"may_restart": False}))
    await world.act(verb="kill", selectors=["1"], **WHO)
    reply = await world.act(verb="requeue", selectors=["1"], **WHO)
    assert (len(reply.errors), list(reply.done_ids)) == (1, [])
    await world.submit(asking(**GANG))
    reply = await world.act(verb="requeue", selectors=["4"], **WHO)
    assert (list(reply.errors), list(reply.done_ids)) == (["job 4_0 is already pending"], [])


async def test_a_requeued_gang_may_go_again_where_it_could_not_start(world):
    await world.submit(asking(**GANG, excluded=["h9"]))
    await world.act(verb="kill", selectors=["1"], **WHO)
    for job in "123":
        await ended(world, job, 1, 10.0, 11.0, frozenset({H3, HostId("h9")}))
    await world.act(verb="requeue", selectors=["1"], **WHO)
    barred = {live.job.barred for live in world.dispatcher.life.jobs.values()}
    assert barred == {frozenset({HostId("h9")})}


async def test_the_durations_of_jobs_are_known_to_the_next_dispatcher(world, tmp_path):
    await world.submit(asking(is_array=True, first_index=1, count=4))
    await world.dispatcher.settled()
    for number, took_s in enumerate((10.0, 20.0, 40.0), 1):
        await ended(world, str(number), 1, 100.0, 100.0 + took_s)
    async with opened(tmp_path / "ledger.sqlite") as other:
        await other.dispatcher._restore()
        job = other.dispatcher.life.jobs[JobId("4")].job
        assert other.dispatcher.life.queues.gangs.longest_s(job) == 60.0

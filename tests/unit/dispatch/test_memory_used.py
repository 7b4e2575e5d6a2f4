"""What a job's largest process used, from its host's report to the lists."""

from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from tests.unit.dispatch.services import asking, opened
from tests.unit.until import until

MIB = 1 << 20


async def run_all(world, line, sizes):
    """Has these jobs begin and end, by id, with that much memory."""
    reports = []
    for job, size_bytes in sizes.items():
        news = {"job": job, "attempt": 1}
        reports.append(pb.AttemptReport(event="begun", **news))
        reports.append(
            pb.AttemptReport(
                event="ended", cause="exited", exit_status=0, max_rss_bytes=size_bytes, **news
            )
        )
    world.dispatcher.heard("h2", line, pb.WorkUp(reports=reports, sent_s=clock_s()))
    await world.dispatcher.settled()


async def test_the_memory_of_a_job_is_kept_and_shown(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        line = world.host("h2")
        await world.submit(asking())
        world.host("h2", held=[])
        await until(lambda: line.starts)
        (before,) = (await world.jobs(user="ann")).jobs
        await run_all(world, line, {"1": 300 * MIB})
        (after,) = (await world.jobs(user="ann", ended_too=True)).jobs
    assert (before.max_rss_bytes, after.max_rss_bytes) == (0, 300 * MIB)


async def test_an_array_has_that_of_its_largest_task(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        line = world.host("h2")
        await world.submit(asking(count=3, is_array=True))
        world.host("h2", held=[])
        await until(lambda: len(line.starts) == 3)
        await run_all(world, line, {"1": 20 * MIB, "2": 700 * MIB, "3": 0})
        asked = {"user": "ann", "ended_too": True}
        (array,) = (await world.jobs(by_array=True, **asked)).jobs
        tasks = (await world.jobs(**asked)).jobs
    assert array.max_rss_bytes == 700 * MIB
    assert sorted(one.max_rss_bytes for one in tasks) == [0, 20 * MIB, 700 * MIB]

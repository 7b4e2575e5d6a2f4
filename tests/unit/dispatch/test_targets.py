"""Arrays with targets at the dispatcher: what it learns, reports, and takes up again."""

import re
import time
from collections import Counter

import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import Config
from lbd.dispatch.core.ledger_rows import Submission
from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Fate
from lbd.dispatch.core.targets import arrays
from lbd.model import HostId, JobId, JobState
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.units import duration_s
from tests.unit.dispatch.services import asking, opened

TASK_S = 60.0


@pytest.fixture
async def world(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        await tasks_ended(world, 20)
        yield world


async def tasks_ended(world, count, name="fit"):
    """Records ended jobs of that name, of a minute on average, in a fixed exponential mix."""
    asked = asking()
    asked.is_array, asked.count, asked.name = True, count, name
    reply = await world.submit(asked)
    for n in range(count):
        job, host = JobId(str(reply.first + n)), HostId("h1")
        begin = Begin(job, 1, host, 1, None)
        changed = Changed(job, JobState.RUNNING, 1, 1, host, Fate.RUNNING, None, 0, "", frozenset())
        ended = Changed(job, JobState.DONE, 1, 1, host, Fate.DONE, Ending(Cause.EXITED, 0), 0, "",
                        frozenset())  # fmt: skip
        took_s = TASK_S * (0.0 if n % 4 else 4.0)  # a mean of TASK_S
        await world.ledger.record([begin, changed], 1000.0)
        await world.ledger.record([ended], 1000.0 + took_s)
        world.dispatcher.life.kill(job, 0, 0.0, world.dispatcher.rng)


def array(count=30, name="fit", **more):
    asked = asking(**more)
    asked.is_array, asked.count, asked.name = True, count, name
    return asked


async def target_of(world, id_):
    found = (await world.jobs(selectors=[str(id_)], by_number=True)).jobs
    return found[0].target if found[0].HasField("target") else None


async def test_the_record_under_that_name_decides_how_many_run(world):
    host = world.host("h1", slots=20)
    reply = await world.submit(array(target_s=10 * TASK_S))
    assert (reply.error, reply.remark) == ("", "")
    await world.dispatcher.settled()
    found = await target_of(world, reply.first + 29)
    assert 3 <= found.at_once == found.running == len(host.starts) <= 5
    assert found.left == 30
    assert found.expected_low < found.expected_end < found.expected_high
    assert found.by == pytest.approx(time.time() + 10 * TASK_S, abs=60)
    assert found.expected_end == pytest.approx(found.by, abs=60)
    assert found.why == "as many as it needs to end at its target time; fewer once fewer will do"


async def test_under_another_name_nothing_is_known(world):
    world.host("h1", slots=20)
    reply = await world.submit(array(name="other", target_s=10 * TASK_S))
    assert reply.remark.startswith("how long its tasks take is not known until one has ended; ")
    found = await target_of(world, reply.first)
    assert found.at_once == 20
    assert not found.HasField("expected_end")
    assert "it is not yet known" in found.why


async def test_an_impossible_target_is_accepted_with_one_line(world):
    world.host("h1", slots=2)
    reply = await world.submit(array(deadline=time.time() + TASK_S))
    assert reply.error == ""
    said = r"the deadline \(in (1m00s|59s)\) cannot be met with 2 tasks at once: "
    assert re.match(said, reply.remark)
    assert len(await world.ledger.live()) == 30


async def test_a_misspelt_host_of_x_is_named(world):
    """Without the queue it was, and with -H; a job that is to keep off a host began on it."""
    world.host("h1", slots=2)
    world.host("lion", slots=2)
    for excluded, said in (
        (["h1"], ""),
        (["h1", "loin"], "-x loin: no host of that name is known, so it excludes none; did you "
                         'mean "lion"?'),
        (["zzz"], "-x zzz: no host of that name is known, so it excludes none"),
    ):  # fmt: skip
        assert (await world.submit(asking(excluded=excluded))).remark == said


async def test_the_line_at_submission_and_the_view_name_the_same_end_with_the_wait(world):
    """They differed by the wait until the first task begins."""
    slots = world.dispatcher.life.queues.resource_times.slots
    for n in range(40):
        slots.ended(30.0 + n / 10)
    world.host("h1", slots=2)
    for _ in range(2):
        await world.submit(asking())
    reply = await world.submit(array(deadline=time.time() + TASK_S))
    at_s = time.time()
    said = re.search(r"expected to begin in (\d+)s and to end in (\w+) ", reply.remark)
    begins, ends = said.groups()
    found = await target_of(world, reply.first)
    end_s = found.expected_end - at_s
    assert end_s == pytest.approx(duration_s(ends), abs=2.0)
    assert 20.0 < int(begins) < 40.0
    late = re.search(r"it will end (\w+) late on average; .*it begins in ~(\w+)$", found.why)
    assert duration_s(late[1]) == pytest.approx(end_s - TASK_S, abs=2.0)
    assert duration_s(late[2]) == pytest.approx(int(begins), abs=2.0)


async def test_how_an_array_stands_is_computed_once_for_all_its_tasks(world, monkeypatch):
    """A list of ten thousand tasks with targets took 10 s, half a second at a time."""
    world.host("h1", slots=20)
    reply = await world.submit(array(target_s=10 * TASK_S))
    await world.dispatcher.settled()
    foreseen, count = arrays.foreseen, Counter()

    def counted(one, now_s, begins):
        count[one.job.array] += 1
        return foreseen(one, now_s, begins)

    monkeypatch.setattr(arrays, "foreseen", counted)
    tasks = f"{reply.first}-{reply.first + 29}"
    found = (await world.jobs(selectors=[tasks], by_number=True)).jobs
    assert len(found) == 30
    assert all(job.target.why == found[-1].target.why for job in found if not job.host)
    assert all(job.target.expected_end > job.submitted for job in found)
    # for those in line, for those that run, and for why no more of them may
    assert 0 < count[reply.first] <= 3


async def test_the_next_dispatcher_continues_with_it(world, tmp_path):
    host = world.host("h1", slots=20)
    reply = await world.submit(array(target_s=10 * TASK_S))
    await world.dispatcher.settled()
    assert len(host.starts) >= 3
    for start in host.starts:
        report = pb.AttemptReport(job=start.job, attempt=start.attempt, event="begun")
        world.dispatcher.heard("h1", host, pb.WorkUp(reports=[report]))
    await world.dispatcher.settled()
    before = await target_of(world, reply.first)
    async with opened(tmp_path / "ledger.sqlite") as next_one:
        await next_one.dispatcher._restore()
        next_one.host("h1", slots=20)
        found = await target_of(next_one, reply.first)
    assert (found.at_once, found.running, found.left) == (before.running, before.running, 30)
    assert found.by == before.by
    assert found.HasField("expected_end")


async def test_under_another_mode_it_says_that_the_target_is_ignored(world, tmp_path):
    reply = await world.submit(array(target_s=10 * TASK_S))
    config = Config(dispatch=DispatchConfig(mode="random"))
    async with opened(tmp_path / "ledger.sqlite", config, mode="random") as next_one:
        await next_one.dispatcher._restore()
        found = await target_of(next_one, reply.first)
    assert found.why == "it has no slots reserved: that needs dispatch.mode fcfs"


async def test_a_job_without_a_target_has_none(world):
    reply = await world.submit(asking())
    assert await target_of(world, reply.first) is None


async def test_a_dispatcher_starts_with_whatever_work_an_older_one_let_in(world, tmp_path):
    """Half of so little work underflows to 0, and a mean of 0 s is invalid."""
    spec = asking().spec.SerializeToString()
    sent = Submission("ann", 1001, "h2", "", b"id", spec, slots=2, first_index=0, count=3,
                      target=time.time() + TASK_S, work_s=5e-324)  # fmt: skip
    accepted = await world.ledger.submit(sent, 1.0)
    async with opened(tmp_path / "ledger.sqlite") as next_one:
        await next_one.dispatcher._restore()
        host = next_one.host("h1", slots=20)
        await next_one.dispatcher.settled()
        assert host.starts
        assert (await target_of(next_one, accepted.first)).left == 3

"""A client that watches a job gets its state at once, and again at each change until it ends."""

import asyncio
import math
import time

import pytest

from lbd.dispatch import watching as watching_module
from lbd.dispatch.calls import LONG_OF_USER
from lbd.dispatch.core.ledger_rows import Wanted
from lbd.dispatch.core.records import Changed, Fate, Settle
from lbd.dispatch.ledger.batches import LATE_S, Batch, Batches
from lbd.dispatch.watching import (
    GATHER_ONE_S,
    PIECE_JOBS,
    RETOLD_MAX,
    Watchers,
    Watching,
)
from lbd.model import HostId, JobId, JobState
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.submitter import WATCHED_BYTES
from tests.unit.dispatch.services import asking


class Aborted(Exception):
    pass


class Context:
    """Records what the watcher is sent."""

    def __init__(self):
        self.sent = asyncio.Queue()

    async def write(self, data):
        found = pb.JobsInfo.FromString(data)
        if not found.ledger_token:
            self.sent.put_nowait([(job.id, job.state) for job in found.jobs])

    async def abort(self, code, text):
        raise Aborted(code, text)


async def until(condition):
    while not condition():  # noqa: ASYNC110  # it is told of nothing
        await asyncio.sleep(0)


def watch(world, context, **fields):
    asked = pb.JobsAsked(user="ann", selectors=["@me"], **fields).SerializeToString()
    return asyncio.create_task(world.desk._watch(asked, context))


async def test_a_long_submission_is_not_held_while_its_job_is_followed(world):
    """A few calls of one host could fill the dispatcher's memory for as long as it liked."""
    long = asking(command=[b""] * WATCHED_BYTES).SerializeToString()
    with pytest.raises(Aborted, match="16384 is the most"):
        async with asyncio.timeout(10):
            await world.desk._queue(long, Context())
    assert (await world.status()).queued == 0


async def test_each_change_is_sent(world):
    await world.submit(asking())
    context = Context()
    watching = watch(world, context)
    async with asyncio.timeout(10):
        assert await context.sent.get() == [(1, "pending")]
        await world.act(user="ann", verb="kill", selectors=["1"])
        assert await context.sent.get() == [(1, "cancelled")]
        await watching
    assert not len(world.dispatcher.watchers)


async def test_who_has_very_many_that_watch_is_told_less_often_why_a_job_waits(world, monkeypatch):
    """Looking up four thousand watched jobs every three seconds took all of its time."""
    monkeypatch.setattr(watching_module, "RETELL_S", 0.01)
    of_h2, of_h3 = Context(), Context()
    tasks = []
    await world.submit(asking())
    now_s, for_ever_s = time.monotonic(), watching_module.FOR_EVER_S
    # as if it had watched that many
    world.desk._watching._retold.turn_s("h2", now_s, for_ever_s, 1e6)
    for host, context in (("h2", of_h2), ("h3", of_h3)):
        world.trust.name = host
        tasks.append(watch(world, context))
        async with asyncio.timeout(10):
            assert await context.sent.get() == [(1, "pending")]
    async with asyncio.timeout(10):
        for _ in range(3):
            assert await of_h3.sent.get() == [(1, "pending")]
    assert of_h2.sent.empty()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_looks_for_the_watchers_of_one_user_come_at_a_pace(world):
    """2,800 watchers of a job that its host reported as stopped and continued, 10,000 times a
    message, kept all others from being answered."""
    contexts = Context(), Context()
    await world.submit(asking())
    # as if that user had had as many
    world.desk._watching._looks_of_user.turn_s(("h2", "ann"), time.monotonic(), math.inf, 1e6)
    tasks = []
    for user, context in zip(("ann", "bob"), contexts, strict=True):
        asked = pb.JobsAsked(user=user, selectors=["1"], by_number=True).SerializeToString()
        tasks.append(asyncio.create_task(world.desk._watch(asked, context)))
    async with asyncio.timeout(10):
        assert await contexts[1].sent.get() == [(1, "pending")]
    assert contexts[0].sent.empty()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_job_that_changes_very_often_at_once_is_news_once(world, monkeypatch):
    noted = []
    monkeypatch.setattr(Watchers, "notify", lambda _, job, **how: noted.append((job, how)))
    await world.submit(asking())
    change = Changed(JobId("1"), JobState.RUNNING, 1, 1, None, None, None, 0, "", frozenset())
    async with asyncio.timeout(10):
        await world.dispatcher.carry([change] * 100)
    assert noted.count(("1", {"has_ended": False})) <= 2  # of its submission, and this


@pytest.mark.parametrize("which", [["@me"], [f"1-{PIECE_JOBS + 1}"], []])
async def test_who_watches_many_has_a_share_of_the_time_and_who_watches_one_waits_for_none(
    world, which
):
    """A host that asked for a hundred thousand again and again kept others waiting for 11 s."""
    await world.submit(asking(is_array=True, first_index=1, count=PIECE_JOBS + 1))
    world.desk._calls._time_of_user.charge(("h2", "ann"), 1000.0)
    many, one = Context(), Context()
    asked = pb.JobsAsked(user="ann", selectors=which, by_number=which != ["@me"])
    watching = asyncio.create_task(world.desk._watch(asked.SerializeToString(), many))
    short = pb.JobsAsked(user="ann", selectors=["1"], by_number=True).SerializeToString()
    other = asyncio.create_task(world.desk._watch(short, one))
    async with asyncio.timeout(10):
        await one.sent.get()
    assert many.sent.empty()
    watching.cancel()
    other.cancel()


@pytest.mark.parametrize(("once_ended", "gather_s"), [(True, GATHER_ONE_S), (False, 60.0)])
async def test_with_once_ended_only_the_end_is_sent_and_so_it_is_where_the_end_comes_at_once(
    world, monkeypatch, once_ended, gather_s
):
    monkeypatch.setattr(watching_module, "GATHER_ONE_S", gather_s)
    await world.submit(asking())
    context = Context()
    watching = watch(world, context, once_ended=once_ended)
    async with asyncio.timeout(10):
        await until(lambda: len(world.dispatcher.watchers))
        await world.act(user="ann", verb="hold", selectors=["1"])
        await world.act(user="ann", verb="kill", selectors=["1"])
        await watching
    assert [await context.sent.get() for _ in range(context.sent.qsize())] == [[(1, "cancelled")]]


async def test_the_end_of_an_ended_job_is_sent_without_waiting(world, monkeypatch):
    monkeypatch.setattr(watching_module, "GATHER_ONE_S", 60.0)
    await world.submit(asking())
    await world.act(user="ann", verb="kill", selectors=["1"])
    context = Context()
    async with asyncio.timeout(10):
        await watch(world, context)
    assert await context.sent.get() == [(1, "cancelled")]


class QueueContext(Context):
    """Records the whole answer to a submitter, or a watcher."""

    async def write(self, data):
        found = pb.JobsInfo.FromString(data)
        if not found.ledger_token:
            self.sent.put_nowait(found)


@pytest.mark.parametrize("fields", [{}, {"count": 2, "is_array": True}], ids=["job", "array"])
async def test_a_client_that_submits_and_watches_gets_the_answer_and_then_each_change(
    world, fields
):
    context, queued = QueueContext(), asking(**fields)
    count = queued.count
    queueing = asyncio.create_task(world.desk._queue(queued.SerializeToString(), context))
    async with asyncio.timeout(10):
        submitted = (await context.sent.get()).submitted
        assert (submitted.error, submitted.first, submitted.count) == ("", 1, count)
        await world.act(user="ann", verb="kill", selectors=["1"])
        ended = set()
        while len(ended) < count:
            for job in (await context.sent.get()).jobs:
                ended |= {job.id} if job.state == "cancelled" else set()
        await queueing
    assert not len(world.dispatcher.watchers)


async def test_the_tasks_of_a_new_array_are_not_looked_up_to_be_followed(world, monkeypatch):
    """Their numbers are known: that read each row once more than needed."""
    monkeypatch.setattr(world.desk, "_finder", None)
    context, queued = QueueContext(), asking(count=2, is_array=True).SerializeToString()
    queueing = asyncio.create_task(world.desk._queue(queued, context))
    async with asyncio.timeout(10):
        assert not (await context.sent.get()).submitted.error
        assert {job.id for job in (await context.sent.get()).jobs} == {1}
    queueing.cancel()
    await asyncio.wait((queueing,))


async def test_of_a_new_array_one_waiting_task_is_sent_and_those_that_did_more_than_wait(world):
    """Each task was looked up as waiting, as leased, as running and as ended, and its client made
    no use of the first two."""
    count = 2 * RETOLD_MAX
    queued = asking(count=count, is_array=True, may_restart=False).SerializeToString()
    context, line = QueueContext(), world.host("h2", slots=2)
    queueing = asyncio.create_task(world.desk._queue(queued, context))
    async with asyncio.timeout(10):
        assert not (await context.sent.get()).submitted.error
        await until(lambda: len(line.starts) == 2)
        assert [job.id for job in (await context.sent.get()).jobs] == [1, 2]
        reports = [
            pb.AttemptReport(job="1", attempt=1, event="begun"),
            pb.AttemptReport(job="1", attempt=1, event="ended", cause="exited", exit_status=0),
        ]
        world.dispatcher.heard("h2", line, pb.WorkUp(reports=reports))
        await until(lambda: len(line.starts) == 3)
        sent = [(job.id, job.state) for job in (await context.sent.get()).jobs]
        assert sent == [(1, "done")]
    queueing.cancel()
    await asyncio.wait((queueing,))


async def test_a_client_that_submits_a_job_that_ended_long_ago_gets_its_end(world):
    await world.submit(asking(key="again"))
    await world.act(user="ann", verb="kill", selectors=["1"])
    context = QueueContext()
    async with asyncio.timeout(10):
        await world.desk._queue(asking(key="again").SerializeToString(), context)
    replies = [context.sent.get_nowait() for _ in range(2)]
    assert replies[0].submitted.first == 1
    assert [(job.id, job.state) for job in replies[1].jobs] == [(1, "cancelled")]


async def test_a_refused_submission_is_not_watched(world):
    context = QueueContext()
    async with asyncio.timeout(10):
        await world.desk._queue(asking(priority=1).SerializeToString(), context)
    assert "--priority" in context.sent.get_nowait().submitted.error
    assert context.sent.empty()


async def test_a_client_that_goes_away_is_forgotten(world):
    await world.submit(asking())
    context = Context()
    watching = watch(world, context)
    async with asyncio.timeout(10):
        await context.sent.get()
        watching.cancel()
        await asyncio.wait((watching,))
    assert not len(world.dispatcher.watchers)
    assert len(await world.ledger.find(Wanted())) == 1


def array(count, **fields):
    return asking(count=count, is_array=True, slots=60_000, **fields)


async def test_many_jobs_are_looked_up_a_few_at_a_time(world):
    """All jobs of an array were in memory at once, for each client that watched it: forty watches
    of a hundred thousand jobs, by one user, took the dispatcher two gigabytes."""
    sizes = []  # the first is that of the question which jobs exist
    find_all = world.ledger.find

    async def counted(wanted):
        rows = await find_all(wanted)
        sizes.append(len(rows))
        assert not any(row.command for row in rows)
        return rows

    await world.submit(array(3 * PIECE_JOBS + 1))
    context, world.ledger.find = Context(), counted
    watching = watch(world, context)
    async with asyncio.timeout(20):
        sent = []
        while len(sent) < 3 * PIECE_JOBS + 1:
            sent += await context.sent.get()
        assert sent == [(n, "pending") for n in range(1, 3 * PIECE_JOBS + 2)]
        assert max(sizes[1:]) <= PIECE_JOBS
        await world.act(user="ann", verb="kill", selectors=["@me"])
        ended = []
        while len(ended) < len(sent):
            ended += await context.sent.get()
        assert dict(ended) == dict.fromkeys(range(1, len(sent) + 1), "cancelled")
        await watching


async def test_what_one_user_watches_is_bounded_and_another_is_not_kept_from_it(world, monkeypatch):
    monkeypatch.setattr(watching_module, "WATCHED_OF_USER", 100)
    monkeypatch.setattr(watching_module, "WATCHED_OF_HOST", 150)
    world.desk._watching = Watching(
        world.dispatcher.watchers, world.ledger, world.desk._job_views, world.dispatcher.life.jobs
    )
    await world.submit(array(60))

    def watched_by(user, how, context=None):
        asked = pb.JobsAsked(user=user, selectors=["1-60"], by_number=True, **{how: True})
        watching = world.desk._watch(asked.SerializeToString(), context or QueueContext())
        return asyncio.create_task(watching)

    async with asyncio.timeout(20):
        first = watched_by("ann", "all_ended")
        await until(lambda: len(world.dispatcher.watchers))
        with pytest.raises(Aborted, match="ann is already waiting for 100 jobs"):
            await watched_by("ann", "once_ended")
        refused = QueueContext()
        await watched_by("ann", "all_ended", refused)
        assert refused.sent.get_nowait().error == "ann is already waiting for 100 jobs"
        second = watched_by("bob", "once_ended")
        await until(lambda: world.desk._watching._of_host.of("h2") == 120)
        with pytest.raises(Aborted, match="h2 is already waiting for 150 jobs"):
            await watched_by("eve", "once_ended")
        world.trust.name = "h3"
        third = watched_by("eve", "all_ended")
        await until(lambda: world.desk._watching._of_host.of("h3") == 60)
        tasks = first, second, third
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert world.desk._watching._of_host.held == world.desk._watching._of_user.held == 0
    assert not len(world.dispatcher.watchers)


async def test_few_long_questions_of_one_user_are_looked_into_at_once(world):
    """Other users of that host had to wait for all of them."""
    running, go_on = set(), asyncio.Event()

    async def slow(user, number):
        async with world.desk._calls.long("h2", user):
            running.add((user, number))
            await go_on.wait()

    tasks = [asyncio.create_task(slow(user, n)) for user in ("ann", "bob") for n in range(20)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert running == {(user, n) for user in ("ann", "bob") for n in range(LONG_OF_USER)}
    go_on.set()
    await asyncio.gather(*tasks)
    assert not len(world.desk._calls._long_of_user)


async def test_a_watching_client_is_told_once_that_a_change_takes_long_to_write():
    """Those behind the first late change were never told."""
    row = (1, 1, HostId("h1"), Fate.DONE, None, 0, "", frozenset())
    first, second = (Changed(JobId(job), JobState.DONE, *row) for job in "79")
    loop, batches = asyncio.get_running_loop(), Batches()
    saved = loop.create_future()
    for since_s, changed in ((100.0, first), (101.0, second)):
        actions = [changed, Settle(JobId("8"), 1, HostId("h1"))]
        batches.put(Batch(actions, saved, loop.create_future(), since_s))
    assert batches.late_jobs(100.0 + LATE_S / 2) == []
    assert batches.late_jobs(100.0 + LATE_S) == ["7"]
    assert batches.late_jobs(101.0 + LATE_S) == ["9"]
    assert batches.late_jobs(101.0 + 2 * LATE_S) == []
    assert batches.ran == {"7", "9"}
    saved.set_result(None)
    assert (await batches.next_saved()).actions[0] == first
    assert batches.ran == {"9"}

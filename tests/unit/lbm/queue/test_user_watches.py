"""Streams that tell of the ends of jobs, one for each user."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from lbd.lbm.owner.accounts import user_name
from lbd.lbm.queue import user_watches
from lbd.lbm.queue.user_watches import UserWatches
from lbd.net.gen import dispatch_pb2 as pb
from tests.unit.until import until

ONE, OTHER = 1001, 1002


class Queue:
    """Tells of jobs once they have ended; keeps the requests."""

    ledger = "1ed9e4"

    def __init__(self):
        self.asked = []
        self.changed = asyncio.Event()
        self.ended = set()

    async def watch(self, asked, ledger):
        self.asked.append(asked)
        ranges = (map(int, text.split("-")) for text in asked.selectors)
        jobs = {job for low, high in ranges for job in range(low, high + 1)}
        while jobs:
            changed = self.changed
            yield pb.JobsInfo(jobs=[pb.JobInfo(id=job) for job in jobs & self.ended])
            jobs -= self.ended
            await changed.wait() if jobs else None

    def end(self, *jobs):
        self.ended.update(jobs)
        self.changed.set()
        self.changed = asyncio.Event()


class Watcher(SimpleNamespace):
    """Watches jobs of these users until they have ended."""

    def jobs_of(self, uid, ledger):
        return dict.fromkeys(self.jobs[uid], uid)

    def job_ended(self, job, why):
        self.jobs[why].remove(job.id)


@contextlib.asynccontextmanager
async def watched(jobs):
    queue = Queue()
    watches = UserWatches(queue, Watcher(jobs=jobs))
    for uid in jobs:
        watches.look(uid)
    running = asyncio.create_task(watches.run())
    try:
        async with asyncio.timeout(20):
            yield queue, watches
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(user_watches, "PAUSE_S", 0.0)


def of_user(queue, uid):
    return [asked for asked in queue.asked if asked.user == user_name(uid)]


async def test_more_jobs_of_one_user_touch_no_stream_of_another():
    jobs = {ONE: {1}, OTHER: {2}}
    async with watched(jobs) as (queue, watches):
        await until(lambda: of_user(queue, ONE) and of_user(queue, OTHER))
        for job in range(3, 10):
            jobs[ONE].add(job)
            watches.look(ONE)
            await until(lambda job=job: of_user(queue, ONE)[-1].selectors[-1].endswith(f"{job}"))
        (asked,) = of_user(queue, OTHER)
        assert asked.selectors == ["2-2"]


async def test_a_stream_stays_until_all_of_its_jobs_were_looked_at(monkeypatch):
    jobs = {ONE: {1, 2}}
    monkeypatch.setattr(user_watches, "LOOKED_AT_PER_S", 1e-6)
    async with watched(jobs) as (queue, watches):
        await until(lambda: queue.asked)
        for job in range(3, 103):
            jobs[ONE].add(job)
            watches.look(ONE)
            await asyncio.sleep(0)
        monkeypatch.setattr(user_watches, "LOOKED_AT_PER_S", 1e6)
        queue.end(1, 2)
        await until(lambda: len(queue.asked) > 1)
        assert [one.selectors for one in queue.asked] == [["1-2"], ["3-102"]]


async def test_a_user_without_jobs_left_has_no_stream_until_there_are_more():
    jobs = {ONE: {1}}
    async with watched(jobs) as (queue, watches):
        queue.end(1)
        await until(lambda: not watches._fresh)
        names = (f"watch jobs of user {ONE}", f"stream of user {ONE}", f"await jobs of user {ONE}")
        await until(lambda: not {one.get_name() for one in asyncio.all_tasks()} & {*names})
        jobs[ONE].add(2)
        watches.look(ONE)
        queue.end(2)
        await until(lambda: not jobs[ONE])
        assert len(queue.asked) == 2


async def test_what_goes_wrong_in_a_stream_ends_that_stream_alone(monkeypatch):
    """A dispatcher that told of all jobs, and then of a fault, ended the LBM."""
    monkeypatch.setattr(user_watches, "RETRY_S", 0.0)
    jobs, faults = {ONE: {1}, OTHER: {2}}, []
    async with watched(jobs) as (queue, _):
        watch = queue.watch

        async def watch_badly(asked, ledger):
            async for reply in watch(asked, ledger):
                yield reply
            if asked.user == user_name(ONE) and not faults:
                faults.append("of the dispatcher")
                yield pb.JobsInfo(error="no such job")
                raise IndexError("of ours")

        queue.watch = watch_badly
        queue.end(1)
        await until(lambda: faults and not jobs[ONE])
        queue.end(2)
        await until(lambda: not jobs[OTHER])

"""`--notify`: its lines run once their jobs have ended, whatever others have queued."""

import asyncio
import contextlib
import errno
import threading
import time
from dataclasses import replace

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.keeper.limits.time_limits import KEEPER
from lbd.launch.directory_stamp import Stamp
from lbd.lbm.keeper_link import Forked, ProcessExit, Spawned, SpawnFailed
from lbd.lbm.queue import notifications, user_watches
from lbd.lbm.queue.dispatcher_client import AnotherLedger
from lbd.lbm.queue.notifications import Notifications
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from tests.unit.until import until

ONE, OTHER = 1001, 1002
WATCHED_MAX, ANSWER_MAX = 50, 500  # jobs: here, and in an answer of the dispatcher


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(user_watches, "PAUSE_S", 0.001)
    for module in (user_watches, notifications):
        monkeypatch.setattr(module, "RETRY_S", 0.01)
    monkeypatch.setattr(notifications, "WATCHED_MAX", WATCHED_MAX, raising=False)


class Queue:
    """A dispatcher with submissions of this many jobs; those in `ended` have ended."""

    def __init__(self, counts, most=ANSWER_MAX):
        self.counts, self.most = counts, most
        self.ended = set()
        self.state = "done"
        self.watched = []
        self.changed = asyncio.Event()
        self.ledger, self.when_ledger_changes = b"one".hex(), []

    def check(self, ledger):
        """An answer is believed only about jobs of its own ledger."""
        if ledger != self.ledger:
            raise AnotherLedger

    def first_of(self, job):
        return max(first for first in self.counts if first <= job)

    async def watch(self, asked, ledger):
        self.check(ledger)
        ranges = [tuple(map(int, text.split("-"))) for text in asked.selectors]
        jobs = {job for low, high in ranges for job in range(low, high + 1)}
        self.watched.append(len(jobs))
        if len(jobs) > self.most:
            yield pb.JobsInfo(error="more than that at once")
            return
        while jobs:
            self.changed.clear()
            now = sorted(jobs & self.ended)
            jobs -= self.ended
            found = pb.JobsInfo()
            for job in now:
                first = self.first_of(job)
                array = first if self.counts[first] > 1 else 0
                found.jobs.add(id=job, array_id=array, state="done")
            yield found
            await self.changed.wait()

    async def jobs(self, asked, ledger):
        self.check(ledger)
        first = int(asked.selectors[0])
        all_of_it = range(first, first + self.counts[first])
        open_ones = any(job not in self.ended for job in all_of_it)
        return pb.JobsInfo(
            jobs=[pb.JobInfo(id=first, state="running" if open_ones else self.state)]
        )

    def end(self, *jobs):
        self.ended.update(jobs)
        self.changed.set()


class AsUser:
    """Records who has started; the first starts meet `troubles`, one after another."""

    def __init__(self, *troubles, status=0):
        self.status = status
        self.begun = asyncio.Queue()
        self.troubles = list(troubles)

    async def begin(self, uid, order, _limit_s):
        if self.troubles:
            raise self.troubles.pop(0)
        self.begun.put_nowait((uid, order.environment[b"LBD_JOB_ID"].decode()))
        spawned = Spawned(lambda _: None)
        spawned.begun.set_result(Forked(1, ""))
        spawned.exited.set_result(ProcessExit(self.status << 8, 0.0, 0.0, 0, False))
        return spawned


def submitted(queue, first):
    """A submission, and the reply to it."""
    request = lbm_pb2.RunRequest(job_id="h1-1", user="u", directory=b"/")
    spec = pb.StoredSpec(run_request=request.SerializeToString())
    token = bytes.fromhex(queue.ledger)
    reply = pb.SubmitReply(first=first, count=queue.counts[first], ledger_token=token)
    return pb.SubmitRequest(spec=spec), reply


@contextlib.asynccontextmanager
async def running(tmp_path, queue, as_user, *owners):
    """Runs with a notice for each submission of these users."""
    made = Notifications(Config(host=HostConfig(state_dir=str(tmp_path))), as_user, queue)
    task = asyncio.create_task(made.run())
    try:
        for first, uid in zip(queue.counts, owners, strict=True):
            await made.queued(uid, b"true", Stamp("k", 1, 2), *submitted(queue, first))
        async with asyncio.timeout(20):
            yield made
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_large_array_that_never_begins_keeps_nobody_from_hearing(tmp_path):
    queue, as_user = Queue({1: ANSWER_MAX + 1, 500_000: 1}), AsUser()
    async with running(tmp_path, queue, as_user, ONE, OTHER):
        queue.end(500_000)
        assert await as_user.begun.get() == (OTHER, "500000")
    assert max(queue.watched) <= WATCHED_MAX + 1


async def test_neither_memory_nor_the_question_grows_with_the_array(tmp_path):
    queue, as_user = Queue({1: 499_999, 500_000: 1}, most=1 << 20), AsUser()
    async with running(tmp_path, queue, as_user, ONE, ONE) as made:
        queue.end(500_000)
        await as_user.begun.get()
        assert len(made._left[b"one".hex(), 1].watched) <= WATCHED_MAX
    assert max(queue.watched) <= WATCHED_MAX + 1


async def test_an_array_is_watched_in_pieces_and_notified_of_once(tmp_path):
    count = 2 * WATCHED_MAX + 1
    queue, as_user = Queue({1: count}), AsUser()
    async with running(tmp_path, queue, as_user, ONE) as made:
        queue.end(*range(1, count))
        await until(lambda: len(made._left[b"one".hex(), 1].watched) == 1)
        assert as_user.begun.empty()
        queue.end(count)
        assert await as_user.begun.get() == (ONE, "1")
        await until(lambda: not made._open)
    assert max(queue.watched) == WATCHED_MAX
    assert not list(made.store.all())


async def test_if_too_many_are_watched_each_is_looked_at_in_turn(tmp_path):
    queue, as_user = Queue({1: 5, 10: 1}, most=2), AsUser()
    async with running(tmp_path, queue, as_user, ONE, OTHER):
        queue.end(10)
        assert await as_user.begun.get() == (OTHER, "10")


@pytest.mark.parametrize(
    "trouble",
    [
        SpawnFailed(KEEPER, errno.ECANCELED),
        SpawnFailed("spawn", errno.EAGAIN),
        OSError(errno.EMFILE, "too many open files"),
    ],
)
async def test_what_passes_loses_no_notification_and_ends_nobody(tmp_path, trouble):
    queue, as_user = Queue({1: 1, 2: 1}), AsUser(trouble)
    async with running(tmp_path, queue, as_user, ONE, OTHER):
        queue.end(1, 2)
        assert {await as_user.begun.get() for _ in range(2)} == {(ONE, "1"), (OTHER, "2")}


async def test_a_failing_line_is_in_the_log_of_its_job(tmp_path, caplog):
    queue, as_user = Queue({1: 1}), AsUser(status=3)
    async with running(tmp_path, queue, as_user, ONE):
        queue.end(1)
        await until(lambda: "--notify: it ended with exit status 3" in caplog.text)
    (said,) = [one for one in caplog.records if "exit status 3" in one.getMessage()]
    assert said.levelname == "WARNING"


async def test_a_line_that_cannot_be_run_is_given_up(tmp_path):
    queue, as_user = Queue({1: 1, 2: 1}), AsUser(SpawnFailed("chdir", errno.ENOENT))
    async with running(tmp_path, queue, as_user, ONE, ONE) as made:
        queue.end(1)
        queue.end(2)
        assert await as_user.begun.get() in ((ONE, "1"), (ONE, "2"))
        await until(lambda: not made._open)


async def test_a_job_that_was_requeued_meanwhile_is_watched_again(tmp_path):
    queue, as_user = Queue({1: 1}), AsUser()
    queue.state = "pending"
    async with running(tmp_path, queue, as_user, ONE):
        queue.end(1)
        await until(lambda: len(queue.watched) > 2)
        assert as_user.begun.empty()
        queue.state = "done"
        assert await as_user.begun.get() == (ONE, "1")


async def test_a_slow_disk_delays_nobody_when_a_line_has_run(tmp_path, monkeypatch):
    queue, as_user, threads = Queue({1: 1}), AsUser(), []
    drop = notifications.NoticeStore.drop

    def dropping(self, notice):
        threads.append(threading.current_thread())
        drop(self, notice)

    monkeypatch.setattr(notifications.NoticeStore, "drop", dropping)
    async with running(tmp_path, queue, as_user, ONE) as made:
        queue.end(1)
        await as_user.begun.get()
        await until(lambda: not made._open)
    assert threads
    assert threading.main_thread() not in threads
    assert not list(made.store.root.iterdir())


async def test_another_ledgers_job_of_the_same_number_is_not_notified_of(tmp_path):
    queue, as_user = Queue({1: 1}), AsUser()
    async with running(tmp_path, queue, as_user, ONE) as made:
        await until(lambda: queue.watched)
        queue.ledger = b"two".hex()
        queue.ended.add(1)
        watched = len(queue.watched)
        for tell in queue.when_ledger_changes:
            tell()
        await made.queued(OTHER, b"true", Stamp("k", 1, 2), *submitted(queue, 1))
        assert await as_user.begun.get() == (OTHER, "1")
        await until(lambda: len(made._open) == 1)
        assert len({path.name for path in made.store.root.iterdir()}) == 1
        assert len(queue.watched) == watched + 1
        queue.ledger = b"one".hex()
        for tell in queue.when_ledger_changes:
            tell()
        assert await as_user.begun.get() == (ONE, "1")
        await until(lambda: not made._open)


async def test_a_notice_of_a_ledger_that_is_gone_for_long_goes(tmp_path, monkeypatch):
    """They count as its user's, of whom each may have only so many."""
    queue, as_user = Queue({1: 1, 2: 1}), AsUser()
    async with running(tmp_path, queue, as_user, ONE, ONE) as made:
        old_s = time.time() - 91 * notifications.DAY_S
        (old, young) = made._open.values()
        made._open[old.key] = replace(old, since=old_s)
        await made._drop_strangers(time.time())
        assert len(made._open) == 2
        queue.ledger = b"two".hex()
        await made._drop_strangers(time.time())
        assert list(made._open.values()) == [young]

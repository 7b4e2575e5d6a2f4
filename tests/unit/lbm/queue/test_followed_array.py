"""An `lbrun -q --array` at its origin: the effect of an interrupt, and the final message."""

import asyncio
import os

import pytest

from lbd.lbm.queue import follow
from lbd.lbm.queue.follow import FollowedJobs
from lbd.lbm.queue.followed_array import KILL, FollowedArray
from lbd.local import client_tags as tags
from lbd.local.frames import fields
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.job_phrases import is_taken_by_none, refused_for_now

INT, USR1 = 2, 10
INDEXES = ((1, 9, 4), (12, 12, 1))  # 1, 5, 9, 12


class Queue:
    """Records what it is asked to do."""

    def __init__(self):
        self.acts = []

    async def act(self, asked):
        self.acts.append((asked.verb, list(asked.selectors), asked.by_number, asked.signal,
                          asked.cancels_waiting))  # fmt: skip


def attached(array=True, progress=False):
    sent, queue = [], Queue()

    async def send(tag, data):
        sent.append((tag, data))

    found = FollowedJobs(
        queue, None, "ann", 1000, "1ed9e4", "7", "7-10" if array else "7", send, ""
    )
    if array:
        found.array = FollowedArray("7", INDEXES, progress)
    return found, queue, sent


async def hear(found, *received):
    """Sends these messages; then the client is gone."""
    lists = [list(received), []]

    async def listen():
        await asyncio.sleep(0)
        return lists.pop(0)

    await found.listen(listen, [])


@pytest.mark.parametrize(
    ("tag", "body", "order"),
    [
        (tags.SIGNAL, bytes((INT,)), ("kill", ["7-10"], True, INT, True)),
        (tags.SIGNAL, bytes((USR1,)), ("kill", ["7-10"], True, USR1, False)),
        (tags.FORCE, b"", ("kill", ["7-10"], True, 9, False)),
    ],
)
async def test_an_interrupt_also_applies_to_waiting_tasks(tag, body, order):
    found, queue, _ = attached()
    await hear(found, (tag, body))
    assert queue.acts == [order]
    assert found.interrupted == (INT if body == bytes((INT,)) else 0)


@pytest.mark.parametrize(
    ("array", "ended", "frames", "said"),
    [
        (True, (), [(tags.SIGNAL, b"\2")], ["4 tasks; press ^C twice within a second to end them"]),
        (True, (7, 8, 9), [(tags.SIGNAL, b"\2")],
         ["1 task; press ^C twice within a second to end it"]),
        (True, (7, 8, 9, 10), [(tags.SIGNAL, b"\2")], []),
        (True, (), [(tags.FORCE, b""), (tags.SIGNAL, b"\2")], []),
        (True, (), [(tags.SIGNAL, bytes((USR1,)))], []),
        (False, (), [(tags.SIGNAL, b"\2")], ["the job; press ^C twice within a second to end it"]),
    ],
)  # fmt: skip
async def test_who_interrupts_what_goes_on_learns_how_to_end_it(
    monkeypatch, array, ended, frames, said
):
    """Tasks that ignored ^C just went on, with no word about it."""
    monkeypatch.setattr(follow, "ADVICE_AFTER_S", 0.0)
    found, _, sent = attached(array)
    for number in ended:
        found._ended.add(task(number, "failed", 130, INT, "signalled"))
    for tag, body in frames:
        found._act_soon(KILL if tag == tags.FORCE else body[0])
    while found._orders.under_way:
        await asyncio.gather(*found._orders.under_way.values())
    assert sent == [(tags.WARN, f"waiting for {one} by force".encode()) for one in said]


async def test_signals_without_end_are_few_orders_and_none_of_them_is_forgotten():
    """A client that sent half a million kept its host and the dispatcher busy for minutes: each was
    an order of its own, and each looked for the dispatcher."""
    found, queue, _ = attached()
    acts, answered = queue.act, asyncio.Event()

    async def slow(asked):
        await answered.wait()
        await acts(asked)

    queue.act = slow
    for number in [USR1, INT, USR1] * 1000:
        found._act_soon(number)
        await asyncio.sleep(0)
    assert len(found._orders.under_way) == 2
    answered.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert [number for *_, number, _ in queue.acts] == [USR1, USR1, INT, INT]
    found._orders.close()


async def test_a_signal_that_comes_as_the_order_before_ends_is_given_too():
    """The order had been answered, but its task was still on record for a moment."""
    found, queue, _ = attached()
    found._act_soon(USR1)
    task = found._orders.under_way[USR1]
    while not task.done():  # noqa: ASYNC110
        await asyncio.sleep(0)
    found._act_soon(USR1)
    for _ in range(5):
        await asyncio.sleep(0)
    assert [number for *_, number, _ in queue.acts] == [USR1, USR1]
    assert not found._orders.under_way
    assert not found._orders.repeated


async def test_for_a_single_job_the_dispatcher_and_its_host_know_whether_it_has_started():
    found, queue, _ = attached(array=False)
    await hear(found, (tags.SIGNAL, bytes((INT,))))
    assert queue.acts == [("kill", ["7"], True, INT, True)]


async def test_a_job_that_no_host_takes_now_says_so_once_also_without_a_terminal():
    """In cron nothing was said, so that the job seemed to run, until the evening."""
    found, _, sent = attached(array=False)
    refused = "no host takes it now; h1: excluded (-x); h2: no, until 18:00"
    reasons = refused, "next, as soon as a slot is free on h3", refused
    reasons += (refused.replace("-x", "-x, or it could not begin there"),)  # when asked again
    for reason in reasons:
        await found._heard(pb.JobInfo(id=7, state="pending", reason=reason))
    assert sent == [
        (tags.WARN, f"job 7 waits: {refused}".encode()), (tags.WAITS, reasons[1].encode())
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "is_refused"),
    [
        ("no host accepts jobs: 2 hosts drained", True),
        ("no host accepts jobs: none has connected since the dispatcher started", False),
        ("no host accepts jobs: 1 host drained, 1 host out of contact", False),
        (refused_for_now("h2", "not bob"), True),
        ("it may run only on h2 (-H): h2 was stopped; it begins when h2 is back", False),
    ],
)
def test_what_may_be_over_in_a_moment_is_no_refusal(reason, is_refused):
    assert is_taken_by_none(reason) == is_refused


def task(number, state, status=None, signal=0, cause="exited"):
    index = (1, 5, 9, 12)[number - 7]
    return pb.JobInfo(id=number, state=state, exit_status=status, signal=signal, cause=cause,
                      array_id=7, array_index=index)  # fmt: skip


async def end_of(jobs, interrupted=0, array=True):
    found, _, sent = attached(array=array)
    found.interrupted = interrupted
    for job in jobs:
        found._ended.add(job)
    await found._report_end()
    ((tag, body),) = sent
    assert tag == tags.DONE
    told = dict(fields(body))
    number = int(told[tags.SIGNAL_NUMBER] or 0)
    return int(told[tags.STATUS]), number, told[tags.REASON].decode()


ALL_DONE = [task(n, "done", 0) for n in (7, 8, 9, 10)]


async def test_the_end_of_an_array():
    assert await end_of(ALL_DONE) == (0, 0, "")
    two = [task(10, "failed", 1), task(8, "failed", 137, 9, "signalled"), *ALL_DONE[::2]]
    line = "2 of 4 tasks failed: 5 (signal 9), 12 (exit 1); lbctl logs 7_5"
    assert await end_of(two) == (137, 0, line)
    lost = [*ALL_DONE[:3], task(10, "lost", cause="lost")]
    assert await end_of(lost) == (125, 0, "1 of 4 tasks failed: 12 (lost); lbctl logs 7_12")
    cancelled = [task(7, "cancelled", cause="cancelled"), *ALL_DONE[1:]]
    assert await end_of(cancelled) == (125, 0, "1 of 4 tasks was cancelled")


async def test_the_end_of_an_interrupted_array():
    jobs = [ALL_DONE[0], task(8, "failed", 130, 2, "signalled"), task(9, "failed", 3),
            task(10, "cancelled")]  # fmt: skip
    line = "interrupted: 1 done, 2 failed (1 by the interrupt), 1 cancelled (never started)"
    assert await end_of(jobs, INT) == (130, 0, line)
    assert (await end_of(ALL_DONE, INT))[0] == 0  # it came too late
    jobs[-1].started = 5.0  # and was then ended by lbctl kill
    line = "interrupted: 1 done, 2 failed (1 by the interrupt), 1 cancelled"
    assert await end_of(jobs, INT) == (130, 0, line)
    waited = [task(7, "cancelled", cause="")]
    assert (await end_of(waited, INT, array=False))[0] == 130
    assert (await end_of(waited, array=False))[0] == 125


async def test_progress_is_sent_if_it_is_shown():
    for shown in (True, False):
        found, _, sent = attached(progress=shown)
        await found._report_progress([task(7, "running"), task(8, "done", 0)])
        await found._report_progress([task(7, "done", 0)])
        lines = [b"1/4 done, 1 running", b"2/4 done"] if shown else []
        assert [data.partition(b", about")[0] for _, data in sent] == lines


class Replies:
    """The replies to a watch: `count` tasks in pieces, each with the longest possible text."""

    def __init__(self, count, piece=500):
        self.count, self.piece, self.taken = count, piece, 0

    async def watch(self, asked, ledger):
        assert ledger == "1ed9e4"
        for first in range(7, 7 + self.count, self.piece):
            self.taken += 1
            reply = pb.JobsInfo()
            for number in range(first, min(first + self.piece, 7 + self.count)):
                reply.jobs.add(id=number, state="failed", exit_status=1, array_index=number - 6,
                               array_id=7, cause="exited", reason="x" * 1000)  # fmt: skip
            yield reply


def attached_to(replies, send):
    count = replies.count
    found = FollowedJobs(replies, None, "ann", 1000, "1ed9e4", "7", f"7-{6 + count}", send, "")
    found.array = FollowedArray("7", ((1, count, 1),), True)
    return found


async def test_almost_nothing_is_kept_of_a_huge_array():
    """The texts of its tasks would be 60 MB."""
    sent = []

    async def send(tag, data):
        sent.append((tag, data))
        del sent[:-1]

    found = attached_to(Replies(60_000), send)
    before = resident_bytes()
    await found.follow()
    assert resident_bytes() - before < 20 << 20
    said = dict(fields(sent[0][1]))[tags.REASON].decode()
    assert said.startswith("60000 of 60000 tasks failed: 1 (exit 1), 2 (exit 1)")


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_while_the_client_is_stopped_nothing_more_is_read_for_it():
    stands_still = asyncio.Event()

    async def send(tag, data):
        stands_still.set()
        await asyncio.Event().wait()

    replies = Replies(60_000)
    following = asyncio.create_task(attached_to(replies, send).follow())
    await stands_still.wait()
    for _ in range(100):
        await asyncio.sleep(0)
    assert replies.taken == 1
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)

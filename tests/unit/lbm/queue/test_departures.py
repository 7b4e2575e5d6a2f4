"""`lbrun -q` clients that leave while their jobs wait or run: all of these jobs end."""

import asyncio

import pytest

from lbd.errors import Unavailable
from lbd.lbm.queue import departures
from lbd.lbm.queue.departures import Departures
from lbd.net.gen import dispatch_pb2 as pb

ANN, BOB = ("ann", 1000, "1ed9e4"), ("bob", 1001, "1ed9e4")


class Queue:
    """A dispatcher that takes a while for an order, and sometimes fails or ends only some jobs."""

    def __init__(self, jobs, *, away_times=0, refuses=()):
        self.running = set(jobs)
        self.away_times = away_times
        self.refuses = dict(refuses)  # number of refusals by job
        self.orders = []

    async def act(self, request, ledger):
        assert (request.verb, request.signal, request.by_number) == ("kill", 0, True)
        self.orders.append((request.user, list(request.selectors)))
        await asyncio.sleep(0)
        self.away_times -= 1
        if self.away_times >= 0:
            raise Unavailable("the dispatcher on h1 does not answer")
        reply = pb.ActReply()
        for job in map(int, request.selectors):
            if self.refuses.get(job, 0):
                self.refuses[job] -= 1
                reply.errors.append(f"job {job}: not now")
            elif job in self.running:
                self.running.discard(job)
                reply.done_ids.append(str(job))
        if not reply.done_ids:
            reply.errors.append("nothing to kill: all these jobs have ended")
        return reply

    async def jobs(self, asked, ledger):
        states = {job: "running" if job in self.running else "done"
                  for job in map(int, asked.selectors)}  # fmt: skip
        return pb.JobsInfo(jobs=[pb.JobInfo(id=job, state=state) for job, state in states.items()])


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(departures, "AGAIN_S", 0.0)


async def all_leave(queue, jobs, who=ANN):
    left = Departures(queue)
    await asyncio.gather(*(left.end(who, str(job)) for job in jobs))
    assert not left._of_users
    return left


async def test_of_many_that_go_together_each_job_ends_by_a_few_orders():
    """With one order per job, the last of a few hundred came too late, and their jobs continued."""
    queue = Queue(range(1, 501))
    await all_leave(queue, range(1, 501))
    assert not queue.running
    assert len(queue.orders) < 5


async def test_no_order_has_more_jobs_than_a_dispatcher_accepts(monkeypatch):
    monkeypatch.setattr(departures, "AT_ONCE", 10)
    queue = Queue(range(1, 101))
    await all_leave(queue, range(1, 101))
    assert not queue.running
    assert max(len(selectors) for _, selectors in queue.orders) == 10


async def test_what_an_order_has_not_ended_is_ended_by_the_next():
    """The errors in the reply were ignored: such a job continued."""
    queue = Queue(range(1, 6), refuses={3: 2, 5: 4})
    await all_leave(queue, range(1, 6))
    assert not queue.running
    assert ("ann", ["3"]) in queue.orders  # one that cannot be ended does not delay the others


async def test_a_dispatcher_that_is_away_is_asked_again():
    queue = Queue([1, 2, 3], away_times=4)
    await all_leave(queue, [1, 2, 3])
    assert not queue.running


async def test_a_job_that_has_ended_by_itself_causes_no_error(caplog):
    queue = Queue([])
    await all_leave(queue, [1])
    assert queue.orders == [("ann", ["1"])]
    assert not caplog.records


async def test_a_job_that_never_ends_is_given_up_and_reported(monkeypatch, caplog):
    monkeypatch.setattr(departures, "GIVE_UP_S", 0.0)
    await all_leave(Queue([1], refuses={1: 10**9}), [1])
    assert "job 1 keeps running although its lbrun has gone: job 1: not now" in caplog.text


async def test_users_neither_wait_for_each_other_nor_share_an_order():
    queue = Queue([1, 2])
    left = Departures(queue)
    await asyncio.gather(left.end(ANN, "1"), left.end(BOB, "2"))
    assert sorted(queue.orders) == [("ann", ["1"]), ("bob", ["2"])]
    assert not queue.running


async def test_a_cancelled_wait_delays_nobody():
    queue = Queue([1, 2], away_times=3)
    left = Departures(queue)
    first = asyncio.create_task(left.end(ANN, "1"))
    second = asyncio.create_task(left.end(ANN, "2"))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert 2 not in queue.running
    assert not left._of_users

"""Arrays as the dispatcher reports them: one line, their tasks, and orders about either."""

import pytest

from lbd.dispatch import orders
from lbd.dispatch.array_view import next_waiting
from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.job_selection import no_last
from lbd.dispatch.core.ledger_rows import Tally
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.records import Cause, Ending
from lbd.dispatch.core.shares import Rules
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.job_finder import JobFinder
from lbd.model import HostId, JobId
from lbd.net.gen import dispatch_pb2, lbm_pb2
from lbd.net.gen.dispatch_pb2 import Update
from lbd.net.submitter import request_in
from lbd.process.boot_clock import clock_s
from tests.unit.dispatch.services import HostConnection, asking, opened, request

WHO = {"user": "ann", "uid": 1001}
H1 = HostId("h1")
ARRAY = {"is_array": True, "first_index": 1, "count": 5}


@pytest.fixture
async def world(tmp_path):
    async with opened(tmp_path / "ledger.sqlite", rules=Rules(priorities=True)) as world:
        yield world


def host(world, slots):
    world.dispatcher.lines[H1] = HostConnection()
    life, rng = world.dispatcher.life, world.dispatcher.rng
    world.dispatcher.carry(life.host_is(HostSlots(H1, slots), clock_s(), rng))


async def begun(world, *jobs):
    for job in jobs:
        world.dispatcher.carry(world.dispatcher.life.begun(H1, JobId(job), 1))
    await world.dispatcher.settled()


async def ended(world, job, status):
    ending = Ending(Cause.EXITED, status, 0, 1.5)
    life, rng = world.dispatcher.life, world.dispatcher.rng
    world.dispatcher.carry(life.ended(H1, JobId(job), 1, ending, clock_s(), rng))
    await world.dispatcher.settled()


async def states(world):
    found = await world.jobs(selectors=["@me"], ended_too=True, **WHO)
    return {f"{job.array_id}_{job.array_index}" if job.array_id else str(job.id): job.state
            for job in found.jobs}  # fmt: skip


async def test_an_array_is_one_line_beside_its_tasks(world):
    await world.submit(asking())
    asked = asking(is_array=True, first_index=3, count=0, indexes="3-9:2,20", at_once=2)
    reply = await world.submit(asked)
    assert (reply.error, reply.first, reply.count) == ("", 2, 5)
    host(world, 4)
    await begun(world, "1", "2", "3")
    await ended(world, "2", 7)
    found = await world.jobs(by_array=True, ended_too=True, **WHO)
    assert [(job.id, job.HasField("array")) for job in found.jobs] == [(1, False), (2, True)]
    array = found.jobs[1]
    assert (array.array_id, array.state, array.HasField("array_index")) == (2, "running", False)
    assert {name: n for name, n in array.array.tasks.items() if n} == {
        "running": 1, "pending": 3, "failed": 1}  # fmt: skip
    # One of these three has been given to the host, which has not reported its start yet.
    assert (array.array.indexes, array.array.waiting, array.array.at_once) == (
        "3-9:2,20", "7-9:2,20", 2)  # fmt: skip
    assert [(one.index, one.state, one.exit_status) for one in array.array.bad] == [
        (3, "failed", 7)
    ]
    (task,) = (await world.jobs(selectors=["2_5"], by_array=True, **WHO)).jobs
    assert (task.id, task.array_id, task.array_index) == (3, 2, 5)
    (again,) = (await world.jobs(selectors=["2"], by_array=True, **WHO)).jobs
    again.array.expected_end = array.array.expected_end  # it was said at another time
    assert again.array == array.array
    numbers = await world.jobs(selectors=["2"], by_number=True, **WHO)
    assert [job.id for job in numbers.jobs] == [2]


async def test_an_array_says_why_its_tasks_are_suspended(world):
    await world.submit(asking(is_array=True, first_index=1, count=2))
    host(world, 2)
    await begun(world, "1", "2")
    life = world.dispatcher.life
    world.dispatcher.carry(
        life.stopped(H1, JobId("2"), 1, True, clock_s(), "h1's owner has been back", "")
    )
    await world.dispatcher.settled()
    (array,) = (await world.jobs(selectors=["1"], by_array=True, **WHO)).jobs
    assert (array.state, array.reason) == ("running", "h1's owner has been back")


@pytest.mark.parametrize(
    ("waiting", "held", "first"),
    [
        ([(3, 9)], [], 3),
        ([(3, 9)], [(3, 5), (7, 7)], 6),
        ([(3, 4), (8, 9)], [(3, 4), (8, 8)], 9),
        ([(3, 9)], [(3, 9)], 3),
        ([(3, 9)], [(4, 9)], 3),
    ],
)
def test_the_reason_of_an_array_is_that_of_its_first_task_that_is_not_held(waiting, held, first):
    assert next_waiting(Tally({}, None, None, None, 0, 0, waiting, held)) == first


async def test_an_array_tells_its_held_tasks_from_those_that_wait_for_a_slot(world):
    await world.submit(asking(**ARRAY))
    await world.act(verb="hold", selectors=["1_[1-2]", "1_4"], **WHO)
    (array,) = (await world.jobs(selectors=["1"], by_array=True, **WHO)).jobs
    assert (array.array.tasks["pending"], array.array.held) == (5, 3)
    assert (array.array.held_indexes, array.reason.startswith("held")) == ("1-2,4", False)
    await world.act(verb="hold", selectors=["1"], **WHO)
    (array,) = (await world.jobs(selectors=["1"], by_array=True, **WHO)).jobs
    assert (array.array.held, array.reason) == (5, "held by ann")
    await world.act(verb="release", selectors=["1"], **WHO)
    (array,) = (await world.jobs(selectors=["1"], by_array=True, **WHO)).jobs
    assert (array.array.held, array.array.held_indexes) == (0, "")


async def test_a_running_array_does_not_forecast_the_start_of_a_task(world):
    await world.submit(asking(is_array=True, first_index=1, count=2))
    host(world, 2)
    (array,) = (await world.jobs(selectors=["1"], by_array=True, **WHO)).jobs
    assert (array.state, array.reason) == ("pending", "starting on h1")
    await begun(world, "1")
    (array,) = (await world.jobs(selectors=["1"], by_array=True, **WHO)).jobs
    assert (array.state, array.reason) == ("running", "")


async def test_orders_apply_to_tasks_or_to_all_that_have_not_ended(world):
    await world.submit(asking(**ARRAY))
    await world.submit(asking())
    done = await world.act(verb="kill", selectors=["1_2", "1_[4-9]"], **WHO)
    assert list(done.errors) == ["array 1 has no task 6-9; its indexes are 1-5"]
    assert list(done.done_ids) == ["1_2", "1_4", "1_5"]
    done = await world.act(verb="hold", selectors=["1"], **WHO)
    assert (list(done.errors), list(done.done_ids)) == ([], ["1_1", "1_3"])
    done = await world.act(verb="release", selectors=["1_3", "6"], **WHO)
    assert (list(done.errors), list(done.done_ids)) == ([], ["1_3", "6"])
    done = await world.act(verb="kill", selectors=["1-2"], **WHO)
    assert list(done.done_ids) == ["1_1", "1_3"]  # all of 1; there is no job 2
    done = await world.act(verb="kill", selectors=["1"], **WHO)
    assert list(done.errors) == ["nothing to kill: all these jobs have ended"]
    done = await world.act(verb="kill", selectors=["1_3"], **WHO)
    assert list(done.errors) == ["job 1_3 has ended"]


VERBS = ("kill", "hold", "release", "requeue", "update")


@pytest.mark.parametrize("verb", VERBS)
async def test_an_order_applies_to_jobs_that_exist_and_names_those_that_do_not(world, verb):
    """One wrong id among many, and nothing was killed."""
    await world.submit(asking())
    await world.submit(asking())
    await world.submit(asking({"user": "bob"}, **ARRAY, user="bob"))
    if verb == "requeue":
        await world.act(verb="kill", selectors=["1-2"], **WHO)
    selectors = ["1", "99", "3_3", "98", "3_77", "8-9", "last"]
    update = Update(name="night") if verb == "update" else None
    done = await world.act(verb=verb, selectors=selectors, update=update, user="ann", uid=1001)
    assert list(done.done_ids) == ["1", "2"]  # 2 is the last
    expected = {
        "3_3": "permission denied: job 3_3 is not yours",
        "99": "no job 99 in the queue",
        "98": "no job 98 in the queue",
        "3_77": "array 3 has no task 77; its indexes are 1-5",
        "8-9": "no job 8-9 in the queue",
    }
    assert sorted(done.errors) == sorted(expected.values())
    given = {job: one.error.replace(f"job {one.ids[0]} ", f"job {job} ")
             for one in done.failures for job in one.ids}  # fmt: skip
    assert given == expected


@pytest.mark.parametrize("verb", VERBS)
async def test_if_none_of_them_exists_it_applies_to_none(world, verb):
    await world.submit(asking())
    asked = {"update": Update(name="night")} if verb == "update" else {}
    for selectors, lines in (
        (["99", "98"], ["no job 99 in the queue", "no job 98 in the queue"]),
        (["7_1"], ["no job 7_1 in the queue"]),
        (["last_1"], [no_last("cid")]),
    ):
        done = await world.act(verb=verb, selectors=selectors, user="cid", uid=1003, **asked)
        assert (list(done.errors), list(done.done_ids)) == (lines, [])
        assert [name for one in done.failures for name in one.ids] == selectors


@pytest.mark.parametrize("by_array", [True, False])
async def test_of_several_ids_those_that_exist_are_found(world, by_array):
    await world.submit(asking())
    await world.submit(asking(**ARRAY))
    asked = {"user": "ann", "uid": 1001, "by_array": by_array}
    selectors = ["1", "99", "2_77", "98"]
    found = await world.jobs(selectors=selectors, some=True, **asked)
    assert [job.id for job in found.jobs] == [1]
    assert list(found.absent) == [
        "array 2 has no task 77; its indexes are 1-5", "no job 99, 98 in the queue"
    ]  # fmt: skip
    ranges = await world.jobs(selectors=["1-3", "90-95"], some=True, **asked)
    assert list(ranges.absent) == ["no job 90-95 in the queue"]
    alone = await world.jobs(selectors=["99", "98"], some=True, **asked)
    assert (alone.error, list(alone.jobs)) == ("no job 99, 98 in the queue", [])
    for wanted in (["2_77"], ["last"]):  # of somebody who has none
        alone = await world.jobs(selectors=wanted, some=True, user="cid", uid=1003)
        assert alone.error
        assert not alone.jobs
    assert (await world.jobs(selectors=selectors, **asked)).error


async def test_jobs_that_are_held_or_released_twice_are_no_fault(world):
    await world.submit(asking(**ARRAY))
    await world.submit(asking())
    for verb, unheld in (("release", 6), ("hold", 0), ("hold", 0), ("release", 0), ("release", 6)):
        done = await world.act(verb=verb, selectors=["1", "6"], **WHO)
        assert (list(done.errors), len(done.done_ids), len(done.not_held)) == ([], 6, unheld)
    host(world, 1)
    await begun(world, "1")
    done = await world.act(verb="release", selectors=["1_1"], **WHO)
    assert list(done.errors) == ["job 1_1 is already running; only pending jobs can be released"]


async def test_orders_for_many_jobs_skip_those_they_do_not_fit(world):
    """`lbctl kill` of an array failed if a task ended before the order came, and so did `hold` of
    an array that partly ran."""
    await world.submit(asking(**ARRAY))
    host(world, 2)
    await begun(world, "1", "2")
    done = await world.act(verb="hold", selectors=["1"], **WHO)
    assert (list(done.errors), list(done.done_ids)) == ([], ["1_3", "1_4", "1_5"])
    done = await world.act(verb="release", selectors=["1_[1-4]"], **WHO)
    assert (list(done.errors), list(done.done_ids)) == ([], ["1_3", "1_4"])
    done = await world.act(verb="kill", selectors=["1"], signal=12, **WHO)
    assert (list(done.errors), list(done.done_ids)) == ([], ["1_1", "1_2"])
    done = await world.act(verb="hold", selectors=["@me", "1_1"], **WHO)
    assert list(done.errors) == ["job 1_1 is already running; only pending jobs can be held"]
    done = await world.act(verb="hold", selectors=["1_[1-2]"], **WHO)
    assert list(done.errors) == [
        "job 1_1 is already running; only pending jobs can be held; and 1 more"
    ]
    done = await world.act(verb="requeue", selectors=["1"], **WHO)
    assert (list(done.errors), list(done.done_ids)) == ([], ["1_1", "1_2"])


async def test_tasks_that_end_before_a_kill_arrives_are_skipped(world, monkeypatch):
    await world.submit(asking(**ARRAY))
    host(world, 2)
    await begun(world, "1", "2")
    found = JobFinder.to_act_on

    async def late(*given, **named):
        rows = await found(*given, **named)
        await ended(world, "2", 0)
        return rows

    monkeypatch.setattr(JobFinder, "to_act_on", late)
    done = await world.act(verb="kill", selectors=["1"], **WHO)
    assert (list(done.errors), list(done.done_ids)) == ([], ["1_1", "1_3", "1_4", "1_5"])


async def test_a_task_that_was_sent_but_has_not_started_is_not_reported_as_running(world):
    await world.submit(asking())
    host(world, 1)
    done = await world.act(verb="hold", selectors=["1"], **WHO)
    assert list(done.errors) == ["job 1 is about to start on h1; only pending jobs can be held"]


async def test_only_failed_tasks_are_requeued(world):
    await world.submit(asking(**ARRAY))
    host(world, 2)
    for job, status in (("1", 0), ("2", 3), ("3", 0)):
        await begun(world, job)
        await ended(world, job, status)
    await world.act(verb="kill", selectors=["1_[4-5]"], signal=9, **WHO)
    done = await world.act(verb="requeue-failed", selectors=["1"], **WHO)
    assert (list(done.errors), list(done.done_ids)) == ([], ["1_2"])
    done = await world.act(verb="requeue-failed", selectors=["1_1"], **WHO)
    assert list(done.errors) == ["nothing to requeue: none of these jobs has failed"]


async def test_an_interrupt_cancels_pending_tasks_and_signals_the_rest(world):
    await world.submit(asking(**ARRAY))
    host(world, 2)
    await begun(world, "1")
    orders = []
    world.dispatcher.lines[H1].stop = lambda *order: orders.append(order)
    done = await world.act(
        verb="kill", selectors=["1-5"], by_number=True, signal=2, cancels_waiting=True, **WHO
    )
    assert list(done.errors) == []
    assert await states(world) == {
        "1_1": "running", "1_2": "pending", "1_3": "cancelled", "1_4": "cancelled",
        "1_5": "cancelled",
    }  # fmt: skip
    assert sorted(orders) == [("1", 1, 2, ""), ("2", 1, 2, "cancel")]  # 2 was on its way


async def test_the_waiting_part_of_a_job_is_changed(world):
    await world.submit(asking(**ARRAY))
    await world.submit(asking())
    host(world, 1)
    await begun(world, "1")
    change = Update(priority=-3, name="later", timeout_s=60.0)
    done = await world.act(verb="update", selectors=["1", "6"], update=change, **WHO)
    assert (list(done.errors), len(done.done_ids)) == ([], 5)
    jobs = world.dispatcher.life.jobs
    assert [(jobs[n].job.priority, jobs[n].job.name, jobs[n].job.limit_s) for n in "126"] == [
        (0, "", 0.0), (-3, "later", 60.0), (-3, "later", 60.0)]  # fmt: skip
    stored = await world.ledger.live()
    assert {(row.priority, row.name, row.limit_s) for row in stored} == {(-3, "later", 60.0)}
    start = await world.dispatcher.start_of(stored[-1].submission)
    assert lbm_pb2.RunRequest.FromString(start.spec.run_request).timeout_s == 60.0
    await ended(world, "1", 0)
    await begun(world, "2")
    done = await world.act(verb="update", selectors=["1_2"], update=change, **WHO)
    assert list(done.errors) == ["job 1_2 has started; only waiting jobs can be changed"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"priority": 4}, "--priority 4: only administrators can raise priorities; use 0 or less"),
        ({"priority": -4000}, "--priority: must be -999 to 999"),
        ({"timeout_s": float("nan")}, "--timeout: not a time limit"),
        ({"begin": float("nan")}, "--begin: not a time"),
    ],
)  # fmt: skip
async def test_an_impossible_change_is_one_line_and_changes_nothing(world, change, error):
    await world.submit(asking())
    done = await world.act(verb="update", selectors=["1"], update=Update(**change), **WHO)
    assert (list(done.errors), list(done.done_ids)) == ([error], [])
    assert (await world.ledger.live())[0].priority == 0


@pytest.mark.parametrize(
    "fields",
    [{"indexes": "3,1"}, {"indexes": "x"}, {"indexes": "1-9", "is_array": False}, {"count": 0},
     {"at_once": 1, "is_array": False, "count": 1}, {"indexes": "1-200000"}],
)  # fmt: skip
async def test_an_impossible_array_is_refused(world, fields):
    reply = await world.submit(asking(**ARRAY | fields))
    assert reply.error
    assert await world.ledger.live() == []


async def test_if_priorities_are_off_it_says_how_to_turn_them_on(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        await world.submit(asking())
        change = Update(priority=-5)
        done = await world.act(verb="update", selectors=["1"], update=change, **WHO)
        assert done.errors[0].endswith("lbctl config set dispatch.priorities true --cluster")
        assert (await world.submit(asking(priority=-5))).error == done.errors[0]


async def test_an_update_of_many_large_jobs_is_written_in_parts(world, monkeypatch):
    """All their requests, megabytes each, used to be in the dispatcher's memory at once."""
    monkeypatch.setattr(orders, "BYTES_AT_ONCE", 1000)
    large = request(argv=[b"true", b"x" * 600])
    for _ in range(7):
        asked = asking()
        asked.spec.run_request = large.SerializeToString()
        await world.submit(asked)
    written, settled = [], world.dispatcher.settled

    async def noted():
        written.append(sum(len(one.actions) for one in world.dispatcher.batches._queue))
        await settled()

    monkeypatch.setattr(Dispatcher, "settled", lambda _: noted())
    done = await world.act(verb="update", selectors=["1-7"], update=Update(timeout_s=7.0), **WHO)
    assert (list(done.errors), len(done.done_ids)) == ([], 7)
    assert len(written) >= 4
    for number in range(1, 8):
        stored = dispatch_pb2.StoredSpec.FromString((await world.ledger.spec(number)).spec)
        assert request_in(stored).timeout_s == 7.0
    before = await world.ledger.spec(1)
    await world.act(verb="update", selectors=["1"], update=Update(name="other"), **WHO)
    assert await world.ledger.spec(1) == before


async def test_a_long_array_joins_the_queue_in_parts(world, monkeypatch):
    """A hundred thousand tasks delayed everybody for two seconds."""
    came, submitted = [], Lifecycle.submitted

    def counted(life, jobs, *now):
        came.append(len(jobs))
        return submitted(life, jobs, *now)

    monkeypatch.setattr(Lifecycle, "submitted", counted)
    assert (await world.submit(asking(is_array=True, first_index=1, count=2500))).error == ""
    assert came == [1000, 1000, 500]

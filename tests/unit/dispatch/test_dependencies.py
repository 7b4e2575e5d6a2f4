"""Jobs that wait for others, on a real ledger: what is refused, when they start, what ends them."""

import threading
import time

import pytest

from lbd.dispatch import dependencies
from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.ledger_room import Excess
from lbd.dispatch.core.records import Cause, Ending
from lbd.dispatch.dependencies import DependencyCounts
from lbd.model import HostId, JobId
from lbd.net.gen.dispatch_pb2 import Update
from lbd.process.boot_clock import clock_s
from lbd.text.index_list import runs_in, runs_text
from lbd.text.task_indexes import TaskIndexes
from tests.unit.dispatch.services import HostConnection, asking, opened

WHO = {"user": "ann", "uid": 1001}
H1 = HostId("h1")
ARRAY = {"is_array": True, "count": 0, "indexes": "1-3", "first_index": 1}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


@pytest.fixture
async def world(path):
    async with opened(path) as world:
        host(world)
        yield world


def host(world, slots=8):
    world.dispatcher.lines[H1] = HostConnection()
    life, rng = world.dispatcher.life, world.dispatcher.rng
    world.dispatcher.carry(life.host_is(HostSlots(H1, slots), clock_s(), rng))


def after(*what, **more):
    return asking(**more, after=what)


async def ended(world, job, status=0):
    life, rng = world.dispatcher.life, world.dispatcher.rng
    world.dispatcher.carry(life.begun(H1, JobId(job), 1))
    ending = Ending(Cause.EXITED, status, 0, 1.5)
    world.dispatcher.carry(life.ended(H1, JobId(job), 1, ending, clock_s(), rng))
    await world.dispatcher.settled()


def began(world):
    return {int(job) for job in world.dispatcher.life.leased}


async def why(world, job):
    (found,) = (await world.jobs(selectors=[job], ended_too=True, **WHO)).jobs
    return found.state, found.reason


async def test_a_submission_says_that_what_it_waits_for_has_failed_already(world):
    await world.submit(asking())
    await ended(world, "1", status=3)
    why_not = "it was waiting for 1 to succeed, but it did not"
    assert (await world.submit(after("ok:1"))).cancelled == why_not
    array = await world.submit(after("ok:1", **ARRAY))
    assert (array.first, array.cancelled) == (3, why_not)
    assert (await world.submit(after("failed:1"))).cancelled == ""
    assert (await world.submit(after("ok:6"))).cancelled == ""


async def test_a_job_starts_after_the_others_have_succeeded(world):
    await world.submit(asking())
    await world.submit(asking())
    reply = await world.submit(after("ok:1", "ok:2"))
    await world.submit(asking())
    assert (reply.error, reply.first, reply.count) == ("", 3, 1)
    assert began(world) == {1, 2, 4}  # the third delays nobody
    assert await why(world, "3") == ("pending", "after 1 and 2 have succeeded")
    await ended(world, "1")
    assert await why(world, "3") == ("pending", "after 2 has succeeded")
    await ended(world, "2")
    assert 3 in began(world)


@pytest.mark.parametrize(
    ("how", "status", "begins"),
    [("ok", 1, False), ("failed", 1, True), ("failed", 0, False), ("any", 1, True)],
)
async def test_which_end_each_condition_requires(world, how, status, begins):
    await world.submit(asking())
    await world.submit(after(f"{how}:1"))
    await world.submit(after("ok:2"))
    assert began(world) == {1}
    await ended(world, "1", status)
    assert began(world) == ({2} if begins else set())
    if not begins:
        state, reason = await why(world, "2")
        assert state == "cancelled"
        assert ("waiting for 1 to succeed" if how == "ok" else "waiting for 1 to fail") in reason
        state, reason = await why(world, "3")
        assert (state, reason) == (
            "cancelled", "it was waiting for 2 to succeed, but it did not")  # fmt: skip


async def test_a_job_that_ended_before_counts_at_once(world):
    await world.submit(asking())
    await ended(world, "1", 3)
    await world.submit(after("any:1"))
    await world.submit(after("ok:1"))
    assert began(world) == {2}
    assert (await why(world, "3"))[0] == "cancelled"


async def test_all_tasks_of_an_array_count_or_only_the_named_one(world):
    await world.submit(asking(**ARRAY))
    await world.submit(after("ok:1"))
    await world.submit(after("failed:1"))
    await world.submit(after("any:1_2"))
    assert await why(world, "6") == ("pending", "after 1_2 has ended")
    await ended(world, "2", 1)
    assert (await why(world, "4"))[0] == "cancelled"
    assert began(world) == {1, 3, 6}
    await ended(world, "1")
    assert 5 not in began(world)
    await ended(world, "3")
    assert 5 in began(world)


async def test_megabytes_of_indexes_are_not_stored_with_every_waiting_job(world):
    """Each such job took 1.9 MB of the ledger, and counted as 400 bytes."""
    indexes = runs_text(runs_in([10**17 + 3 * number * number for number in range(9000)]))
    array = {"is_array": True, "first_index": 10**17}
    for _ in range(2):
        assert (await world.submit(asking(**array, indexes=indexes))).error == ""
    assert (await world.submit(after("task:1", **array, count=1))).error == ""
    refused = (await world.submit(after("task:1", "task:9001", **array, count=1))).error
    assert refused.startswith("--after: the indexes of these arrays take ")


async def test_the_indexes_of_an_array_are_read_once_beside_the_event_loop(world, monkeypatch):
    """A thousand names of tasks of an array with ten thousand parts delayed everybody for 14 s."""
    await world.submit(asking(**ARRAY | {"indexes": "1-300"}))
    read = []

    def reading(text):
        read.append(threading.current_thread())
        return TaskIndexes(text)

    monkeypatch.setattr(dependencies, "TaskIndexes", reading)
    for named in ([f"ok:1_{index}" for index in range(1, 300)], ["task:1", "any:1_3"]):
        assert (await world.submit(after(*named, **ARRAY))).error == ""
    assert len(read) == 2
    assert threading.main_thread() not in read


async def test_task_by_task(world):
    await world.submit(asking(**ARRAY))
    await world.submit(after("task:1", **ARRAY | {"indexes": "2-3", "first_index": 2}))
    assert began(world) == {1, 2, 3}
    assert await why(world, "4_2") == ("pending", "after 1_2 has succeeded")
    await ended(world, "2")
    assert began(world) == {1, 3, 4}
    await ended(world, "3", 1)
    assert (await why(world, "4_3"))[0] == "cancelled"
    reply = await world.submit(after("task:1", **ARRAY | {"indexes": "2-4", "first_index": 2}))
    assert "does not have all of 2 to 4; its indexes are 1-3" in reply.error
    assert "needs --array" in (await world.submit(after("task:1"))).error
    assert "is not an array" in (await world.submit(after("task:4_2", **ARRAY))).error


@pytest.mark.parametrize(
    ("what", "complaint"),
    [
        ("ok:7", "no job 7 of yours is on record"),
        ("ok:2", "no job 2 of yours is on record"),
        ("ok:1_4", "job 1 is not an array"),
        ("ok:x", "'x' is not a queued job's id"),
        ("ok:-1", "'-1' is not a queued job's id"),
        ("sometimes:1", "'1' is not a queued job's id"),
        ("ok:1_", "is not a task's id"),
        ("ok:" + "9" * 30, "is not a queued job's id"),
    ],
)
async def test_a_refused_submission_queues_nothing(world, what, complaint):
    await world.submit(asking())
    bob = {"user": "bob", "uid": 1002}
    await world.submit(asking(inner=bob, **bob))
    assert complaint in (await world.submit(after(what))).error
    assert len(world.dispatcher.life.jobs) == 2


async def test_last_means_the_latest_of_the_submitting_user(world):
    assert "--after last: no job of yours" in (await world.submit(after("ok:last"))).error
    assert "--after last: no job of yours" in (await world.submit(after("ok:last_2"))).error
    await world.submit(asking(**ARRAY))  # 1 to 3
    bob = {"user": "bob", "uid": 1002}
    await world.submit(asking(inner=bob, **bob))
    await world.submit(after("ok:last", "any:last_2"))
    assert await why(world, "5") == ("pending", "after 1 has succeeded, after 1_2 has ended")
    await world.submit(after("any:last"))
    assert await why(world, "6") == ("pending", "after 5 has ended")


async def test_administrators_may_wait_for_the_jobs_of_all_users(world):
    await world.submit(asking())
    root = {"user": "root", "uid": 0}
    refused = await world.submit(after("any:1", inner=root, **root))
    assert "no job 1 of yours" in refused.error
    taken = await world.submit(after("any:1", inner=root, is_admin=True, **root))
    assert taken.error == ""


async def test_too_many_conditions_or_an_impossible_time_are_refused(world):
    await world.submit(asking())
    assert "the limit is 1000" in (await world.submit(after(*["ok:1"] * 1001))).error
    for at in (float("nan"), -1.0, 1e12):
        reply = await world.submit(asking(not_before=at))
        assert "--begin is not valid" in reply.error
    assert (await world.submit(asking(count=0))).error


async def test_a_start_time_is_waited_for_and_may_be_changed(world):
    late = time.time() // 60 * 60 + 3622.0  # h:m:22
    inner = asking(not_before=late)
    inner.spec.notify = b"exit 3"
    await world.submit(inner)
    await world.submit(asking())
    assert began(world) == {2}
    (job,) = (await world.jobs(selectors=["1"], with_attempts=True, **WHO)).jobs
    assert (job.given.begin, job.given.notify) == (late, b"exit 3")
    shown = time.strftime("%H:%M:%S", time.localtime(late))
    state, reason = await why(world, "1")
    assert state == "pending"
    assert reason.startswith("not before ")
    assert reason.endswith(shown)
    await world.act(verb="update", selectors=["1"], update=Update(begin=0.0), **WHO)
    assert began(world) == {1, 2}
    await world.submit(asking(not_before=1.0))  # long ago
    assert began(world) == {1, 2, 3}


async def test_a_job_that_waits_for_a_slot_can_be_postponed(world):
    await world.submit(asking(slots=8))
    await world.submit(asking())
    late = time.time() + 3600.0
    reply = await world.act(verb="update", selectors=["2"], update=Update(begin=late), **WHO)
    assert list(reply.done_ids) == ["2"]
    await ended(world, "1")
    assert began(world) == set()
    reply = await world.act(verb="update", selectors=["1"], update=Update(begin=late), **WHO)
    assert reply.errors


async def test_held_killed_and_released_while_it_waits(world):
    await world.submit(asking())
    for _ in range(3):
        await world.submit(after("any:1"))
    await world.act(verb="hold", selectors=["2", "3"], **WHO)
    await world.act(verb="release", selectors=["3"], **WHO)
    assert await why(world, "3") == ("pending", "after 1 has ended")
    await world.act(verb="kill", selectors=["4"], **WHO)
    await ended(world, "1", 1)
    assert began(world) == {3}
    assert (await why(world, "2"))[1] == "held by ann"
    assert (await why(world, "4"))[0] == "cancelled"
    await world.act(verb="release", selectors=["2"], **WHO)
    assert began(world) == {2, 3}


async def test_jobs_that_one_order_ends_one_after_the_other_are_all_done(world):
    """The second ends with the first, which it waited for."""
    await world.submit(asking(not_before=time.time() + 3600.0))
    await world.submit(after("ok:1"))
    await world.submit(after("ok:2"))
    reply = await world.act(verb="kill", selectors=["1", "2", "3"], **WHO)
    assert (list(reply.done_ids), list(reply.errors)) == (["1", "2", "3"], [])
    reply = await world.act(verb="kill", selectors=["2"], **WHO)
    assert (list(reply.done_ids), list(reply.errors)) == ([], ["job 2 has ended"])


async def test_a_new_dispatcher_continues_where_the_last_one_was(path):
    async with opened(path) as world:
        host(world)
        await world.submit(asking(**ARRAY))
        await world.submit(after("ok:1"))
        await world.submit(after("failed:1_2"))
        await world.submit(after("task:1", **ARRAY))
        await world.submit(after("any:1_1"))
        await world.submit(asking(not_before=time.time() + 3600.0))
        await ended(world, "1")
        await ended(world, "2", 1)
        assert (await why(world, "4"))[0] == "cancelled"
        assert began(world) == {3, 5, 6, 9}
    async with opened(path) as world:
        await world.dispatcher._restore()
        await DependencyCounts(world.dispatcher).look()
        assert began(world) == {3, 5, 6, 9}
        host(world)
        assert (await why(world, "6_3"))[1] == "after 1_3 has succeeded"
        assert (await why(world, "10"))[1].startswith("not before ")
        assert began(world) == {3, 5, 6, 9}
        life, rng = world.dispatcher.life, world.dispatcher.rng
        ok = Ending(Cause.EXITED, 0, 0, 1.5)
        world.dispatcher.carry(life.ended(H1, JobId("3"), 1, ok, clock_s(), rng))
        await world.dispatcher.settled()
        assert began(world) == {5, 6, 8, 9}


async def test_a_met_condition_stays_met_when_the_other_jobs_are_forgotten(path):
    async with opened(path) as world:
        host(world, 1)
        await world.submit(asking())
        await world.submit(after("ok:1"))
        await world.submit(after("ok:1", "any:2"))
        await ended(world, "1")
        await world.ledger.forget(time.time() + 1.0, Excess("uid"), 10)
    async with opened(path) as world:
        await world.dispatcher._restore()
        await DependencyCounts(world.dispatcher).look()
        await world.dispatcher.settled()
        assert began(world) == {2}
        state, reason = await why(world, "3")
        assert (state, reason) == (
            "cancelled",
            "it was waiting for job 1, whose outcome is no longer on record",
        )


async def test_a_job_that_restarts_after_its_end_is_waited_for_again(world):
    await world.submit(asking())
    await world.submit(asking())
    await ended(world, "1", 1)
    await world.submit(after("failed:1", "any:2"))
    await world.act(verb="requeue", selectors=["1"], **WHO)
    await ended(world, "2")
    assert 3 not in began(world)
    await DependencyCounts(world.dispatcher).look()
    assert 3 not in began(world)
    life, rng = world.dispatcher.life, world.dispatcher.rng
    world.dispatcher.carry(life.ended(H1, JobId("1"), 2, Ending(Cause.EXITED, 2), clock_s(), rng))
    await world.dispatcher.settled()
    assert 3 in began(world)


async def test_an_array_is_not_to_wait_for_more_than_the_dispatcher_can_hold(world):
    await world.submit(asking())
    many = {"is_array": True, "indexes": "1-1000", "first_index": 1}
    refused = await world.submit(after(*["ok:1"] * 500, **many))
    assert "500 jobs for each of 1000 tasks; the limit for so many is 400" in refused.error
    assert len(world.dispatcher.life.jobs) == 1
    assert not (await world.submit(after(*["ok:1"] * 400, **many))).error
    assert not (await world.submit(after(*["ok:1"] * 1000))).error

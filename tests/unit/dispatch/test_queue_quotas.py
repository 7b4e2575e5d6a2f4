"""No user, and no host, takes the whole queue."""

import asyncio
import contextlib

import pytest

from lbd.config.schema import Config, DispatchConfig, HostConfig, UsersConfig
from lbd.dispatch import queue_quotas
from lbd.dispatch.core import named_lists
from lbd.dispatch.core.ledger_room import Disk
from lbd.dispatch.core.ledger_rows import LedgerTrouble
from lbd.dispatch.core.targets.arrays import ARRAYS_OF_HOST, ARRAYS_OF_USER
from lbd.dispatch.metrics import dispatcher_metrics
from lbd.process.boot_clock import clock_s
from tests.unit.dispatch.services import asking, opened

MOST = 100
CONFIG = Config(host=HostConfig(name="h1"), dispatch=DispatchConfig(max_jobs=MOST))


def array(count, user="ann", uid=1001, origin="h2", **fields):
    inner = {"user": user, "uid": uid, "origin": origin}
    more = {"count": count, "is_array": True, "slots": 60_000}
    return asking(inner, **inner, **more, **fields)


@pytest.fixture
async def world(tmp_path):
    async with opened(tmp_path / "ledger.sqlite", CONFIG) as world:
        yield world


async def submitted(world, *given, **fields):
    asked = array(*given, **fields)
    world.trust.name = asked.origin
    return (await world.submit(asked)).error


async def test_one_user_leaves_room_for_others(world):
    """Ten lines of one user kept everybody else out, for as long as their jobs waited."""
    assert await submitted(world, 75) == ""
    assert await submitted(world, 1) == (
        "ann has 75 jobs in the queue; the limit per user is 75 (75% of dispatch.max_jobs)"
    )
    assert await submitted(world, 1, origin="h3") != ""  # from any host
    assert await submitted(world, 10, user="bob", uid=1002) == ""


async def test_one_host_leaves_room_for_others(world):
    """It could name any number of users."""
    for user in ("ann", "bob"):
        assert await submitted(world, 45, user=user) == ""
    assert await submitted(world, 1, user="eve") == (
        "h2 has 90 jobs in the queue; the limit per host is 90 (90% of dispatch.max_jobs)"
    )
    assert await submitted(world, 10, user="eve", origin="h3") == ""
    assert await submitted(world, 1, user="eve", origin="h4") == (
        "the queue is full (dispatch.max_jobs is 100)"
    )


async def test_one_host_has_jobs_of_so_many_users_and_no_more(world, monkeypatch):
    monkeypatch.setattr(queue_quotas, "USERS_OF_HOST_MAX", 2)
    for user in ("ann", "bob", "ann"):
        assert await submitted(world, 1, user=user) == ""
    why = "h2 has jobs of 2 users in the queue; the limit per host is 2"
    assert await submitted(world, 1, user="eve") == why
    assert await submitted(world, 1, user="bob") == ""
    assert await submitted(world, 1, user="eve", origin="h3") == ""
    await world.act(selectors=["1_0", "3_0"], user="ann", uid=1001, verb="kill")
    assert await submitted(world, 1, user="eve") == ""


async def test_what_comes_at_once_has_no_more_room(world):
    """Each was accepted into the room that the others were about to take."""
    world.trust.name = "h2"
    replies = await asyncio.gather(*(world.submit(array(50)) for _ in range(4)))
    assert sum(not reply.error for reply in replies) == 1
    assert len(world.dispatcher.life.jobs) == 50


@pytest.mark.parametrize(
    ("free_bytes", "so"),
    [(2 << 20, "no new jobs; those in it go on"),
     (0, "no new jobs and begins none; what runs goes on")],
)  # fmt: skip
async def test_a_full_disk_is_named_with_its_host_and_logged_once(
    world, tmp_path, caplog, free_bytes, so
):
    """With no byte left the host was left out, and that where it was asked has no such path."""
    full = Disk(free_bytes, 100 << 20, str(tmp_path))
    world.dispatcher.ledger.disk = lambda: full
    said = {await submitted(world, 1, user=user) for user in ("ann", "bob")}
    why = f"{tmp_path} is full, so the queue takes {so}"
    assert said == {f"{CONFIG.host.name}: {why}"}
    assert caplog.messages.count(why) == 1


async def test_a_ledger_that_takes_no_jobs_is_in_trouble(world, tmp_path):
    """The critical alert never fired on a full disk: the queue looks for space before it writes."""
    dispatcher = world.dispatcher
    assert not dispatcher_metrics(dispatcher)["ledger_trouble"]
    dispatcher.ledger.disk = lambda: Disk(0, 100 << 20, str(tmp_path))
    assert dispatcher_metrics(dispatcher)["ledger_trouble"]
    said = "is full, so the queue takes no new jobs and begins none; what runs goes on"
    assert (await world.status()).full.endswith(said)  # though nothing has failed yet
    dispatcher.ledger.disk = lambda: Disk(2 << 20, 100 << 20, str(tmp_path))
    assert (await world.status()).full.endswith("takes no new jobs; those in it go on")
    dispatcher.ledger.trouble = "ledger.sqlite: disk I/O error"
    assert (await world.status()).full.endswith(said)
    dispatcher.ledger.disk = lambda: None
    assert dispatcher_metrics(dispatcher)["ledger_trouble"]
    why = "ledger.sqlite: disk I/O error, so the queue takes no new jobs and begins none"
    assert (await world.status()).full == why


async def test_an_existing_submission_is_found_again(world):
    assert await submitted(world, 75, key="all") == ""
    assert await submitted(world, 75, key="all") == ""
    assert len(world.dispatcher.life.jobs) == 75


async def test_ending_jobs_makes_room_again(world):
    jobs = world.dispatcher.life.jobs
    assert await submitted(world, 75) == ""
    for verb in ("hold", "release", "kill"):
        await world.act(selectors=["1_[0-9]"], user="ann", uid=1001, verb=verb)
        left = 65 if verb == "kill" else 75
        assert (jobs.of_user("ann"), jobs.of_origin("h2")) == (left, left)
    assert await submitted(world, 10) == ""
    assert await submitted(world, 1) != ""


async def test_running_jobs_count(world):
    jobs = world.dispatcher.life.jobs
    world.host("h1", slots=4)
    assert await submitted(world, 1, user="bob", uid=1002) == ""
    world.trust.name = "h2"
    assert (await world.submit(asking())).error == ""
    await world.dispatcher.settled()
    (attempt,) = (live for live in world.dispatcher.life.leased.values())
    assert (jobs.of_user("ann"), jobs.of_origin("h2")) == (1, 2)
    world.dispatcher.life.kill(attempt.job.id, 9, clock_s(), world.dispatcher.rng)
    assert jobs.of_user("ann") == 1


async def test_a_new_dispatcher_counts_what_the_last_one_left(tmp_path):
    path = tmp_path / "ledger.sqlite"
    async with opened(path, CONFIG) as world:
        assert await submitted(world, 75) == ""
        await world.act(selectors=["1"], user="ann", uid=1001, verb="hold")
    async with opened(path, CONFIG) as world:
        await world.dispatcher._restore()
        assert await submitted(world, 1) != ""
        assert world.dispatcher.life.jobs.of_origin("h2") == 75


async def test_where_numbers_count_the_share_belongs_to_the_number(tmp_path):
    config = Config(dispatch=CONFIG.dispatch, users=UsersConfig(map="uid"))
    async with opened(tmp_path / "ledger.sqlite", config) as world:
        assert await submitted(world, 75) == ""
        assert await submitted(world, 1, user="another") != ""
        assert await submitted(world, 1, uid=1002) == ""


async def test_no_user_and_no_host_has_more_arrays_with_targets_than_are_quickly_looked_at(
    tmp_path,
):
    """Thousands of them, each with the maximum of tasks, took tens of milliseconds of every
    event."""
    async with opened(tmp_path / "large.sqlite") as world:

        async def fault(user, origin="h2", **target):
            return await submitted(world, 1, user, 1001, origin, **(target or {"target_s": 60.0}))

        for n in range(ARRAYS_OF_HOST):
            assert await fault(f"user{n // ARRAYS_OF_USER}") == ""
        assert "the limit per user is 100 arrays" in await fault("user0", "h3")
        assert "the limit per host is 400 arrays" in await fault("ann")
        assert await fault("ann", "h3") == ""
        assert await submitted(world, 1) == ""  # it has none


async def test_what_has_ended_comes_again_only_where_there_is_room(world):
    """Otherwise a user who ends jobs and queues others has as many as they like in the end."""
    assert await submitted(world, 75) == ""
    reply = await world.act(verb="kill", selectors=["1-75"], user="ann", uid=1001)
    assert len(reply.done_ids) == 75
    assert await submitted(world, 74) == ""
    reply = await world.act(verb="requeue", selectors=["1-3"], user="ann", uid=1001)
    assert list(reply.done_ids) == ["1_0"]
    assert reply.errors == [
        "ann has 75 jobs in the queue; the limit per user is 75 (75% of dispatch.max_jobs)"
        "; and 73 more"  # "1-3" means all of array 1
    ]


async def test_jobs_of_one_user_wait_for_so_many_others_and_no_more(tmp_path):
    """Ten thousand that each wait for a thousand took the dispatcher's memory, and hours."""
    config = Config(dispatch=DispatchConfig(max_array=100))  # 1000 are the most
    async with opened(tmp_path / "ledger.sqlite", config) as world:
        assert await submitted(world, 100, first_index=0) == ""
        hundred = {"after": [f"ok:1_{index}" for index in range(100)]}
        assert await submitted(world, 9, **hundred) == ""  # 101 to 109
        refused = await submitted(world, 2, **hundred)
        assert refused.startswith("--after: jobs of ann in the queue wait for 900 others")
        assert await submitted(world, 2, user="bob", uid=1002) == ""
        assert await submitted(world, 1, **hundred) == ""
        await world.act(selectors=["101"], user="ann", uid=1001, verb="kill")
        assert await submitted(world, 9, **hundred) == ""


async def test_jobs_of_one_user_leave_out_so_many_hosts_and_no_more(world, monkeypatch):
    """A thousand names for each job took the dispatcher's memory, and that of the next one."""
    monkeypatch.setattr(named_lists, "NAMES_OF_USER", 150)
    first, second = ([f"{letter}{number}" for number in range(100)] for letter in "xy")
    assert await submitted(world, 10, excluded=first) == ""
    refused = await submitted(world, 1, excluded=second)
    assert refused.startswith("jobs of ann in the queue name 100 hosts, features and resources")
    assert await submitted(world, 1, user="bob", uid=1002, excluded=second) == ""
    await world.act(selectors=["1"], user="ann", uid=1001, verb="kill")
    assert await submitted(world, 1, excluded=second) == ""


async def test_a_user_who_fills_the_ledger_leaves_room_for_others(world, monkeypatch):
    """One user's submissions of megabytes filled the disk, and then nobody could submit."""
    disk = Disk(10_000, 20_000)
    monkeypatch.setattr(world.ledger, "disk", lambda: disk)
    assert await submitted(world, 1) == ""
    room = world.ledger.room
    (of_one,) = {size for size in room._of_user.values() if size}
    room.take("ann", "h2", 9000 - of_one)
    said = await submitted(world, 1)
    assert said.startswith("ann's jobs take ")
    assert await submitted(world, 1, user="bob", uid=1002) == ""
    disk = Disk(1000, 20_000)
    assert "is full" in await submitted(world, 1, user="bob", uid=1002, origin="h3")


async def test_a_refused_submission_takes_no_room(world, monkeypatch):
    async def fails(*_):
        raise LedgerTrouble("no")

    monkeypatch.setattr(world.ledger, "submit", fails)
    for _ in range(3):
        with contextlib.suppress(LedgerTrouble):
            await submitted(world, 1)
    assert not any(world.ledger.room._of_user.values())


async def test_lists_that_come_at_once_have_no_more_room(world, monkeypatch):
    monkeypatch.setattr(named_lists, "NAMES_OF_USER", 150)
    lists = ([f"{letter}{number}" for number in range(100)] for letter in "xyz")
    said = await asyncio.gather(*(submitted(world, 1, excluded=names) for names in lists))
    assert [one == "" for one in said].count(True) == 1
    counts = world.dispatcher.life.jobs.lists
    assert not counts._coming_of_user
    assert not counts._coming_of_origin


async def test_a_waiting_job_is_said_to_begin_once_the_ledger_can_be_written(world):
    """Each of them, also a held one, was said to have an end that could not be recorded."""
    assert await submitted(world, 1) == ""
    world.dispatcher.ledger.trouble = "ledger.sqlite: disk I/O error"
    (job,) = (await world.jobs()).jobs
    once = f"once {CONFIG.host.name} can write the ledger: ledger.sqlite: disk I/O error"
    assert job.reason == f"it begins {once}"
    order = {"verb": "hold", "selectors": [str(job.id)], "user": "ann"}
    (refused,) = (await world.act(**order)).errors
    assert refused == f"nothing was done; try again {once}"
    world.dispatcher.ledger.trouble = ""
    await world.act(**order)
    world.dispatcher.ledger.trouble = "ledger.sqlite: disk I/O error"
    (job,) = (await world.jobs()).jobs
    assert "held" in job.reason
    assert "ledger" not in job.reason

"""Work done by a process of a user, who may stop that process: it ends all the same."""

import asyncio

import pytest

from lbd.errors import Unavailable
from lbd.keeper import protocol as keeper
from lbd.keeper.limits.time_limits import CPU_US, LEASE, LEASE_UNTIL_MS
from lbd.keeper.local_account import LocalUser
from lbd.keeper.spawn_order import JOB
from lbd.lbm.as_user import STEPS_AT_ONCE, AsUser
from lbd.lbm.keeper_link import Forked, ProcessExit, Spawned
from lbd.local import frames
from lbd.process.boot_clock import clock_s
from tests.unit.until import until

ANN, BOB = 1000, 1001


class Link:
    """The link to a keeper that starts what it is told to, and ends nothing by itself."""

    uid = 0

    def __init__(self):
        self.orders, self.spawns, self.limits, self.told = [], [], [], []

    async def spawn(self, order, _descriptors, stopped, limit=b""):
        spawned = Spawned(stopped)
        spawned.begun.set_result(Forked(1, ""))
        self.orders.append(order)
        self.spawns.append(spawned)
        self.limits += frames.Splitter(1 << 16).feed(limit)
        return spawned

    async def send(self, *order):
        self.told.append(order)

    def end(self, at, over=""):
        self.spawns[at].exited.set_result(ProcessExit(9 if over else 0, 0.0, 0.0, 0, False, over))


async def look_up(uid, _asker):
    return LocalUser(f"user{uid}", uid, uid, (uid,))


@pytest.fixture
def link():
    return Link()


@pytest.fixture
def as_user(link):
    return AsUser(link, look_up)


async def test_a_step_is_ended_by_the_keeper_after_a_while(link, as_user):
    working = asyncio.create_task(as_user.work(ANN, b"clear", b"/x", limit_s=7.0))
    await until(lambda: link.limits)
    given = dict(frames.fields(link.limits[0][1]))
    assert given[JOB].decode() == link.orders[0].job
    assert 0 < int(given[LEASE_UNTIL_MS]) / 1e3 - clock_s() <= 7.0
    assert int(given[CPU_US]) == 0
    link.end(0, over=LEASE)
    with pytest.raises(Unavailable, match="did not end within 7 s"):
        await working


async def test_a_step_that_nobody_waits_for_is_ended(link, as_user):
    working = asyncio.create_task(as_user.work(ANN, b"make", b"/x"))
    await until(lambda: link.spawns)
    working.cancel()
    await until(lambda: link.told)
    assert link.told == [(keeper.END_TREE, link.orders[0].job)]


async def test_of_one_users_steps_a_few_are_under_way_and_others_do_not_wait(link, as_user):
    mine = [asyncio.create_task(as_user.work(ANN, b"clear", b"/x")) for _ in range(20)]
    await until(lambda: len(link.spawns) == STEPS_AT_ONCE)
    others = (BOB, b"clear"), (ANN, b"make")
    theirs = [asyncio.create_task(as_user.work(uid, word, b"/y")) for uid, word in others]
    await until(lambda: len(link.spawns) == STEPS_AT_ONCE + len(others))
    for at in range(len(mine) + len(theirs)):
        await until(lambda at=at: len(link.spawns) > at)
        link.end(at)
    await asyncio.gather(*mine, *theirs)

"""Orders about many jobs, and others meanwhile."""

import asyncio

from lbd.dispatch import orders
from lbd.dispatch.orders import ACTS_AT_ONCE
from tests.unit.dispatch.services import asking


def array(count):
    return asking(count=count, is_array=True, slots=60_000)


async def test_orders_about_many_jobs_leave_room_for_others(world):
    """`lbctl hold 1-100000` delayed everybody for seconds, and the disk for as long: two such
    orders in turn, by one user, kept all others from submitting anything."""
    count = 4 * ACTS_AT_ONCE
    await world.submit(array(count))
    acting = asyncio.create_task(world.act(user="ann", verb="hold", selectors=[f"1-{count}"]))
    held = 0
    async with asyncio.timeout(60):
        while not held:
            await asyncio.sleep(0)
            held = sum(bool(live.held) for live in world.dispatcher.life.jobs.values())
        assert (await world.submit(asking(user="bob", inner={"user": "bob"}))).error == ""
        assert not acting.done()
        assert held < count
        assert len((await acting).done_ids) == count


async def test_orders_that_cost_much_for_each_job_leave_room_too(world, monkeypatch):
    monkeypatch.setattr(orders, "TURN_S", -1.0)  # as if each had taken long
    await world.submit(array(100))
    acting = asyncio.create_task(world.act(user="ann", verb="hold", selectors=["1-100"]))
    seen = set()
    while not acting.done():
        seen.add(sum(bool(live.held) for live in world.dispatcher.life.jobs.values()))
        await asyncio.sleep(0)
    assert seen >= set(range(1, 100))


async def test_an_order_about_very_many_jobs_says_how_far_it_got(world, monkeypatch):
    """For 100,000 tasks it took longer than its caller waits, who was told that the dispatcher did
    not answer, while it went on."""
    count = 3 * ACTS_AT_ONCE
    await world.submit(array(count))
    order = {"user": "ann", "verb": "hold", "selectors": ["1"]}
    with monkeypatch.context() as patch:
        patch.setattr(orders, "ORDER_S", 0.0)
        reply = await world.act(**order)
        (left,), (error,) = reply.failures, reply.errors
        assert (len(reply.done_ids), len(left.ids)) == (ACTS_AT_ONCE, count - ACTS_AT_ONCE)
        assert left.error.endswith(": not done within 0 s; give the order again for the rest")
        assert error == f"{left.error}; and {len(left.ids) - 1} more"
        assert sum(bool(live.held) for live in world.dispatcher.life.jobs.values()) == ACTS_AT_ONCE
        numbers = {"selectors": [f"1-{count}"], "by_number": True}
        assert len((await world.act(**order | numbers)).done_ids) == count, "nobody waits for it"
    assert len((await world.act(**order)).done_ids) == count


async def test_an_order_of_which_nothing_can_be_done_says_so_in_time_too(world, monkeypatch):
    """It went on for as long as there were jobs, and its caller had given up."""
    count = 3 * ACTS_AT_ONCE
    await world.submit(array(count))
    monkeypatch.setattr(orders, "ORDER_S", 0.0)
    reply = await world.act(user="ann", verb="requeue", selectors=["1"])
    vain, left = sorted(reply.failures, key=lambda failure: "not done" in failure.error)
    assert not reply.done_ids
    assert (len(vain.ids), len(left.ids)) == (ACTS_AT_ONCE, count - ACTS_AT_ONCE)


async def test_of_the_orders_of_a_host_one_at_a_time_goes_on(world, monkeypatch):
    """Eight at once took eight turns before others had one."""
    monkeypatch.setattr(orders, "TURN_S", -1.0)  # as if each job had taken long
    users = [f"user{number}" for number in range(8)]
    for user in users:
        await world.submit(asking(user=user, inner={"user": user}, count=100, is_array=True))
    orders_of_all = [world.act(user=user, verb="hold", selectors=["@me"]) for user in users]
    acting, held, most = asyncio.gather(*orders_of_all), 0, 0
    while not acting.done():
        await asyncio.sleep(0)
        before, held = held, sum(bool(one.held) for one in world.dispatcher.life.jobs.values())
        most = max(most, held - before)
    assert [len(reply.done_ids) for reply in await acting] == [100] * 8
    assert most <= 2, "one goes on, and one begins"


async def test_an_order_to_end_jobs_begins_with_those_that_would_start_last(world, monkeypatch):
    """While it ended the first ones of 100,000 tasks others started, that it was to end as well."""
    count = 3 * ACTS_AT_ONCE
    await world.submit(array(count))
    order = {"user": "ann", "verb": "kill", "selectors": ["1"]}
    with monkeypatch.context() as patch:
        patch.setattr(orders, "ORDER_S", 0.0)
        reply = await world.act(**order)
    (left,) = reply.failures
    tasks = [f"1_{index}" for index in range(count)]
    assert list(left.ids) == tasks[:-ACTS_AT_ONCE]
    assert list(reply.done_ids) == tasks[-ACTS_AT_ONCE:]
    assert list((await world.act(**order)).done_ids) == tasks[:-ACTS_AT_ONCE]

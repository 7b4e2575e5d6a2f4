"""Signals to a command: on their way to a busy keeper, and during its start."""

import asyncio
from types import SimpleNamespace

import pytest

from lbd.keeper import protocol as keeper
from lbd.lbm.inbound.executions import ALL, Signals
from lbd.lbm.keeper_link import Forked
from lbd.lbm.link import wire as tags
from tests.unit.lbm.inbound.test_attached_job import Wire, exits, host, restored, running
from tests.unit.until import until

__all__ = ["host"]

INT, TERM, STOP, CONT, WINCH = 2, 15, 20, 18, 28


async def test_of_many_signals_the_last_of_each_kind_waits():
    signals, sent, is_free = Signals(), [], asyncio.Event()

    async def send(*order):
        await is_free.wait()
        sent.append(order)

    assert signals.add(WINCH)
    sending = asyncio.create_task(signals.send(SimpleNamespace(send=send), "h1-1"))
    await asyncio.sleep(0)  # this one is on its way
    assert not any(signals.add(number) for number in (STOP, CONT, WINCH, ALL, STOP) * 1000)
    is_free.set()
    await sending
    orders = [(keeper.SIGNAL, "h1-1", number) for number in (WINCH, CONT, WINCH, STOP)]
    assert sent == [*orders[:3], (keeper.END_TREE, "h1-1"), orders[3]]
    assert signals.add(CONT)  # none of them is on its way any more


async def test_an_origin_that_kills_it_again_and_again_has_one_order_under_way(host):
    """Four thousand in a message, each with a task and a frame, stood before everybody's."""
    job, _ = await running(host)
    go_on = asyncio.Event()

    async def send(*order):
        host.link.orders.append(order)
        await go_on.wait()

    host.link.send = send
    for _ in range(1000):
        job.talk.hear(tags.FORCE, memoryview(b""))
    await until(lambda: host.link.orders)
    assert len(host.executions.orders) == 1
    go_on.set()
    await until(lambda: not host.executions.orders)
    assert host.link.orders == [(keeper.END_TREE, "h1-1")]
    exits(host)


@pytest.mark.parametrize("restarts", [False, True])
async def test_an_interrupt_during_the_spawn_goes_to_the_command_once_it_has_started(
    host, restarts
):
    """Even if it is another LBM that learns of the start."""

    async def spawn(order, descriptors, stopped, limit):
        return host.link.new(stopped)

    host.link.spawn = spawn
    wire = Wire(host)
    wire.run(1)
    await until(lambda: host.link.spawned)
    job = wire.link.jobs[1].job
    wire.link.hear(tags.pack(1, tags.HANGUP, bytes((INT,))))
    await until(lambda: job.execution.early)
    there = (await restored(job))[0] if restarts else host
    assert there.link.orders == []
    there.link.spawned[-1].begun.set_result(Forked(1, ""))
    await until(lambda: (keeper.SIGNAL, "h1-1", CONT) in there.link.orders)
    assert there.link.orders[0] == (keeper.SIGNAL, "h1-1", INT)
    assert (keeper.SIGNAL, "h1-1", TERM) not in there.link.orders
    if restarts:
        host.link.spawned[-1].begun.set_result(Forked(1, ""))
    exits(host)


@pytest.mark.parametrize("body", [b"", b"\0", b"\xff", bytes((INT, INT))])
async def test_a_command_whose_client_hangs_up_without_a_signal_gets_a_term(host, body):
    wire = Wire(host)
    wire.run(1)
    await until(lambda: tags.STARTED in {tag for tag, _ in wire.said})
    wire.link.hear(tags.pack(1, tags.HANGUP, body))
    await until(lambda: (keeper.SIGNAL, "h1-1", TERM) in host.link.orders)
    exits(host)

"""Signals of a command on their way to a busy keeper: no flood of them waits there."""

import asyncio

from lbd.lbm.inbound.executions import Signals

STOP, CONT, WINCH = 20, 18, 28


async def test_of_many_signals_the_last_of_each_waits():
    signals, sent, is_free = Signals(), [], asyncio.Event()

    async def send(number):
        await is_free.wait()
        sent.append(number)

    assert signals.add(WINCH)
    sending = asyncio.create_task(signals.send(send))
    await asyncio.sleep(0)  # this one is on its way
    assert not any(signals.add(number) for number in (STOP, CONT, WINCH, STOP) * 1000)
    is_free.set()
    await sending
    assert sent == [WINCH, CONT, WINCH, STOP]
    assert signals.add(CONT)  # nothing of them is under way any more

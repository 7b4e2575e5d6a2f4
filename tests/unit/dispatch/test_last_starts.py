"""What a dispatcher that ends does with the attempts that it has not sent."""

import asyncio

from lbd.cli.daemons.dispatcher import finish
from lbd.dispatch.daemon import Dispatcher
from tests.unit.dispatch.services import asking
from tests.unit.until import until


async def test_an_attempt_that_is_turned_back_at_the_end_is_not_leased_to_another(
    world, monkeypatch
):
    """The next dispatcher took it to run there perhaps, until the longest lease was over."""
    dispatcher, sending = world.dispatcher, asyncio.Event()
    read = Dispatcher.start_of

    async def start_of(self, submission):
        await sending.wait()
        return await read(self, submission)

    monkeypatch.setattr(Dispatcher, "start_of", start_of)
    monkeypatch.setattr("lbd.cli.daemons.dispatcher.STOP_GRACE_S", 0.1)
    lines = [world.host(name, slots=1) for name in ("h2", "h3", "h4")]
    submitting = asyncio.create_task(world.submit(asking()))
    await until(lambda: "1" in dispatcher.life.leased)
    for line in lines:
        line.broken = asyncio.Event()
        line.close = line.broken.wait
    stop, finished = asyncio.Event(), asyncio.Event()
    stop.set()
    finishing = asyncio.create_task(finish(dispatcher, stop, finished))
    await until(lambda: not dispatcher.leads())
    sending.set()
    await finishing
    await submitting
    await dispatcher.settled()
    (row,) = await world.ledger.live(limit=2)
    assert (row.attempt, row.state, [line.starts for line in lines]) == (1, "pending", [[]] * 3)

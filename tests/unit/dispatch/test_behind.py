"""A host that does not read what it is sent gets no more, and its jobs go elsewhere."""

import asyncio

from lbd.cli.daemons.dispatcher import finish
from lbd.dispatch.host_connection import HostConnection
from lbd.net.gen import dispatch_pb2 as pb
from tests.unit.dispatch.services import asking, opened
from tests.unit.dispatch.test_host_connection import BEHIND, Far


async def test_an_attempt_waits_while_its_host_is_behind(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        line = world.host("h2")
        line.is_behind = True
        await world.submit(asking())
        await world.dispatcher.settled()
        assert line.starts == []
        (job,) = (await world.jobs(selectors=["1"], user="ann")).jobs
        assert job.state == "pending"
        line.is_behind = False
        world.dispatcher._heartbeat("h2", line, pb.Heartbeat(number=2, slots=4, open_slots=4))
        await world.dispatcher.settled()
        assert [start.job for start in line.starts] == ["1"]


async def test_a_host_gets_no_order_on_a_new_connection_before_its_heartbeat(tmp_path):
    """Its lease would count from a heartbeat that the host does not know: it refused it as late."""
    far = Far()
    async with opened(tmp_path / "ledger.sqlite") as world:
        world.dispatcher.line_opened("h2", HostConnection(far.write, BEHIND))
        world.host("h2")
        world.dispatcher.line_opened("h2", HostConnection(far.write, BEHIND))
        await world.submit(asking())
        await world.dispatcher.settled()
        (job,) = (await world.jobs(selectors=["1"], user="ann")).jobs
        assert (job.state, job.attempt) == ("pending", 0)
        world.host("h2")
        await world.dispatcher.settled()
        starts = []
        while not starts:
            (message,) = await far.all(1)
            starts += message.starts
        (start,) = starts
        assert (start.job, start.attempt, start.anchor) == ("1", 1, 1)


async def test_a_stopping_dispatcher_sends_what_was_started_and_starts_nothing(tmp_path):
    """An attempt that was started but never sent kept its job waiting until its lease expired."""
    far = Far()
    async with opened(tmp_path / "ledger.sqlite") as world:
        world.dispatcher.lines["h2"] = line = HostConnection(far.write, BEHIND)
        world.host("h2")
        await world.submit(asking())
        stop, finished = asyncio.Event(), asyncio.Event()
        stop.set()
        finishing = asyncio.create_task(finish(world.dispatcher, stop, finished))
        messages = await far.all(2)
        await finishing
        assert finished.is_set()
        assert [start.job for message in messages for start in message.starts] == ["1"]
        assert line.broken.is_set()
        world.host("h2")
        await world.submit(asking())
        (job,) = (await world.jobs(selectors=["2"], user="ann")).jobs
        assert (job.state, far.messages.empty()) == ("pending", True)

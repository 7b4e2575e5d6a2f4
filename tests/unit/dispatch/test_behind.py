"""A host that does not take what it is sent gets no more, and its jobs go elsewhere."""

from lbd.net.gen import dispatch_pb2 as pb
from tests.unit.dispatch.services import asking, opened


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

"""A command that waits behind one for several slots."""

from lbd.config.schema import Config, LbmConfig
from lbd.lbm.link import wire as tags
from tests.unit.lbm.inbound.test_attached_job import begin, host
from tests.unit.until import until

__all__ = ["host"]


async def test_it_begins_as_that_one_pauses(host):
    host.config = Config(lbm=LbmConfig(named_wait_s=100.0))
    host.executions.resize(2, 0)
    host.slots.hold("h2-1", "bob")
    host.slots.kept_free.limit_s = 10.0
    wide, _ = begin(host, 1, forced=True, slots=2)
    behind, _ = begin(host, 2, forced=True)
    await until(lambda: wide.talk.said == behind.talk.said == [tags.QUEUED])
    for now_s in (0.0, 10.0):
        host.executions.pass_to(now_s)
    await until(lambda: tags.STARTED in behind.talk.said)
    assert wide.talk.said == [tags.QUEUED]

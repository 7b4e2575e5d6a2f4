"""A command whose program the rules forbid does not wait for a slot, only to be refused then."""

import pytest

from lbd.config.access import AdmissionConfig
from lbd.config.schema import Config
from lbd.lbm.keeper_link import SpawnFailed
from lbd.lbm.link import wire as tags
from lbd.net.gen import lbm_pb2
from tests.unit.lbm.inbound.test_attached_job import begin, exits, host, running
from tests.unit.until import until

__all__ = ["host"]


@pytest.fixture
async def full(host):
    """Its only slot is taken, and `true` is forbidden."""
    await running(host, 9)
    host.asked = []

    async def ask(order, patience_s):
        host.asked.append(order)
        raise SpawnFailed("admission.deny_programs", 0, ("/usr/bin/true", "/usr/bin/true"))

    host.link.ask = ask
    host.rules.config = Config(admission=AdmissionConfig(deny_programs=("true",)))
    return host


async def test_it_is_refused_at_once(full):
    job, _ = begin(full, 1, forced=True)
    await until(lambda: tags.REFUSED in job.talk.said)
    refused = lbm_pb2.Refused.FromString(job.talk.bodies[tags.REFUSED])
    assert refused.phase == "admission"
    assert refused.reason.startswith("true is not allowed here: ")
    assert (full.slots.used, list(full.slots.waiting)) == (1, [])


async def test_without_rules_on_programs_it_waits_and_the_keeper_is_not_asked(full):
    full.rules.config = Config()
    job, _ = begin(full, 1, forced=True)
    await until(lambda: tags.QUEUED in job.talk.said)
    exits(full)
    await until(lambda: tags.STARTED in job.talk.said)
    assert not full.asked

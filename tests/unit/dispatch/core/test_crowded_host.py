"""A host may claim more slots than any has: what happens there takes no longer for each of them.

With 20,000 attempts ahead of its slots, the end of their leases was one step of 24 s; with as many
running, and a gang that waited for a resource, each event took 16 s.
"""

import math
from dataclasses import replace
from random import Random

import pytest

from lbd.dispatch.core import servers as servers_module
from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.fcfs import Fcfs
from lbd.dispatch.core.queues import Queues
from lbd.model import Facts, HostId, JobId, Needs

H2 = HostId("h2")
RUNNING = 50


@pytest.fixture
def looks(monkeypatch):
    """Counts comparisons of entries, and how often what is free is added up."""
    counted = {"equal": 0, "joined": 0}
    joined, entry = servers_module.joined, servers_module.Entry
    same = entry.__eq__

    def equal(self, other):
        counted["equal"] += 1
        return same(self, other)

    def count(*given):
        counted["joined"] += 1
        return joined(*given)

    monkeypatch.setattr(entry, "__eq__", equal)
    monkeypatch.setattr(servers_module, "joined", count)
    return counted


def test_what_ends_is_not_looked_for_among_those_ahead(looks):
    rng, queues = Random(1), Queues(Fcfs())
    host = HostSlots(H2, 1, 1, 0.0, (1,), ahead=RUNNING)
    queues.hosts_are([host], 0.0, rng)
    for n in range(RUNNING):
        one = QueuedJob(JobId(str(n + 1)), only=H2, user="eve", array=1, array_index=n)
        queues.arrived(one, 1.0, rng)
    queues.ended(JobId("1"), 2.0, rng)  # now others of its array are known to be short
    for _ in range(RUNNING):
        queues.host_is(host, 3.0, rng)
    server = queues.servers_by_host[H2]
    assert len(server.ahead) > RUNNING // 2
    queues.host_gone(H2, 4.0, rng)
    first = next(iter(server.ahead.values()))
    for job in reversed(list(server.running)):
        queues.lost(job, 5.0, rng)
    assert (len(server.running), len(server.ahead), looks["equal"]) == (0, 0, 0)
    assert first.job.id


def test_what_is_free_is_added_up_once_for_all_ends(looks):
    rng, queues = Random(1), Queues(Fcfs())
    queues.gangs.drain_s = 600.0
    facts = Facts(("linux",), (("licence", RUNNING, 0), ("other", 9, 0)))
    host = HostSlots(H2, 2 * RUNNING, 2 * RUNNING, 0.0, (1,), facts=facts)
    queues.hosts_are([host], 0.0, rng)
    licence = Needs((("licence", 1),))
    for n in range(RUNNING):
        one = QueuedJob(JobId(str(n + 1)), limit_s=60.0 + n, only=H2, user="eve", needs=licence)
        queues.arrived(one, 1.0, rng)
    for n in range(RUNNING):
        one = QueuedJob(
            JobId(str(100 + n)), user="ann", array=100, array_index=n, gang=RUNNING, needs=licence
        )
        queues.arrived(one, 2.0, rng)
    (parked,) = queues.gangs.parked
    assert not math.isinf(parked.drain.until_s)
    looks["joined"] = 0
    queues.host_is(replace(host, load=1.0), 3.0, rng)
    assert RUNNING <= looks["joined"] < 4 * RUNNING
    plan = queues.gangs.plan(queues.servers[1], 3.0)
    assert plan.ends_s == 1.0 + 60.0 + RUNNING - 1, "once the last of them has ended"

"""round-robin: hosts in turn, each as often in a round as it has slots."""

from collections import Counter
from random import Random

import pytest

from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.model import HostId, JobId
from tests.unit.dispatch.core.test_queues import Table


def test_round_robin_gives_a_host_of_two_slots_two_turns_a_round():
    table = Table("round-robin")
    table.host("h1")
    table.host("h2", 2)
    table.host("h3")
    for i in range(8):
        table.arrive(f"j{i}")
    per_host = Counter(entry.host or entry.line for entry in table.queues.registry.values())
    assert per_host == {"h1": 2, "h2": 4, "h3": 2}


@pytest.mark.parametrize("seed", range(5))
def test_round_robin_goes_through_the_laps_of_all_hosts_and_begins_again(seed):
    rng = Random(seed)
    hosts = {HostId(f"h{n}"): HostSlots(HostId(f"h{n}"), rng.randint(1, 6)) for n in range(7)}
    laps = [name for lap in range(6) for name, host in hosts.items() if host.slots > lap]
    discipline = make("round-robin", ())
    found = [discipline.join(QueuedJob(JobId("1")), hosts, 0.0, rng) for _ in range(2 * len(laps))]
    assert found == laps * 2


def test_round_robin_does_not_go_through_each_slot_of_a_host_that_has_very_many():
    """65,535 slots made each job cost 3 ms: an array of 1,000 tasks held the dispatcher for 3 s."""
    hosts = {HostId("h1"): HostSlots(HostId("h1"), 1), HostId("h2"): HostSlots(HostId("h2"), 10**9)}
    discipline = make("round-robin", ())
    found = [discipline.join(QueuedJob(JobId("1")), hosts, 0.0, Random(1)) for _ in range(3)]
    assert found == ["h1", "h2", "h2"]

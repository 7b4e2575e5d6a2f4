"""Clusters of LIMs that grow, and clusters with several releases.

`LBD_LIM_HOSTS=1000 .venv/bin/python -m pytest tests/simulation/test_lim_scale.py` is the large one.
"""

import os
from dataclasses import replace
from random import Random

import pytest

from lbd.config.schema import LimConfig
from lbd.lim.core import messages as m
from lbd.model import HostId, HostState
from lbd.testing.virtual_cluster import VirtualCluster

PARAMS = LimConfig()
HOSTS = int(os.environ.get("LBD_LIM_HOSTS", "40"))


def test_a_large_cluster_starts_loses_a_tenth_at_once_and_heals():
    cluster = VirtualCluster(HOSTS, 1)
    cluster.check_each_event = False
    cluster.run_until(cluster.settled, 60, "every host sees every host")
    cluster.run(PARAMS.keepalive_s)
    whole_vectors = cluster["h1"].sent["Vector"]
    cluster.run(PARAMS.keepalive_s)
    assert cluster["h1"].sent["Vector"] == whole_vectors, "to hosts that began before the centre"
    rng = Random(1)
    lost = rng.sample(cluster.names[1:], HOSTS // 10)
    for name in lost:
        cluster.crash(name)
    cluster.run_until(cluster.settled, PARAMS.down_after_s + 15, "the lost are down everywhere")
    for name in lost:
        cluster.start(name)
    cluster.run_until(cluster.settled, 30, "they are back everywhere")
    cluster.load(**dict.fromkeys(lost, 5.0))
    cluster.run(5)
    for host in cluster.alive():
        entries = host.state.table.entries
        assert all(entries[name].sample.vector.index > 2.0 for name in lost)


def test_the_centre_is_lost_with_a_tenth_and_another_sends_to_all():
    cluster = VirtualCluster(20, 2)
    cluster.check_each_event = False
    cluster.run_until(cluster.settled, 60, "every host sees every host")
    for name in ("h1", "h7"):
        cluster.crash(name)
    cluster.run_until(cluster.settled, PARAMS.down_after_s + 15, "the lost are down everywhere")
    assert cluster.agreed_centre() == "h2"
    cluster.load(h9=5.0)
    cluster.run(5)
    for host in cluster.alive():
        assert host.state.table.entries[HostId("h9")].sample.vector.index > 2.0


# -- an earlier release ------------------------------------------------------------------------


class MixedCluster(VirtualCluster):
    """Some hosts run the release before deltas: they do not announce that they read deltas, do not
    see that others do, and take a delta for garbage."""

    old: frozenset[HostId] = frozenset()

    def carried(self, message):
        return super().carried(as_before(message) if message.sender in self.old else message)

    def _arrive(self, target, message, *more):
        if self._targets[target] in self.old:
            assert not isinstance(message.body, m.Delta)
            message = as_before(message)
        super()._arrive(target, message, *more)


def as_before(message):
    body = message.body
    if isinstance(body, m.Hello):
        body = replace(body, self=replace(body.self, vector_format=0))
    elif isinstance(body, m.Members):
        members = tuple(replace(member, vector_format=0) for member in body.members)
        body = replace(body, members=members)
    elif isinstance(body, m.Ack):
        body = replace(body, known_version=0)
    else:
        return message
    return replace(message, body=body)


@pytest.mark.parametrize("old", [("h1",), ("h2", "h4"), ("h1", "h3", "h5"), ("h2", "h3", "h4")])
@pytest.mark.parametrize("algorithm", ["GLOBAL", "LOWEST"])
def test_hosts_of_an_earlier_release_see_all_and_are_seen(old, algorithm):
    cluster = MixedCluster(5, 1, LimConfig(algorithm=algorithm))
    cluster.old = frozenset(map(HostId, old))
    cluster.run_until(cluster.settled, 30, "every host sees every host")
    cluster.load(h5=4.0, h4=2.0)
    cluster.run(12)
    for host in cluster.alive():
        assert host.state.table.entries[HostId("h5")].sample.vector.index == pytest.approx(2, 0.1)
    sent = {name: host.sent for name, host in cluster.hosts.items()}
    assert bool(sent["h1"]["Delta"]) == ("h1" not in old)
    cluster.crash("h1")
    cluster.run_until(cluster.settled, PARAMS.down_after_s + 15, "h1 is down everywhere")
    cluster.load(h5=0.0)
    cluster.run(12)
    for host in cluster.alive():
        assert host.state.table.entries[HostId("h5")].sample.vector.index < 0.1
        assert host.state.table.state(HostId("h3"), cluster.now_s)[0] is HostState.UP


def test_a_host_that_returns_with_the_earlier_release_gets_whole_vectors():
    cluster = MixedCluster(3, 1)
    cluster.run_until(cluster.settled, 30, "every host sees every host")
    cluster.crash("h3")
    cluster.run(5)
    cluster.old = frozenset({HostId("h3")})
    cluster.start(HostId("h3"))
    cluster.run_until(cluster.settled, 30, "h3 is back")
    cluster.load(h2=4.0)
    cluster.run(5)
    assert cluster["h3"].state.table.entries[HostId("h2")].sample.vector.index > 1.5

"""Clusters of LIMs that grow.

`LBD_LIM_HOSTS=1000 .venv/bin/python -m pytest tests/simulation/test_lim_scale.py` is the large one.
"""

import os
from random import Random

import pytest

from lbd.config.schema import ALGORITHMS, LimConfig
from lbd.model import HostId
from lbd.testing.virtual_cluster import VirtualCluster

PARAMS = LimConfig()
HOSTS = int(os.environ.get("LBD_LIM_HOSTS", "40"))


def test_a_large_cluster_starts_loses_a_tenth_at_once_and_heals():
    cluster = VirtualCluster(HOSTS, 1)
    cluster.check_each_event = False
    cluster.run_until(cluster.settled, 60, "every host sees every host")
    cluster.run(2 * PARAMS.keepalive_s)
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


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_many_hosts_that_start_at_once_see_one_another_under_each_algorithm(algorithm):
    """Under DISTED a host that knew of no other reported to nobody, and so none heard of it."""
    cluster = VirtualCluster(60, 1, LimConfig(algorithm=algorithm))
    cluster.check_each_event = False
    cluster.run_until(cluster.settled, 2 * PARAMS.keepalive_s, "every host sees every host")


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

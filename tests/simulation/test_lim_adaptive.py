"""lim.adaptive in a whole cluster: every host follows its centre, whichever host that is."""

from lbd.config.schema import LimConfig
from lbd.lim.core import events as e
from lbd.testing.virtual_cluster import settled


def periods(cluster):
    return {host.state.in_force.lim.exchange_period_s for host in cluster.alive()}


def test_every_host_follows():
    cluster = settled(4, seed=7, params=LimConfig(adaptive=True))
    cluster.load(**dict.fromkeys(cluster.names, 5.0))
    cluster.run_until(lambda: periods(cluster) == {2.0}, 300, "longer periods under load")
    cluster.crash("h1")  # the centre
    cluster.load(**dict.fromkeys(cluster.names[1:], 0.0))
    cluster.run_until(lambda: periods(cluster) == {0.5}, 300, "shorter ones at rest")


def test_it_can_be_turned_on_and_off_while_they_run():
    cluster = settled(3, seed=8)
    cluster.run(120)
    assert periods(cluster) == {1.0}
    cluster.handle(cluster["h2"], e.ChangeSettings(None, {"lim.adaptive": 1.0}))
    cluster.run_until(lambda: periods(cluster) == {0.5}, 120, "tuned")
    cluster.handle(cluster["h3"], e.ChangeSettings(None, {"lim.exchange_period_s": 0.4}))
    cluster.run_until(lambda: periods(cluster) == {0.2}, 30, "what somebody sets is tuned")
    cluster.handle(cluster["h2"], e.ChangeSettings(None, {"lim.adaptive": 0.0}))
    cluster.run_until(lambda: periods(cluster) == {0.4}, 30, "as it was set")

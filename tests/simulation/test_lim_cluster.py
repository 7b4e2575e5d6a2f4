"""Clusters of LIMs in virtual time: they meet, survive faults, and come together again."""

from functools import partial
from itertools import product

import pytest

from lbd.config.schema import ALGORITHMS, LimConfig
from lbd.lim.core import events as e
from lbd.model import HostId, HostState
from lbd.sim.faults.network import LATENCY_S
from lbd.testing.virtual_cluster import VirtualCluster, settled
from tests.bench import many_hosts

SEEDS = range(1, 6)
PARAMS = LimConfig()


def state_seen(cluster: VirtualCluster, by: str, of: str) -> HostState:
    return cluster[by].state.table.state(HostId(of), cluster.now_s)[0]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_converges(algorithm, seed):
    cluster = settled(5, seed, LimConfig(algorithm=algorithm))
    assert cluster.agreed_centre() == "h1"
    cluster.load(h2=4.0)
    cluster.run(PARAMS.keepalive_s * 2 + 2)
    for host in cluster.alive():
        entry = host.state.table.entries[HostId("h2")]
        assert entry.sample.vector.index == pytest.approx(2.0, abs=0.15)
    cluster.check_all()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_next_rank_takes_over_when_the_centre_dies(seed):
    cluster = settled(5, seed)
    cluster.crash("h1")
    took_s = cluster.run_until(lambda: cluster.agreed_centre() == "h2", 30, "h2 is the centre")
    assert PARAMS.centre_silence_s / 2 <= took_s <= PARAMS.centre_silence_s + 3
    cluster.run(PARAMS.down_after_s)
    assert cluster.settled()
    assert state_seen(cluster, "h5", "h1") is HostState.DOWN
    cluster.start(HostId("h1"))
    cluster.run_until(
        lambda: cluster.settled() and cluster.agreed_centre() == "h1", 20, "h1 leads again"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_two_dead_leaders_do_not_take_twice_as_long(seed):
    cluster = settled(5, seed)
    cluster.crash("h2")
    cluster.run(PARAMS.down_after_s + 5)
    cluster.crash("h1")
    took_s = cluster.run_until(lambda: cluster.agreed_centre() == "h3", 30, "h3 is the centre")
    assert took_s <= PARAMS.centre_silence_s + 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_partition_has_two_centres_and_heals(seed):
    cluster = settled(6, seed)
    cluster.cut("h1", "h2")
    cluster.run(PARAMS.down_after_s + 10)
    assert {cluster[n].state.centre for n in ("h1", "h2")} == {"h1"}
    assert {cluster[n].state.centre for n in ("h3", "h4", "h5", "h6")} == {"h3"}
    assert state_seen(cluster, "h1", "h5") is HostState.DOWN
    assert state_seen(cluster, "h3", "h6") is HostState.UP
    cluster.heal()
    cluster.run_until(cluster.settled, 20, "one cluster again")
    assert cluster.agreed_centre() == "h1"


@pytest.mark.parametrize("seed", [49, 158, 203, 222])  # left h3 closed to h2
def test_no_host_stays_closed_to_another_after_two_centres_on_a_slow_network(seed):
    cluster = VirtualCluster(3, seed)
    cluster.latency_s = (0.01, 2.0)
    cluster.run(1.0)
    cluster.at(1.0, lambda: cluster.stop("h1"))
    cluster.at(18.0, lambda: cluster.resume("h1"))
    accepts = {yes: e.LbmStatus(accepting=yes, slots_total=2) for yes in (False, True)}
    for host in cluster.alive()[1:]:
        cluster.at(16.0, partial(cluster.handle, host, accepts[False]))
        cluster.at(cluster.rng.uniform(18, 24), partial(cluster.handle, host, accepts[True]))
    cluster.run(25.0)
    cluster.latency_s = LATENCY_S
    cluster.run(PARAMS.keepalive_s * 3)
    for by, of in product(cluster.alive(), repeat=2):
        sample = by.state.table.entries[of.state.me].sample
        assert sample.vector.accepting, (by.state.me, sample)


def test_a_cut_between_two_hosts_only_blinds_those_two():
    cluster = settled(4, 3)
    cluster.cuts.add(frozenset((HostId("h1"), HostId("h2"))))
    cluster.run(PARAMS.down_after_s + 10)
    for by in ("h3", "h4"):
        assert all(state_seen(cluster, by, of) is HostState.UP for of in ("h1", "h2", "h3", "h4"))
    for of in ("h3", "h4"):
        assert state_seen(cluster, "h2", of) is HostState.UP  # it is a centre of its own
    cluster.heal()
    cluster.run_until(cluster.settled, 20, "one cluster again")


def test_a_stopped_lim_is_late_then_down_then_up():
    cluster = settled(4, 2)
    cluster.stop("h3")
    cluster.run_until(lambda: state_seen(cluster, "h1", "h3") is HostState.LATE, 15, "h3 is late")
    cluster.run_until(lambda: state_seen(cluster, "h1", "h3") is HostState.DOWN, 25, "h3 is down")
    cluster.resume("h3")
    cluster.run_until(cluster.settled, 20, "h3 is back")


def test_a_host_joins_by_one_address_and_leaves_for_good():
    cluster = settled(3, 4)
    newcomer = HostId("h9")
    target = cluster["h2"].state.membership.me.lim_target
    cluster.start(newcomer, join=target)
    cluster.run_until(cluster.settled, 10, "h9 is seen by all")
    assert set(cluster["h9"].state.table.entries) == {"h1", "h2", "h3", "h9"}
    assert cluster.agreed_centre() == "h1"
    cluster.leave("h9", for_good=True)
    cluster.run(1.0)
    for name in ("h1", "h2", "h3"):
        assert newcomer not in cluster[name].state.table.entries
    cluster.run(20)  # gossip does not bring it back
    assert all(newcomer not in host.state.table.entries for host in cluster.alive())
    cluster.start(newcomer, join=target)
    cluster.run_until(cluster.settled, 10, "h9 is seen by all again")


def test_a_listed_host_that_leaves_is_down_at_once_and_may_return():
    cluster = settled(3, 5)
    cluster.leave("h3")
    cluster.run(1.0)
    assert cluster["h1"].state.table.state(HostId("h3"), cluster.now_s) == (
        HostState.DOWN,
        "was stopped",
    )
    cluster.start(HostId("h3"))
    cluster.run_until(cluster.settled, 10, "h3 is back")


def test_a_joined_host_that_was_stopped_is_missed_until_it_is_back_or_forgotten():
    cluster = settled(3, 4)
    target = cluster["h2"].state.membership.me.lim_target
    cluster.start(HostId("h9"), join=target)
    cluster.run_until(cluster.settled, 10, "h9 is seen by all")
    cluster.leave("h9")
    cluster.run(60)
    for name in ("h1", "h2", "h3"):
        state, why = cluster[name].state.table.state(HostId("h9"), cluster.now_s)
        assert (state, why) == (HostState.DOWN, "was stopped")
    cluster.start(HostId("h9"), join=target)
    cluster.run_until(cluster.settled, 10, "h9 is seen by all again")
    cluster.leave("h9")
    cluster.run(cluster["h1"].state.in_force.lim.forget_after_s + 10)
    assert all(HostId("h9") not in host.state.table.entries for host in cluster.alive())


def test_the_centre_may_leave_without_a_silence():
    cluster = settled(4, 6)
    cluster.leave("h1")
    took_s = cluster.run_until(lambda: cluster.agreed_centre() == "h2", 5, "h2 is the centre")
    assert took_s <= 1.0


def test_the_join_address_may_come_up_later():
    cluster = VirtualCluster(1, 7)
    cluster.names = [HostId("h1"), HostId("h2")]
    cluster.start(HostId("h2"), join="10.0.0.2:7901")
    cluster.run_until(cluster.settled, 15, "the two have met")


def test_the_host_by_which_others_joined_may_be_restarted():
    """No configuration names the others: after its orderly end it knows none of them."""
    cluster = settled(1, 8)
    target = cluster["h1"].state.membership.me.lim_target
    for name in ("h2", "h3"):
        cluster.start(HostId(name), join=target)
    cluster.run_until(cluster.settled, 15, "the three have met")
    cluster.leave("h1")
    cluster.run(2.0)
    assert state_seen(cluster, "h2", "h1") is HostState.DOWN
    cluster.start(HostId("h1"))
    cluster.run_until(cluster.settled, 15, "the three have met again")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_second_host_with_the_same_name_is_refused_with_one_line(seed):
    cluster = settled(3, seed)
    first = cluster["h2"]
    cluster.start(HostId("h2"), address="10.9.9.9")
    second = cluster["h2"]
    cluster.run(3.0)
    assert not second.running
    assert second.failure == (
        "the name h2 is taken by 10.0.0.3:7901, which is alive; give this host another host.name"
    )
    assert first.running
    assert not first.failure


@pytest.mark.parametrize("seed", SEEDS)
def test_a_machine_that_replaces_another_is_known_by_its_address_within_seconds(seed):
    cluster = settled(1, seed)
    target = cluster["h1"].state.membership.me.lim_target
    for name in ("h2", "h3"):
        cluster.start(HostId(name), join=target)
    cluster.run_until(cluster.settled, 15, "the three have met")
    cluster.crash("h3")
    cluster.run(cluster["h2"].state.in_force.lim.down_after_s)
    cluster.start(HostId("h3"), address="10.9.9.9", join=target)
    cluster.cut_between({HostId("h2")}, {HostId("h3")})  # it first hears of it from the centre
    cluster.run(2.0)
    cluster.heal()
    cluster.run(2 * cluster["h2"].state.in_force.lim.keepalive_s)
    for name in ("h1", "h2"):
        known = cluster[name].state.table.entries[HostId("h3")].member
        assert known.lim_target == "10.9.9.9:7901"


def test_a_host_whose_clock_went_back_is_accepted_again():
    cluster = settled(3, 8)
    cluster.crash("h2")
    cluster.run(5)
    cluster._incarnations = iter([0, 1, 2])  # below all known ones
    cluster.start(HostId("h2"))
    cluster.run_until(cluster.settled, 15, "h2 is back above its old incarnation")


# -- settings ------------------------------------------------------------------------------------


def algorithms(cluster: VirtualCluster) -> set[str]:
    return {host.state.in_force.lim.algorithm for host in cluster.alive()}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_change_of_algorithm_reaches_all_joiners_and_returning_hosts(seed):
    cluster = settled(5, seed)
    cluster.crash("h4")
    cluster.handle(cluster["h3"], e.ChangeSettings("CENTRAL", {"lim.min_gain": 0.5}))
    cluster.run(1.0)
    assert algorithms(cluster) == {"CENTRAL"}
    cluster.start(HostId("h4"))
    cluster.start(HostId("h9"), join=cluster["h5"].state.membership.me.lim_target)
    cluster.run(3.0)
    assert algorithms(cluster) == {"CENTRAL"}
    assert {host.state.in_force.lim.min_gain for host in cluster.alive()} == {0.5}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_change_made_in_a_partition_wins_everywhere_once_healed(seed):
    cluster = settled(5, seed)
    cluster.cut("h4", "h5")
    cluster.run(1.0)
    cluster.handle(cluster["h5"], e.ChangeSettings("LOWEST", {}))
    cluster.handle(cluster["h5"], e.ChangeSettings("NOLB", {}))
    cluster.handle(cluster["h2"], e.ChangeSettings("CENTRAL", {}))
    cluster.run(1.0)
    assert algorithms(cluster) == {"NOLB", "CENTRAL"}
    cluster.heal()
    cluster.run(2 * PARAMS.keepalive_s + 5)
    assert algorithms(cluster) == {"NOLB"}  # changed twice: the higher version


def test_a_drain_reaches_all_and_survives_a_restart():
    cluster = settled(3, 9)
    cluster.handle(cluster["h2"], e.SetDrained(True))
    cluster.run(2.5)
    assert state_seen(cluster, "h3", "h2") is HostState.DRAINED
    cluster.crash("h2")
    cluster.start(HostId("h2"))
    cluster.run(3.0)
    assert state_seen(cluster, "h3", "h2") is HostState.DRAINED


@pytest.mark.parametrize("seed", SEEDS)
def test_a_host_that_is_down_is_drained_by_the_others_and_stays_so_when_it_is_back(seed):
    cluster = settled(4, seed)
    cluster.crash("h3")
    cluster.run(PARAMS.down_after_s + 5)
    cluster.handle(cluster["h2"], e.ChangeSettings(None, {}, {HostId("h3"): True}))
    cluster.run(1.0)
    assert all(host.state.table.drains == {"h3": True} for host in cluster.alive())
    cluster.crash("h2")  # more hosts remember it than the one that was asked
    cluster.start(HostId("h3"))
    cluster.run(3.0)
    assert cluster["h3"].drained_kept
    for by in ("h1", "h3", "h4"):
        assert state_seen(cluster, by, "h3") is HostState.DRAINED
        assert cluster[by].state.table.drains == {}  # done, so that `undrain` there holds as well
    cluster.handle(cluster["h3"], e.SetDrained(False))
    cluster.run(3.0)
    assert {state_seen(cluster, by, "h3") for by in ("h1", "h4")} == {HostState.UP}
    assert not cluster["h3"].drained_kept


@pytest.mark.parametrize("seed", SEEDS)
def test_a_drain_of_a_host_that_is_down_outlives_a_restart_of_all_lims(seed):
    cluster = settled(4, seed)
    cluster.crash("h3")
    cluster.crash("h4")  # which hears of it in the end
    cluster.run(PARAMS.down_after_s + 5)
    cluster.handle(cluster["h2"], e.ChangeSettings(None, {}, {HostId("h3"): True}))
    cluster.run(1.0)
    cluster.crash("h1")
    cluster.crash("h2")
    for name in ("h4", "h2", "h1"):
        cluster.start(HostId(name))
    cluster.run(2 * PARAMS.keepalive_s + 5)
    assert all(host.state.table.drains == {"h3": True} for host in cluster.alive())
    cluster.start(HostId("h3"))
    cluster.run_until(lambda: cluster["h3"].drained_kept, 10, "it will be drained when it is back")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_drain_that_is_done_does_not_come_back_from_the_disk_of_one_host(seed):
    cluster = settled(4, seed)
    cluster.crash("h3")
    cluster.run(PARAMS.down_after_s + 5)
    cluster.handle(cluster["h2"], e.ChangeSettings(None, {}, {HostId("h3"): True}))
    cluster.run(1.0)
    cluster.crash("h4")  # on whose disk it stays
    cluster.start(HostId("h3"))
    cluster.run_until(lambda: cluster["h1"].state.table.drains == {}, 10, "it is done")
    cluster.handle(cluster["h3"], e.SetDrained(False))
    cluster.run(2.0)
    for name in ("h1", "h2", "h3"):
        cluster.crash(name)
    for name in ("h4", "h1", "h2", "h3"):
        cluster.start(HostId(name))
    cluster.run(2 * PARAMS.keepalive_s + 5)
    assert not cluster["h3"].drained_kept
    assert {state_seen(cluster, by, "h3") for by in ("h1", "h2", "h4")} == {HostState.UP}


def test_a_host_that_restarts_alone_gets_all_settings_of_the_others():
    """It starts with the number of the drains on its disk, which is that of all settings."""
    cluster = settled(4, 9)
    cluster.crash("h3")
    cluster.run(PARAMS.down_after_s + 5)
    cluster.handle(cluster["h2"], e.ChangeSettings("NOLB", {}, {HostId("h3"): True}))
    cluster.run(1.0)
    cluster.crash("h4")
    cluster.start(HostId("h4"))
    cluster.run(2 * PARAMS.keepalive_s + 5)
    assert cluster["h4"].state.in_force.lim.algorithm == "NOLB"


def test_a_drained_host_that_is_down_is_undrained():
    cluster = settled(3, 9)
    cluster.handle(cluster["h3"], e.SetDrained(True))
    cluster.run(2.5)
    cluster.crash("h3")
    cluster.run(PARAMS.down_after_s + 5)
    cluster.handle(cluster["h2"], e.ChangeSettings(None, {}, {HostId("h3"): False}))
    cluster.run(1.0)
    cluster.start(HostId("h3"))
    cluster.run_until(lambda: not cluster["h3"].state.drained, 5, "it takes jobs again")
    cluster.run(2.5)
    assert state_seen(cluster, "h1", "h3") is HostState.UP
    assert not cluster["h3"].drained_kept


def test_no_host_picks_a_drained_host_before_it_has_heard_of_it():
    cluster = settled(3, 9)
    cluster.handle(cluster["h2"], e.ChangeSettings(None, {}, {HostId("h3"): True}))
    assert state_seen(cluster, "h2", "h3") is HostState.DRAINED
    cluster.run(1.0)
    assert cluster["h3"].drained_kept


def test_the_steps_that_are_measured_with_a_thousand_hosts_all_end(capsys):
    many_hosts.in_virtual_time(20, LimConfig(), 1)
    said = capsys.readouterr().out
    assert "2 died at once, all know it" in said
    assert "they were cut off, and it healed" in said

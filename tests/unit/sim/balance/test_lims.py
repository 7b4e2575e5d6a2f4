"""The LIMs of the simulator exchange messages as the daemons do."""

from dataclasses import replace

import pytest

from lbd.lim.core.broadcast import IN_FLIGHT_MAX
from lbd.policy.registry import WEIGH_AGE
from lbd.sim.balance.engine import Engine
from lbd.sim.balance.lims import AT_ONCE_S, Lims, Node
from lbd.sim.balance.runs import jobs_of, placement_of
from lbd.sim.balance.setup import LIM, Setup
from lbd.sim.balance.workload import BERKELEY, WORKLOADS

HOSTS, DURATION_S, RECEIVE_S = 40, 60.0, 0.2


@pytest.mark.parametrize("algorithm", ["GLOBAL", "DISTED"])
def test_a_host_that_cannot_keep_up_lags_no_more_than_what_may_be_in_flight(algorithm):
    costs = replace(BERKELEY, receive_s=RECEIVE_S)
    setup = Setup(WORKLOADS["berkeley"], HOSTS, duration_s=DURATION_S, costs=costs)
    engine = Engine(setup)
    engine.placement = placement_of(engine, algorithm, "1 0")
    engine.run(jobs_of(setup, "1 0"))
    unloaded_s = max(cpu.overhead(0.0, DURATION_S) for cpu in engine.cpus)
    assert unloaded_s > DURATION_S + 5.0  # otherwise it would show nothing
    moves_s = 5.0
    assert unloaded_s < DURATION_S + HOSTS * IN_FLIGHT_MAX * RECEIVE_S + moves_s


class AtEveryTick(Lims):
    """Skips no tick."""

    def _speaks_anyway(self, host: Node, now_s: float) -> bool:
        return True


@pytest.mark.parametrize("keepalive_s", [3600.0, 7.0])
@pytest.mark.parametrize("algorithm", ["GLOBAL", "DISTED", "CENTRAL", "RESERVE", *WEIGH_AGE])
def test_skipped_ticks_would_have_changed_nothing(algorithm, keepalive_s):
    lim = replace(LIM, exchange_period_s=0.4, keepalive_s=keepalive_s)
    setup = Setup(WORKLOADS["berkeley"], hosts=10, duration_s=120.0, lim=lim)
    found = []
    for kind in (Lims, AtEveryTick):
        engine = Engine(setup)
        placement = engine.placement = kind(engine, algorithm, "1 0")
        jobs = jobs_of(setup, "1 0")
        engine.run(jobs)
        states = [host.state for host in placement.hosts]
        ticks = sum(state._next_exchange_s for state in states)  # each exchange moves it on
        found.append((jobs, engine.messages, [s._rng.getstate() for s in states], ticks))
    assert found[0][:3] == found[1][:3]
    assert found[0][3] < found[1][3]  # otherwise it would show nothing


@pytest.mark.parametrize("algorithm", ["GLOBAL", "DISTED"])
def test_hosts_report_as_often_as_adaptive_parameters_say(algorithm):
    """At a low load that is twice as often as configured."""
    rates = []
    for adaptive in (False, True):
        lim = replace(LIM, exchange_period_s=4.0, adaptive=adaptive)
        setup = Setup(WORKLOADS["berkeley"], hosts=6, utilisation=0.3, duration_s=600.0, lim=lim)
        engine = Engine(setup)
        placement = engine.placement = Lims(engine, algorithm, "1 0")
        engine.run(jobs_of(setup, "1 0"))
        rates.append(engine.messages)
        periods = {host.state.in_force.lim.exchange_period_s for host in placement.hosts}
        assert periods == {2.0 if adaptive else 4.0}
        # what the current index shows at once is not charged for longer
        assert {host.state.table.smoothing_s for host in placement.hosts} == {AT_ONCE_S}
    assert rates[1] > 1.25 * rates[0]

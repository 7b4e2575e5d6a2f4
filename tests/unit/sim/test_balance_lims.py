"""The LIMs of the simulator carry their messages as the daemons do."""

from dataclasses import replace

import pytest

from lbd.lim.teller import IN_FLIGHT_MAX
from lbd.sim.balance import jobs_of, placement_of
from lbd.sim.balance_engine import Engine
from lbd.sim.balance_setup import Setup
from lbd.sim.balance_workload import BERKELEY, WORKLOADS

HOSTS, DURATION_S, RECEIVE_S = 40, 60.0, 0.2


@pytest.mark.parametrize("algorithm", ["GLOBAL", "DISTED"])
def test_who_cannot_keep_up_falls_no_further_behind_than_what_may_be_in_flight(algorithm):
    costs = replace(BERKELEY, receive_s=RECEIVE_S)
    setup = Setup(WORKLOADS["berkeley"], HOSTS, duration_s=DURATION_S, costs=costs)
    engine = Engine(setup)
    engine.placement = placement_of(engine, algorithm, "1 0")
    engine.run(jobs_of(setup, "1 0"))
    unloaded_s = max(cpu.overhead(0.0, DURATION_S) for cpu in engine.cpus)
    assert unloaded_s > DURATION_S + 5.0  # or it would show nothing
    moves_s = 5.0
    assert unloaded_s < DURATION_S + HOSTS * IN_FLIGHT_MAX * RECEIVE_S + moves_s

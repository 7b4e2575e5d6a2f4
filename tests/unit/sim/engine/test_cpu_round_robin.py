import pytest

from lbd.sim.engine.cpu_round_robin import RoundRobinCpu
from tests.unit.sim.engine.test_cpu import run


def test_each_task_in_turn_gets_a_quantum():
    cpu = RoundRobinCpu(1, 1.0, 1.0)
    assert cpu.add("a", 2.5, 0.0) == 1.0
    assert cpu.add("b", 1.5, 0.0) is None
    # a 1, b 2, a 3, b 3.5, a 4
    assert run(cpu) == [(3.5, "b"), (4.0, "a")]


def test_a_new_task_waits_for_those_before_it():
    cpu = RoundRobinCpu(1, 1.0, 10.0)
    cpu.add("a", 3.0, 0.0)
    cpu.add("b", 0.5, 1.0)
    assert run(cpu) == [(3.0, "a"), (3.5, "b")]


def test_cores_speed_and_fractions_of_a_core():
    cpu = RoundRobinCpu(2, 2.0, 1.0)
    for name in "abc":
        cpu.add(name, 2.0, 0.0)
    assert run(cpu) == [(1.0, "a"), (1.0, "b"), (2.0, "c")]
    half = RoundRobinCpu(0.5, 1.0, 1.0)
    half.add("a", 2.0, 0.0)
    assert run(half) == [(4.0, "a")]


def test_messages_go_before_tasks():
    cpu = RoundRobinCpu(1, 1.0, 10.0)
    cpu.add("a", 1.0, 0.0)
    assert cpu.overhead(0.5, 0.2) == pytest.approx(0.7)
    assert cpu.overhead(0.5, 0.2) == pytest.approx(1.2)  # after the first
    assert cpu.overhead(0.0, 0.3) == pytest.approx(1.2)
    assert run(cpu) == [(2.0, "a")]


def test_its_mean_queue_and_utilisation():
    cpu = RoundRobinCpu(1, 1.0, 0.3)
    cpu.is_metered = True
    cpu.add("a", 1.0, 0.0)
    cpu.add("b", 1.0, 0.0)
    assert run(cpu) == [(1.9, "a"), (2.0, "b")]
    tasks, busy = cpu.means(4.0, 4.0)
    assert tasks == pytest.approx((1.9 + 2.0) / 4)
    assert busy == pytest.approx(2 / 4)

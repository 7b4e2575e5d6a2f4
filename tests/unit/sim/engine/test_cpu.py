import pytest

from lbd.sim.engine.cpu import NEVER, SharedCpu


def run(cpu, limit=100):
    """Returns (moment, task) of every end from now on."""
    ends = []
    for _ in range(limit):
        if cpu.due_s == NEVER:
            return ends
        at_s = cpu.due_s
        ends += [(pytest.approx(at_s), task) for task in cpu.finished(at_s)]
    raise AssertionError(f"still at it: {ends}")


def test_tasks_share_the_cpu_equally():
    cpu = SharedCpu(1, 1.0)
    assert cpu.add("long", 2.0, 0.0) == 2.0
    # alone it would be done at 1, but there are two of them
    assert cpu.add("short", 1.0, 0.0) is None
    assert run(cpu) == [(2.0, "short"), (3.0, "long")]


def test_a_longer_task_that_arrives_needs_no_new_event():
    cpu = SharedCpu(1, 1.0)
    cpu.add("a", 1.0, 0.0)
    assert cpu.add("b", 5.0, 0.5) is None
    assert cpu.finished(1.0) == []  # it now takes until 1.5
    assert run(cpu) == [(1.5, "a"), (6.0, "b")]


def test_a_shorter_task_that_arrives_is_done_sooner():
    cpu = SharedCpu(1, 1.0)
    cpu.add("a", 10.0, 0.0)
    assert cpu.add("b", 1.0, 2.0) == pytest.approx(4.0)
    assert run(cpu) == [(4.0, "b"), (11.0, "a")]


@pytest.mark.parametrize("now_s", [3e7, 1e9, 1e11])
def test_after_years_every_task_still_ends(now_s):
    cpu = SharedCpu(1, 1.0)
    for number in range(100):
        cpu.add(number, 1.0 + number / 7, now_s + number / 3)
    assert len(run(cpu, 1000)) == 100


def test_more_cores_and_more_speed():
    cpu = SharedCpu(2, 2.0)
    for name in "abc":
        cpu.add(name, 4.0, 0.0)
    # three tasks on two cores of speed 2: each has 4/3 of a reference core
    assert [task for _, task in run(cpu)] == ["a", "b", "c"]
    cpu.add("d", 4.0, 10.0)
    assert cpu.due_s == pytest.approx(12.0)


def test_messages_go_before_tasks():
    cpu = SharedCpu(1, 1.0)
    cpu.add("a", 1.0, 0.0)
    assert cpu.overhead(0.5, 0.2) == pytest.approx(0.7)
    assert cpu.overhead(0.5, 0.2) == pytest.approx(1.2)  # after the first
    assert run(cpu) == [(2.0, "a")]


def test_its_mean_queue_and_utilisation():
    cpu = SharedCpu(1, 1.0)
    cpu.is_metered = True
    cpu.add("a", 1.0, 0.0)
    cpu.finished(1.0)
    assert cpu.means(4.0, 4.0) == pytest.approx((0.25, 0.25))
    for name in "bcd":
        cpu.add(name, 10.0, 4.0)
    assert cpu.means(6.0, 2.0) == pytest.approx((3.0, 1.0))
    idle = SharedCpu(2, 1.0)
    idle.is_metered = True
    assert idle.means(1.0, 1.0) == (0.0, 0.0)


def test_messages_that_wait_for_each_other_count_as_time_with_tasks():
    ends = []
    for metered in (False, True):
        cpu = SharedCpu(1, 1.0)
        cpu.is_metered = metered
        cpu.add("a", 1.0, 0.0)
        cpu.overhead(3.0, 0.5)
        cpu.overhead(3.0, 1.0)  # the task has had nothing since 0.5
        ends.append(run(cpu))
    assert ends == [[(7.0, "a")]] * 2
    assert cpu.means(10.0, 10.0) == pytest.approx((0.7, 0.7))

import math
import os

import pytest

from lbd.config.schema import LoadConfig
from lbd.load import sampler as kernel
from lbd.load.procfs import TICKS_PER_S
from lbd.load.sampler import Sampler
from lbd.testing.fake_scope import FakeScope


def readings(sampler, scope, counts, begin_s=0.0, hz=10):
    """Takes one reading for each count, `hz` a second; returns the results."""
    found = []
    for number, running in enumerate(counts, 1):
        scope.running = running
        if (reading := sampler.read(begin_s + number / hz)) is not None:
            found.append(reading)
    return found


@pytest.fixture
def scope():
    return FakeScope()


def test_a_second_of_readings_is_averaged_then_smoothed(scope):
    sampler = Sampler(LoadConfig(smoothing_s=4.0), 2.0, scope, now_s=0.0)
    first, second = readings(sampler, scope, [2] * 5 + [4] * 5 + [0] * 10)
    assert first.queues.cpu == pytest.approx(3.0)  # the first second is all there is to go by
    assert second.queues.cpu == pytest.approx(3.0 * math.exp(-1 / 4))


def test_it_settles_at_the_number_of_running_tasks(scope):
    sampler = Sampler(LoadConfig(smoothing_s=4.0), 2.0, scope, now_s=0.0)
    results = readings(sampler, scope, [0] * 10 + [3] * 300)
    assert results[-1].queues.cpu == pytest.approx(3.0, abs=0.01)
    assert results[4].queues.cpu == pytest.approx(3.0 * (1 - math.exp(-1)))


def test_blocked_tasks_are_counted_separately(scope):
    scope.blocked = 2
    sampler = Sampler(LoadConfig(), 2.0, scope, now_s=0.0)
    (result,) = readings(sampler, scope, [1] * 10)
    assert (result.queues.cpu, result.queues.io) == (1.0, 2.0)


def test_utilisation_is_relative_to_the_usable_cores(scope):
    sampler = Sampler(LoadConfig(), 2.0, scope, now_s=0.0)
    readings(sampler, scope, [1] * 9)
    scope.used_s = 1.5
    (result,) = readings(sampler, scope, [1], begin_s=0.9)
    assert result.utilisation == pytest.approx(0.75)
    scope.used_s = 9.0  # clocks are not that exact: never above 1
    (result,) = readings(sampler, scope, [1] * 10, begin_s=1.0)
    assert result.utilisation == 1.0


def test_without_figures_of_its_own_the_scope_uses_those_of_the_machine(scope):
    scope.used_s = None
    sampler = Sampler(LoadConfig(), 2.0, scope, now_s=0.0)
    (result,) = readings(sampler, scope, [1] * 10)
    assert 0.0 <= result.utilisation <= 1.0


def test_the_machine_is_as_busy_as_the_processors_that_we_may_use(tmp_path):
    file, ours = tmp_path / "stat", sorted(os.sched_getaffinity(0))
    rest = "".join(f"cpu{cpu} 20 0 30 1000 4 0 2 8 0 0\n" for cpu in (*ours[1:], 5000))
    file.write_text(f"cpu  0 0\ncpu{ours[0]} 20 10 30 1000 4 0 2 8 0 0\n{rest}intr 7\n")
    machine = kernel.MachineCpu(str(file))
    file.write_text(f"cpu  0 0\ncpu{ours[0]} 60 11 39 1700 9 0 2 8 40 0\n{rest}intr 7\n")
    assert machine.read(2.0) == pytest.approx(50 / TICKS_PER_S / 2.0 / len(ours))
    assert machine.read(2.0) == 0.0


def test_the_sampling_times_are_jittered_around_the_requested_rate(scope):
    sampler = Sampler(LoadConfig(sample_hz=10.0), 2.0, scope, now_s=0.0)
    intervals = [sampler.interval_s() for _ in range(500)]
    assert 0.08 <= min(intervals) < 0.085 < 0.115 < max(intervals) <= 0.12
    assert sum(intervals) / 500 == pytest.approx(0.1, rel=0.03)


def test_only_a_scanning_scope_slows_itself():
    for scans, expected in [(False, 0.1), (True, 1.0)]:
        sampler = Sampler(LoadConfig(scan_core_share=0.01), 2.0, FakeScope(scans), now_s=0.0)
        sampler.cost_s = 0.01
        assert sampler.interval_s(jitter=False) == pytest.approx(expected)


def test_a_slow_scan_still_gives_a_result_for_each_reading(scope):
    sampler = Sampler(LoadConfig(), 2.0, scope, now_s=0.0)
    scope.running = 4
    results = [sampler.read(at_s) for at_s in (2.0, 4.5, 30.0)]
    assert [result.queues.cpu for result in results] == [4.0, 4.0, 4.0]


def test_cores_and_speed_are_configured_or_measured(tmp_path):
    assert kernel.usable_cores(3.5) == 3.5
    assert kernel.usable_cores(0.0) > 0
    assert kernel.core_speed(2.0, tmp_path / "gone") == 2.0
    assert kernel.core_speed(0.0, tmp_path) > 0
    with pytest.raises(OSError, match="No such file"):
        kernel.core_speed(0.0, tmp_path / "gone")


def test_the_memory_queue_uses_what_this_kernel_has():
    queue = kernel.MemoryQueue(own_group=False)
    assert queue.read(1.0) >= 0.0
    assert kernel.machine()["memory_total_bytes"] > 0


def test_a_pressure_file_without_contents_is_not_kept_open(monkeypatch, tmp_path):
    path = tmp_path / "memory"
    path.write_text("no pressure\n")
    monkeypatch.setattr(kernel, "PRESSURE", str(path))
    assert kernel.MemoryQueue(own_group=False).read(1.0) >= 0.0
    assert str(path) not in [
        os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
    ]


@pytest.mark.parametrize(
    ("name", "queue", "busy"), [("instant", 0.0, 0.0), ("utilisation", 3.0, 0.75)]
)
def test_the_smoothed_value_follows_the_index(scope, name, queue, busy):
    sampler = Sampler(LoadConfig(index=name, smoothing_s=4.0), 2.0, scope, now_s=0.0)
    readings(sampler, scope, [3] * 9)
    scope.used_s = 1.5
    readings(sampler, scope, [3], begin_s=0.9)
    (result,) = readings(sampler, scope, [0] * 10, begin_s=1.0)
    keep = math.exp(-1 / 4)
    assert result.queues.cpu == pytest.approx(queue * keep)
    assert result.smoothed_utilisation == pytest.approx(busy * keep)
    assert result.utilisation == 0.0

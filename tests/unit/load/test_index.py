import math

import pytest

from lbd.config.schema import INDICES, LoadConfig
from lbd.load import index
from lbd.model import Queues


@pytest.mark.parametrize(
    ("old", "new", "dt_s", "smoothing_s", "expected"),
    [
        (0.0, 4.0, 4.0, 4.0, 4.0 * (1 - math.exp(-1))),
        (4.0, 0.0, 4.0, 4.0, 4.0 * math.exp(-1)),
        (2.0, 2.0, 1.0, 4.0, 2.0),
        (5.0, 1.0, 0.0, 4.0, 5.0),  # no time, no change
        (5.0, 1.0, 1e6, 4.0, 1.0),  # after a long stop the past is forgotten
    ],
)
def test_smoothed(old, new, dt_s, smoothing_s, expected):
    assert index.smoothed(old, new, dt_s, smoothing_s) == pytest.approx(expected)


def test_smoothing_does_not_depend_on_how_time_is_divided():
    at_once = index.smoothed(1.0, 3.0, 2.0, 4.0)
    in_two = index.smoothed(index.smoothed(1.0, 3.0, 1.0, 4.0), 3.0, 1.0, 4.0)
    assert at_once == pytest.approx(in_two)


@pytest.mark.parametrize(
    ("queues", "cores", "speed", "expected"),
    [
        (Queues(4, 0, 0), 2.0, 1.0, 2.0),
        (Queues(4, 0, 0), 2.0, 2.0, 1.0),
        (Queues(0, 4, 0), 1.0, 1.0, 2.0),  # w_io = 0.5
        (Queues(0, 0, 4), 1.0, 1.0, 4.0),  # w_mem = 1
        (Queues(1, 1, 1), 0.5, 1.0, 5.0),  # half a core by quota
    ],
)
def test_load_index(queues, cores, speed, expected):
    assert index.load_index(queues, cores, speed, 0.5, 1.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "expected", "smoothing_s", "fade_s"),
    [
        ("smoothed", (3 + 0.5 * 2 + 4) / 4, 8.0, 8.0),
        ("instant", (3 + 0.5 * 2 + 4) / 4, 0.0, 0.5),
        ("queue-1", 3 / 4, 1.0, 1.0),
        ("queue-20", 3 / 4, 20.0, 20.0),
        ("load-average", (3 + 2) / 4, 60.0, 60.0),
        ("utilisation", 0.7 / 2, 8.0, 8.0),
        ("utilisation-10", 0.7 / 2, 10.0, 10.0),
    ],
)
def test_the_index_that_is_exchanged(name, expected, smoothing_s, fade_s):
    load = LoadConfig(index=name, smoothing_s=8.0)
    assert index.exchanged(load, Queues(3, 2, 4), 0.7, 2.0, 2.0) == pytest.approx(expected)
    assert (index.smoothing_s(load), index.fade_s(load)) == (smoothing_s, fade_s)


def test_every_index_in_the_configuration_is_known():
    loads = [LoadConfig(index=name) for name in INDICES]
    seen = {
        (index.exchanged(a, Queues(3, 2, 4), 0.7, 2.0, 2.0), index.smoothing_s(a)) for a in loads
    }
    assert len(seen) == len(INDICES)


def test_without_smoothing_only_the_last_second_counts():
    assert index.smoothed(5.0, 1.0, 1.0, 0.0) == 1.0


@pytest.mark.parametrize(
    ("stall_us", "dt_s", "expected"),
    [(0, 1, 0.0), (250_000, 1, 0.25), (2_000_000, 1, 1.0), (-5, 1, 0.0), (9, 0, 0.0)],
)
def test_stalled_tasks(stall_us, dt_s, expected):
    assert index.stalled_tasks(stall_us, dt_s) == pytest.approx(expected)


def test_paging_tasks():
    assert index.paging_tasks(500, 1.0) == pytest.approx(500 * index.PAGE_IN_S)
    assert index.paging_tasks(-1, 1.0) == 0.0
    assert index.paging_tasks(1, 0.0) == 0.0


@pytest.mark.parametrize(
    ("cost_s", "share", "hz", "expected"),
    [
        (0.0001, 0.008, 10, 0.1),  # cheap: the requested rate
        (0.0055, 0.008, 10, 0.6875),  # 375 processes
        (0.1, 0.008, 10, 12.5),
    ],
)
def test_scan_interval(cost_s, share, hz, expected):
    assert index.scan_interval_s(cost_s, share, hz) == pytest.approx(expected)

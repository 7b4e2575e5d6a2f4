"""What one more task on a host costs: its own run time, and what the others there lose."""

import pytest

from lbd.policy.delay import time_for_all
from tests.unit.policy.test_own_rules import host


@pytest.mark.parametrize(
    ("tasks", "cores", "speed", "expected"),
    [
        (0, 1, 1.0, 1.0),
        (0, 1, 4.0, 0.25),
        (3, 4, 1.0, 1.0),  # the last free core: nobody is delayed
        (4, 4, 1.0, 9 / 4),  # five share four, and four of them are delayed
        (1, 1, 2.0, 3 / 2),
    ],
)
def test_what_a_cpu_second_there_costs_everybody(tasks, cores, speed, expected):
    there = host("h2", tasks, cores, speed)
    assert time_for_all(there, there.load_now, 0.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("tasks", "busy_s", "expected"),
    [
        (1, 0.0, 3.0),
        (1, 1.0, 3.3),
        (1, 5.0, 3.9),  # 0.45 tasks more, which it shares with and delays
        (1, 1e9, 4.8),
        (2, 0.0, 5.0),  # more tasks count more than old ones
        (0, 1e9, 1.0),
    ],
)
def test_the_longer_no_core_was_free_the_more_its_tasks_count(tasks, busy_s, expected):
    there = host("h2", tasks, free_at_s=-busy_s)
    assert time_for_all(there, there.load_now, 0.0) == pytest.approx(expected)

"""One array with a target: what it is aimed at, and when it is said to end."""

import math

import pytest

from lbd.dispatch.core.targets.plan import SURE
from lbd.dispatch.core.targets.target_array import before_deadline_s
from lbd.theory.batch_end import quantile_s
from lbd.theory.target_time import STEERED, Batch, TaskMean, harmonic
from tests.unit.dispatch.core.targets.test_arrays import MEAN_S


@pytest.mark.parametrize(("slots", "left"), [(4, 4), (4, 64), (1, 3), (9, 2)])
def test_a_deadline_is_aimed_at_from_before_it(slots, left):
    """By the end of the drain that 95 % do not exceed, and a little for what is steered."""
    at_once = min(slots, left)
    batch = Batch(left, 100.0, slots, slots, TaskMean(MEAN_S, 1e9))
    drain_s = quantile_s(0.95, at_once, at_once, MEAN_S) - MEAN_S * harmonic(at_once)
    steered = min(left - at_once, STEERED) / at_once**2
    expected_s = math.hypot(drain_s, SURE * MEAN_S * math.sqrt(steered))
    assert before_deadline_s(slots, batch) == pytest.approx(expected_s)

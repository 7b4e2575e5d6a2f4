"""The centre tunes the parameters to the load, but not to every gust of it."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.config.schema import LimConfig
from lbd.lim.core.adaptive import AS_SET, EDGES, LEVELS, REST_S, TUNED, Tuner, changes, values_at
from lbd.lim.core.settings import PARAMS, TUNABLE
from lbd.testing import builders

ON = LimConfig(adaptive=True, probe_limit=9)


def vectors(*busy):
    return [replace(builders.vector(), utilisation=share, cores=2.0) for share in busy]


def settled(tuner, busy, params=ON, tuned=None, now_s=0.0, seconds=600):
    """Returns the parameters after the load has been like this for a while."""
    tuned = tuned or {}
    for second in range(seconds):
        found = tuner.tune(vectors(*busy), params, tuned, now_s + second)
        tuned = found.params if found else tuned
    return tuned


@pytest.mark.parametrize(
    ("load", "period_s", "probes"),
    [*zip(LEVELS, (0.5, 0.5, 0.75, 1.0, 1.5, 2.0), (13, 11, 9, 9, 5, 3), strict=True)],
)
def test_table_3_3(load, period_s, probes):
    tuned = settled(Tuner(), [load] * 4)
    assert tuned.get("lim.exchange_period_s", 1.0) == period_s
    assert tuned.get("lim.probe_limit", 9) == probes


def test_the_higher_the_load_the_later_a_command_moves():
    found = [values_at(level, ON).get("lim.local_threshold", 0.7) for level in range(len(LEVELS))]
    assert found == sorted(found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("algorithm", ["GLOBAL", "DISTED", "LOWEST"])
def test_at_the_middle_level_everything_is_as_configured(algorithm):
    assert values_at(AS_SET, replace(ON, algorithm=algorithm)) == {}
    for level in {*range(len(LEVELS))} - {AS_SET}:
        assert values_at(level, replace(ON, algorithm=algorithm))


def test_the_configured_values_are_what_is_tuned():
    busy = settled(Tuner(), [1.0, 1.0], replace(ON, exchange_period_s=3.0))
    # and no more than half of the time that a load is believed
    assert busy["lim.exchange_period_s"] == 6.0
    busy = settled(Tuner(), [1.0, 1.0], replace(ON, exchange_period_s=9.0))
    assert busy["lim.exchange_period_s"] == ON.stale_after_s / 2


def test_a_change_is_reported_with_old_and_new_values():
    after = replace(ON, probe_limit=5, min_gain=0.1 * 0.75)
    assert changes(ON, after) == "lim.min_gain from 0.1 to 0.075, lim.probe_limit from 9 to 5"
    assert changes(ON, ON) == "no parameter changes"


def test_off_means_as_configured():
    tuner, off = Tuner(), LimConfig()
    assert tuner.tune(vectors(1.0), off, {}, 1.0) is None
    found = tuner.tune(vectors(1.0), off, {"lim.probe_limit": 3.0}, 2.0)
    assert found is not None
    assert (found.params, found.reason) == ({}, "lim.adaptive is off")


def test_one_host_is_not_the_system():
    assert settled(Tuner(), [1.0] + [0.7] * 99) == {}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=200))
def test_a_fluctuating_load_changes_little(loads):
    tuner, tuned, changes = Tuner(), {}, []
    for second, load in enumerate(loads):
        found = tuner.tune(vectors(load), ON, tuned, float(second))
        if found:
            tuned = found.params
            changes.append(second)
    assert all(later - earlier >= REST_S for earlier, later in pairwise(changes))


@pytest.mark.parametrize("edge", EDGES)
def test_a_level_resists_small_changes(edge):
    tuner = Tuner()
    held = settled(tuner, [edge + 0.03])
    assert settled(tuner, [edge - 0.015], tuned=held, now_s=600.0) == held
    assert settled(tuner, [edge - 0.03], tuned=held, now_s=1200.0) != held


def test_far_from_the_middle_level_all_of_it_is_tuned():
    assert set(values_at(0, ON)) == {f"lim.{name}" for name in TUNED}


def test_everything_tuned_is_a_parameter_of_all():
    for level in range(len(LEVELS)):
        values = values_at(level, ON)
        assert values.keys() <= TUNABLE <= {*PARAMS}
        assert all(math.isfinite(value) for value in values.values())

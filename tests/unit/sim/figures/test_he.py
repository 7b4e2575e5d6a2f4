"""He et al.'s figure 3 from given series."""

from dataclasses import replace
from random import Random

import pytest

from lbd.errors import ConfigError
from lbd.sim.balance.migrate import chain_of
from lbd.sim.figures.figure import Scale, plain_map
from lbd.sim.figures.he import hosts

IDLE = (3.0,) * 288


def series(p01, p11, rng, steps=288):
    """Returns a host's load under such a Markov chain."""
    on, found = True, []
    for _ in range(steps):
        found.append(3.0 if on else 40.0)
        on = rng.random() < (p11 if on else p01)
    return tuple(found)


def scale(*chains, idle=0):
    rng = Random(1)
    return Scale(series=(*(series(*one, rng) for one in chains), *[IDLE] * idle))


def held(drawing):
    return [claim.holds for claim in drawing.claims]


def test_transition_probabilities_are_counted():
    found = chain_of((1.0, 1.0, 1.0, 90.0, 90.0, 1.0, 15.0, 90.0), 15.0)
    assert (found.p01, found.p11) == (1 / 2, 3 / 5)


def test_three_sets_of_similar_hosts():
    low, middle, high = [(0.1, 0.6)] * 12, [(0.3, 0.7)] * 12, [(0.6, 0.9)] * 12
    drawing = hosts(scale(*low, *middle, *high, idle=12), plain_map)
    assert drawing.scattered
    assert [len(line.x) for line in drawing.lines] == [36, 6, 6, 6]
    assert held(drawing) == [True] * 3
    means = [sum(line.x) / len(line.x) for line in drawing.lines[1:]]
    assert means == pytest.approx([0.1, 0.3, 0.6], abs=0.08)


def test_if_all_hosts_are_alike_none_of_it_holds():
    assert held(hosts(scale(*[(0.3, 0.7)] * 18), plain_map)) == [False] * 3


@pytest.mark.parametrize(("given", "said"), [(0, "none is given"), (17, "17 lively ones in it")])
def test_too_few_series_are_one_line(given, said):
    few = replace(Scale(), series=scale(*[(0.3, 0.7)] * given).series)
    with pytest.raises(ConfigError, match=said):
        hosts(few, plain_map)

import math
from itertools import pairwise

import pytest

from lbd.theory.bounded_pareto import BoundedPareto, with_mean
from lbd.theory.rivals import (
    at_random,
    erlang_c,
    expansion,
    least_work,
    mg1,
    sita_cutoffs_s,
    sita_e,
)
from lbd.theory.tags import Traffic


def test_pollaczek_khinchine_of_exponential_and_constant_sizes():
    assert mg1(0.5, 1.0, 2.0, 1.0).waiting_s == pytest.approx(1.0)  # M/M/1: ρ/(1-ρ)
    assert mg1(0.5, 1.0, 1.0, 1.0).waiting_s == pytest.approx(0.5)  # M/D/1: half of it
    assert mg1(1.0, 1.0, 1.0, 1.0).waiting_s == math.inf


@pytest.mark.parametrize(
    ("servers", "offered", "waits"),
    [(1, 0.3, 0.3), (2, 1.0, 1 / 3), (2, 1.5, 0.6428571), (10, 8.0, 0.4091801), (300, 90.0, 0.0)],
)
def test_erlang_c(servers, offered, waits):
    assert erlang_c(servers, offered) == pytest.approx(waits, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 1.9])
def test_with_one_host_all_are_the_same_queue(alpha):
    """So the factor ½ that the paper's Least-Work-Remaining lacks is right."""
    traffic = Traffic(with_mean(3000.0, 1e7, alpha), 0.6, 1)
    queue = at_random(traffic)
    for other in (least_work(traffic), sita_e(traffic)):
        assert other.waiting_s == pytest.approx(queue.waiting_s)
        assert other.slowdown == pytest.approx(queue.slowdown)


def test_sita_e_gives_each_host_the_same_work():
    traffic = Traffic(BoundedPareto(1.0, 1e6, 1.1), 0.5, 4)
    bounds = (1.0, *sita_cutoffs_s(traffic), 1e6)
    work = [traffic.sizes.part(1, a, b) for a, b in pairwise(bounds)]
    assert work == pytest.approx([traffic.sizes.mean_s / 4] * 4)


def test_in_an_overloaded_system_waits_are_infinite():
    traffic = Traffic(BoundedPareto(1.0, 1e6, 1.1), 1.0, 4)
    for means in (at_random(traffic), least_work(traffic), sita_e(traffic)):
        assert means.slowdown == math.inf


@pytest.mark.parametrize(
    ("alpha", "policy", "low", "high"),
    [  # section 6.1 and Figure 13
        (0.2, "tags", 3, 3), (0.6, "tags", 1, 2), (1.0, "tags", 1, 2), (1.9, "tags", 1, 2),
        (0.2, "least-work", 27, 27), (0.6, "least-work", 11, 11), (1.9, "least-work", 1, 1),
        (1.0, "random", 1e5, 1e6), (0.6, "random", 1e9, 1e10),
    ],
)  # fmt: skip
def test_server_expansion_is_that_of_the_paper(alpha, policy, low, high):
    added = expansion(Traffic(with_mean(3000.0, 1e10, alpha), 0.7, 2), policy)
    assert added is not None
    assert low <= added <= high


def test_beyond_countable_numbers():
    traffic = Traffic(with_mean(3000.0, 1e10, 0.2), 0.7, 2)
    assert expansion(traffic, "random") is None
    assert expansion(Traffic(with_mean(10.0, 11.0, 1.0), 0.01, 2), "random") == 0

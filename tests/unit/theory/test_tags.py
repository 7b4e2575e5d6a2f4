import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lbd.theory.bounded_pareto import BoundedPareto, log_ratio, with_mean
from lbd.theory.rivals import mg1
from lbd.theory.tags import Overloaded, TagsFigures, Tier, Traffic, analyse, balanced


def appendix(traffic, cutoffs):
    """Returns E[W], E[S] and both forms of the excess by final destination, as the appendix has
    it."""
    sizes, rate, hosts = traffic.sizes, traffic.rate_per_s, traffic.hosts
    s = [sizes.k, *cutoffs, sizes.p]
    final = [sizes.part(0, s[i], s[i + 1]) for i in range(hosts)]
    visit = [sum(final[i:]) for i in range(hosts)]
    waits, loads = [], []
    for i in range(hosts):
        stays, goes = final[i] / visit[i], (visit[i] - final[i]) / visit[i]
        one = stays * sizes.part(1, s[i], s[i + 1]) / final[i] + goes * s[i + 1]
        two = stays * sizes.part(2, s[i], s[i + 1]) / final[i] + goes * s[i + 1] ** 2
        loads.append(rate * visit[i] * one)
        waits.append(rate * visit[i] * two / (2 * (1 - loads[i])))
    total = [sum(waits[: i + 1]) for i in range(hosts)]
    inverse = [sizes.part(-1, s[i], s[i + 1]) / final[i] for i in range(hosts)]
    waiting = sum(w * p for w, p in zip(total, final, strict=True))
    slowdown = sum(w * x * p for w, x, p in zip(total, inverse, final, strict=True))
    excess_a = sum(loads) - hosts * traffic.load
    excess_b = sum(rate * visit[i] * s[i] for i in range(1, hosts))
    return waiting, slowdown, excess_a, excess_b


@pytest.mark.parametrize("alpha", [0.2, 0.6, 1.0, 1.3, 1.9, 2.0])
@pytest.mark.parametrize("cutoffs", [(2e4,), (5e3, 1e6), (3e3, 1e5, 4e6)])
def test_the_sums_are_those_of_the_appendix(alpha, cutoffs):
    traffic = Traffic(with_mean(3000.0, 1e8, alpha), 0.2, len(cutoffs) + 1)
    found = analyse(traffic, cutoffs)
    waiting, slowdown, excess_a, excess_b = appendix(traffic, cutoffs)
    assert found.waiting_s == pytest.approx(waiting, rel=1e-7)
    assert found.slowdown == pytest.approx(slowdown, rel=1e-7)
    assert found.excess == pytest.approx(excess_b, rel=1e-7)
    assert excess_a == pytest.approx(excess_b, rel=1e-4, abs=1e-9)
    killed_s = sum(c * traffic.sizes.tail(c) for c in cutoffs)
    assert found.response_s == pytest.approx(waiting + 3000.0 + killed_s)


def test_host_1_is_pollaczek_and_khinchines_queue():
    """A cutoff that hardly any job reaches leaves one M/G/1 queue."""
    sizes = BoundedPareto(1.0, 1e3, 1.5)
    traffic = Traffic(sizes, 0.3, 2)
    found = analyse(traffic, [999.999])
    alone = mg1(traffic.rate_per_s, sizes.mean_s, sizes.moment(2), sizes.moment(-1))
    assert found.tiers[0].wait_s == pytest.approx(alone.waiting_s, rel=1e-5)
    assert found.slowdown == pytest.approx(alone.slowdown, rel=1e-4)


def test_the_spare_capacity_of_the_last_host_is_exact_where_its_load_rounds_to_1():
    """At hρ = 1 it is the work of the small jobs, here 1e-18 of the whole."""
    traffic = Traffic(with_mean(3000.0, 1e10, 0.2), 0.5, 2)
    cutoff_s = 2.5e-13
    found = analyse(traffic, [cutoff_s])
    small = traffic.rate_per_s * traffic.sizes.part(1.0, traffic.sizes.k, cutoff_s)
    assert found.tiers[1].load == 1.0
    assert 0 < found.tiers[1].spare == pytest.approx(small, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    alpha=st.floats(0.0, 3.0),
    spread=st.floats(0.1, 10.0),
    load=st.floats(0.01, 0.45),
    shares=st.lists(st.integers(1, 999), min_size=1, max_size=5, unique=True),  # of a thousand
)
@example(alpha=5e-324, spread=1.0, load=0.25, shares=[750])
def test_loads_and_excess_agree_for_any_cutoffs(alpha, spread, load, shares):
    sizes = BoundedPareto(1.0, 10.0**spread, alpha)
    traffic = Traffic(sizes, load, len(shares) + 1)
    cutoffs = [sizes.size(share / 1000 * sizes.width) for share in sorted(shares)]
    try:
        found = analyse(traffic, cutoffs)
    except Overloaded:
        return
    assert sum(t.load for t in found.tiers) - traffic.total == pytest.approx(found.excess, abs=1e-9)
    assert sum(t.final_share for t in found.tiers) == pytest.approx(1.0)
    assert found.tiers[0].visit_share == pytest.approx(1.0)
    assert found.response_s >= found.waiting_s + sizes.mean_s
    assert all(tier.wait_s > 0 for tier in found.tiers)


@pytest.mark.parametrize("alpha", [0.2, 0.6, 1.0, 1.9])
@pytest.mark.parametrize("hosts", [2, 4, 8])
def test_no_cutoffs_allow_more_load_than_the_balanced_ones(alpha, hosts):
    sizes = with_mean(3000.0, 1e10, alpha)
    cuts, max_load = balanced(sizes, hosts)
    assert 1.0 / hosts < max_load < 1.0
    traffic = Traffic(sizes, 0.99 * max_load, hosts)
    found = analyse(traffic, [sizes.size(y) for y in cuts[1:-1]])
    assert [tier.load for tier in found.tiers] == pytest.approx([0.99] * hosts, rel=1e-4)
    for step in range(1, hosts):
        for factor in (0.9, 1.1):
            moved = [sizes.size(y) for y in cuts[1:-1]]
            moved[step - 1] *= factor
            if [sizes.k, *moved, sizes.p] == sorted([sizes.k, *moved, sizes.p]):
                beyond = Traffic(sizes, 1.0001 * max_load, hosts)
                with pytest.raises(Overloaded):
                    analyse(beyond, moved)


@pytest.mark.parametrize("load", [0.0, -0.5, math.nan, math.inf])
def test_impossible_loads(load):
    with pytest.raises(ValueError, match="load"):
        Traffic(BoundedPareto(1.0, 2.0, 1.0), load, 2)


@pytest.mark.parametrize("cutoffs", [(), (5.0,), (5.0, 5.0), (7.0, 5.0), (0.5, 5.0), (5.0, 99.0)])
def test_invalid_cutoffs(cutoffs):
    with pytest.raises(ValueError, match="cutoffs"):
        analyse(Traffic(BoundedPareto(1.0, 99.0, 1.0), 0.1, 3), cutoffs)


def test_a_host_at_which_no_job_ends_is_not_compared_in_fairness():
    hosts = [Tier(0.5, 1.0, share, 1.0, slowdown) for share, slowdown in ((0.5, 2.0), (0.5, 4.0))]
    assert TagsFigures((), 1.0, tuple(hosts), 1.0, 2.0, 3.0, 0.0).unfairness == 2.0
    hosts.append(Tier(0.5, 0.0, 0.0, 1.0, 0.0))
    assert TagsFigures((), 1.0, tuple(hosts), 1.0, 2.0, 3.0, 0.0).unfairness == 2.0


def test_log_ratio_keeps_its_digits():
    assert log_ratio(1.0 + 2**-50, 1.0) == pytest.approx(2**-50, rel=1e-12)
    assert log_ratio(1e10, 1.0) == pytest.approx(10 * math.log(10))

"""He's thresholds, compared with exact fractions, sums over steps, and direct solutions."""

import math
from fractions import Fraction
from itertools import pairwise, product
from random import Random

import pytest

from lbd.theory.wait_or_migrate import (
    OnOff,
    metrics,
    moves,
    myopic_thresholds,
    on_hosts,
    thresholds,
    wait_below,
    work_thresholds,
)

FIGURE_2 = OnOff(0.1, 0.9)


def exact_step(n, p01, p11):
    """Equation (3) as printed, in fractions."""
    c = math.comb
    return [
        [
            sum(
                c(i, k) * p11**k * (1 - p11) ** (i - k)
                * c(n - i, j - k) * p01 ** (j - k) * (1 - p01) ** (n - i - j + k)
                for k in range(max(0, j - n + i), min(i, j) + 1)
            )
            for j in range(n + 1)
        ]
        for i in range(n + 1)
    ]  # fmt: skip


def exact_metrics(i, n, step, beta):
    """π of equation (4) from all ON, by elimination in fractions: π = λM + βπPM."""
    after = [s if s < i else n for s in range(n + 1)]
    # πᵀ(I - βPM) = λᵀM, as rows of unknowns π_0 … π_n
    through = [[Fraction(0)] * (n + 1) for _ in range(n + 1)]
    for a in range(n + 1):
        for s, p in enumerate(step[a]):
            through[a][after[s]] += beta * p
    rows = [
        [Fraction(a == j) - through[a][j] for a in range(n + 1)] + [Fraction(j == n)]
        for j in range(n + 1)
    ]
    for c in range(n + 1):
        pivot = next(r for r in range(c, n + 1) if rows[r][c])
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [x / rows[c][c] for x in rows[c]]
        for r in range(n + 1):
            if r != c and rows[r][c]:
                rows[r] = [x - rows[r][c] * y for x, y in zip(rows[r], rows[c], strict=True)]
    pi = [row[-1] for row in rows]
    before = [sum(beta * pi[a] * step[a][s] for a in range(n + 1)) for s in range(n + 1)]
    before[n] += 1
    return pi[n], sum(w * (after[s] - s) for s, w in enumerate(before))


@pytest.mark.parametrize(
    ("n", "p01", "p11", "beta"),
    [(3, "1/10", "9/10", "9/10"), (10, "1/10", "9/10", "999/1000"), (2, "3/4", "1/5", "99/100"),
     (6, "1/50", "19/20", "999/1000"), (4, "1/2", "1/2", "1/2")],
)  # fmt: skip
def test_thresholds_and_metrics_are_exact(n, p01, p11, beta):
    step = exact_step(n, Fraction(p01), Fraction(p11))
    exact = [exact_metrics(i, n, step, Fraction(beta)) for i in range(n + 1)]
    chain, b = OnOff(float(Fraction(p01)), float(Fraction(p11))), float(Fraction(beta))
    for i, (processing, migrations) in enumerate(exact):
        found = metrics(i, n, chain, b)
        assert found.processing == pytest.approx(float(processing), rel=1e-9)
        assert found.migrations == pytest.approx(float(migrations), rel=1e-9, abs=1e-12)
    expected = [float((b[0] - a[0]) / (b[1] - a[1])) for a, b in pairwise(exact)]
    assert thresholds(n, chain, b) == pytest.approx(expected, rel=1e-9)


def test_there_is_no_cancellation_where_simple_differences_lose_their_digits():
    found = thresholds(10, FIGURE_2, 0.999)
    first, second = (metrics(i, 10, FIGURE_2, 0.999) for i in (0, 1))
    plain = (second.processing - first.processing) / (second.migrations - first.migrations)
    assert found[0] == pytest.approx(0.49800796813680, abs=1e-12)
    assert abs(plain - found[0]) > 1e-6


def test_figure_two():
    """n = 3, β = 0.9, p01 = 0.1, p11 = 0.9: γ_1 < γ_2 < γ_3, all above the myopic ones."""
    found, myopic = thresholds(3, FIGURE_2, 0.9), myopic_thresholds(3)
    assert found == pytest.approx((1.1904762, 1.6437405, 2.5357523), abs=1e-7)
    assert myopic == pytest.approx((1 / 3, 1 / 2, 1.0))
    assert all(a > b for a, b in zip(found, myopic, strict=True))


def test_metrics_are_sums_over_steps():
    """By advancing the distribution step by step, instead of a system of equations."""
    n, beta, step = 4, 0.9, on_hosts(4, FIGURE_2)
    for i in range(n + 1):
        before, processing, migrations = [0.0] * n + [1.0], 0.0, 0.0
        for t in range(600):
            after = [0.0] * (n + 1)
            for s, weight in enumerate(before):
                after[s if s < i else n] += weight
                migrations += beta**t * weight * (n - s if s >= i else 0)
            processing += beta**t * after[n]
            before = [sum(after[a] * step[a][s] for a in range(n + 1)) for s in range(n + 1)]
        found = metrics(i, n, FIGURE_2, beta)
        assert (found.processing, found.migrations) == pytest.approx((processing, migrations))


def test_lemma_three_and_proposition_one():
    for chain in (FIGURE_2, OnOff(0.02, 0.97), OnOff(0.7, 0.75)):
        rules = [metrics(i, 5, chain, 0.99) for i in range(6)]
        for a, b in pairwise(rules):
            assert a.processing >= b.processing
            assert a.migrations >= b.migrations
        assert list(thresholds(5, chain, 0.99)) == sorted(thresholds(5, chain, 0.99))


def test_for_independent_steps_the_myopic_rule_is_right():
    for n, chance in product((1, 3, 8), (0.2, 0.5, 0.9)):
        found = thresholds(n, OnOff(chance, chance), 0.95)
        assert found == pytest.approx(myopic_thresholds(n), rel=1e-9)


@pytest.mark.parametrize("beta", [0.5, 0.9, 0.999])
@pytest.mark.parametrize(("p01", "p11"), [(0.1, 0.9), (0.8, 0.3), (0.0, 1.0), (0.01, 0.5)])
def test_a_single_task(p01, p11, beta):
    chain = OnOff(p01, p11)
    """Theorem III.4 for n = 1."""
    of_one = 1 / (1 - beta * chain.memory)
    assert thresholds(1, chain, beta) == pytest.approx((of_one,), rel=1e-9)


def best_by_iteration(n, chain, cost, beta):
    """The reduced process of III-C over all choices of hosts ON: which task moves where."""
    step, values = on_hosts(n, chain), [0.0] * (n + 1)
    for _ in range(4000):
        follow = [beta * sum(map(float.__mul__, step[a], values)) for a in range(n + 1)]
        options = [
            [(a < n) + cost * (a - s) + follow[a] for a in range(s, n + 1)] for s in range(n + 1)
        ]
        values = [min(row) for row in options]
    return [row.index(min(row)) for row in options]


def test_the_best_rule_is_the_threshold_rule_for_the_cost():
    n, chain, beta = 4, OnOff(0.2, 0.85), 0.95
    found = thresholds(n, chain, beta)
    edges = [0.0, *found, 2 * found[-1]]
    for i, (low, high) in enumerate(pairwise(edges)):
        for cost in (low + 1e-3 * (high - low), high - 1e-3 * (high - low)):
            assert wait_below(cost, found) == i
            expected = [0 if s < i else n - s for s in range(n)]
            assert best_by_iteration(n, chain, cost, beta)[:n] == expected
            assert [moves(cost, s, found, 99) for s in range(n)] == [j > 0 for j in expected]


def waits_with_much_work_left(n, chain, cost, steps):
    """In which states the best rule of equation (1) waits, with this many steps of work left."""
    step, values = on_hosts(n, chain), [0.0] * (n + 1)

    def mean(a, of):
        return sum(map(float.__mul__, step[a], of))

    for _ in range(steps):
        works = [cost * (n - s) + mean(n, values) for s in range(n + 1)]
        new = list(works)
        for _ in range(5000):
            waits = [1 + mean(s, new) for s in range(n)]
            before, new = new, [*map(min, works, waits), works[n]]
            if max(map(abs, map(float.__sub__, before, new))) < 1e-12:
                break
        values = new
    return [w < m for w, m in zip(waits, works, strict=False)]


@pytest.mark.parametrize(
    ("n", "chain"), [(1, OnOff(0.2, 0.7)), (2, OnOff(0.3, 0.8)), (3, OnOff(0.4, 0.9))]
)
def test_a_fixed_amount_of_work_has_higher_thresholds(n, chain):
    found = work_thresholds(n, chain)
    assert all(a > b for a, b in zip(found, thresholds(n, chain, 0.9999), strict=True))
    for i, gamma in enumerate(found, 1):
        for factor in (0.98, 1.02):
            waits = waits_with_much_work_left(n, chain, factor * gamma, 60)
            assert sum(waits) == (i - 1 if factor < 1 else i)
            assert waits == sorted(waits, reverse=True)


def test_work_thresholds_at_their_limits():
    assert work_thresholds(1, OnOff(0.05, 0.4)) == pytest.approx((20.0,))
    assert work_thresholds(2, OnOff(0.0, 0.4)) == (math.inf, math.inf)
    assert work_thresholds(1, OnOff(0.25, 1.0)) == pytest.approx((4.0,))


# -- the chain, and deciding -----------------------------------------------------------------------


def test_the_chain():
    assert FIGURE_2.on_share == pytest.approx(0.5)
    assert OnOff(0.0, 1.0).on_share == 0.5
    assert [sum(row) for row in on_hosts(5, OnOff(0.3, 0.8))] == pytest.approx([1.0] * 6)


def test_enough_other_hosts_must_be_on():
    found = (1.0, 2.0, 3.0)
    assert moves(1.5, 1, found, 2)
    assert not moves(1.5, 1, found, 1)
    assert not moves(1.5, 0, found, 9)
    assert not moves(0.0, 3, found, 9)  # all run
    assert [wait_below(cost, found) for cost in (0.0, 1.0, 2.5, 9.0, math.inf)] == [0, 1, 2, 3, 3]


def test_the_rule_earns_what_its_metrics_say():
    """Simulated steps: the discounted sums of T_2 of 3 hosts."""
    rng, n, beta, chain = Random(3), 3, 0.9, FIGURE_2
    found, total, runs = metrics(2, n, chain, beta), [0.0, 0.0], 3000
    for _ in range(runs):
        on, weight = n, 1.0
        while weight > 1e-4:
            if on >= 2:
                total[1] += weight * (n - on)
                on = n
            total[0] += weight * (on == n)
            on = sum(rng.random() < (chain.p11 if h < on else chain.p01) for h in range(n))
            weight *= beta
    assert total[0] / runs == pytest.approx(found.processing, rel=0.02)
    assert total[1] / runs == pytest.approx(found.migrations, rel=0.03)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda: OnOff(-0.1, 0.5), "p01 = "),
        (lambda: OnOff(0.1, 1.5), "p11 = "),
        (lambda: OnOff(math.nan, 0.5), "p01 = "),
        (lambda: on_hosts(0, FIGURE_2), "0 hosts"),
        (lambda: thresholds(0, FIGURE_2, 0.9), "hosts"),
        (lambda: thresholds(101, FIGURE_2, 0.9), "hosts"),
        (lambda: thresholds(2, FIGURE_2, 1.0), "beta"),
        (lambda: metrics(4, 3, FIGURE_2, 0.9), "T_4"),
        (lambda: metrics(0, 101, FIGURE_2, 0.9), "hosts"),
        (lambda: metrics(0, 3, FIGURE_2, 1.0), "beta"),
        (lambda: myopic_thresholds(0), "hosts"),
        (lambda: work_thresholds(0, FIGURE_2), "hosts"),
        (lambda: wait_below(-1.0, (1.0,)), "cost"),
        (lambda: wait_below(math.nan, (1.0,)), "cost"),
        (lambda: moves(1.0, 2, (1.0,), 3), "ON"),
    ],
)
def test_invalid_arguments(asked, said):
    with pytest.raises(ValueError, match=said) as caught:
        asked()
    assert "\n" not in str(caught.value)

"""A day of commands against the book: how often it is wrong, and how soon it is right again.

The stream is drawn from a seed: commands whose CPU time is lognormal around a median of their own,
on either side of T_CPU; as in the thesis most are short and few long (section 3.2).
"""

import math
from random import Random

import pytest

from lbd.lbm.core.learnt_commands import Book
from lbd.policy.eligibility import CONVINCING, LONGEST_PAUSE_RUNS, SURE_RUNS, Lists

T_S = 0.05
ANN = 1001


class Day:
    """Commands run one after another, each where the book says."""

    def __init__(self, seed):
        self.rng = Random(seed)
        self.book = Book(Lists(), max_commands=500, max_users=10, threshold_s=T_S)
        self.unix_s = 1.7e9
        self.moved = self.measured = 0

    def run(self, name, cpu_s):
        """Runs a command; returns whether it left."""
        self.unix_s += self.rng.expovariate(1.0)
        verdict = self.book.judge(ANN, [name.encode()], b"/home", self.unix_s)
        if verdict.leaves:
            self.moved += 1
            self.book.measured(ANN, name, cpu_s, self.unix_s)
            return True
        self.measured += verdict.measure
        self.book.begun_here(ANN, name, measured=verdict.measure)
        if verdict.measure:
            self.book.measured(ANN, name, cpu_s, self.unix_s)
        wall_s = cpu_s * self.rng.uniform(1.0, 3.0)  # others run, too
        self.book.ended_here(ANN, name, measured=verdict.measure, wall_s=wall_s)
        return False


@pytest.mark.parametrize("seed", range(10))
def test_a_day_of_steady_commands(seed):
    day = Day(seed)
    medians = {f"c{n}": 10 ** day.rng.uniform(-3, 1) for n in range(60)}
    short_runs = [name for name, median in medians.items() if median < T_S]
    cpu_right = cpu_all = wrong_short = count_short = 0.0
    for _ in range(6000):
        name = day.rng.choice(list(medians))
        cpu_s = medians[name] * math.exp(day.rng.gauss(0.0, 0.5))
        left = day.run(name, cpu_s)
        if medians[name] >= 4 * T_S:
            cpu_all += cpu_s
            cpu_right += cpu_s * left
        elif medians[name] <= T_S / 4:
            count_short += 1
            wrong_short += left
    assert short_runs, seed
    assert cpu_right / cpu_all > 0.95  # of the work worth moving, the share that moved
    assert wrong_short / count_short < 0.01  # of the rest, the share that moved in vain
    assert day.measured / count_short < 0.25  # most commands that stay are not even measured


@pytest.mark.parametrize("seed", range(10))
def test_a_wrong_belief_is_unlearnt_within_a_bound(seed):
    """Once long, now short: some runs in a row. Once short, now long: after at most a pause."""
    day = Day(seed)
    for _ in range(200):
        day.run("fit", 30.0 * math.exp(day.rng.gauss(0.0, 0.5)))
    assert sum(day.run("fit", 0.001) for _ in range(50)) <= CONVINCING
    day.moved = 0
    runs = 0
    while not day.run("fit", 0.06):  # barely long, so that the clock says nothing
        runs += 1
        assert runs <= (LONGEST_PAUSE_RUNS + 1) * CONVINCING
    assert sum(day.run("fit", 0.06) for _ in range(50)) >= 45


@pytest.mark.parametrize("seed", range(5))
def test_a_build_after_its_configure(seed):
    """A thousand short runs have taught "short"; two long ones suffice to teach "long"."""
    day = Day(seed)
    for _ in range(1000):
        assert not day.run("tool", 0.01)
    stayed = [not day.run("tool", 0.5) for _ in range(20)]
    assert stayed.count(True) <= 3
    assert not any(stayed[3:])


def test_short_commands_are_soon_no_longer_measured():
    day = Day(1)
    for _ in range(2000):
        day.run("sed", 0.001)
    assert day.moved == 0
    assert day.measured <= SURE_RUNS + 3 + 2000 / LONGEST_PAUSE_RUNS + 2

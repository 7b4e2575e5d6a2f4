"""TAGS on real hosts: tiers of several slots each, instead of one host per tier.

The model of `tags`, with c_i servers in tier i where the paper has one. Waiting follows Pollaczek
and Khinchine for one server and Sakasegawa's approximation of M/G/c for several, which agrees with
it at one:

    E[W_i] = E[S²] / 2E[S] · ρ^(√(2(c+1)) - 1) / (c (1 - ρ))

A host in two tiers counts half in each. A tier of less than one server is one slower server.

Here killed service counts as waiting (the paper leaves it out), since the job's owner waits for it
too. A tier's part in both means then depends only on its own two cutoffs,

    E[W_i] E[X^j; X > s_{i-1}] + s_i E[X^j; X > s_i]        j = -1 for slowdown, 0 for waiting

so dynamic programming over a grid finds the best of all combinations, as in `cutoffs`, and a
descent from there refines it. Fair cutoffs, which give the jobs of each final tier the same
slowdown, are searched from the best ones for waiting.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from lbd.config.dispatch import Objective
from lbd.theory.cutoffs import Infeasible
from lbd.theory.minimise import minimise
from lbd.theory.tags import Sizes

GRID = 120  # sizes, evenly spaced in logarithm
FULLEST = 0.999  # load of a tier: beyond it the formulas are too optimistic
CLOSEST = 1e-6  # distance of two cutoffs, as a share of the log range


@dataclass(frozen=True, slots=True)
class TierLoad:
    load: float
    wait_s: float  # in this tier's queue
    visit_share: float  # share of all jobs that ever run here
    slowdown: float  # of the jobs that end here, with killed service; infinite if overloaded


@dataclass(frozen=True, slots=True)
class Expected:
    """The performance expected under given cutoffs."""

    cutoffs_s: tuple[float, ...]
    tiers: tuple[TierLoad, ...]
    waiting_s: float  # with killed service
    slowdown: float  # that waiting over the job's size

    @property
    def unfairness(self) -> float:
        """The largest over the smallest slowdown by final tier; 1 is fair, infinite if one is
        overloaded."""
        slowdowns = [tier.slowdown for tier in self.tiers]
        if min(slowdowns) <= 0 or max(slowdowns) == math.inf:
            return math.inf
        return max(slowdowns) / min(slowdowns)

    def worth(self, objective: Objective) -> float:
        """Returns the value to minimise."""
        if objective == "fairness":
            return self.unfairness
        return self.slowdown if objective == "slowdown" else self.waiting_s


@dataclass(frozen=True, slots=True)
class Tiers:
    """Poisson arrivals, and the servers of each tier: the CPU seconds it can serve per second."""

    sizes: Sizes
    rate_per_s: float
    servers: tuple[float, ...]
    minded: Sizes | None = None  # of the jobs whose means count, over the same range; None: of all

    @property
    def load(self) -> float:
        return self.rate_per_s * self.sizes.mean_s / sum(self.servers)

    def part(self, power: float, a: float, b: float) -> float:
        return self.sizes.part_y(power, a, b) if b > a else 0.0

    def minded_part(self, power: float, a: float, b: float) -> float:
        return (self.minded or self.sizes).part_y(power, a, b) if b > a else 0.0

    def queue(self, tier: int, a: float, b: float) -> tuple[float, float]:
        """Returns the load and E[W] of a tier whose jobs exceed k·e^a and are cut at k·e^b."""
        sizes, top, servers = self.sizes, self.sizes.width, self.servers[tier]
        visits, beyond = self.part(0.0, a, top), self.part(0.0, b, top)
        if visits <= 0 or servers <= 0:
            return (0.0, 0.0) if visits <= 0 else (math.inf, math.inf)
        cut_s = sizes.size(b)
        mean_s = (self.part(1.0, a, b) + cut_s * beyond) / visits
        square = (self.part(2.0, a, b) + cut_s**2 * beyond) / visits
        load = self.rate_per_s * visits * mean_s / servers
        if load >= FULLEST:
            return load, math.inf
        power = max(1.0, math.sqrt(2.0 * (servers + 1.0)) - 1.0)
        return load, square / (2.0 * mean_s) * load**power / (servers * (1.0 - load))

    def expected(self, cuts: Sequence[float]) -> Expected:
        """Returns the figures for `cuts`, 0 = y_0 < y_1 < … < y_h, the whole range of
        ln(size/k)."""
        sizes, top = self.sizes, self.sizes.width
        found: list[TierLoad] = []
        spent_s = waiting_s = slowdown = 0.0
        for tier, (a, b) in enumerate(pairwise(cuts)):
            load, wait_s = self.queue(tier, a, b)
            part = self.minded_part
            ends = part(0.0, a, b)
            inverse = part(-1.0, a, b) / ends if ends > 0 else 1.0 / sizes.size(a)
            visits = self.part(0.0, a, top)
            found.append(TierLoad(load, wait_s, visits, (spent_s + wait_s) * inverse))
            cut_s = sizes.size(b)
            spent_s += wait_s + cut_s
            waiting_s += wait_s * part(0.0, a, top) + cut_s * part(0.0, b, top)
            slowdown += wait_s * part(-1.0, a, top) + cut_s * part(-1.0, b, top)
        cutoffs = tuple(sizes.size(y) for y in cuts[1:-1])
        return Expected(cutoffs, tuple(found), waiting_s, slowdown)

    def expected_of(self, cutoffs_s: Sequence[float]) -> Expected:
        """Returns the figures for given cutoffs, one fewer than tiers; those beyond the known sizes
        cut nothing."""
        sizes = self.sizes
        inside = (min(max(s, sizes.k), sizes.p) for s in cutoffs_s)
        expected = self.expected([0.0, *(math.log(s / sizes.k) for s in inside), sizes.width])
        return Expected(tuple(cutoffs_s), expected.tiers, expected.waiting_s, expected.slowdown)


def solve_tiers(traffic: Tiers, objective: Objective) -> Expected | Infeasible:
    """Returns the best cutoffs for two or more tiers."""
    cuts = best_on_grid(traffic, "waiting" if objective == "fairness" else objective)
    if cuts is None:
        return Infeasible(greatest_load(traffic))
    found = sharpened(traffic, cuts, objective)
    if objective == "fairness":
        other = best_on_grid(traffic, "slowdown")
        rivals = [found, sharpened(traffic, other, objective)] if other else [found]
        return min(rivals, key=lambda one: one.unfairness)
    return found


def best_on_grid(traffic: Tiers, objective: Objective) -> list[float] | None:
    """Returns None if every combination of cutoffs overloads some tier."""
    width, power = traffic.sizes.width, -1.0 if objective == "slowdown" else 0.0
    points = [width * i / GRID for i in range(GRID + 1)]
    sizes = [traffic.sizes.size(y) for y in points]
    beyond = [traffic.minded_part(power, y, width) for y in points]
    last = len(traffic.servers) - 1
    reached = [0.0, *[math.inf] * GRID]  # the least cost of the tiers so far, cut at this point
    came_from: list[list[int]] = []
    for tier in range(last + 1):
        best, chosen = [math.inf] * (GRID + 1), [0] * (GRID + 1)
        for b in range(1, GRID + 1) if tier < last else (GRID,):
            for a in range(b):
                if reached[a] == math.inf:
                    continue
                cost = reached[a] + sizes[b] * beyond[b]
                if cost < best[b]:
                    cost += traffic.queue(tier, points[a], points[b])[1] * beyond[a]
                    if cost < best[b]:
                        best[b], chosen[b] = cost, a
        reached = best
        came_from.append(chosen)
    if reached[GRID] == math.inf:
        return None
    at, cuts = GRID, [points[GRID]]
    for chosen in reversed(came_from):
        at = chosen[at]
        cuts.append(points[at])
    return cuts[::-1]


def sharpened(traffic: Tiers, cuts: Sequence[float], objective: Objective) -> Expected:
    """Returns nearby cutoffs that are better still."""
    width = traffic.sizes.width
    gap = CLOSEST * width
    scale = min(1.0, width / 10.0)

    def placed(unknowns: Sequence[float]) -> list[float] | None:
        inner = [0.0, *(unknown * scale for unknown in unknowns), width]
        return inner if all(b - a > gap for a, b in pairwise(inner)) else None

    def value(unknowns: Sequence[float]) -> float:
        inner = placed(unknowns)
        if inner is None:
            return math.inf
        expected = traffic.expected(inner)
        if not math.isfinite(expected.waiting_s):
            return math.inf
        if objective == "fairness":
            logs = [math.log(tier.slowdown) for tier in expected.tiers if tier.slowdown > 0]
            return math.fsum((b - a) ** 2 for a, b in pairwise(logs))
        return math.log(max(expected.worth(objective), 1e-300))

    start = [y / scale for y in cuts[1:-1]]
    inner = placed(minimise(value, start, rounds=60))
    return traffic.expected(inner if inner is not None else cuts)


def greatest_load(traffic: Tiers) -> float:
    """Returns the highest system load at which the grid has feasible cutoffs."""
    low, high = 0.0, traffic.load
    for _ in range(12):
        middle = (low + high) / 2
        rate = traffic.rate_per_s * middle / traffic.load
        if best_on_grid(replace(traffic, rate_per_s=rate), "waiting"):
            low = middle
        else:
            high = middle
    return low

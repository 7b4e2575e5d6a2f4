"""The best TAGS cutoffs s_1 … s_{h-1} for slowdown, waiting or fairness (paper, section 4).

The paper used Mathematica to minimise for 2 hosts and did 4 hosts by hand (section 6). It can be
easier: host i contributes E[W_i] · weight(s_{i-1}) to both means, which depends only on its own two
cutoffs. So over a grid of sizes dynamic programming finds the best of all combinations, for any
number of hosts, and descent from there (`minimise`) supplies the digits.

The optimum may run a host at a load like 1 - 1e-12, a spare capacity that no grid and no difference
can resolve. So for a host that cannot take all smaller jobs as well (A > 1 in `tags`), the unknown
of the descent is the logarithm of its spare, and the cutoff below follows from it; for other hosts
the unknown is the logarithm of the cutoff.

Fair cutoffs give the jobs of each final destination the same expected slowdown: h - 1 equations,
solved from the best cutoffs for waiting, which are close (at α = 1 they nearly coincide).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import add

from lbd.config.dispatch import Objective
from lbd.theory.minimise import equalise, minimise
from lbd.theory.tags import TagsFigures, Traffic, balanced, figures, y_cut_at

GRID = 200  # sizes, evenly spaced in logarithm
NEAR_A_BOUND = 120  # further points between the cuts that overload one host and the other
SPARE_RESOLVED = 1e-13  # on the grid, a smaller spare is rounding
TIGHT = 0.1  # smaller spares are unknowns of their own
CLOSEST = 1e-9  # distance of two cutoffs, as a share of the log range: keeps them apart as floats
FAIR_ENOUGH = 1.001

Cuts = list[float]  # y_0 = 0 … y_h = ln(p/k)
Goal = Callable[[TagsFigures], float]


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No cutoffs keep every host below full load."""

    max_load: float  # system loads below it have feasible cutoffs


def solve(traffic: Traffic, objective: Objective) -> TagsFigures | Infeasible:
    """Returns the cutoffs of TAGS-opt-slowdown, -opt-waitingtime or -opt-fairness, and their
    figures."""
    if traffic.hosts < 2:
        raise ValueError("TAGS needs at least 2 hosts: with one there is nothing to cut")
    level, max_load = balanced(traffic.sizes, traffic.hosts)
    if traffic.load >= max_load * (1.0 - 1e-12):
        return Infeasible(max_load)
    if objective == "fairness":
        return fair(traffic, level)
    start = best_on_grid(traffic, level, objective)
    return refined(traffic, start, waiting if objective == "waiting" else slowdown)


def waiting(found: TagsFigures) -> float:
    return math.log(found.waiting_s)


def slowdown(found: TagsFigures) -> float:
    return math.log(found.slowdown)


def fair(traffic: Traffic, level: Cuts) -> TagsFigures:
    """Starts from the cutoffs best for waiting, and if that falls short, for slowdown; returns the
    fairer.

    Not every traffic has fair cutoffs (many hosts, hardly any variance): `unfairness` tells.
    """
    found = evened(traffic, best_on_grid(traffic, level, "waiting"))
    if found.unfairness <= FAIR_ENOUGH:
        return found
    other = evened(traffic, best_on_grid(traffic, level, "slowdown"))
    return min(found, other, key=lambda figures: figures.unfairness)


# The grid


def best_on_grid(traffic: Traffic, level: Cuts, objective: Objective) -> Cuts:
    """Returns the best combination of sizes on the grid. `level` is on it, so there is always
    one."""
    points = grid(traffic, level)
    costs = host_costs(traffic, points, -1.0 if objective == "slowdown" else 0.0)
    # reached[b]: the least cost of the hosts up to the one whose cutoff is points[b].
    reached = [row[0] if row else math.inf for row in costs]
    came_from: list[list[int]] = []
    for _ in range(traffic.hosts - 1):
        best, chosen = [math.inf], [0]
        for row in costs[1:]:
            sums = list(map(add, reached, row))
            least = min(sums)
            best.append(least)
            chosen.append(sums.index(least))
        reached = best
        came_from.append(chosen)
    at = len(points) - 1
    cuts = [points[at]]
    for chosen in reversed(came_from):
        at = chosen[at]
        cuts.append(points[at])
    return [0.0, *reversed(cuts)]


def grid(traffic: Traffic, level: Cuts) -> list[float]:
    """Returns sizes y, rising: evenly spaced, and dense where a step could overload a host."""
    sizes = traffic.sizes
    points = {sizes.width * i / GRID for i in range(GRID + 1)} | set(level)
    lows, highs = bounds(traffic)
    each = max(2, NEAR_A_BOUND // len(lows)) + 1
    for low, high in zip(lows, highs, strict=True):
        points |= {low + (high - low) * i / each for i in range(each)}
    return sorted(y for y in points if 0 <= y <= sizes.width)


def bounds(traffic: Traffic) -> tuple[Cuts, Cuts]:
    """Returns the smallest and the largest y_i that overload no host, whatever the other cuts."""
    low, lows = traffic.sizes.width, []
    for _ in range(traffic.hosts - 1):
        work = traffic.work_cut_at(low) - 1.0
        low = traffic.sizes.y_of_work(work / traffic.total) if work > 0 else 0.0
        lows.append(low)
    high, highs = 0.0, []
    for _ in range(traffic.hosts - 1):
        high = y_cut_at(traffic, 1.0 + traffic.work_below(high))
        highs.append(high)
    return lows[::-1], highs


def host_costs(traffic: Traffic, points: Sequence[float], power: float) -> list[list[float]]:
    """Returns [b][a], a < b: E[W] of a host between those sizes, times E[X^power; X > size a] (up
    to a constant factor); infinite if the host would be overloaded."""
    sizes, top = traffic.sizes, traffic.sizes.width
    gap = 2 * CLOSEST * top
    below = [traffic.work_below(y) for y in points]
    squares = [sizes.part_y(2.0, 0.0, y) for y in points]
    weights = [sizes.part_y(power, y, top) for y in points]
    rows = []
    for b, y in enumerate(points):
        room = 1.0 - traffic.work_cut_at(y)
        square = squares[b] + sizes.size(y) ** 2 * sizes.part_y(0.0, y, top)
        rows.append(
            [
                (square - before) * weight / (room + work)
                if room + work > SPARE_RESOLVED and y - point > gap
                else math.inf
                for before, weight, work, point in zip(
                    squares[:b], weights[:b], below[:b], points[:b], strict=True
                )
            ]
        )
    return rows


# The descent


def refined(traffic: Traffic, start: Cuts, goal: Goal) -> TagsFigures:
    """Returns the cutoffs near `start` that minimise `goal`."""
    tight, unknowns = unknowns_of(traffic, start)

    def value(unknowns: Sequence[float]) -> float:
        placed = place(traffic, unknowns, tight)
        return goal(figures(traffic, *placed)) if placed else math.inf

    return placed_figures(traffic, minimise(value, unknowns), tight)


def evened(traffic: Traffic, start: Cuts) -> TagsFigures:
    """Returns the nearest cuts from `start` that give every final destination the same slowdown."""
    tight, unknowns = unknowns_of(traffic, start)

    def differences(unknowns: Sequence[float]) -> list[float] | None:
        placed = place(traffic, unknowns, tight)
        if placed is None:
            return None
        logs = [math.log(tier.slowdown) for tier in figures(traffic, *placed).tiers]
        return [b - a for a, b in pairwise(logs)]

    return placed_figures(traffic, equalise(differences, unknowns), tight)


def unknowns_of(traffic: Traffic, cuts: Cuts) -> tuple[list[bool], list[float]]:
    """Returns which hosts' spares are unknowns instead of the cut below them, and the values."""
    tight = [traffic.work_cut_at(b) > 1.0 > TIGHT > traffic.spare(a, b) for a, b in pairwise(cuts)]
    return tight, [
        math.log(max(traffic.spare(a, b), SPARE_RESOLVED)) if bound else a / scale(traffic)
        for (a, b), bound in zip(pairwise(cuts), tight, strict=True)
    ][1:]


def scale(traffic: Traffic) -> float:
    """Returns the unit of the unknown cuts: sizes that hardly differ need small steps."""
    return min(1.0, traffic.sizes.width / 10.0)


def placed_figures(
    traffic: Traffic, unknowns: Sequence[float], tight: Sequence[bool]
) -> TagsFigures:
    placed = place(traffic, unknowns, tight)
    assert placed is not None  # the descent stays within the domain
    return figures(traffic, *placed)


def place(
    traffic: Traffic, unknowns: Sequence[float], tight: Sequence[bool]
) -> tuple[Cuts, Cuts] | None:
    """Returns the cuts and spares that the unknowns stand for, from the last host down; None if
    there are none."""
    above, gap = traffic.sizes.width, CLOSEST * traffic.sizes.width
    cuts, spares = [above], []
    for unknown, bound in zip(reversed(unknowns), reversed(tight), strict=False):
        if bound:
            spare = math.exp(min(unknown, 0.0))
            work = traffic.work_cut_at(above) - 1.0 + spare
            cut = traffic.sizes.y_of_work(work / traffic.total) if work > 0 else 0.0
        else:
            cut = unknown * scale(traffic)
            spare = traffic.spare(cut, above)
        if not (cut < above - gap and spare > 0):
            return None
        cuts.append(cut)
        spares.append(spare)
        above = cut
    spares.append(traffic.spare(0.0, above))
    return ([0.0, *cuts[::-1]], spares[::-1]) if spares[-1] > 0 and above > gap else None

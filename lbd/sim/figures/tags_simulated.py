"""TAGS simulated, divided by the formulas' values: 1 means they agree (paper, section 5.1).

The formulas assume Poisson arrivals at every host. For the random discipline that is true, and
simulation must match them; for tags it is true only at host 1, and they are an upper bound.

Sizes are those of the other figures except for the largest, 1e5 s: with 1e10 the jobs that make up
half of the work are one in a hundred million, and no feasible simulation would contain one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lbd.config.dispatch import Mode
from lbd.sim.figures.figure import Claim, Curve, Drawing, Figure, Map, Scale
from lbd.sim.queueing.report import Result
from lbd.sim.queueing.setup import Synthetic, run_mode
from lbd.theory.bounded_pareto import with_mean
from lbd.theory.cutoffs import Infeasible, solve
from lbd.theory.rivals import at_random
from lbd.theory.tags import Traffic

ALPHAS = (0.2, 0.5, 0.8, 1.1, 1.4, 1.7, 1.9)
LOADS = (0.3, 0.5, 0.7)
HOSTS = (2, 4)
LARGEST_S = 1e5
JOBS = 30_000  # in each replication
DEEPEST = {2: 0.12, 4: 0.35}  # how far simulations are known to lie below the bound


@dataclass(frozen=True, slots=True)
class TagsPoint:
    mode: Mode
    alpha: float
    load: float
    hosts: int
    replications: int
    seed: int

    @property
    def line(self) -> str:
        return f"{self.mode}, {self.hosts} hosts, load {self.load:g}"


@dataclass(frozen=True, slots=True)
class TagsRatio:
    """Simulated over expected mean slowdown."""

    point: TagsPoint
    value: float
    interval: float

    @property
    def shown(self) -> str:
        point = self.point
        where = f"{point.hosts} hosts, load {point.load:g}, alpha {point.alpha:g}"
        return f"{self.value:.2f} ± {self.interval:.2f} ({where})"


def ratio(point: TagsPoint) -> TagsRatio | None:
    """Returns None if no cutoffs are feasible."""
    sizes = with_mean(3000.0, LARGEST_S, point.alpha)
    traffic = Traffic(sizes, point.load, point.hosts)
    cutoffs_s: tuple[float, ...] | None = None
    expected = at_random(traffic).slowdown
    if point.mode == "tags":
        found = solve(traffic, "slowdown")
        if isinstance(found, Infeasible):
            return None
        cutoffs_s, expected = found.cutoffs_s, found.slowdown
    work = Synthetic(sizes, point.load, point.hosts, JOBS)
    result = run_mode(point.mode, work, point.hosts, cutoffs_s, point.seed, point.replications)
    return TagsRatio(point, result.queueing_slowdown / expected, half_width(result) / expected)


def half_width(result: Result) -> float:
    return result.ci95_queueing_slowdown or 0.0


def simulated(scale: Scale, map_: Map) -> Drawing:
    runs = (scale.replications, scale.seed)
    points = [
        TagsPoint("tags", alpha, load, hosts, *runs)
        for hosts in HOSTS
        for load in LOADS
        for alpha in ALPHAS
    ]
    points += [TagsPoint("random", alpha, 0.5, 2, *runs) for alpha in ALPHAS]
    ratios = [found for found in map_(ratio, points) if found is not None]
    names = dict.fromkeys(found.point.line for found in ratios)
    lines = tuple(line_of(name, ratios) for name in names)
    return Drawing("alpha", "mean slowdown, simulated over formula", lines, claims(ratios))


def line_of(name: str, ratios: Sequence[TagsRatio]) -> Curve:
    mine = [found for found in ratios if found.point.line == name]
    return Curve(
        name,
        tuple(found.point.alpha for found in mine),
        tuple(found.value for found in mine),
        tuple(found.interval for found in mine),
    )


def claims(ratios: Sequence[TagsRatio]) -> tuple[Claim, ...]:
    poisson = [found for found in ratios if found.point.mode == "random"]
    tags = [found for found in ratios if found.point.mode == "tags"]
    met = sum(abs(found.value - 1) <= found.interval for found in poisson)
    highest = max(tags, key=lambda found: found.value - found.interval)
    lowest = {
        hosts: min((f for f in tags if f.point.hosts == hosts), key=lambda f: f.value + f.interval)
        for hosts in HOSTS
    }
    deep = [found for hosts, found in lowest.items()
            if found.value + found.interval < 1 - DEEPEST[hosts]]  # fmt: skip
    return (
        Claim("where arrivals are Poisson, simulation meets the formula within its 95 % interval",
              met >= len(poisson) - 1, f"at {met} of {len(poisson)} points of random"),
        Claim("for tags the formulas are an upper bound",
              highest.value - highest.interval <= 1.0, f"highest {highest.shown}"),
        Claim("tags lies below it by no more than 12 % with 2 hosts, 35 % with 4",
              not deep, "; ".join(f"lowest {found.shown}" for found in lowest.values())),
    )  # fmt: skip


FIGURES = {
    "tags-simulated": Figure(
        "TAGS simulated over its formulas", "Harchol-Balter 2002, section 5.1", simulated
    ),
}

"""TAGS with h hosts, analysed: Harchol-Balter, "Task Assignment with Unknown Duration", appendix.

Every job starts at host 1. A job that has used s_i seconds of CPU at host i is killed and starts
from scratch at host i + 1; the last host has no limit. Every host is first come, first served. With
s_0 = k, s_h = p, a job visits host i if its size exceeds s_{i-1}, and is served min(X, s_i) there:

    ρ_i     = λ E[min(X, s_i); X > s_{i-1}]
    E[W_i]  = λ E[min(X, s_i)²; X > s_{i-1}] / (2 (1 - ρ_i))    (Pollaczek-Khinchine)
    E[W]    = Σ E[W_i] P(X > s_{i-1})
    E[S]    = Σ E[W_i] E[1/X; X > s_{i-1}]

These are the appendix's sums, taken over hosts visited instead of final destinations. Notes:

- Poisson arrivals are assumed at every host (section 5.1). Arrivals at host 2 and up are spaced by
  the cutoff before, so waits are an upper bound there; simulations lie below: by 1 to 11 % with 2
  hosts, up to 30 % with 4. Host 1 is exact.
- The paper's waiting, and so its slowdown, leaves out the killed service, although the job's owner
  waits for it too. `response_s` includes it: E[W] + E[X] + Σ s_i P(X > s_i).
- Everything depends on 1 - ρ_i where the last host runs at a load of 0.99999, so it is never
  computed as a difference of nearly equal numbers: with A = λ E[min(X, s_i)] it is (1 - A) + λ E[X;
  X ≤ s_{i-1}], a sum where A ≤ 1, and A is exactly h·ρ at the last host. Where A > 1 the cutoff may
  be derived from the spare instead, as the optimiser does (`cutoffs.place`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from lbd.theory.bounded_pareto import log_ratio


class Sizes(Protocol):
    """A distribution of job sizes, bounded Pareto or as measured. See `BoundedPareto` for the
    methods."""

    @property
    def k(self) -> float: ...

    @property
    def p(self) -> float: ...

    @property
    def width(self) -> float: ...

    @property
    def mean_s(self) -> float: ...

    def moment(self, j: float) -> float: ...

    def part_y(self, j: float, a: float, b: float) -> float: ...

    def size(self, y: float) -> float: ...

    def y_of_work(self, share: float) -> float: ...


@dataclass(frozen=True, slots=True)
class Tier:
    """One host of TAGS."""

    spare: float  # 1 - ρ_i, stored because ρ_i itself may round to 1
    visit_share: float  # share of all jobs that ever run here: p_i^visit
    final_share: float  # share of all jobs that end here: p_i
    wait_s: float  # E[W_i^visit], seconds in this host's queue
    slowdown: float  # E[S_i] of the jobs that end here, over all their queues

    @property
    def load(self) -> float:
        return 1.0 - self.spare


@dataclass(frozen=True, slots=True)
class TagsFigures:
    cutoffs_s: tuple[float, ...]  # CPU seconds, s_1 … s_{h-1}
    arrival_rate_per_s: float
    tiers: tuple[Tier, ...]
    waiting_s: float  # E[W]: in queues, without killed service
    slowdown: float  # E[S]: that waiting over the job's size
    response_s: float  # E[W] + E[X] + killed service
    excess: float  # sum of the loads minus h·ρ: the work done twice

    @property
    def unfairness(self) -> float:
        """The largest over the smallest expected slowdown by final destination; 1 is fair (section
        4)."""
        slowdowns = [tier.slowdown for tier in self.tiers if tier.final_share > 0]
        return max(slowdowns) / min(slowdowns)


class Overloaded(ValueError):
    """A host would get more work than it can do, so its queue would grow without end."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Poisson arrivals of `sizes` at `hosts` hosts; `load` = λ E[X] / h is the system load ρ."""

    sizes: Sizes
    load: float
    hosts: int

    def __post_init__(self) -> None:
        if not 0 < self.load < math.inf:
            raise ValueError(f"load {self.load:g}: must be above 0")
        if self.hosts < 1:
            raise ValueError(f"{self.hosts} hosts: at least 1")

    @property
    def total(self) -> float:
        """The work that arrives per second, h·ρ."""
        return self.hosts * self.load

    @property
    def rate_per_s(self) -> float:
        """The arrival rate λ (appendix, third line)."""
        return self.total / self.sizes.mean_s

    def work_below(self, y: float) -> float:
        """Returns λ E[X; X ≤ k·e^y]: the work of the jobs up to that size."""
        return self.rate_per_s * self.sizes.part_y(1.0, 0.0, y)

    def work_cut_at(self, y: float) -> float:
        """Returns λ E[min(X, k·e^y)]: the load of a host that runs every job up to that size."""
        sizes = self.sizes
        if y >= sizes.width:
            return self.total  # exactly
        return self.work_below(y) + self.rate_per_s * sizes.size(y) * sizes.part_y(
            0.0, y, sizes.width
        )

    def spare(self, a: float, b: float) -> float:
        """Returns 1 - ρ of a host whose jobs exceed k·e^a and are cut at k·e^b."""
        return (1.0 - self.work_cut_at(b)) + self.work_below(a)

    def wait_s(self, a: float, b: float, spare: float) -> float:
        """Returns E[W] at that host, by Pollaczek and Khinchine (appendix; Theorem 1)."""
        sizes = self.sizes
        cut_square = sizes.size(b) ** 2 * sizes.part_y(0.0, b, sizes.width)
        return self.rate_per_s * (sizes.part_y(2.0, a, b) + cut_square) / (2.0 * spare)


def analyse(traffic: Traffic, cutoffs_s: Sequence[float]) -> TagsFigures:
    """Returns the figures for given cutoffs s_1 < … < s_{h-1}, CPU seconds.

    Raises ValueError if they do not rise within k … p, and Overloaded if a host would be
    overloaded.
    """
    sizes = traffic.sizes
    if len(cutoffs_s) != traffic.hosts - 1:
        raise ValueError(f"{traffic.hosts} hosts need {traffic.hosts - 1} cutoffs")
    bounds = (sizes.k, *cutoffs_s, sizes.p)
    if any(not a < b for a, b in pairwise(bounds)):
        raise ValueError(f"cutoffs must rise, between {sizes.k:g} and {sizes.p:g}")
    cuts = [0.0, *(log_ratio(s, sizes.k) for s in cutoffs_s), sizes.width]
    spares = [traffic.spare(a, b) for a, b in pairwise(cuts)]
    for number, spare in enumerate(spares, 1):
        if spare <= 0:
            raise Overloaded(f"host {number} would have load {1.0 - spare:.6g}")
    return figures(traffic, cuts, spares)


def figures(traffic: Traffic, cuts: Sequence[float], spares: Sequence[float]) -> TagsFigures:
    """Returns all figures, from 0 = y_0 < y_1 < … < y_h = ln(p/k) and every host's 1 - ρ_i."""
    sizes, rate = traffic.sizes, traffic.rate_per_s
    top = sizes.width
    tiers: list[Tier] = []
    waited_s = waiting_s = slowdown = excess = 0.0
    for (a, b), spare in zip(pairwise(cuts), spares, strict=True):
        here_s = traffic.wait_s(a, b, spare)
        visits, ends = sizes.part_y(0.0, a, top), sizes.part_y(0.0, a, b)
        waited_s += here_s
        waiting_s += here_s * visits
        slowdown += here_s * sizes.part_y(-1.0, a, top)
        if b < top:
            excess += rate * sizes.size(b) * sizes.part_y(0.0, b, top)  # Excess_b, appendix
        inverse = sizes.part_y(-1.0, a, b) / ends if ends > 0 else 1.0 / sizes.size(a)
        tiers.append(Tier(spare, visits, ends, here_s, waited_s * inverse))
    return TagsFigures(
        cutoffs_s=tuple(sizes.size(y) for y in cuts[1:-1]),
        arrival_rate_per_s=rate,
        tiers=tuple(tiers),
        waiting_s=waiting_s,
        slowdown=slowdown,
        response_s=waiting_s + sizes.mean_s + excess / rate,
        excess=excess,
    )


def balanced(sizes: Sizes, hosts: int) -> tuple[list[float], float]:
    """Returns the cuts that load every host alike, and the greatest system load that any cuts
    allow.

    For two hosts or more. ρ_i rises with s_i and falls with s_{i-1}, so at the critical load each
    host from the first on takes the largest cutoff it can bear; the last must then reach p.
    """
    low, high = 1.0, float(hosts)  # work per second: one host can do 1, h hosts no more than h
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if greedy(sizes, middle, hosts)[-1] >= sizes.width:
            low = middle
        else:
            high = middle
    return [*greedy(sizes, low, hosts)[:-1], sizes.width], low / hosts


def greedy(sizes: Sizes, total: float, hosts: int) -> list[float]:
    """Returns y_0 … y_h, each the largest that keeps its host at load 1, for `total` work per
    second."""
    traffic = Traffic(sizes, total / hosts, hosts)
    cuts = [0.0]
    for _ in range(hosts):
        cuts.append(y_cut_at(traffic, 1.0 + traffic.work_below(cuts[-1])))
    return cuts


def y_cut_at(traffic: Traffic, work: float) -> float:
    """Returns the y at which `work_cut_at` equals `work`."""
    if work >= traffic.total:
        return traffic.sizes.width
    low, high = 0.0, traffic.sizes.width
    while low < (middle := (low + high) / 2) < high:
        if traffic.work_cut_at(middle) <= work:
            low = middle
        else:
            high = middle
    return low

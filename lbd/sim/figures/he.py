"""He et al.'s figures 2 and 3: with how few free hosts a task waits, and the hosts used to test it.

Their 232 hosts are in no archive, and the paper does not say which it chose. Figure 3 uses as many
of the given series, and the three sets are chosen here.
"""

from collections.abc import Sequence
from math import dist
from random import Random
from statistics import fmean

from lbd.errors import ConfigError
from lbd.sim.balance.migrate import BUSY_PERCENT, chain_of, is_lively
from lbd.sim.figures.figure import Claim, Curve, Drawing, Figure, Map, Scale
from lbd.theory.wait_or_migrate import OnOff, metrics, myopic_thresholds, thresholds, wait_below

TASKS, BETA = 3, 0.9
CHAIN = OnOff(0.1, 0.9)
UNRELATED = OnOff(0.5, 0.5)  # each step is independent of the last
HOSTS, SET = 232, 6
SETS, SHARES = ("low", "medium", "high"), (1 / 6, 1 / 2, 5 / 6)  # availability
COSTS = tuple(n / 50 for n in range(151))  # of a move, in steps


def partition(_scale: Scale, _map: Map) -> Drawing:
    """Figure 2, from theory alone."""
    best, myopic = thresholds(TASKS, CHAIN, BETA), myopic_thresholds(TASKS)
    lines = tuple(
        Curve(name, COSTS, tuple(float(wait_below(cost, found)) for cost in COSTS))
        for name, found in (("best", best), ("myopic", myopic))
    )
    rules = [metrics(i, TASKS, CHAIN, BETA) for i in range(TASKS + 1)]
    rewards = [[one.processing - cost * one.migrations for one in rules] for cost in COSTS]
    short = max(max(of_all) - of_all[int(i)] for of_all, i in zip(rewards, lines[0].y, strict=True))
    unrelated = thresholds(TASKS, UNRELATED, BETA)
    apart = max(abs(a - b) for a, b in zip(unrelated, myopic, strict=True))
    shown = ", ".join(f"{gamma:.3f}" for gamma in best)
    claims = (
        Claim("each threshold rule is the best of all in its stretch", short < 1e-9,
              f"{short:.1e} from it; thresholds {shown}"),
        Claim("who looks no further than a step waits where moving is right",
              all(a > b for a, b in zip(best, myopic, strict=True)),
              f"{myopic[0]:.3f} to {best[0]:.3f}"),
        Claim("that is right where a step says nothing of the next", apart < 1e-9,
              f"{apart:.1e} apart"),
    )  # fmt: skip
    return Drawing("cost of a move, steps", "waits below so many of 3 free hosts", lines, claims)


def hosts(scale: Scale, _map: Map) -> Drawing:
    """Figure 3, with other hosts. Raises ConfigError."""
    lively = [one for one in scale.series if is_lively(one, BUSY_PERCENT)]
    if len(lively) < 3 * SET:
        had = f"{len(lively)} lively ones in it" if scale.series else "none is given"
        raise ConfigError(f"he-3: series of {3 * SET} hosts or more: {had}; --series FILE.tar.xz")
    rng = Random(scale.seed)
    chosen = rng.sample(lively, min(HOSTS, len(lively)))
    chains = sorted((chain_of(one, BUSY_PERCENT) for one in chosen), key=availability)
    sets = [near(chains, share) for share in SHARES]
    lines = (
        scatter("all", chains),
        *(scatter(name, some) for name, some in zip(SETS, sets, strict=True)),
    )
    return Drawing(
        "p01, free in the next step if not now", "p11, still free in the next step", lines,
        claims_3(len(lively) / len(scale.series), chains, sets), scattered=True,
    )  # fmt: skip


def availability(chain: OnOff) -> float:
    return chain.on_share


def near(chains: Sequence[OnOff], share: float) -> list[OnOff]:
    """Returns the chains nearest to the one at this share of the order by availability."""
    middle = chains[int(share * len(chains))]
    return sorted(chains, key=lambda one: dist(place(one), place(middle)))[:SET]


def place(chain: OnOff) -> tuple[float, float]:
    return chain.p01, chain.p11


def scatter(name: str, chains: Sequence[OnOff]) -> Curve:
    return Curve(name, tuple(one.p01 for one in chains), tuple(one.p11 for one in chains))


def apart(chains: Sequence[OnOff]) -> float:
    """Returns the mean distance from their centre."""
    middle = fmean(one.p01 for one in chains), fmean(one.p11 for one in chains)
    return fmean(dist(place(one), middle) for one in chains)


def claims_3(
    lively: float, chains: Sequence[OnOff], sets: Sequence[Sequence[OnOff]]
) -> tuple[Claim, ...]:
    free = [fmean(map(availability, some)) for some in sets]
    widths = [apart(some) for some in sets]
    return (
        Claim("many hosts are never or always free, or change too seldom", lively < 0.9,
              f"{1 - lively:.0%} are"),
        Claim("sets of low, medium and high availability", free[0] < free[1] - 0.1 < free[2] - 0.2,
              ", ".join(f"{one:.0%}" for one in free)),
        Claim("hosts of a set are near-homogeneous", max(widths) < apart(chains) / 2,
              f"{max(widths):.3f} from their middle, all of them {apart(chains):.3f}"),
    )  # fmt: skip


FIGURES = {
    "he-2": Figure("Where waiting is right", "He et al., figure 2", partition),
    "he-3": Figure("Hosts to try it on", "He et al., figure 3", hosts),
}

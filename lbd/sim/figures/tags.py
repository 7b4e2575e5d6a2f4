"""Figures 4 to 15 of Harchol-Balter's TAGS paper (2002), from its formulas.

They come from theory alone and ignore the scale; `tags_simulated.py` compares them with simulation.
Where the paper errs, ours is right. Its Least-Work-Remaining lacks a factor ½, 0.3 orders of
magnitude, so some of its claims fail by that much. Its Figure 7a must be of TAGS-opt-waitingtime,
not of opt-slowdown. Points are missing where no cutoffs are feasible.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from lbd.config.dispatch import Objective
from lbd.sim.figures.figure import Claim, Curve, Drawing, Figure, Map, Scale
from lbd.theory.bounded_pareto import BoundedPareto, with_mean
from lbd.theory.cutoffs import Infeasible, solve
from lbd.theory.rivals import at_random, expansion, least_work
from lbd.theory.tags import TagsFigures, Traffic

ALPHAS = tuple(round(0.2 + 0.1 * i, 1) for i in range(18))  # 0.2 … 1.9
MEAN_S = 3000.0
LARGEST_S = 1e10
SMALLER_S = 1e7  # section 7
DROPPED = math.log10(2.0)  # orders of magnitude by which the paper's Least-Work-Remaining is off

Value = Callable[[TagsFigures], float]


def sizes(alpha: float, largest_s: float = LARGEST_S) -> BoundedPareto:
    return with_mean(MEAN_S, largest_s, alpha)


def traffic(alpha: float, load: float, hosts: int, largest_s: float = LARGEST_S) -> Traffic:
    return Traffic(sizes(alpha, largest_s), load, hosts)


def solved(
    load: float, hosts: int, objective: Objective, largest_s: float = LARGEST_S
) -> dict[float, TagsFigures]:
    """Returns TAGS at each α for which there are feasible cutoffs."""
    found = {a: solve(traffic(a, load, hosts, largest_s), objective) for a in ALPHAS}
    return {a: best for a, best in found.items() if not isinstance(best, Infeasible)}


def line_of(name: str, points: Mapping[float, TagsFigures], value: Value) -> Curve:
    return Curve(name, tuple(points), tuple(map(value, points.values())))


def curve(name: str, value: Callable[[float], float]) -> Curve:
    """Returns a line over all α."""
    return Curve(name, ALPHAS, tuple(value(alpha) for alpha in ALPHAS))


def at(line: Curve, alpha: float) -> float:
    return dict(zip(line.x, line.y, strict=True)).get(alpha, math.inf)


def tens(ratio: float) -> float:
    """Returns orders of magnitude."""
    return math.log10(ratio) if ratio > 0 else -math.inf


# Figures 4 and 14: the variability


def second_moment(largest_s: float) -> Callable[[Scale, Map], Drawing]:
    def make(_: Scale, __: Map) -> Drawing:
        line = curve("E[X²]", lambda alpha: sizes(alpha, largest_s).moment(2.0))
        falls = all(a > b for a, b in pairwise(line.y))
        claims = [
            Claim("the second moment explodes as alpha declines", falls,
                  f"{line.y[0]:.3g} s² at 0.2, {line.y[-1]:.3g} at 1.9"),
        ]  # fmt: skip
        k = sizes(1.0, largest_s).k
        if largest_s == LARGEST_S:
            claims.append(Claim("at alpha 1 the smallest job is 167 s", round(k) in (167, 168),
                                f"{k:.2f} s"))  # fmt: skip
        else:
            claims.append(Claim("at alpha 1 the smallest job is 287 s", round(k) == 287,
                                f"{k:.2f} s"))  # fmt: skip
            low, high = sizes(2.0, largest_s).scv, sizes(0.2, largest_s).scv
            claims.append(
                Claim("the coefficient of variation ranges from 2 (alpha 2) to 33 (alpha 0.2)",
                      abs(low**0.5 - 2) < 0.2 and abs(high**0.5 - 33) < 3.3,
                      f"{low**0.5:.2f} to {high**0.5:.1f}"))  # fmt: skip
        return Drawing("alpha", "second moment, s²", (line,), tuple(claims), log_y=True)

    return make


# Figures 6, 7, 9, 12 and 15: TAGS beside Least-Work-Remaining and Random


@dataclass(frozen=True, slots=True)
class Contest:
    """One figure: how well each discipline does over α."""

    tags: Curve
    least_work: Curve
    random: Curve

    @property
    def lines(self) -> tuple[Curve, ...]:
        return (self.random, self.least_work, self.tags)

    def gain(self, alpha: float) -> float:
        """Returns the orders of magnitude by which TAGS is below Least-Work-Remaining."""
        return tens(at(self.least_work, alpha) / at(self.tags, alpha))

    def ahead(self) -> Claim:
        behind = [a for a in ALPHAS if not at(self.tags, a) < at(self.least_work, a)]
        text = f"TAGS outperforms the others for all alpha from {ALPHAS[0]:g} to {ALPHAS[-1]:g}"
        ours = f"not at {', '.join(f'{a:g}' for a in behind)}" if behind else "at every point"
        return Claim(text, not behind, ours)

    def by(self, alpha: float, least: float, text: str) -> Claim:
        gain = self.gain(alpha)
        ours = f"{gain:.1f} orders of magnitude at {alpha:g}"
        if gain < least <= gain + DROPPED:
            ours += f"; {gain + DROPPED:.1f} by the paper's formula, without its ½"
        return Claim(text, gain >= least, ours)


def contest(
    load: float, hosts: int, objective: Objective, of_waiting: bool = False,
    largest_s: float = LARGEST_S,
) -> Contest:  # fmt: skip
    def traffic_at(alpha: float) -> Traffic:
        return traffic(alpha, load, hosts, largest_s)

    measure = attrgetter("waiting_s" if of_waiting else "slowdown")
    name = f"TAGS, opt-{'waitingtime' if objective == 'waiting' else objective}"
    return Contest(
        line_of(name, solved(load, hosts, objective, largest_s), measure),
        curve("Least-Work-Remaining", lambda a: measure(least_work(traffic_at(a)))),
        curve("Random", lambda a: measure(at_random(traffic_at(a)))),
    )


def drawn(what: str, shown: Contest, *claims: Claim) -> Drawing:
    return Drawing("alpha", what, shown.lines, claims, log_y=True)


def figure_6a(_: Scale, __: Map) -> Drawing:
    shown = contest(0.5, 2, "slowdown")
    decade = [tens(r / w) for r, w in zip(shown.random.y, shown.least_work.y, strict=True)]
    return drawn(
        "mean slowdown",
        shown,
        shown.ahead(),
        Claim("Least-Work-Remaining is better than Random by about an order of magnitude",
              all(0.5 <= d <= 1.5 for d in decade),
              f"by {min(decade):.2f} to {max(decade):.2f} orders"),
        shown.by(1.5, 2.0, "at alpha 1.5 by 2 orders of magnitude"),
        shown.by(1.0, 4.0, "at alpha 1 by over 4 orders of magnitude"),
        shown.by(0.4, 9.0, "at alpha 0.4 by over 9 orders of magnitude"),
    )  # fmt: skip


def figure_6b(_: Scale, __: Map) -> Drawing:
    shown, best = contest(0.5, 2, "fairness"), contest(0.5, 2, "slowdown").tags
    loss = [tens(at(shown.tags, a) / at(best, a)) for a in ALPHAS]
    return drawn(
        "mean slowdown",
        shown,
        shown.ahead(),
        Claim("fairness costs little: opt-fairness is not far from opt-slowdown",
              max(loss) < 2.0, f"{min(loss):.1f} to {max(loss):.1f} orders of magnitude above it"),
    )  # fmt: skip


def figure_7(objective: Objective) -> Callable[[Scale, Map], Drawing]:
    def make(_: Scale, __: Map) -> Drawing:
        shown = contest(0.5, 2, objective, of_waiting=True)
        better = shown.by(1.0, 2.0, "several orders of magnitude better")
        return drawn("mean waiting, s", shown, shown.ahead(), better)

    return make


def figure_9(load: float) -> Callable[[Scale, Map], Drawing]:
    def make(_: Scale, __: Map) -> Drawing:
        shown = contest(load, 2, "slowdown")
        claims = [shown.ahead()]
        if load == 0.3:
            claims += [
                shown.by(1.0, 4.0, "by over 4 orders of magnitude at alpha 1"),
                shown.by(0.6, 7.0, "by 7 orders of magnitude at alpha 0.6"),
                shown.by(0.2, 19.0, "by almost 20 orders of magnitude at alpha 0.2"),
            ]
        if load == 0.7:
            claims.append(shown.by(1.0, 3.5, "still about 4 orders of magnitude at alpha 1"))
        return drawn("mean slowdown", shown, *claims)

    return make


def figure_12(_: Scale, __: Map) -> Drawing:
    shown, two = contest(0.3, 4, "slowdown"), contest(0.3, 2, "slowdown").tags
    worst = max(shown.tags.y)
    over = [f"{y:.2f} at {a:g}" for a, y in zip(shown.tags.x, shown.tags.y, strict=True) if y > 6]
    return drawn(
        "mean slowdown",
        shown,
        Claim("mean slowdown is never over 6 and often under 1",
              worst <= 6.0 and sum(y < 1 for y in shown.tags.y) >= 4,
              f"over 6: {', '.join(over) or 'nowhere'}; under 1 at"
              f" {sum(y < 1 for y in shown.tags.y)} of {len(ALPHAS)} points"),
        Claim("TAGS on 4 hosts is better than on 2 at the same load",
              all(at(shown.tags, a) <= at(two, a) for a in ALPHAS),
              ", ".join(f"{at(shown.tags, a):.3g} for {at(two, a):.3g} at {a:g}"
                        for a in (0.2, 1.0, 1.9))),
        shown.by(1.0, 4.0, "by 4 to 5 orders of magnitude at alpha 1"),
        shown.by(0.6, 8.0, "by 8 or 9 orders of magnitude at alpha 0.6"),
        shown.by(0.2, 25.0, "by over 25 orders of magnitude at alpha 0.2"),
    )  # fmt: skip


def figure_15(_: Scale, __: Map) -> Drawing:
    shown = contest(0.5, 2, "slowdown", largest_s=SMALLER_S)
    wide = contest(0.5, 2, "slowdown")
    return drawn(
        "mean slowdown",
        shown,
        shown.ahead(),
        shown.by(1.0, 2.0, "by over 2 orders of magnitude at alpha 1"),
        Claim("the gain grows as alpha drops", shown.gain(0.4) > shown.gain(1.0) > shown.gain(1.6),
              ", ".join(f"{shown.gain(a):.1f} at {a:g}" for a in (0.4, 1.0, 1.6))),
        Claim("it is less dramatic than with p = 1e10", shown.gain(1.0) < wide.gain(1.0),
              f"{shown.gain(1.0):.1f} instead of {wide.gain(1.0):.1f} orders at alpha 1"),
    )  # fmt: skip


# Figures 8 and 10: load unbalancing


def loads(load: float, objective: Objective, with_sum: bool) -> Callable[[Scale, Map], Drawing]:
    def make(_: Scale, __: Map) -> Drawing:
        points = solved(load, 2, objective)
        first = line_of("host 1", points, lambda found: found.tiers[0].load)
        second = line_of("host 2", points, lambda found: found.tiers[1].load)
        total = line_of("sum", points, lambda found: sum(tier.load for tier in found.tiers))
        shown = (first, second, total) if with_sum else (first, second)
        claims = excess(load, total) if with_sum else unbalancing(first, second, objective)
        return Drawing("alpha", "load", shown, claims)

    return make


def unbalancing(first: Curve, second: Curve, objective: Objective) -> tuple[Claim, ...]:
    def both(alpha: float) -> str:
        return f"{at(first, alpha):.3g} and {at(second, alpha):.3g} at {alpha:g}"

    return (
        Claim("at low alpha host 1 runs at load near 0 and host 2 near 1",
              at(first, 0.2) < 0.05 and at(second, 0.2) > 0.95, both(0.2)),
        Claim("at higher alpha host 1 is somewhat overloaded",
              at(first, 1.7) > at(second, 1.7), both(1.7)),
        Claim("near alpha 1 the load is balanced",
              abs(at(first, 1.0) - at(second, 1.0)) < (0.3 if objective == "slowdown" else 0.1),
              both(1.0)),
    )  # fmt: skip


def excess(load: float, total: Curve) -> tuple[Claim, ...]:
    def over(alpha: float) -> float:
        return at(total, alpha) - 2 * load

    ours = ", ".join(f"{over(a):.3f} at {a:g}" for a in (0.2, 1.0, 1.9))
    if load == 0.7:
        least = min(ALPHAS, key=over)
        return (
            Claim("there is excess at both low and high alpha, hardly any near 1",
                  min(over(0.2), over(1.9)) > 3 * over(1.0), ours),
            Claim("excess is at its lowest near alpha 1", 0.8 <= least <= 1.2,
                  f"lowest at {least:g}"),
        )  # fmt: skip
    return (
        Claim("there is excess only in the higher range of alpha",
              over(0.2) < 0.01 < over(1.9), ours),
    )  # fmt: skip


# Figure 13: server expansion


def figure_13(_: Scale, __: Map) -> Drawing:
    lines = []
    for name, policy in (("TAGS", "tags"), ("Least-Work-Remaining", "least-work"),
                         ("Random", "random")):  # fmt: skip
        added = [(a, expansion(traffic(a, 0.7, 2), policy)) for a in ALPHAS]
        kept = [(a, float(hosts)) for a, hosts in added if hosts is not None]
        lines.append(Curve(name, tuple(a for a, _ in kept), tuple(h for _, h in kept)))
    tags, least, random = lines
    later = [h for a, h in zip(tags.x, tags.y, strict=True) if a > 0.25]
    return Drawing(
        "alpha",
        "hosts to add until mean slowdown is at most 3",
        tuple(lines),
        (
            Claim("TAGS needs 3 at alpha 0.2 and no more than 2 at the others",
                  at(tags, 0.2) == 3 and max(later) <= 2,
                  f"{at(tags, 0.2):g}, then at most {max(later):g}"),
            Claim("Least-Work-Remaining needs 1 to 27 as alpha declines",
                  (min(least.y), max(least.y)) == (1, 27), f"{min(least.y):g} to {max(least.y):g}"),
            Claim("Random needs as many as 1e5 at alpha 1", 1e5 <= at(random, 1.0) < 1e6,
                  f"{at(random, 1.0):.3g}"),
        ),
        log_y=True,
    )  # fmt: skip


def entry(number: str, title: str, make: Callable[[Scale, Map], Drawing]) -> Figure:
    return Figure(title, f"Harchol-Balter 2002, figure {number}", make)


FIGURES = {
    "tags-4": entry("4", "Second moment, p = 1e10", second_moment(LARGEST_S)),
    "tags-6a": entry("6a", "Slowdown, 2 hosts, load 0.5: opt-slowdown", figure_6a),
    "tags-6b": entry("6b", "Slowdown, 2 hosts, load 0.5: opt-fairness", figure_6b),
    "tags-7a": entry("7a", "Waiting, 2 hosts, load 0.5: opt-waitingtime", figure_7("waiting")),
    "tags-7b": entry("7b", "Waiting, 2 hosts, load 0.5: opt-fairness", figure_7("fairness")),
    "tags-8a": entry("8a", "Loads of 2 hosts: opt-slowdown", loads(0.5, "slowdown", False)),
    "tags-8b": entry("8b", "Loads of 2 hosts: opt-waitingtime", loads(0.5, "waiting", False)),
    "tags-8c": entry("8c", "Loads of 2 hosts: opt-fairness", loads(0.5, "fairness", False)),
    "tags-9a": entry("9a", "Slowdown, 2 hosts, load 0.3", figure_9(0.3)),
    "tags-9b": entry("9b", "Slowdown, 2 hosts, load 0.5", figure_9(0.5)),
    "tags-9c": entry("9c", "Slowdown, 2 hosts, load 0.7", figure_9(0.7)),
    "tags-10a": entry("10a", "Loads and their sum, load 0.3", loads(0.3, "slowdown", True)),
    "tags-10b": entry("10b", "Loads and their sum, load 0.5", loads(0.5, "slowdown", True)),
    "tags-10c": entry("10c", "Loads and their sum, load 0.7", loads(0.7, "slowdown", True)),
    "tags-12": entry("12", "Slowdown, 4 hosts, load 0.3", figure_12),
    "tags-13": entry("13", "Server expansion from 2 hosts at load 0.7", figure_13),
    "tags-14": entry("14", "Second moment, p = 1e7", second_moment(SMALLER_S)),
    "tags-15": entry("15", "Slowdown, 2 hosts, load 0.5, p = 1e7", figure_15),
}

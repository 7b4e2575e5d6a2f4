"""Figures 3.2 to 3.8 and 3.16 of Zhou's thesis (1987), from our simulator.

The thesis prints these as curves without numbers. What its text says of them are the figures'
claims, where the few numbers it does print stand beside ours. Its curves use the best parameters
for each point, ours one set for all (`balance/setup.py`), so ours lie a little higher. Section
numbers are in brackets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lbd.sim.balance.runs import BalanceResult, Outcome, Run, run_once, summed_up
from lbd.sim.balance.setup import LIM, Setup, with_settings
from lbd.sim.balance.workload import WORKLOADS
from lbd.sim.figures.figure import Claim, Curve, Drawing, Figure, Map, Scale

BERKELEY = WORKLOADS["berkeley"]
INFORMED = ("CENTRAL", "GLOBAL", "LOWEST", "THRHLD")
ALGORITHMS = (*INFORMED, "DISTED", "RESERVE", "RANDOM")


@dataclass(frozen=True, slots=True)
class Point:
    line: str
    x: float
    setup: Setup
    algorithm: str


def base(scale: Scale, hosts: int, load: float, *words: str) -> Setup:
    setup = Setup(
        BERKELEY, hosts=hosts, utilisation=load, duration_s=scale.duration_s, seed=scale.seed
    )
    return with_settings(setup, list(words))


def run(what: Run) -> Outcome:
    return run_once(*what)


def measured(points: Sequence[Point], scale: Scale, map_: Map) -> list[BalanceResult]:
    """Returns the results of each point against NOLB on the same jobs. Makes each run only once."""
    numbers = range(scale.replications)
    wanted: dict[Run, None] = {}
    for point in points:
        for number in numbers:
            wanted[as_nolb(point.setup), "NOLB", number] = None
            wanted[as_run(point), point.algorithm, number] = None
    runs = list(wanted)
    outcomes = dict(zip(runs, map_(run, runs), strict=True))
    return [
        summed_up(
            [outcomes[as_run(point), point.algorithm, n] for n in numbers],
            [outcomes[as_nolb(point.setup), "NOLB", n] for n in numbers],
        )
        for point in points
    ]


def as_nolb(setup: Setup) -> Setup:
    """Drops the parameters that NOLB ignores and its costs, so that many points share one run."""
    costs = setup.workload.costs
    return replace(setup, lim=LIM, costs=costs, immobile=0.0, smoothing_s=0.0, index="queue")


def as_run(point: Point) -> Setup:
    return as_nolb(point.setup) if point.algorithm == "NOLB" else point.setup


def lines_of(
    points: Sequence[Point],
    results: Sequence[BalanceResult],
    y: Callable[[BalanceResult], float] | None = None,
    interval: Callable[[BalanceResult], float] | None = None,
) -> tuple[Curve, ...]:
    """Returns a line for each name: the ratio to NOLB unless `y` says otherwise."""
    y = y or (lambda result: result.ratio_to_nolb)
    interval = interval or (lambda result: result.ratio_ci95)
    found = []
    for name in dict.fromkeys(point.line for point in points):
        mine = [
            (p.x, y(r), interval(r)) for p, r in zip(points, results, strict=True) if p.line == name
        ]
        xs, ys, widths = zip(*mine, strict=True)
        found.append(Curve(name, xs, ys, widths))
    return tuple(found)


def shown(values: Sequence[float]) -> str:
    return " ".join(f"{value:.3g}" for value in values)


def named(lines: Sequence[Curve]) -> dict[str, tuple[float, ...]]:
    return {line.name: line.y for line in lines}


# -- the figures ---------------------------------------------------------------------------------


def system_size(scale: Scale, map_: Map) -> Drawing:
    """[3.4.1]"""
    names = (*ALGORITHMS, "PartCOST", "NoCOST")
    points = [
        Point(name, hosts, base(scale, hosts, 0.63), name)
        for name in names
        for hosts in (7, 14, 28, 49)
    ]
    lines = lines_of(points, measured(points, scale, map_))
    y = named(lines)
    mean = {name: sum(values) / len(values) for name, values in y.items()}
    best = min(mean[name] for name in INFORMED)
    worst = max(mean[name] for name in INFORMED)
    disted = [d / g for d, g in zip(y["DISTED"], y["GLOBAL"], strict=True)]
    return Drawing(
        "hosts", "mean response time / NOLB's", lines,
        (
            Claim("every algorithm improves on NOLB, at every size",
                  max(map(max, y.values())) < 1, f"highest {max(map(max, y.values())):.3f}"),
            Claim("NoCOST < PartCOST < every algorithm",
                  mean["NoCOST"] < mean["PartCOST"] < min(mean[n] for n in ALGORITHMS),
                  f"{mean['NoCOST']:.3f} < {mean['PartCOST']:.3f} < {best:.3f}"),
            Claim("CENTRAL, GLOBAL, LOWEST and THRHLD lie within a narrow range, CENTRAL first",
                  worst - best < 0.06 and mean["CENTRAL"] <= best + 0.005,
                  ", ".join(f"{name} {mean[name]:.3f}" for name in INFORMED)),
            Claim("RANDOM is behind them", mean["RANDOM"] > worst, f"{mean['RANDOM']:.3f}"),
            Claim("RESERVE is behind THRHLD", mean["RESERVE"] > mean["THRHLD"],
                  f"{mean['RESERVE']:.3f} and {mean['THRHLD']:.3f}"),
            Claim("DISTED falls behind GLOBAL as hosts are added",
                  disted[-1] > disted[0], f"DISTED / GLOBAL {shown(disted)}"),
            Claim("beyond 28 hosts little more is gained",
                  y["LOWEST"][2] - y["LOWEST"][3] < 0.1 * (1 - y["LOWEST"][2]),
                  f"LOWEST {shown(y['LOWEST'])}"),
        ),
    )  # fmt: skip


def small_systems(scale: Scale, map_: Map) -> Drawing:
    """[3.4.1]"""
    names = (*INFORMED, "RANDOM", "NoCOST")
    points = [
        Point(name, hosts, base(scale, hosts, 0.63), name) for name in names for hosts in (2, 4, 7)
    ]
    lines = lines_of(points, measured(points, scale, map_))
    y = named(lines)
    informed = [y[name] for name in INFORMED]
    return Drawing(
        "hosts", "mean response time / NOLB's", lines,
        (
            Claim("two hosts gain already", max(values[0] for values in informed) < 1,
                  ", ".join(f"{name} {y[name][0]:.3f}" for name in INFORMED)),
            Claim("each host more is worth most while they are few",
                  all(values[0] > values[1] > values[2] for values in informed),
                  f"GLOBAL {shown(y['GLOBAL'])}"),
        ),
    )  # fmt: skip


def load_levels(scale: Scale, map_: Map) -> Drawing:
    """[3.4.2]"""
    loads = (0.48, 0.56, 0.63, 0.73, 0.79)
    names = ("NOLB", *INFORMED, "RANDOM", "NoCOST")
    points = [Point(name, load, base(scale, 28, load), name) for name in names for load in loads]
    results = measured(points, scale, map_)
    lines = lines_of(points, results, lambda r: r.mean_response_s, lambda r: r.ci95_s)
    y = named(lines)
    gains = [n - lowest for n, lowest in zip(y["NOLB"], y["LOWEST"], strict=True)]
    first = [n - c for n, c in zip(y["RANDOM"], y["CENTRAL"], strict=True)]
    return Drawing(
        "CPU utilisation by the jobs", "mean response time, s", lines,
        (
            Claim("the gain grows with the load", gains[0] < gains[-1],
                  f"NOLB less LOWEST, s: {shown(gains)}"),
            Claim("under heavy load NOLB rises sharply, balanced hosts moderately",
                  y["NOLB"][-1] - y["NOLB"][0] > 2 * (y["LOWEST"][-1] - y["LOWEST"][0]),
                  f"NOLB {shown(y['NOLB'])}; LOWEST {shown(y['LOWEST'])}"),
            Claim("the ranking stays the same over the loads (RANDOM behind CENTRAL)",
                  min(first) > 0, f"RANDOM less CENTRAL, s: {shown(first)}"),
        ),
    )  # fmt: skip


def exchange_period(scale: Scale, map_: Map) -> Drawing:
    """[3.4.3]"""
    periods = (0.1, 0.35, 1.0, 2.0, 5.0, 10.0)
    points = [
        Point(f"T_CPU = {cpu:g} s", period,
              base(scale, 14, 0.723, f"exchange_period_s={period}", f"job_threshold_s={cpu}"),
              "GLOBAL")
        for cpu in (0.25, 0.5, 1.0, 2.0, 3.0)
        for period in periods
    ]  # fmt: skip
    results = measured(points, scale, map_)
    nolb_s = results[0].mean_response_s / results[0].ratio_to_nolb
    lines = lines_of(points, results, lambda r: r.mean_response_s, lambda r: r.ci95_s)
    y = named(lines)
    middle = y["T_CPU = 1 s"]
    close = [y[f"T_CPU = {cpu:g} s"][2] for cpu in (0.5, 1.0, 2.0)]
    wide = max(close) / min(close) - 1
    return Drawing(
        "exchange period P, s", "mean response time, s", lines,
        (
            Claim("P has a strong influence: too short costs, too long misleads",
                  min(middle[0], middle[-1]) > min(middle), f"T_CPU = 1 s: {shown(middle)}"),
            Claim("the best P lies between 0.75 and 3 s",
                  0.75 <= periods[middle.index(min(middle))] <= 3,
                  f"{periods[middle.index(min(middle))]:g} s"),
            Claim("T_CPU of 0.5, 1 and 2 s come close to each other", wide < 0.1,
                  f"at P = 1 s: {shown(close)}"),
            Claim("NoLB takes 7.46 s on average (its trace's arrivals, not ours)",
                  abs(nolb_s / 7.46 - 1) < 0.25, f"{nolb_s:.2f} s"),
        ),
        log_x=True,
    )  # fmt: skip


def probe_limit(scale: Scale, map_: Map) -> Drawing:
    """[3.4.3]"""
    limits = (1, 2, 3, 5, 9, 13)
    points = [
        Point(f"{load:.1%} load", limit, base(scale, 28, load, f"probe_limit={limit}"), "LOWEST")
        for load in (0.481, 0.726, 0.851)
        for limit in limits
    ]
    lines = lines_of(points, measured(points, scale, map_))
    y = named(lines)
    best = [limits[values.index(min(values))] for values in y.values()]
    spread = [values[-1] / min(values) for values in y.values()]
    return Drawing(
        "probe limit L_p", "mean response time / NOLB's", lines,
        (
            Claim("more than one probe is worth having", min(best) > 1,
                  f"best L_p at each load: {shown(best)} (printed: 13, 9, 3)"),
            Claim("the heavier the load, the more a high limit costs",
                  spread[-1] > spread[0], f"L_p = 13 against the best: {shown(spread)}"),
        ),
    )  # fmt: skip


def reservations(scale: Scale, map_: Map) -> Drawing:
    """[3.4.3]"""
    limits = (1, 2, 3, 5, 8)
    points = [
        Point("RESERVE", limit, base(scale, 28, 0.726, f"reservations={limit}"), "RESERVE")
        for limit in limits
    ]
    lines = lines_of(points, measured(points, scale, map_))
    (y,) = (line.y for line in lines)
    return Drawing(
        "reservations R", "mean response time / NOLB's", lines,
        (Claim("one reservation is significantly worse than several", y[0] > min(y[1:]) + 0.01,
               shown(y)),),
    )  # fmt: skip


def immobile_jobs(scale: Scale, map_: Map) -> Drawing:
    """[3.4.4]"""
    shares = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    names = ("GLOBAL", "LOWEST")
    points = [
        Point(name, share, base(scale, 28, 0.637, f"immobile={share}"), name)
        for name in names
        for share in shares
    ]
    lines = lines_of(points, measured(points, scale, map_))
    y = named(lines)["LOWEST"]
    return Drawing(
        "immobility factor", "mean response time / NOLB's", lines,
        (Claim("half of the gain and more is left when 60 % of the jobs cannot move",
               1 - y[3] > 0.5 * (1 - y[0]), f"LOWEST {shown(y)}"),
         Claim("with every job immobile nothing is gained", y[-1] > 0.98, f"{y[-1]:.3f}")),
    )  # fmt: skip


def message_costs(scale: Scale, map_: Map) -> Drawing:
    """[3.4.5]"""
    sends = (0.0, 0.01, 0.02, 0.04)
    names = (*INFORMED, "DISTED", "RANDOM")
    points = [
        Point(name, send, base(scale, 28, 0.63, f"send_s={send}", f"receive_s={send / 2}"), name)
        for name in names
        for send in sends
    ]
    lines = lines_of(points, measured(points, scale, map_))
    y = named(lines)
    slopes = {name: values[-1] - values[0] for name, values in y.items()}
    steep = max(slopes, key=lambda name: slopes[name])
    worst = max(slopes[name] for name in INFORMED)
    return Drawing(
        "CPU time to send a message, s (half of it to receive one)", "mean response time / NOLB's",
        lines,
        (
            Claim("DISTED suffers most from dearer messages", steep == "DISTED",
                  ", ".join(f"{name} {slope:+.3f}" for name, slope in slopes.items())),
            Claim("RANDOM's line is flat", abs(slopes["RANDOM"]) < 1e-9,
                  f"{slopes['RANDOM']:+.3f}"),
            Claim("at 40 ms the four best still gain most of what they gained",
                  worst < 0.2 * (1 - y["GLOBAL"][0]), f"{worst:+.3f} at most"),
        ),
    )  # fmt: skip


def transfer_costs(scale: Scale, map_: Map) -> Drawing:
    """[3.4.5]"""
    costs = (0.0, 0.1, 0.2, 0.4)
    names = (*INFORMED, "RANDOM")
    points = [
        Point(name, cost, base(scale, 28, 0.63, f"transfer_s={cost}",
                               f"transfer_delay_s={2 * cost}"), name)
        for name in names
        for cost in costs
    ]  # fmt: skip
    lines = lines_of(points, measured(points, scale, map_))
    y = named(lines)
    return Drawing(
        "CPU time of a transfer on either host, s", "mean response time / NOLB's", lines,
        (
            Claim("dearer transfers cost every algorithm something",
                  all(values[-1] > values[0] for values in y.values()),
                  ", ".join(f"{n} {v[-1] - v[0]:+.3f}" for n, v in y.items())),
            Claim("at twice the measured cost balancing still pays",
                  max(y[name][2] for name in INFORMED) < 0.8,
                  ", ".join(f"{n} {v[2]:.3f}" for n, v in y.items())),
        ),
    )  # fmt: skip


def wrong_transfers(scale: Scale, map_: Map) -> Drawing:
    """[3.4.8]"""
    periods = (0.5, 1.0, 2.0, 5.0, 10.0)
    points = [
        Point(f"T_CPU = {cpu:g} s", period,
              base(scale, 14, 0.79, f"exchange_period_s={period}", f"job_threshold_s={cpu}"),
              "GLOBAL")
        for cpu in (0.5, 1.0, 2.0)
        for period in periods
    ]  # fmt: skip
    results = measured(points, scale, map_)

    def tau(result: BalanceResult) -> float:
        return 100 * result.wrong_transfers / result.transferred if result.transferred else 0.0

    lines = lines_of(points, results, tau, lambda _: 0.0)
    y = named(lines)
    rising = all(list(values) == sorted(values) for values in y.values())
    ends = [values[-1] for values in y.values()]
    at_one = [r.ratio_to_nolb for p, r in zip(points, results, strict=True) if p.x == 1.0]
    return Drawing(
        "exchange period P, s", "wrong transfers τ, % of all transfers", lines,
        (
            Claim("the older the loads, the more transfers are wrong", rising,
                  f"T_CPU = 1 s: {shown(y['T_CPU = 1 s'])}"),
            Claim("the fewer jobs are eligible, the fewer are wrong",
                  ends == sorted(ends, reverse=True), f"at P = 10 s: {shown(ends)}"),
            Claim("with P = 1 s, overloading is light (τ < 10 %) and the gain very good",
                  y["T_CPU = 1 s"][1] < 10 and max(at_one) < 0.7,
                  f"τ = {y['T_CPU = 1 s'][1]:.1f} %, {shown(at_one)} of NOLB"),
        ),
        log_x=True,
    )  # fmt: skip


FIGURES = {
    "zhou-3.2": Figure("Algorithms and system size", "Zhou 1987, figure 3.2", system_size),
    "zhou-3.2b": Figure("Algorithms in small systems", "Zhou 1987, figure 3.2b", small_systems),
    "zhou-3.3": Figure("Algorithms and load", "Zhou 1987, figure 3.3", load_levels),
    "zhou-3.4": Figure("GLOBAL: P and T_CPU", "Zhou 1987, figure 3.4", exchange_period),
    "zhou-3.5": Figure("LOWEST: L_p", "Zhou 1987, figure 3.5 and table 3.3", probe_limit),
    "zhou-3.5a": Figure("RESERVE: R", "Zhou 1987, figure 3.5a", reservations),
    "zhou-3.6": Figure("Immobile jobs", "Zhou 1987, figure 3.6", immobile_jobs),
    "zhou-3.7": Figure("Costs of messages", "Zhou 1987, figure 3.7", message_costs),
    "zhou-3.8": Figure("Costs of transfers", "Zhou 1987, figure 3.8", transfer_costs),
    "zhou-3.16": Figure("Wrong transfers under GLOBAL", "Zhou 1987, figure 3.16", wrong_transfers),
}

"""Tables 4.5 and 4.7 of Zhou's thesis (1987): six workstations under the canonical workload, two of
them heavily loaded, two moderately, two lightly.

The printed numbers were measured with scripts: users who wait for a command, then think. Ours are
arrivals that wait for nobody, so hosts that are behind fall further behind, NOLB is worse off, and
every ratio lies lower than printed. What can be compared is the order; and our queues have none of
the kernel's noise, which is what smoothing over a few seconds is good for.
"""

from collections.abc import Sequence

from lbd.sim.balance import Result
from lbd.sim.balance_setup import Setup, with_settings
from lbd.sim.balance_workload import SCRIPTS
from lbd.sim.figures import Claim, Drawing, Figure, Line, Map, Scale
from lbd.sim.figures_balance import Point, measured, shown

HOSTS = 6
# The middles of table 4.4's ranges; the share of ineligible jobs; T_l = 0.8 as printed.
CANONICAL = ("weights=0.775,0.775,0.65,0.65,0.375,0.375", "immobile=0.493", "job_threshold_s=0",
             "local_threshold=0.8")  # fmt: skip
GAIN = {"queue": "min_gain=0.5", "utilisation": "min_gain=0.1"}  # Δ is not printed

Row = tuple[str, str, tuple[str, ...], float, float]  # name, algorithm, words, printed: mean, sd

ALGORITHMS: tuple[Row, ...] = (
    ("DISTED", "DISTED", ("exchange_period_s=15",), 36.4, 50.6),
    ("GLOBAL", "GLOBAL", ("exchange_period_s=5",), 32.6, 43.6),
    ("CENTRAL", "CENTRAL", ("exchange_period_s=10",), 33.7, 48.5),
    ("LOWEST", "LOWEST", ("probe_limit=4",), 31.8, 42.8),
    ("RANDOM", "RANDOM", (), 39.9, 62.0),
)
INDICES: tuple[Row, ...] = (
    ("queue now", "GLOBAL", ("smoothing_s=0",), 35.0, 46.7),
    ("queue 1 s", "GLOBAL", ("smoothing_s=1",), 33.8, 45.8),
    ("queue 4 s", "GLOBAL", ("smoothing_s=4",), 33.1, 42.3),
    ("queue 20 s", "GLOBAL", ("smoothing_s=20",), 37.0, 51.8),
    ("queue 60 s", "GLOBAL", ("smoothing_s=60",), 39.7, 54.1),
    ("utilisation 10 s", "GLOBAL", ("index=utilisation", "smoothing_s=10"), 38.5, 55.4),
    ("utilisation 60 s", "GLOBAL", ("index=utilisation", "smoothing_s=60"), 42.9, 67.6),
)
NOLB_MEAN_S, NOLB_SD_S = 53.3, 90.1


def rows(
    table: Sequence[Row], scale: Scale, map_: Map, *common: str
) -> tuple[list[Result], Result]:
    """Of each row, and of NOLB."""
    base = Setup(
        SCRIPTS, hosts=HOSTS, duration_s=scale.duration_s, seed=scale.seed, costs=SCRIPTS.costs
    )
    points = [Point("", 0.0, with_settings(base, list(CANONICAL)), "NOLB")]
    for name, algorithm, words, _, _ in table:
        gain = GAIN["utilisation" if "index=utilisation" in words else "queue"]
        setup = with_settings(base, [*CANONICAL, gain, *common, *words])
        points.append(Point(name, 0.0, setup, algorithm))
    nolb, *results = measured(points, scale, map_)
    return results, nolb


def drawing(
    table: Sequence[Row], results: Sequence[Result], nolb: Result, claims: Sequence[Claim]
) -> Drawing:
    x = tuple(float(number) for number in range(1, len(table) + 1))
    means = tuple(result.ratio_to_nolb for result in results)
    sds = tuple(result.sd_response_s / nolb.sd_response_s for result in results)
    return Drawing(
        ", ".join(f"{number} {row[0]}" for number, row in enumerate(table, 1)),
        "response time / NOLB's",
        (
            Line("mean", x, means, tuple(result.ratio_ci95 for result in results)),
            Line("mean", x, tuple(row[3] / NOLB_MEAN_S for row in table), printed=True),
            Line("deviation", x, sds),
            Line("deviation", x, tuple(row[4] / NOLB_SD_S for row in table), printed=True),
        ),
        tuple(claims),
    )


def algorithms(scale: Scale, map_: Map) -> Drawing:
    """[4.5.1]"""
    results, nolb = rows(ALGORITHMS, scale, map_, "smoothing_s=4")
    y = {row[0]: result.ratio_to_nolb for row, result in zip(ALGORITHMS, results, strict=True)}
    sd = {row[0]: r.sd_response_s / nolb.sd_response_s
          for row, r in zip(ALGORITHMS, results, strict=True)}  # fmt: skip
    best = [y[name] for name in ("GLOBAL", "CENTRAL", "LOWEST")]
    near = results[1]
    printed = ALGORITHMS[1][3] / NOLB_MEAN_S
    claims = [
        Claim("RANDOM gains least", max(y, key=lambda name: y[name]) == "RANDOM",
              ", ".join(f"{name} {value:.3f}" for name, value in y.items())),
        Claim("GLOBAL, CENTRAL and LOWEST come close to each other, DISTED behind them",
              max(best) - min(best) < 0.06 and y["DISTED"] > max(best),
              f"{shown(best)}; DISTED {y['DISTED']:.3f}"),
        Claim("the deviation falls more than the mean",
              all(sd[name] < y[name] for name in ("DISTED", "GLOBAL", "CENTRAL", "LOWEST")),
              f"GLOBAL {sd['GLOBAL']:.3f} and {y['GLOBAL']:.3f}"),
        Claim("GLOBAL takes 61.2 % of NOLB's time (38.9 % less)",
              abs(near.ratio_to_nolb - printed) <= near.ratio_ci95,
              f"{near.ratio_to_nolb:.1%} ±{near.ratio_ci95:.1%}: jobs here wait for nobody"),
    ]  # fmt: skip
    return drawing(ALGORITHMS, results, nolb, claims)


def indices(scale: Scale, map_: Map) -> Drawing:
    """[4.4.1]"""
    results, nolb = rows(INDICES, scale, map_, "exchange_period_s=10")
    y = [result.ratio_to_nolb for result in results]
    queues, utilisations = y[:5], y[5:]
    claims = [
        Claim("averaging over too long, 20 s or more, makes it worse",
              min(queues[:3]) < queues[3] < queues[4], f"0 1 4 20 60 s: {shown(queues)}"),
        Claim("4 s is better than the queue of the moment", queues[2] < queues[0],
              f"{queues[2]:.3f} and {queues[0]:.3f}"),
        Claim("utilisation is worse than the queue's best, and worse over 60 s than over 10 s",
              min(queues) < utilisations[0] < utilisations[1], shown(utilisations)),
    ]  # fmt: skip
    return drawing(INDICES, results, nolb, claims)


FIGURES = {
    "zhou-4.5": Figure("Load indices, canonical workload", "Zhou 1987, table 4.5", indices),
    "zhou-4.7": Figure("Algorithms, canonical workload", "Zhou 1987, table 4.7", algorithms),
}

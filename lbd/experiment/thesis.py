"""The results that Zhou's thesis prints for its experiment, and which of them hold in ours.

Only for the canonical load, and for the load index with which the thesis compares algorithms. The
thesis does not claim an order between algorithms whose results are close.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lbd.experiment.design import INDEX, NOLB
from lbd.experiment.summary import Row

# Table 4.7: reduction against NOLB of the mean response time.
MEAN = {"GLOBAL": 0.389, "LOWEST": 0.403, "CENTRAL": 0.368, "DISTED": 0.317, "RANDOM": 0.252}
CLOSE = ("GLOBAL", "CENTRAL", "LOWEST")
NEAR = 0.06


@dataclass(frozen=True, slots=True)
class Claim:
    text: str
    holds: bool
    ours: str


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Returns the claims on the canonical load whose algorithms were run; none on those by which
    nothing was moved, or whose gain has no interval: one short run says nothing."""
    canonical = [row for row in rows if row.load == "canonical"]
    ours = {row.algorithm: row for row in canonical
            if row.index == INDEX and row.algorithm != NOLB and tells(row)}  # fmt: skip
    if not ours:
        return []
    gains = {name: row.reduction for name, row in ours.items()}
    found = [
        Claim("every algorithm improves on NOLB", min(gains.values()) > 0, listed(gains)),
        Claim("the deviation falls more than the mean",
              all(row.sd_reduction > row.reduction for row in ours.values()),
              listed({name: row.sd_reduction for name, row in ours.items()})),
    ]  # fmt: skip
    if "RANDOM" in gains and len(gains) > 1:
        least = min(gains, key=lambda name: gains[name])
        found.append(Claim("RANDOM gains least", least == "RANDOM", f"{least} does"))
    close = [gains[name] for name in CLOSE if name in gains]
    if len(close) > 1:
        spread = max(close) - min(close)
        found.append(
            Claim("GLOBAL, CENTRAL and LOWEST come close to each other", spread < NEAR,
                  f"{100 * spread:.1f} points apart")
        )  # fmt: skip
    found += [
        Claim(f"{name} saves {MEAN[name]:.1%} (printed), within our interval",
              row.reduction_ci95 is not None
              and abs(row.reduction - MEAN[name]) <= row.reduction_ci95,
              with_interval(row))
        for name, row in ours.items() if name in MEAN
    ]  # fmt: skip
    return found


def tells(row: Row) -> bool:
    return row.reduction_ci95 is not None and row.moved > 0.0


def cannot_tell(rows: Sequence[Row]) -> str:
    """Names the algorithms of which nothing can be said; "" if there are none."""
    ours = [row for row in rows if row.load == "canonical" and row.algorithm != NOLB]
    names = dict.fromkeys(row.algorithm for row in ours if not tells(row))
    return ", ".join(names)


def with_interval(row: Row) -> str:
    width = "" if row.reduction_ci95 is None else f" ±{row.reduction_ci95:.1%}"
    return f"{row.reduction:.1%}{width}"


def listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1%}" for name, value in values.items())

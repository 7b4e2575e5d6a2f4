"""Parameters that follow the system's load (Zhou 1987, section 3.4.3, Table 3.3).

The best values differ by load: the higher the load, the more an exchange costs and the less a
placement gains. The centre, which gets all reports, watches the mean utilisation and multiplies
each parameter, as configured, by the factor for that level. P and L_p follow Table 3.3; T_l goes
from 0.6 under light to 1.0 under heavy load in Tables 4.8 to 4.10; Δ, for which there is no table,
goes with T_l: the older the loads we compare, the larger the difference must be.
"""

import math
from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import pairwise

from lbd.config.fields import bounds_of
from lbd.config.schema import LimConfig
from lbd.model import LoadVector

LEVELS = (0.481, 0.562, 0.633, 0.726, 0.791, 0.851)  # of utilisation, from Table 3.3
AS_SET = 3  # the level at which every parameter is as configured
EDGES = tuple((low + high) / 2 for low, high in pairwise(LEVELS))
MARGIN = 0.02  # a load within this of an edge changes nothing, so that swings do not
MEMORY_S = 20.0  # over which the load is smoothed
REST_S = 30.0  # between two changes of level
PERIOD = {
    "GLOBAL": (0.5, 0.5, 0.75, 1.0, 1.5, 2.0),
    "DISTED": (0.5, 0.67, 0.83, 1.0, 1.33, 1.67),
}
PROBES = (1.44, 1.22, 1.0, 1.0, 0.56, 0.33)
THRESHOLD = (0.75, 0.83, 0.92, 1.0, 1.12, 1.25)
TUNED = ("exchange_period_s", "local_threshold", "probe_limit", "min_gain")


@dataclass(frozen=True, slots=True)
class Tuning:
    """The parameters to be in force, by full name, and the reason."""

    params: dict[str, float]
    reason: str


class Tuner:
    """The tuner of the centre. `load` is the smoothed system load, 0..1; NaN while unknown."""

    def __init__(self) -> None:
        self.load = math.nan
        self.level = AS_SET
        self._seen_s = 0.0
        self._rests_until_s = 0.0

    def restart(self) -> None:
        """We have become the centre again, and the old load is out of date."""
        self.load = math.nan

    def tune(
        self,
        vectors: Iterable[LoadVector],
        params: LimConfig,
        tuned: dict[str, float],
        now_s: float,
    ) -> Tuning | None:
        """Returns the parameters to send to all hosts; None if they have not changed. `params`: as
        configured; `tuned`: as last sent."""
        if not params.adaptive:
            return Tuning({}, "lim.adaptive is off") if tuned else None
        self._follow(vectors, now_s)
        if math.isnan(self.load):
            return None
        level = self._level()
        if level != self.level and now_s >= self._rests_until_s:
            self.level, self._rests_until_s = level, now_s + REST_S
        wanted = values_at(self.level, params)
        if wanted == tuned:
            return None
        return Tuning(wanted, f"the hosts are busy {self.load:.0%} of the time")

    def _follow(self, vectors: Iterable[LoadVector], now_s: float) -> None:
        capacity = used = 0.0
        for vector in vectors:
            capacity += vector.cores * vector.speed
            used += min(1.0, vector.utilisation) * vector.cores * vector.speed
        if capacity <= 0:
            return
        keep = math.exp(-(now_s - self._seen_s) / MEMORY_S)
        seen = used / capacity
        self.load = seen if math.isnan(self.load) else keep * self.load + (1 - keep) * seen
        self._seen_s = now_s

    def _level(self) -> int:
        above, below = bisect(EDGES, self.load - MARGIN), bisect(EDGES, self.load + MARGIN)
        return min(max(self.level, above), below)


def values_at(level: int, params: LimConfig) -> dict[str, float]:
    """Returns the values, by full name, that differ from the configured ones."""
    factors = {
        "exchange_period_s": PERIOD.get(params.algorithm, PERIOD["GLOBAL"])[level],
        "local_threshold": THRESHOLD[level],
        "probe_limit": PROBES[level],
        "min_gain": THRESHOLD[level],
    }
    found = {name: fitting(name, factor, params) for name, factor in factors.items()}
    return {f"lim.{name}": value for name, value in found.items() if value != getattr(params, name)}


def changes(before: LimConfig, after: LimConfig) -> str:
    """Describes for a person what changes, from what to what."""
    pairs = ((item.name, getattr(before, item.name), getattr(after, item.name)) for item in
             fields(LimConfig))  # fmt: skip
    changed = [f"lim.{name} from {old:g} to {new:g}" for name, old, new in pairs if old != new]
    return ", ".join(changed) or "no parameter changes"


def fitting(name: str, factor: float, params: LimConfig) -> float:
    """Returns the scaled value within the parameter's own bounds. A period must not outlast the
    validity of a host's sample."""
    bounds = bounds_of(next(item for item in fields(LimConfig) if item.name == name).metadata)
    low, high = bounds.low or 0.0, bounds.high or math.inf
    if name == "exchange_period_s":
        high = min(high, params.stale_after_s / 2)
    value = getattr(params, name) * factor
    if name == "probe_limit":
        value = round(value)
    return float(min(max(value, low), high))

"""The past loads of the hosts: an hour in detail, a day roughly, a month by the hour.

Times are UNIX seconds, since the loads outlive the LIM. A host takes 4 KiB. Beyond the maximum
number of hosts, new ones are not remembered.
"""

import json
import math
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

SPANS = {"hour": (30.0, 120), "day": (600.0, 144), "month": (3600.0, 744)}  # step, points
HOSTS_MAX = 2000
NAME_CHARS_MAX = 255
FIRST_LINE = {"lbd past loads": 1, "order": sys.byteorder}
LINE_BYTES_MAX = 16 << 10
FILE_BYTES_MAX = HOSTS_MAX * LINE_BYTES_MAX

Known = dict[str, object]


def unknown(points: int) -> "array[float]":
    return array("f", [math.nan]) * points


@dataclass(slots=True)
class Series:
    """The means over steps of equal length, the last of them unfinished. A step's index is its
    number modulo the length."""

    step_s: float
    means: "array[float]"
    last: int = -1  # the unfinished step
    count: int = 0  # of values in that step

    def add(self, now_s: float, value: float) -> None:
        step = int(now_s // self.step_s)
        if step != self.last:
            self._begin(step)
        at = step % len(self.means)
        before = self.means[at] * self.count if self.count else 0.0
        self.count += 1
        self.means[at] = (before + value) / self.count

    def _begin(self, step: int) -> None:
        """Clears the steps in between; after the clock was set back, those that lie ahead."""
        first, last = sorted((step, self.last))
        for one in range(max(first, last - len(self.means)) + 1, last + 1):
            self.means[one % len(self.means)] = math.nan
        self.means[step % len(self.means)] = math.nan
        self.last, self.count = step, 0

    def points(self, now_s: float) -> tuple[float, ...]:
        """Returns the points up to now, NaN where nothing was recorded."""
        last, size = int(now_s // self.step_s), len(self.means)
        return tuple(
            self.means[step % size] if self.last - size < step <= self.last else math.nan
            for step in range(last - size + 1, last + 1)
        )


@dataclass(slots=True)
class PastLoads:
    _hosts: dict[str, dict[str, Series]] = field(default_factory=dict)

    def add(self, loads: Mapping[str, float], now_s: float) -> None:
        """`loads`: of the hosts that are up."""
        if self._hosts.keys() - loads.keys():
            self._forget(now_s)
        for host, load in loads.items():
            if not math.isfinite(load):
                continue
            spans = self._hosts.get(host)
            if spans is None:
                if len(self._hosts) >= HOSTS_MAX:
                    continue
                spans = {name: Series(step, unknown(size)) for name, (step, size) in SPANS.items()}
                self._hosts[host] = spans
            for series in spans.values():
                series.add(now_s, load)

    def _forget(self, now_s: float) -> None:
        """Forgets hosts without any remaining data."""
        step_s, size = SPANS["month"]
        oldest = int(now_s // step_s) - size
        for host in [name for name, one in self._hosts.items() if one["month"].last <= oldest]:
            del self._hosts[host]

    def points(self, host: str, span: str, now_s: float) -> tuple[float, ...]:
        """Returns () for an unknown host. Raises KeyError for an unknown span."""
        _ = SPANS[span]
        return self._hosts[host][span].points(now_s) if host in self._hosts else ()

    def lines(self) -> list[str]:
        """Returns the lines to save."""
        known = [{"host": name, **kept(spans)} for name, spans in self._hosts.items()]
        return [json.dumps(one, separators=(",", ":")) for one in (FIRST_LINE, *known)]


def kept(spans: Mapping[str, Series]) -> Known:
    return {
        name: [series.last, b64encode(series.means.tobytes()).decode()]
        for name, series in spans.items()
    }


def read(lines: Iterable[str], now_s: float) -> PastLoads:
    """Parses saved lines. Drops what lies ahead of the clock. Raises ValueError for text that we
    did not write."""
    found: dict[str, dict[str, Series]] = {}
    for number, line in enumerate(lines):
        one = json.loads(line)
        if number == 0:
            if one != FIRST_LINE:
                raise ValueError("it was written by another release, or on another machine")
        elif not isinstance(one, dict) or not isinstance(one.get("host"), str):
            raise ValueError(f"line {number + 1} is not of a host")
        elif len(found) < HOSTS_MAX and len(one["host"]) <= NAME_CHARS_MAX:
            found[one["host"]] = {name: series_of(one.get(name), name, now_s) for name in SPANS}
    return PastLoads(found)


def series_of(given: object, span: str, now_s: float) -> Series:
    """Raises ValueError."""
    step_s, size = SPANS[span]
    match given:
        case [int(last), str(text)]:
            means = array("f")
            means.frombytes(b64decode(text, validate=True))
        case _:
            raise ValueError(f"its {span} is not one")
    if len(means) != size:
        raise ValueError(f"its {span} has {len(means)} points, not {size}")
    if last > now_s // step_s:
        return Series(step_s, unknown(size))
    return Series(step_s, means, last, int(math.isfinite(means[last % size])))

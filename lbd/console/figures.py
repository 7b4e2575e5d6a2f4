"""Numbers and times as all screens show them: one form for each kind, so that columns compare.

| kind | form |
| --- | --- |
| duration | `4.2ms`, `420ms`, `4.6s`, `12s`, `3m05s`, `2h10m`, `4d03h` |
| memory | `812`, `4.0K`, `1.5G`; powers of 1024 |
| load, slowdown | `0.52`, `12.5`, `340` |
| share | `0%`, `2.5%`, `58%` |
| time of day | `17:30:05` today, `Mon 17:30` within six days, else `2026-11-03 17:30` |

An unknown value is a dash. Times are local, or UTC with `--utc`.
"""

import math
import time
from dataclasses import dataclass

from lbd.text.units import show_duration, show_size

NONE = "–"
NEAR_DAYS = 6
SLOWDOWN = "the time not spent computing ÷ CPU time; high for what mostly sleeps"
DAY_S = 86400.0
EIGHTHS = " ▏▎▍▌▋▊▉█"


def duration(seconds: float) -> str:
    return NONE if math.isnan(seconds) else show_duration(max(0.0, seconds))


def size(count_bytes: float) -> str:
    return NONE if math.isnan(count_bytes) else show_size(count_bytes)


def decimal(value: float) -> str:
    """Formats a load, a slowdown or a speed with three digits, at most two after the point."""
    if math.isnan(value):
        return NONE
    if abs(value) < 9.995:
        return f"{value:.2f}"
    if abs(value) < 99.95:
        return f"{value:.1f}"
    return f"{value:.0f}" if abs(value) < 1e6 else f"{value:.2g}"


def figure(value: float, digits: int = 2) -> str:
    """Formats a number with `digits` digits after the point, for columns where these must match."""
    return NONE if math.isnan(value) else f"{value:.{digits}f}"


def count(value: float) -> str:
    return NONE if math.isnan(value) else f"{value:.0f}"


def share(value: float) -> str:
    """Formats a share of 1."""
    if math.isnan(value):
        return NONE
    return f"{value:.0%}" if value == 0 or abs(value) >= 0.0995 else f"{value:.1%}"


def of_total(used: str, total: str) -> str:
    """Formats `1/2`, `3.1G/15G`; a dash where both are unknown."""
    return NONE if used == total == NONE else f"{used}/{total}"


@dataclass(frozen=True, slots=True)
class Clock:
    """Formats times of day relative to the present."""

    now_s: float
    utc: bool = False

    def time_of_day(self, unix_s: float) -> str:
        if math.isnan(unix_s):
            return NONE
        broken_down = time.gmtime if self.utc else time.localtime
        try:
            then, now = broken_down(unix_s), broken_down(self.now_s)
        except (OverflowError, OSError, ValueError):  # another host may send an invalid time
            return NONE
        if then[:3] == now[:3]:
            return time.strftime("%H:%M:%S", then)
        near = abs(self.now_s - unix_s) < NEAR_DAYS * DAY_S
        return time.strftime("%a %H:%M" if near else "%Y-%m-%d %H:%M", then)


def bar(value: float, columns: int) -> str:
    """Fills a bar of `columns` cells in proportion to `value`; it is full at 1 and above."""
    if math.isnan(value):
        return " " * columns
    eighths = round(8 * columns * min(1.0, max(0.0, value)))
    if value > 0 and not eighths:
        eighths = 1
    whole, rest = divmod(eighths, 8)
    return (EIGHTHS[8] * whole + (EIGHTHS[rest] if rest else "")).ljust(columns, "·")

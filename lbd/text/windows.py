"""Weekly time windows as lbd.toml writes them. Pure.

"mon-fri 18:00-08:00"   days and hours; a window past midnight belongs to the day it began on
"sat,sun"               whole days
"22:00-06:00"           every day
"* 0-7,20-23 * * 1-5"   as in a crontab: minute, hour, day of month, month, day of week; if both
                        kinds of day are given, either is enough
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
CRON_FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


@dataclass(frozen=True, slots=True)
class Moment:
    """A local wall-clock time. `weekday` 0 is Monday."""

    minute: int
    hour: int
    day: int
    month: int
    weekday: int


@dataclass(frozen=True, slots=True)
class Hours:
    days: frozenset[int]
    begin_minute: int = 0
    end_minute: int = DAY_MINUTES

    def holds(self, now: Moment) -> bool:
        minute = now.hour * 60 + now.minute
        if self.begin_minute < self.end_minute:
            return now.weekday in self.days and self.begin_minute <= minute < self.end_minute
        if minute >= self.begin_minute:
            return now.weekday in self.days
        return minute < self.end_minute and (now.weekday - 1) % 7 in self.days


@dataclass(frozen=True, slots=True)
class Cron:
    minutes: frozenset[int]
    hours: frozenset[int]
    month_days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 and 7 are Sunday
    either_day: bool  # cron's rule, if neither field of days begins with "*"

    def holds(self, now: Moment) -> bool:
        return (
            now.minute in self.minutes
            and now.hour in self.hours
            and now.month in self.months
            and self._holds_day(now)
        )

    def _holds_day(self, now: Moment) -> bool:
        of_month = now.day in self.month_days
        of_week = not self.weekdays.isdisjoint({(now.weekday + 1) % 7, now.weekday + 1})
        return of_month or of_week if self.either_day else of_month and of_week


Window = Hours | Cron


def first_inside(windows: Sequence[Window], moments: Iterable[Moment]) -> int | None:
    """Returns the position of the first moment within one of the windows, or None."""
    inside = (any(window.holds(one) for window in windows) for one in moments)
    return next((place for place, holds in enumerate(inside) if holds), None)


def read_window(text: str) -> Window:
    """Raises ValueError that shows the allowed forms."""
    try:
        return _read(text.lower().split())
    except ValueError:
        shapes = '"mon-fri 18:00-08:00", "sat,sun" or "* 0-7 * * 1-5"'
        raise ValueError(f'"{text}" is not a time window like {shapes}') from None


def _read(words: list[str]) -> Window:
    if len(words) == len(CRON_FIELDS):
        minutes, hours, month_days, months, weekdays = (
            _numbers(word, *bounds) for word, bounds in zip(words, CRON_FIELDS, strict=True)
        )
        either_day = not (words[2].startswith("*") or words[4].startswith("*"))
        return Cron(minutes, hours, month_days, months, weekdays, either_day)
    if not 1 <= len(words) <= 2:
        raise ValueError(words)
    has_hours = ":" in words[-1]
    if len(words) == 2 and not has_hours:
        raise ValueError(words)
    begin, end = _hours(words[-1]) if has_hours else (0, DAY_MINUTES)
    days = words[:-1] if has_hours else words
    return Hours(_days(days[0]) if days else frozenset(range(7)), begin, end)


def _hours(text: str) -> tuple[int, int]:
    begin, _, end = text.partition("-")
    return _minute(begin), _minute(end)


def _minute(text: str) -> int:
    hour, colon, minute = text.partition(":")
    if not (colon and hour.isdecimal() and minute.isdecimal() and len(minute) == 2):
        raise ValueError(text)
    found = int(hour) * 60 + int(minute)
    if int(minute) > 59 or found > DAY_MINUTES:
        raise ValueError(text)
    return found


def _days(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        begin = DAYS.index(first)
        end = DAYS.index(last) if dash else begin
        found |= {(begin + step) % 7 for step in range((end - begin) % 7 + 1)}
    return frozenset(found)


def _numbers(text: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        begin = low if span == "*" else int(first)
        end = high if span == "*" or (slash and not dash) else int(last) if dash else begin
        if not low <= begin <= end <= high or (slash and int(step) < 1):
            raise ValueError(text)
        found.update(range(begin, end + 1, int(step) if slash else 1))
    return frozenset(found)

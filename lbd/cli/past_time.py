"""Past times as people type them: `2h` (ago), `17:30` (the last one), `yesterday`, `yesterday
08:00`, `monday` (the last one, which may be today), `last week`, `2026-12-01`, `2026-12-01T06:00`.
A day alone means its midnight, a week or month that of its first day."""

import argparse
import contextlib
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from lbd.text.clock_time import read_time
from lbd.text.units import duration_s

FORMS = (
    '2h, 1d, 17:30, today, yesterday, monday, "this week", "last week", "this month", '
    '"last month", 2026-12-01, 2026-12-01T06:00'
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAYS = ("today", "yesterday", *WEEKDAYS, "this week", "last week", "this month", "last month")
MIDNIGHT = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class PastTime:
    """A time as typed. The moment it means depends on now and on the time zone."""

    ago_s: float | None = None
    day: str = ""  # one of DAYS
    date: tuple[int, int, int] | None = None
    clock: tuple[int, int, int] = MIDNIGHT

    def unix_s(self, now_s: float, *, utc: bool = False) -> float:
        if self.ago_s is not None:
            return max(0.0, now_s - self.ago_s)
        zone = UTC if utc else None
        today = datetime.fromtimestamp(now_s, zone).date()
        day = date(*self.date) if self.date else day_of(self.day, today)
        found = datetime.combine(day, time(*self.clock), zone)
        if self.date is None and not self.day and found.timestamp() > now_s:
            found = datetime.combine(day - timedelta(1), time(*self.clock), zone)
        return found.timestamp()

    def end_s(self, since_s: float | None, now_s: float, *, utc: bool = False) -> float:
        """Returns the time as the end of a period that begins at `since_s`. A time of day that
        would be before that means the next one, so that `14:35` until `14:36` works at 14:35:54."""
        found = self.unix_s(now_s, utc=utc)
        of_any_day = self.ago_s is None and self.date is None and not self.day
        if since_s is None or not of_any_day or found > since_s:
            return found
        zone = UTC if utc else None
        next_day = datetime.fromtimestamp(found, zone).date() + timedelta(1)
        return datetime.combine(next_day, time(*self.clock), zone).timestamp()


def past_time(text: str) -> PastTime:
    """Raises argparse.ArgumentTypeError with one line on what is allowed."""
    if ":" not in text and "-" not in text:  # here 6:30 is a time of day
        with contextlib.suppress(ValueError):
            return PastTime(ago_s=duration_s(text))
    if (said := text.lower()) in DAYS:
        return PastTime(day=said)
    day, _, clock = said.rpartition(" ")
    try:
        if day in DAYS:
            return PastTime(day=day, clock=read_time(clock)[1])
        found = PastTime(None, "", *read_time(f"{text} 00:00" if is_day(text) else text))
        if found.date is not None:
            date(*found.date)  # checks the length of the month
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; allowed: {FORMS}") from None
    return found


def day_of(word: str, today: date) -> date:
    """`word` is one of DAYS; "" is today."""
    monday, first = today - timedelta(today.weekday()), today.replace(day=1)
    match word:
        case "yesterday":
            return today - timedelta(1)
        case "this week":
            return monday
        case "last week":
            return monday - timedelta(7)
        case "this month":
            return first
        case "last month":
            return (first - timedelta(1)).replace(day=1)
        case _ if word in WEEKDAYS:
            return today - timedelta((today.weekday() - WEEKDAYS.index(word)) % 7)
    return today


def is_day(text: str) -> bool:
    return text.count("-") == 2 and ":" not in text

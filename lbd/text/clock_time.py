"""Times as people type them: `17:30`, `17:30:15`, `2026-12-01T06:00`, `2026-12-01 06:00:30`; from
now on: `+2h`, or as in Slurm, `now+2hours`.

Turning one into a moment needs a clock and a time zone, which the caller has.
"""

from lbd.text.units import duration_s

FORMS = "17:30, 2026-12-01T06:00, +2h, now+2h"
Date = tuple[int, int, int]  # year, month, day
Clock = tuple[int, int, int]  # hour, minute, second
YEARS = (1970, 9999)
WORDS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}  # Slurm's


def from_now_s(text: str) -> float | None:
    """Returns the seconds from now in `now`, `+2h`, `now+2h` or `now+2hours`, or None if it is none
    of these. Raises ValueError with one line that says what is allowed."""
    if text == "now":
        return 0.0
    now, plus, given = text.partition("+")
    if not plus or now not in ("", "now"):
        return None
    number = given.rstrip("abcdefghijklmnopqrstuvwxyz")
    word = given[len(number) :].removesuffix("s")
    if number.isdecimal() and word in WORDS_S:
        return duration_s(number) * WORDS_S[word]
    return duration_s(given)


def read_time(text: str) -> tuple[Date | None, Clock]:
    """Returns the date and the time of day; the date is None if none is given. Raises ValueError
    with one line that says what is allowed."""
    day, _, clock = text.replace(" ", "T").rpartition("T")
    date = numbers(day, "-", (4, 2, 2))
    time = numbers(clock, ":", (2, 2, 2)) or numbers(clock, ":", (2, 2))
    if time is None or (day and date is None):
        raise ValueError(f"{text!r} is not a time; allowed: {FORMS}")
    hour, minute, second = (*time, 0)[:3]
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r}: no such time of day")
    if date is None:
        return None, (hour, minute, second)
    year, month, number = date
    if not YEARS[0] < year < YEARS[1] or not 1 <= month <= 12 or not 1 <= number <= 31:
        raise ValueError(f"{text!r}: no such date")
    return (year, month, number), (hour, minute, second)


def numbers(text: str, between: str, digits: tuple[int, ...]) -> tuple[int, ...] | None:
    """Returns as many numbers as `digits` has entries, each with that many digits, or None. The
    first number may lack its leading zero."""
    parts = text.split(between)
    if len(parts) != len(digits):
        return None
    for n, (part, count) in enumerate(zip(parts, digits, strict=True)):
        short = n == 0 and len(part) == 1 and count == 2
        if not (part.isascii() and part.isdecimal() and (len(part) == count or short)):
            return None
    return tuple(map(int, parts))

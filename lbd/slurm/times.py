"""Times and sizes in Slurm's formats."""

import time
from contextlib import suppress

from lbd.slurm.options import SlurmError
from lbd.text.clock_time import WORDS_S
from lbd.text.index_list import is_number

UNITS_MB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1 << 20}
DAY_S = 86400


def limit_s(text: str) -> int:
    """Reads --time: `minutes`, `m:s`, `h:m:s`, `d-h`, `d-h:m`, `d-h:m:s`; 0: no limit. Raises
    SlurmError."""
    if text.upper() in ("INFINITE", "UNLIMITED"):
        return 0
    days, dash, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(map(is_number, (*parts, days or "0"))):
        raise SlurmError(f"Invalid --time specification {text!r}")
    numbers = [int(part) for part in parts]
    if dash and len(numbers) <= 3:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    elif len(numbers) <= 2:
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    else:
        raise SlurmError(f"Invalid --time specification {text!r}")
    return int(days or "0") * DAY_S + hours * 3600 + minutes * 60 + seconds


def begin_text(text: str) -> str:
    """Converts --begin for `lbrun --begin`; "" for now. Raises SlurmError."""
    if text in ("now", ""):
        return ""
    if text.startswith("now+"):
        digits = text[4:].rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = (text[4:][len(digits) :].removesuffix("s")) or "second"
        if not is_number(digits) or unit not in WORDS_S:
            raise SlurmError(f"--begin {text!r}: write now+2hours, 17:30 or 2026-12-01T06:00")
        return f"+{int(digits) * WORDS_S[unit]}s"
    return text


def unix_s(text: str) -> float:
    """Reads sacct's --starttime and --endtime. Raises SlurmError."""
    now = time.time()
    if text == "now":
        return now
    if text.startswith(("now-", "now+")):
        seconds = float(begin_text("now+" + text[4:])[1:-1])
        return now + (seconds if text[3] == "+" else -seconds)
    if text in ("today", "midnight"):
        return time.mktime((*time.localtime(now)[:3], 0, 0, 0, 0, 0, -1))
    for form in ("%H:%M:%S", "%H:%M"):
        with suppress(ValueError):
            clock = time.strptime(text, form)
            return time.mktime((*time.localtime(now)[:3], *clock[3:6], 0, 0, -1))
    for form in ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d", "%m/%d/%y", "%m/%d"):
        try:
            found = time.strptime(text, form)
        except ValueError:
            continue
        year = found.tm_year if "%Y" in form or "%y" in form else time.localtime(now).tm_year
        return time.mktime((year, *found[1:6], 0, 0, -1))
    raise SlurmError(f"Invalid time specification {text!r}")


def memory_text(option: str, text: str, cpus: int = 1) -> str:
    """Converts a size for `lbrun --mem`; a bare number is megabytes. Raises SlurmError."""
    digits, unit = (text[:-1], text[-1:].upper()) if text[-1:].isalpha() else (text, "M")
    if text[-2:].upper() in ("KB", "MB", "GB", "TB"):
        digits, unit = text[:-2], text[-2].upper()
    if not is_number(digits) or unit not in UNITS_MB:
        raise SlurmError(f"Invalid --{option} specification {text!r}")
    megabytes = int(digits) * UNITS_MB[unit] * cpus
    return f"{max(1, round(megabytes * 1024))}K" if megabytes else ""


def elapsed(seconds: float) -> str:
    """Returns `[D-]HH:MM:SS`."""
    whole = max(0, int(seconds))
    days, rest = divmod(whole, DAY_S)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def short_elapsed(seconds: float) -> str:
    """Returns squeue's format: `M:SS`, `H:MM:SS`, `D-HH:MM:SS`."""
    whole = max(0, int(seconds))
    if whole >= DAY_S:
        return elapsed(whole)
    hours, rest = divmod(whole, 3600)
    minutes = f"{rest // 60:02}" if hours else str(rest // 60)
    return f"{f'{hours}:' if hours else ''}{minutes}:{rest % 60:02}"


def moment(at: float | None, unknown: str) -> str:
    return unknown if at is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))

"""Durations and sizes as people type them: `90`, `1.5`, `20s`, `2m`, `1h30m`, `1d`, or as in Slurm,
`1:30:00` and `1-06`; `512K`, `2G`.

`lbrun` imports this file before it does anything else, so nothing is imported here, not even `re`.
"""

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST_S = 1e9  # thirty years; the kernel's timers are limited to the range of its clock
IMPOSSIBLE_S = 1e15
CLOCK_BELOW = (24, 60, 60)  # hours after days, minutes after hours, seconds after minutes
LARGEST_BYTES = (1 << 63) - 1
UNIT_FROM_BYTES = 1024  # a smaller number without a unit is probably a typing error
BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def duration_s(text: str) -> float:
    """Returns the seconds in a duration; a bare number is seconds, two parts are minutes:seconds.

    Raises ValueError with one line that says what is allowed.
    """
    if _is_number(text):
        seconds = float(text)
    else:
        seconds = _clock_s(text) if ":" in text or "-" in text else _sum_s(text)
    if seconds > LONGEST_S:
        raise ValueError(f"{text!r} is longer than {LONGEST_S:.0f} seconds")
    return seconds


def _sum_s(text: str) -> float:
    total_s = 0.0
    rest = text
    last_scale = 1e9
    while rest:
        tail = rest.lstrip("0123456789.")
        number = rest[: len(rest) - len(tail)]
        rest = tail.lstrip("dhms")
        scale = SECONDS.get(tail[: len(tail) - len(rest)], 0.0)
        # Each unit once, the larger first: "30m1h" is more likely a typing error.
        if not _is_number(number) or not 0 < scale < last_scale:
            break
        total_s += float(number) * scale
        last_scale = scale
    else:
        if text:
            return total_s
    raise ValueError(_no_duration(text))


def _clock_s(text: str) -> float:
    """Reads Slurm's forms: m:s, h:m:s, d-h, d-h:m, d-h:m:s."""
    days, dash, clock = text.rpartition("-")
    parts = [*([days] if dash else []), *clock.split(":")]
    if not all(part.isascii() and part.isdigit() for part in parts) or len(parts) > 3 + len(dash):
        raise ValueError(_no_duration(text))
    first = 0 if dash else 4 - len(parts)
    numbers = [0.0] * first + [float(part) for part in parts]
    numbers += [0.0] * (4 - len(numbers))
    names = ("hours", "minutes", "seconds")
    rest = zip(numbers[first + 1 :], names[first:], CLOCK_BELOW[first:], strict=True)
    for number, name, below in rest:
        if number >= below:
            raise ValueError(f"{text!r}: its {name} must be below {below}")
    return sum(number * SECONDS[unit] for number, unit in zip(numbers, "dhms", strict=True))


def _no_duration(text: str) -> str:
    return f"{text!r} is not a duration; allowed: 90, 1.5, 20s, 2m, 1h30m, 1d, 1:30:00, 1-06:00"


def size_bytes(text: str) -> int:
    """Returns the bytes in a size; a bare number is bytes. K M G T are powers of 1024, with or
    without B or iB.

    Raises ValueError with one line that says what is allowed.
    """
    number = text.rstrip("KMGTkmgtiB")
    unit = text[len(number) :].upper()
    scale = BYTES.get(unit) or BYTES.get(unit.removesuffix("B").removesuffix("I"))
    if not scale or not _is_number(number):
        raise ValueError(f"{text!r} is not a size; allowed: 4096, 512K, 1.5M, 2G")
    size = int(min(float(number) * scale, 1e30))
    if size > LARGEST_BYTES:
        raise ValueError(f"{text!r} is more than {LARGEST_BYTES} bytes")
    return size


def _is_number(text: str) -> bool:
    """Accepts a plain decimal only. float() also takes "inf", "1e9", "-3", "1_0" and " 1"."""
    return text.isascii() and text.replace(".", "", 1).isdigit()


def show_duration(seconds: float) -> str:
    """Formats a duration for tables: 4.2ms, 420ms, 4.6s, 12s, 3m05s, 2h10m, 4d03h. An impossible
    value, which another host may report, is "?"."""
    if not abs(seconds) < IMPOSSIBLE_S:
        return "?"
    if seconds <= 0:
        return "0s"
    if seconds < 0.9995:
        return f"{seconds * 1000:.{0 if seconds >= 0.00995 else 1}f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = max(10, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def rough_s(seconds: float) -> float:
    """Rounds a time that is only expected to two digits of its largest unit: 26 s, 1m20s, 12 m,
    3h10m."""
    unit_s = next((one for one in (86_400, 3600, 60) if seconds >= one), 1)
    if 60 <= unit_s <= 3600 and seconds < 10 * unit_s:
        return round(seconds * 6 / unit_s) * unit_s / 6
    return float(f"{seconds / unit_s:.2g}") * unit_s


def show_size(size: float) -> str:
    """Formats a size for tables: 812, 4.0K, 1.5G."""
    for unit, scale in reversed(BYTES.items()):
        if size >= scale and unit:
            return f"{size / scale:.1f}{unit}"
    return str(int(size))


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def at_most(factor: float) -> str:
    """Returns `a factor of 1.4 at most`, or a percentage of a factor that would be shown as 1.0."""
    return f"a factor of {factor:.1f} at most" if factor >= 1.05 else "less than 5 %"


def are(count: int, noun: str) -> str:
    """Returns `1 job is` or `3 jobs are`."""
    return f"{counted(count, noun)} {'is' if count == 1 else 'are'}"


def duration_text(seconds: float) -> str:
    """Returns the two largest non-zero units, rounded: 1h, 59m30s, 29d23h, 2.5s, 40ms."""
    if 0 < seconds < 0.1:
        return f"{seconds * 1000:.2g}ms"
    if seconds < 10 and seconds != int(seconds):
        return f"{seconds:.1f}s"
    left = round(seconds)
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, int(SECONDS[unit]))
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return "".join(parts[:2]) or "0s"

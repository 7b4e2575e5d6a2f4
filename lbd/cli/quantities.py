"""Parsers for numbers, times and signals on command lines, each with a one-line error."""

import argparse
import math
import signal
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

from lbd.text.spelling import hint
from lbd.text.units import duration_s

Name = TypeVar("Name", bound=str)


def positive(text: str) -> float:
    """Parses a number above 0: seconds, a load, an exponent."""
    value = number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text}: must be above 0")
    return value


def not_negative(text: str) -> float:
    value = number(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text}: must be 0 or more")
    return value


def number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    return value


def count(text: str) -> int:
    """Parses a whole number of at least 1."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 10**9):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return read


def rising(text: str) -> tuple[float, ...]:
    """Parses ascending cutoffs, such as "60,3600"."""
    values = tuple(positive(part) for part in text.split(","))
    if any(not a < b for a, b in pairwise(values)):
        raise argparse.ArgumentTypeError(f"{text}: must increase")
    return values


def duration(text: str) -> float:
    """Parses a duration. Returns seconds."""
    try:
        return duration_s(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def one_or_all(what: str, names: tuple[Name, ...]) -> Callable[[str], tuple[Name, ...]]:
    """Returns a parser of one of these names, in capitals or not, or of ALL."""

    def read(text: str) -> tuple[Name, ...]:
        if text.upper() == "ALL":
            return names
        if found := tuple(name for name in names if name in (text, text.upper())):
            return found
        raise argparse.ArgumentTypeError(f"{text!r} is no {what}; {hint(text, [*names, 'ALL'])}")

    return read


def signal_named(text: str) -> int:
    """Parses "9", "KILL" or "SIGKILL"."""
    names = {item.name: item.value for item in signal.Signals}
    if text.isdecimal() and int(text) in names.values():
        return int(text)
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    if name not in names:
        raise argparse.ArgumentTypeError(f"{text!r} is not a signal")
    return names[name]

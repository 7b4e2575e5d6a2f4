"""Numbers of the command line of `lbctl tags` and `lbd sim`, each with its own one-line refusal."""

import argparse
import math
from itertools import pairwise


def positive(text: str) -> float:
    """A number above 0: seconds, a load, an exponent."""
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
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    return value


def count(text: str) -> int:
    """A whole number from 1 on."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 10**9):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def rising(text: str) -> tuple[float, ...]:
    """Cutoffs: "60,3600"."""
    values = tuple(positive(part) for part in text.split(","))
    if any(not a < b for a, b in pairwise(values)):
        raise argparse.ArgumentTypeError(f"{text}: must rise")
    return values

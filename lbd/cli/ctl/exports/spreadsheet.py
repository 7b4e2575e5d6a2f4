"""Rows as CSV, for a spreadsheet."""

import argparse
import csv
import math
import sys
from collections.abc import Iterable, Sequence

from lbd.errors import ConfigError
from lbd.text.one_line import one_line

FORMULA = ("=", "+", "-", "@")  # first characters that a spreadsheet takes for a formula


def check_form(options: argparse.Namespace) -> None:
    """Raises ConfigError if two forms are asked for."""
    if options.csv and options.json:
        raise ConfigError("--csv and --json exclude each other")


def print_csv(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)


def csv_name(name: str) -> str:
    """Returns the name as one line, and never as a formula: users and hosts choose names."""
    shown = one_line(name)
    return f"'{shown}" if shown.startswith(FORMULA) else shown


def csv_text(figure: object) -> str:
    """Formats figures so that lines add up to their sum: without exponents, and with nine decimals
    where they have them; "" for an absent value."""
    if isinstance(figure, float):
        return "" if math.isnan(figure) else f"{figure:.9f}".rstrip("0").rstrip(".")
    return "" if figure is None else str(figure)

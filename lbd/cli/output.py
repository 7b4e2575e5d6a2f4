"""Tables, colours and JSON. Colour only on a terminal, never with NO_COLOR."""

import json
import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from lbd.cli.reply import Json
from lbd.one_line import printable

SCHEMA = 1
GREEN, YELLOW, RED, DIM, BOLD = "32", "33", "31", "2", "1"
PAINTED = re.compile(r"(\x1b\[\d{1,2}m)")  # by `Paint`


@dataclass(frozen=True, slots=True)
class Paint:
    """Wraps text in a colour, or leaves it alone."""

    on: bool

    def __call__(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self.on and colour else text


def paint_for(stream: TextIO) -> Paint:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    return Paint(stream.isatty() and not plain)


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    colour: str = ""


Row = Sequence[Cell | str]


def put(*lines: str) -> None:
    """Each is one line of standard output, whatever it holds: what others called their jobs must
    neither act on our terminal nor look like a line of ours. All that is not JSON goes this way."""
    for line in lines or ("",):
        parts = PAINTED.split(line)  # every other one is a colour
        print("".join(part if at % 2 else printable(part) for at, part in enumerate(parts)))


def cell(item: Cell | str) -> Cell:
    """Of the width it will have when it is shown."""
    found = item if isinstance(item, Cell) else Cell(item)
    return found if found.text.isprintable() else Cell(printable(found.text), found.colour)


def lay_out(header: Sequence[str], rows: Sequence[Row], paint: Paint) -> list[str]:
    """Aligned lines under a heading. A heading that begins with ">" has its column flush right."""
    right = [title.startswith(">") for title in header]
    titles = [cell(Cell(title.lstrip(">"), BOLD)) for title in header]
    body = [titles, *([cell(item) for item in row] for row in rows)]
    widths = [max(len(row[column].text) for row in body) for column in range(len(titles))]
    lines = []
    for row in body:
        parts = []
        for item, width, flush_right in zip(row, widths, right, strict=True):
            space = " " * (width - len(item.text))
            shown = paint(item.text, item.colour)
            parts.append(space + shown if flush_right else shown + space)
        lines.append("  ".join(parts).rstrip())
    return lines


def print_table(header: Sequence[str], rows: Sequence[Row]) -> None:
    put(*lay_out(header, rows, paint_for(sys.stdout)))


def print_json(reply: Json | Sequence[Json], *, in_a_line: bool = False) -> None:
    """One object or a list of them, each marked with the schema; `in_a_line`: of a stream of them.
    A number that there is not is null: JSON has no NaN."""
    marked = with_schema(reply) if isinstance(reply, dict) else [with_schema(one) for one in reply]
    print(json.dumps(marked, indent=None if in_a_line else 2), flush=in_a_line)


def with_schema(reply: Json) -> Json:
    return {"schema": SCHEMA, **{key: finite(reply[key]) for key in reply}}


def finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def figure(value: float, digits: int = 2) -> str:
    """A number for a table; a dash when there is none."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"

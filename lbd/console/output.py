"""Tables, colours and JSON. Colour only on a terminal, never with NO_COLOR.

Without rich: its tables would save some 30 lines here, and cost `lbctl status` 64 ms of CPU, two
fifths more; what others called their jobs would still have to be kept from acting on the terminal.
"""

import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO
from unicodedata import combining, east_asian_width

from lbd.console.errors import SCHEMA
from lbd.console.reply import Json
from lbd.text.one_line import one_line, printable

GREEN, YELLOW, RED, DIM, BOLD, REVERSE = "32", "33", "31", "2", "1", "7"
USUAL_COLUMNS = 80
LAST_COLUMNS = 13  # at least, of a column that is cut
REASON, REASON_COLUMNS = "WAITS", 26  # why a job waits is what people look for
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
    short: str = ""  # in place of a text that would be cut


Row = Sequence[Cell | str]


def put(*lines: str) -> None:
    """Each is one line of standard output, whatever it holds: what others called their jobs must
    neither act on our terminal nor look like a line of ours. All that is not JSON goes this way."""
    for line in lines or ("",):
        parts = PAINTED.split(line)  # every other one is a colour
        print("".join(part if at % 2 else printable(part) for at, part in enumerate(parts)))


def cell(item: Cell | str) -> Cell:
    """Pads a value to the width it has when it is shown."""
    found = item if isinstance(item, Cell) else Cell(item)
    if found.text.isprintable():
        return found
    return Cell(printable(found.text), found.colour, found.short)


def lay_out(
    header: Sequence[str], rows: Sequence[Row], paint: Paint, columns: int | None = None
) -> list[str]:
    """Aligned lines under a heading. A heading that begins with ">" has its column flush right.
    `columns`: of the terminal; no line is longer."""
    right = [title.startswith(">") for title in header]
    titles = [cell(Cell(title.lstrip(">"), BOLD)) for title in header]
    body = [titles, *([cell(item) for item in row] for row in rows)]
    widths = [max(width(row[at].text) for row in body) for at in range(len(titles))]
    lines = []
    for row in body:
        parts = []
        for item, wide, flush_right in zip(row, widths, right, strict=True):
            space = " " * (wide - width(item.text))
            shown = paint(item.text, item.colour)
            parts.append(space + shown if flush_right else shown + space)
        lines.append(cut("  ".join(parts).rstrip(), columns))
    return lines


def width(text: str) -> int:
    """How many columns of a terminal a text takes: of an ideograph two, of an accent none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


def shown_width(line: str) -> int:
    """Of a line with colours, which take no room."""
    return sum(map(width, PAINTED.split(line)[::2]))


def shortened(text: str, columns: int) -> str:
    """A text in one line, ended with "…" if it takes more columns than there are."""
    text = one_line(text)
    return text if width(text) <= columns else cut(text, max(1, columns))


def cut(line: str, columns: int | None) -> str:
    """As much of a line as has room, with "…" in the last column if that is not all.
    Colours take none, and are closed."""
    if columns is None:
        return line
    parts = PAINTED.split(line)
    if shown_width(line) <= columns:
        return line
    kept, left = [], columns - 1
    for at, part in enumerate(parts):
        if at % 2:
            kept.append(part)
            continue
        for char in part:
            left -= width(char)
            if left < 0:
                return "".join([*kept, "…", *parts[at + 1 :: 2]])
            kept.append(char)
    return line


def terminal_columns(stream: TextIO) -> int | None:
    """How wide a terminal is; None of what is none, where lines may be as long as they are."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL_COLUMNS
    except (OSError, ValueError):
        return None


@dataclass(slots=True)
class Layout:
    """A table on its way into so many columns."""

    titles: list[str]
    body: list[list[Cell]]
    flexible: frozenset[str]  # whose texts may be cut
    least: int  # of those

    def drop(self, title: str) -> None:
        at = self.titles.index(title)
        del self.titles[at]
        for row in self.body:
            del row[at]

    def says_nothing(self, title: str) -> bool:
        at = self.titles.index(title)
        return not any(row[at].text.strip("–") for row in self.body)

    def wide(self, at: int) -> int:
        return max(width(self.titles[at].lstrip(">")), *(width(row[at].text) for row in self.body),
                   0)  # fmt: skip

    def narrow(self, at: int, *, whole_reason: bool = False) -> int:
        """What a column must have."""
        if self.titles[at] not in self.flexible:
            return self.wide(at)
        if self.titles[at] == REASON and whole_reason:
            return min(REASON_COLUMNS, self.wide(at))
        short = max((width(row[at].short) for row in self.body), default=0)
        return min(max(self.least, short), self.wide(at))

    def least_width(self, *, whole_reason: bool = False) -> int:
        columns = range(len(self.titles))
        return sum(2 + self.narrow(at, whole_reason=whole_reason) for at in columns)

    def has_short(self, at: int) -> bool:
        return any(row[at].short for row in self.body)

    def shorten(self, columns: int) -> None:
        """The last one has the most to say, so it has the rest; but a short form gives way to the
        whole where the reason has enough."""
        rest = columns - self.least_width()
        for_reason = self.least_width(whole_reason=True) - self.least_width()
        flexible = [at for at, title in enumerate(self.titles) if title in self.flexible]
        for at in sorted(flexible, key=lambda at: (not self.has_short(at), -at)):
            floor, whole = self.narrow(at), self.wide(at)
            given = min(whole, floor + max(0, rest))
            if self.has_short(at) and whole - floor > rest - for_reason:
                given = floor
            rest -= given - floor
            for row in self.body:
                found = row[at]
                text = found.short if found.short and width(found.text) > given else found.text
                row[at] = Cell(shortened(text, given), found.colour)


def fit(
    header: Sequence[str],
    rows: Sequence[Row],
    columns: int,
    go_first: Sequence[str],
    shorten: Sequence[str] | None = None,
) -> tuple[tuple[str, ...], list[Row]]:
    """A table without the columns for which there is no room.

    Those of `go_first` that say nothing go at once, then as many as must; all but the last of them
    also for the sake of REASON. Those of `shorten`, which is the last one unless given, are cut to
    the rest; a cell that has a short form is shown by that instead.
    """
    flexible = frozenset(header[-1:] if shorten is None else shorten)
    least = max(LAST_COLUMNS, columns // 6)  # of a wide terminal more than what must be
    layout = Layout(list(header), [[cell(item) for item in row] for row in rows], flexible, least)
    candidates = [title for title in go_first if title in layout.titles]
    for title in candidates:
        if layout.says_nothing(title):
            layout.drop(title)
    for title in candidates:
        if layout.least_width(whole_reason=title != candidates[-1]) <= columns + 2:
            break
        if title in layout.titles:
            layout.drop(title)
    layout.shorten(columns + 2)
    return tuple(layout.titles), [tuple(row) for row in layout.body]


def fitted_lines(
    header: Sequence[str],
    rows: Sequence[Row],
    paint: Paint,
    columns: int | None,
    go_first: Sequence[str] = (),
    shorten: Sequence[str] = (),
) -> list[str]:
    """A table as a terminal of so many columns has room for it."""
    if columns is not None:
        header, rows = fit(header, rows, columns, go_first, shorten)
    return lay_out(header, rows, paint, columns)


def folded(parts: Sequence[str], columns: int | None) -> list[str]:
    """Parts of one line, in as many as there must be."""
    lines: list[str] = []
    for part in parts:
        joined = f"{lines[-1]}   {part}" if lines else part
        if lines and (columns is None or shown_width(joined) <= columns):
            lines[-1] = joined
        else:
            lines.append(part)
    return [cut(line, columns) for line in lines]


def wrapped(text: str, columns: int | None, indent: str = "") -> list[str]:
    """Sentences, broken between words; the lines after the first are indented."""
    if columns is None or width(text) <= columns:
        return [text]
    lines = textwrap.wrap(text, columns, subsequent_indent=indent, break_on_hyphens=False)
    return [cut(line, columns) for line in lines]


@dataclass(frozen=True, slots=True)
class Page:
    """What lines are made for: with colours or without, and so many columns, None for no limit."""

    paint: Paint
    columns: int | None = None
    sorted_by: str = ""  # the heading of a column that is kept, whatever there is no room for

    def table(
        self,
        header: Sequence[str],
        rows: Sequence[Row],
        go_first: Sequence[str] = (),
        shorten: Sequence[str] = (),
    ) -> list[str]:
        go_first = [one for one in go_first if one.removeprefix(">") != self.sorted_by]
        return fitted_lines(header, rows, self.paint, self.columns, go_first, shorten)


def own_page() -> Page:
    return Page(paint_for(sys.stdout), terminal_columns(sys.stdout))


def print_table(header: Sequence[str], rows: Sequence[Row]) -> None:
    put(*own_page().table(header, rows))


def print_json(reply: Json | Sequence[Json], *, in_a_line: bool = False) -> None:
    """One object or a list of them, each marked with the schema; `in_a_line`: of a stream of them.
    A number that there is not is null: JSON has no NaN."""
    print(json.dumps(marked(reply), indent=None if in_a_line else 2), flush=in_a_line)


def marked(reply: Json | Sequence[Json]) -> Json | list[Json]:
    return with_schema(reply) if isinstance(reply, dict) else [with_schema(one) for one in reply]


def with_schema(reply: Json) -> Json:
    return {"schema": SCHEMA, **{key: finite(reply[key]) for key in reply}}


def finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value

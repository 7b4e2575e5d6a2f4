"""Tables, colours and JSON. Colour only on a terminal, never with NO_COLOR.

Written without rich: its tables would save some 30 lines here but cost `lbctl status` 64 ms of CPU
time, 40 % more. Job names chosen by other users would still have to be made safe to print.
"""

import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TextIO
from unicodedata import combining, east_asian_width

from lbd.console.errors import SCHEMA
from lbd.console.reply import Json
from lbd.text.one_line import at_words, one_line, printable

GREEN, YELLOW, RED, DIM, BOLD, REVERSE = "32", "33", "31", "2", "1", "7"
USUAL_COLUMNS = 80
QUESTION_CHARS_MAX = 1000
LAST_COLUMNS = 13  # minimum width of a column that may be cut
REASON, REASON_COLUMNS = "WAITS", 26  # people mostly look for why a job waits
PAINTED = re.compile(r"(\x1b\[\d{1,2}m)")  # the codes that `Paint` writes


@dataclass(frozen=True, slots=True)
class Paint:
    """Wraps text in a colour, or leaves it unchanged."""

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
    short: str = ""  # shown instead of a text that would be cut; there is room for it
    brief: str = ""  # cut instead of a text that would be cut, without a `short`


Row = Sequence[Cell | str]


def put(*lines: str) -> None:
    """Prints each text as one line. Job names chosen by other users must neither control our
    terminal nor look like a line of ours. Everything except JSON is printed through this function.
    What is wider than the terminal is broken at words; tables are fitted before.
    """
    columns = terminal_columns(sys.stdout)
    for line in lines or ("",):
        parts = PAINTED.split(line)  # every other part is a colour
        shown = "".join(part if at % 2 else printable(part) for at, part in enumerate(parts))
        if columns is not None and shown_width(shown) > columns:
            shown = "\n".join(at_words(shown, columns))
        print(shown)


def cell(item: Cell | str) -> Cell:
    """Returns the cell with its text made printable."""
    found = item if isinstance(item, Cell) else Cell(item)
    if found.text.isprintable():
        return found
    return replace(found, text=printable(found.text))


def lay_out(
    header: Sequence[str], rows: Sequence[Row], paint: Paint, columns: int | None = None
) -> list[str]:
    """Returns aligned lines under a heading. A heading that begins with ">" aligns its column to
    the right. No line is wider than the terminal's `columns`."""
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
    """Returns the terminal columns that a text takes: two for an ideograph, none for an accent."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


def shown_width(line: str) -> int:
    """Returns the columns that a line takes, without its colour codes."""
    return sum(map(width, PAINTED.split(line)[::2]))


def shortened(text: str, columns: int) -> str:
    """Returns a text as one line, ended with "…" if it takes more than `columns`."""
    text = one_line(text)
    return text if width(text) <= columns else cut(text, max(1, columns))


def cut(line: str, columns: int | None) -> str:
    """Returns the line cut to `columns`, with "…" in the last one if anything was cut. Colour codes
    take no room, and open ones are closed."""
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
    """Returns the terminal's width; None if this is not a terminal, so that lines are not cut."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL_COLUMNS
    except (OSError, ValueError):
        return None


@dataclass(slots=True)
class Layout:
    """A table while it is fitted into a number of columns."""

    titles: list[str]
    body: list[list[Cell]]
    flexible: frozenset[str]  # titles of the columns whose texts may be cut
    least: int  # minimum width of those

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
        """Returns the minimum width of a column."""
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
        """Cuts the flexible columns. The last one says the most, so it gets the remaining room. A
        column with short forms shows whole texts only if REASON has enough room."""
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
                is_cut = width(found.text) > given
                text = (is_cut and (found.short or found.brief)) or found.text
                row[at] = Cell(shortened(text, given), found.colour)


def fit(
    header: Sequence[str],
    rows: Sequence[Row],
    columns: int,
    go_first: Sequence[str],
    shorten: Sequence[str] | None = None,
) -> tuple[tuple[str, ...], list[Row]]:
    """Returns a table without the columns for which there is no room.

    Empty columns of `go_first` are dropped at once, then as many others of it as necessary; all but
    the last also to give REASON room. The columns of `shorten`, by default the last one, are cut to
    the remaining room; a cell with a short form shows that instead.
    """
    flexible = frozenset(header[-1:] if shorten is None else shorten)
    least = max(LAST_COLUMNS, columns // 6)  # a wide terminal gives them more than the minimum
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
    """Returns a table's lines, fitted into the terminal's `columns`."""
    if columns is not None:
        header, rows = fit(header, rows, columns, go_first, shorten)
    return lay_out(header, rows, paint, columns)


def folded(parts: Sequence[str], columns: int | None) -> list[str]:
    """Joins parts into lines, as few as the width allows."""
    lines: list[str] = []
    for part in parts:
        joined = f"{lines[-1]}   {part}" if lines else part
        if lines and (columns is None or shown_width(joined) <= columns):
            lines[-1] = joined
        else:
            lines.append(part)
    return [cut(line, columns) for line in lines]


def wrapped(text: str, columns: int | None, indent: str = "") -> list[str]:
    """Wraps text between words and indents the lines after the first."""
    if columns is None or width(text) <= columns:
        return [text]
    lines = textwrap.wrap(text, columns, subsequent_indent=indent, break_on_hyphens=False)
    return [cut(line, columns) for line in lines]


@dataclass(frozen=True, slots=True)
class Page:
    """How to lay out lines: with or without colours, and within `columns` (None: no limit)."""

    paint: Paint
    columns: int | None = None
    sorted_by: str = ""  # heading of a column that is never dropped

    def table(
        self,
        header: Sequence[str],
        rows: Sequence[Row],
        go_first: Sequence[str] = (),
        shorten: Sequence[str] = (),
    ) -> list[str]:
        go_first = self.may_go(go_first)
        return fitted_lines(header, rows, self.paint, self.columns, go_first, shorten)

    def may_go(self, columns: Sequence[str]) -> list[str]:
        """Returns those of these columns that may be dropped."""
        return [one for one in columns if one.removeprefix(">") != self.sorted_by]


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def is_agreed(question: str) -> bool:
    """Asks the user on the terminal."""
    print(f"{one_line(question, QUESTION_CHARS_MAX)} [y/n] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def own_page() -> Page:
    return Page(paint_for(sys.stdout), terminal_columns(sys.stdout))


def print_table(header: Sequence[str], rows: Sequence[Row], go_first: Sequence[str] = ()) -> None:
    """Figures are not cut: where room is short, the columns `go_first` are left out, then those of
    figures from the right, and named below."""
    page = own_page()
    may_go = [*go_first, *(title for title in reversed(header[1:]) if title.startswith(">"))]
    put(*page.table(header, rows, may_go))
    if page.columns is not None:
        whole, shown = (
            fit(header, rows, columns, may_go, ())[0] for columns in (sys.maxsize, page.columns)
        )
        if left := [title.lstrip(">") for title in whole if title not in shown]:
            put(f"left out: {', '.join(left)} (use a wider terminal or a pipe)")


def print_json(reply: Json | Sequence[Json], *, in_a_line: bool = False) -> None:
    """Prints one object or a list of them, each marked with the schema. `in_a_line` is for streams.
    Prints NaN and infinity as null, because JSON has neither."""
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

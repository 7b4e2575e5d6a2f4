"""A page's parts as HTML, and what has changed since an earlier version of the page.

For a table that kept its rows only the changed cells are sent: for 200 hosts a tenth of the page.
Each such event is made once, however many viewers have the same earlier version.
"""

import json
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from markupsafe import Markup

from lbd.web.rendering import Cells, cells_of, part_html
from lbd.web.view import Page, Table

ENCODER = json.JSONEncoder(separators=(",", ":"))
NOTHING_NEW = b": nothing new\n\n"
SAID_MAX, SAID_BYTES = 8, 512 << 10


def event(name: str, data: str) -> bytes:
    """`data` is JSON on one line."""
    return f"event: {name}\ndata: {data}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Drawn:
    parts: Mapping[str, Markup]
    cells: Mapping[str, Cells]  # of the tables among the parts
    frames: Mapping[str, object]  # the rest of each table, for comparison
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    said: dict[str, bytes] = field(default_factory=dict)  # by the mark of the version before

    def since(self, before: "Drawn | None") -> bytes:
        """Returns the event that turns a page that shows `before` into this one. None stands for
        any page."""
        mark = before.mark if before else ""
        if mark not in self.said:
            news = self._news(before)
            if len(self.said) >= SAID_MAX or sum(map(len, self.said.values())) > SAID_BYTES:
                self.said.clear()
            self.said[mark] = news
        return self.said[mark]

    @property
    def size_bytes(self) -> int:
        """Returns the memory that it takes, with events that are made of it later."""
        cells = (cell for rows in self.cells.values() for row in rows for cell in row)
        texts = sum(map(sys.getsizeof, self.parts.values())) + sum(map(sys.getsizeof, cells))
        return texts + SAID_BYTES

    def _news(self, before: "Drawn | None") -> bytes:
        found = [
            f"{ENCODER.encode(name)}:{self._change(name, before)}"
            for name, html in self.parts.items()
            if before is None or before.parts[name] != html
        ]
        if not found:
            return NOTHING_NEW
        return f"id: {self.mark}\n".encode() + event("parts", f"{{{','.join(found)}}}")

    def _change(self, name: str, before: "Drawn | None") -> str:
        """Returns a part's change as JSON: its HTML, or [row, column, HTML] of changed cells."""
        html = self.parts[name]
        if before is None or name not in self.frames:
            return ENCODER.encode(html)
        if self.frames[name] != before.frames.get(name):
            return ENCODER.encode(html)
        changed = [
            (row, column, new)
            for row, (olds, news) in enumerate(
                zip(before.cells[name], self.cells[name], strict=True)
            )
            if olds != news
            for column, (old, new) in enumerate(zip(olds, news, strict=True))
            if old != new
        ]
        return ENCODER.encode(changed)


def draw(page: Page) -> Drawn:
    cells = {part.id: cells_of(part) for part in page.parts if isinstance(part, Table)}
    return Drawn(
        {part.id: part_html(part, cells.get(part.id)) for part in page.parts},
        cells,
        {part.id: frame(part) for part in page.parts if isinstance(part, Table)},
    )


def frame(table: Table) -> object:
    return table.title, tuple(table.head), table.empty, table.note, len(table.rows)

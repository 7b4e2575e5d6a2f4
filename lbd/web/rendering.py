"""Pages as HTML. Everything is escaped, and unprintable characters are shown as `?`.

Table cells are made here rather than in a template: a page has thousands of them, and a stream
sends single cells as they change.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from lbd import __version__
from lbd.console.figures import decimal
from lbd.text.one_line import printable
from lbd.web import charts
from lbd.web.view import Item, Page, Part, Table, Viewer

PLACES = (
    ("/", "Hosts"), ("/jobs", "Jobs"), ("/history", "History"), ("/owners", "Owners"),
    ("/why", "Why there"), ("/settings", "Settings"), ("/doctor", "Doctor"),
)  # fmt: skip
Cells = Sequence[Sequence[str]]  # HTML of each cell, row by row


def shown(value: object) -> object:
    """Makes what a template prints printable, unless it is our own markup."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return printable(value)


def as_text(text: str) -> str:
    """Escapes text for an element or an attribute."""
    return str(escape(printable(text)))


def as_printed(text: str) -> Markup:
    """Escapes a job's output line by line, with tabs as spaces."""
    lines = (printable(line.replace("\t", "    ")) for line in text.split("\n"))
    return Markup("\n").join(lines)


def source(name: str) -> str:
    return files("lbd.web").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    found = Environment(
        loader=FunctionLoader(source), autoescape=True, undefined=StrictUndefined,
        finalize=shown, trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    found.filters["as_printed"] = as_printed
    found.filters["as_item"] = lambda item: Markup(item_html(item))  # noqa: S704
    found.globals.update(
        path=charts.path,
        area=charts.area,
        top_of=charts.top_of,
        in_words=charts.in_words,
        level=charts.level,
        decimal=decimal,
    )
    return found


def item_html(item: Item) -> str:
    drawn = ""
    if item.bar is not None:
        width = 100 * min(max(item.bar, 0), 1)
        drawn = (
            '<svg class="bar" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">'
            f'<rect width="{width:.1f}" height="12" rx="2"/></svg>'
        )
    if item.spark is not None:
        drawn += (
            f'<svg class="spark" viewBox="0 0 {item.spark.width} {charts.SPARK_HEIGHT}" '
            'preserveAspectRatio="none" role="img" '
            f'aria-label="{as_text(item.label)}: {item.spark.words}">'
            f'<path d="{item.spark.path}"/></svg>'
        )
    text = as_text(item.text)
    return f'{drawn}<a href="{as_text(item.href)}">{text}</a>' if item.href else drawn + text


def cells_of(table: Table) -> Cells:
    """Returns the table's cells as HTML; the first of each row is its heading."""
    labels = [f' data-label="{as_text(name)}">' for name in table.head]
    return [
        [
            cell_html(item, label, is_heading=not at)
            for at, (item, label) in enumerate(zip(row, labels, strict=True))
        ]
        for row in table.rows
    ]


def cell_html(item: Item, label: str, *, is_heading: bool) -> str:
    kind = f' class="{as_text(item.kind)}"' if item.kind else ""
    if is_heading:
        return f'<th role="rowheader" scope="row"{kind}>{item_html(item)}</th>'
    empty = "" if item.text or item.spark else " data-empty"
    return f'<td role="cell"{kind}{empty}{label}{item_html(item)}</td>'


def rows_html(cells: Cells) -> Markup:
    return Markup("\n".join(f'<tr role="row">{"".join(row)}</tr>' for row in cells))  # noqa: S704


def part_html(part: Part, cells: Cells | None = None) -> Markup:
    """`cells`: the table's cells, if already made."""
    rows = None
    if isinstance(part, Table):
        rows = rows_html(cells_of(part) if cells is None else cells)
    return Markup(environment().get_template(part.template).render(part=part, rows=rows))  # noqa: S704


def head_html(title: str, at: str, viewer: Viewer, live: str) -> str:
    """Returns the part that is known before the daemons answer. `live` is the address of the page's
    changes, "" if it has none."""
    return environment().get_template("head.html").render(
        title=title, at=at, viewer=viewer, live=live, places=PLACES
    )  # fmt: skip


def rest_html(parts: Mapping[str, Markup], mark: str = "") -> str:
    """`mark` identifies the version of the parts from which changes are counted."""
    return environment().get_template("rest.html").render(
        parts=parts, version=__version__, mark=mark
    )  # fmt: skip


def report_html(page: Page, made: str) -> str:
    """Returns a self-contained page. `made` says when it was made and by whom."""
    parts = {part.id: part_html(part) for part in page.parts}
    style = files("lbd.web").joinpath("static", "style.css").read_text(encoding="utf-8")
    return (
        environment()
        .get_template("report.html")
        .render(
            page=page,
            parts=parts,
            made=made,
            style=Markup(style),  # noqa: S704
            version=__version__,
        )
    )

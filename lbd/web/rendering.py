"""Pages as HTML. Everything is escaped, and what cannot be printed is shown as `?`."""

from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from lbd import __version__
from lbd.console.figures import decimal
from lbd.text.one_line import printable
from lbd.web import charts
from lbd.web.view import Page, Part, Viewer

PLACES = (
    ("/", "Hosts"), ("/jobs", "Jobs"), ("/history", "History"), ("/owners", "Owners"),
    ("/why", "Why there"), ("/settings", "Settings"), ("/doctor", "Doctor"),
)  # fmt: skip


def shown(value: object) -> object:
    """What a template prints: markup is ours, all else is somebody's."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return printable(value)


def as_printed(text: str) -> Markup:
    """Several lines of a job's output: the ends of lines and tabs stay."""
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
    found.globals.update(
        path=charts.path,
        area=charts.area,
        top_of=charts.top_of,
        in_words=charts.in_words,
        level=charts.level,
        decimal=decimal,
    )
    return found


def part_html(part: Part) -> Markup:
    return Markup(environment().get_template(part.template).render(part=part))  # noqa: S704


def page_html(page: Page, parts: dict[str, Markup], viewer: Viewer, live: str, notice: str) -> str:
    """`live`: the address that its changes come from; "" for none."""
    return environment().get_template("page.html").render(
        page=page, parts=parts, viewer=viewer, live=live, notice=notice, places=PLACES,
        version=__version__,
    )  # fmt: skip


def report_html(page: Page, made: str) -> str:
    """A page that stands alone. `made`: when and by whom."""
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

"""What a page shows, before it is HTML: parts with names, made by pure functions from JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

from lbd.console.reply import Json
from lbd.web.charts import Spark

GOOD, WARN, BAD, DIM, NUMBER = "good", "warn", "bad", "dim", "number"


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks; nobody known while `uid` is None."""

    uid: int | None = None
    name: str = ""
    csrf: str = ""  # what a form of theirs must hold
    key: str = ""  # of their session, as it is stored

    @property
    def signed_in(self) -> bool:
        return self.uid is not None


NOBODY = Viewer()


@dataclass(frozen=True, slots=True)
class Item:
    """One value: its text, how it is meant, where it leads, and what is drawn beside it."""

    text: str
    kind: str = ""
    href: str = ""
    bar: float | None = None  # how full, of 1
    spark: Spark | None = None
    label: str = ""  # of the drawing, for those who do not see it


@dataclass(frozen=True, slots=True)
class Table:
    id: str
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Item]]
    empty: str = "nothing"
    note: str = ""
    template = "table.html"


@dataclass(frozen=True, slots=True)
class Facts:
    id: str
    title: str
    items: Sequence[tuple[str, Item]]
    template = "facts.html"


@dataclass(frozen=True, slots=True)
class Line:
    """Text as it was printed."""

    id: str
    title: str
    text: str
    note: str = ""
    template = "output.html"


@dataclass(frozen=True, slots=True)
class Message:
    """A sentence of ours, with `commands` marked as here; the page's title is its own."""

    id: str
    text: str
    template = "message.html"


@dataclass(frozen=True, slots=True)
class Chart:
    id: str
    title: str
    points: Sequence[float]  # evenly spaced, NaN where nothing is known
    begins: str
    ends: str
    template = "chart.html"


@dataclass(frozen=True, slots=True)
class Heat:
    """A value for each name and column, as a colour."""

    id: str
    title: str
    head: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]
    legend: Sequence[tuple[str, str]]  # level, what it stands for
    empty: str = "nothing"
    template = "heat.html"


@dataclass(frozen=True, slots=True)
class Button:
    action: str  # the path it is posted to
    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Buttons:
    id: str
    title: str
    buttons: Sequence[Button]
    csrf: str
    template = "buttons.html"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    value: str = ""
    choices: Sequence[str] = ()
    without: str = "any"  # what the choice of nothing is called


@dataclass(frozen=True, slots=True)
class Form:
    """Asks for what the address then holds: nothing is changed by it."""

    id: str
    title: str
    action: str
    fields: Sequence[Field]
    submit: str
    template = "form.html"


Part = Table | Facts | Line | Message | Chart | Heat | Buttons | Form


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    parts: Sequence[Part]
    data: Json | Sequence[Json] = ()  # the same for programs
    at: str = ""  # its place in the navigation


def plain(text: str, kind: str = "") -> Item:
    return Item(text, kind)


def right(text: str, kind: str = "") -> Item:
    return Item(text, f"{kind} {NUMBER}".strip())

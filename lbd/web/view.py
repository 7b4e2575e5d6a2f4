"""What a page shows, independent of HTML: named parts that pure functions make from JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

from lbd.console.reply import Json
from lbd.web.charts import Spark

GOOD, WARN, BAD, DIM, NUMBER = "good", "warn", "bad", "dim", "number"


@dataclass(frozen=True, slots=True)
class Viewer:
    """The user who looks at a page; `uid` is None without a sign-in."""

    uid: int | None = None
    name: str = ""
    csrf: str = ""  # token that the user's forms must carry
    key: str = ""  # of the session, as it is stored

    @property
    def signed_in(self) -> bool:
        return self.uid is not None


NOBODY = Viewer()


@dataclass(frozen=True, slots=True)
class Item:
    """One value: its text, its meaning, its link, and what is drawn beside it."""

    text: str
    kind: str = ""
    href: str = ""
    bar: float | None = None  # share that is filled
    spark: Spark | None = None
    label: str = ""  # describes the drawing for those who cannot see it


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
    """Preformatted text."""

    id: str
    title: str
    text: str
    note: str = ""
    template = "output.html"


@dataclass(frozen=True, slots=True)
class Message:
    """A sentence of ours, with commands in backticks; it has no title besides the page's."""

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
    """A value for each name and column, shown as a colour."""

    id: str
    title: str
    head: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]
    legend: Sequence[tuple[str, str]]  # level -> what it stands for
    empty: str = "nothing"
    template = "heat.html"


@dataclass(frozen=True, slots=True)
class Button:
    action: str  # path that the form is posted to
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
    without: str = "any"  # label of the empty choice


@dataclass(frozen=True, slots=True)
class Form:
    """A form that only changes the address, and so what is shown."""

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
    data: Json | Sequence[Json] = ()  # the same content for programs
    at: str = ""  # entry in the navigation
    json: str = ""  # `data` as JSON, if made already


def right(text: str, kind: str = "") -> Item:
    return Item(text, f"{kind} {NUMBER}".strip())

"""What `lbctl top` shows and what its keys do. Uses no terminal, daemon or clock.

`Model.key` takes a key and returns what the program must do for it, if anything. `Model.take` takes
what the daemons reported. `picture.draw` turns a model and a size into lines.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from lbd.cli.ctl.jobs.filters import sort_value
from lbd.console.jobs import shown_command, states_of
from lbd.console.reply import Json, number, table, tables, text

FILTER_MAX = 80  # characters
ESCAPE, ENTER, BACKSPACE = "escape", "enter", "backspace"
SEQUENCES = {
    "\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down",
    "\x1b[5~": "page up", "\x1b[6~": "page down",
    "\x1b[H": "home", "\x1bOH": "home", "\x1b[1~": "home",
    "\x1b[F": "end", "\x1bOF": "end", "\x1b[4~": "end",
    "\x1b[C": "right", "\x1bOC": "right", "\x1b[D": "left", "\x1bOD": "left",
    "\x1bOP": "f1", "\x1b[11~": "f1", "\x1bOS": "f4", "\x1b[14~": "f4",
    "\x1b[20~": "f9", "\x1b[21~": "f10", "\x1b[Z": "shift tab",
}  # fmt: skip
SINGLE = {"\r": ENTER, "\n": ENTER, "\x7f": BACKSPACE, "\x08": BACKSPACE, "\t": "tab"}
SAME = {"f1": "?", "f4": "/", "f9": "k", "f10": "q", "\x03": "q", "\x04": "q", "Q": "q", "h": "?"}


def keys_of(typed: str) -> list[str]:
    """Splits what a terminal sent at once into keys. Ignores unknown sequences."""
    keys: list[str] = []
    while typed:
        found = next((one for one in SEQUENCES if typed.startswith(one)), "")
        if found:
            keys.append(SEQUENCES[found])
        elif typed[0] == "\x1b" and len(typed) > 1 and typed[1] in "[O":
            end = next((at for at in range(2, len(typed)) if typed[at].isalpha()), None)
            end = next((at for at in range(2, len(typed)) if typed[at] in "~"), end)
            found = typed if end is None else typed[: end + 1]
        elif typed[0] == "\x1b":
            keys.append(ESCAPE)
        else:
            keys.append(SINGLE.get(typed[0], typed[0]))
        typed = typed[len(found) or 1 :]
    return keys


class View(Enum):
    HOSTS = "hosts"
    JOBS = "jobs"
    QUEUE = "queue"


class Mode(Enum):
    LIST = "list"
    FILTER = "filter"  # the user is typing a filter
    KILL = "kill"  # the user is asked to confirm
    HELP = "help"


@dataclass(frozen=True, slots=True)
class Quit:
    pass


@dataclass(frozen=True, slots=True)
class Kill:
    """End this job; the user has confirmed it."""

    job: str


Action = Quit | Kill
Value = object


@dataclass(frozen=True, slots=True)
class Order:
    """A column that a view can be sorted by. `falls`: largest first, unless reversed."""

    title: str
    value: Callable[[Json], Value]
    falls: bool = False


def of_text(key: str) -> Callable[[Json], Value]:
    return lambda row: text(row, key) or None


def of_number(*path: str) -> Callable[[Json], Value]:
    def value(row: Json) -> Value:
        for key in path[:-1]:
            row = table(row, key)
        found = number(row, path[-1])
        return None if found != found else found

    return value


def memory_used(host: Json) -> Value:
    memory = table(host, "memory")
    total, available = number(memory, "total"), number(memory, "available")
    return 1 - available / total if total > 0 and available == available else None


def ran(job: Json) -> Value:
    """Returns a value that grows with the job's run time: the first to start has run longest."""
    started, finished = number(job, "started"), number(job, "finished")
    if started != started:
        return None
    return finished - started if finished == finished else 1e12 - started


HOST_ORDERS = (
    Order("HOST", of_text("name")),
    Order("STATE", of_text("state")),
    Order("LOAD", of_number("index"), falls=True),
    Order("UTIL", of_number("utilisation"), falls=True),
    Order("MEMORY", memory_used, falls=True),
    Order("SLOTS", of_number("slots", "used"), falls=True),
    Order("FROM", of_number("jobs", "local"), falls=True),
    Order("FOREIGN", of_number("jobs", "foreign"), falls=True),
    Order("AGE", of_number("age_s"), falls=True),
)
JOB_ORDERS = (
    Order("ID", of_text("id")),
    Order("NAME", of_text("name")),
    Order("USER", of_text("user")),
    Order("STATE", of_text("state")),
    Order("ON", of_text("host")),
    Order("AGE", of_number("submitted")),
    Order("RAN", ran, falls=True),
    Order("CPU", of_number("cpu_s"), falls=True),
    Order("COMMAND", lambda job: " ".join(shown_command(job)) or None),
)
ORDERS = {View.HOSTS: HOST_ORDERS, View.JOBS: JOB_ORDERS, View.QUEUE: JOB_ORDERS}
LETTERS = {"N": ("HOST", "NAME"), "P": ("LOAD", "CPU"), "M": ("MEMORY",), "T": ("RAN",)}
VIEWS = {"1": View.HOSTS, "2": View.JOBS, "3": View.QUEUE}


@dataclass(frozen=True, slots=True)
class Facts:
    """The daemons' latest reports; what they did not report is listed as a problem."""

    status: Json = field(default_factory=dict)
    jobs: tuple[Json, ...] = ()
    problems: tuple[str, ...] = ()
    queue_hosts: tuple[str, ...] = ()  # where a dispatcher should run
    has_come: bool = False
    only_of: str = ""  # the user whose jobs these are; "": everybody's

    @property
    def hosts(self) -> list[Json]:
        return tables(self.status, "hosts")


@dataclass(slots=True)
class Place:
    """The state of one view: its order, the selected row and the first row on the screen."""

    order: int | None = None  # None: in the daemons' order
    is_reversed: bool = False
    chosen: str = ""  # by name, so that it stays selected when it moves
    at: int = 0
    top: int = 0

    def reorder(self) -> None:
        """Scrolls to the top. A row that the user moved to stays selected and visible."""
        if self.at == 0:
            self.chosen = ""
        self.top = 0


class Model:
    def __init__(self) -> None:
        self.view = View.HOSTS
        self.mode = Mode.LIST
        self.filter = ""
        self.facts = Facts()
        self.message = ""
        self.question = ""  # job that the user is asked to confirm ending
        self.page = 10  # rows on the screen, when last drawn
        self.places = {view: Place() for view in View}

    @property
    def place(self) -> Place:
        return self.places[self.view]

    def take(self, facts: Facts) -> None:
        self.facts = facts

    def rows(self, view: View | None = None) -> list[Json]:
        """Returns the view's rows that pass the filter, in its order; unknown values come last."""
        view = view or self.view
        if view is View.HOSTS:
            found = self.facts.hosts
        else:
            found = [one for one in self.facts.jobs if view is View.JOBS or is_waiting(one)]
        wanted = self.filter.casefold()
        found = [row for row in found if wanted in searched(row).casefold()]
        place = self.places[view]
        if place.order is None:
            return found[::-1] if place.is_reversed else found
        order = ORDERS[view][place.order]
        known = [row for row in found if order.value(row) is not None]
        unknown = [row for row in found if order.value(row) is None]
        known.sort(
            key=lambda row: sort_value(order.value(row)), reverse=order.falls != place.is_reversed
        )
        return known + unknown

    def settle(self, names: Sequence[str], page: int) -> None:
        """Keeps the selected row, or its neighbour if it is gone, selected and visible."""
        place, self.page = self.place, max(1, page)
        if place.chosen in names:
            place.at = names.index(place.chosen)
        place.at = min(max(0, place.at), max(0, len(names) - 1))
        place.chosen = names[place.at] if names else ""
        place.top = min(place.top, place.at, max(0, len(names) - self.page))
        place.top = max(place.top, place.at - self.page + 1, 0)

    # -- keys ------------------------------------------------------------------------------------

    def key(self, key: str) -> Action | None:
        self.message = ""
        if self.mode is Mode.FILTER:
            return self._filter_key(key)
        if self.mode is Mode.KILL:
            return self._kill_key(key)
        key = SAME.get(key, key)
        if self.mode is Mode.HELP:
            self.mode = Mode.LIST
            return None
        return self._list_key(key)

    def _list_key(self, key: str) -> Action | None:
        if key == "q":
            return Quit()
        if key in VIEWS:
            self.view = VIEWS[key]
        elif key in ("tab", "shift tab", "right", "left"):
            views = list(View)
            step = 1 if key in ("tab", "right") else -1
            self.view = views[(views.index(self.view) + step) % len(views)]
        elif key in ("<", ">"):
            self._sort_by_neighbour(1 if key == ">" else -1)
        elif key in LETTERS:
            self._sort_by(LETTERS[key])
        elif key in ("r", "I"):
            self.place.is_reversed = not self.place.is_reversed
            self.place.reorder()
        elif key == "/":
            self.mode = Mode.FILTER
        elif key == ESCAPE:
            self.filter = ""
        elif key == "?":
            self.mode = Mode.HELP
        elif key == "k":
            self._ask_to_kill()
        else:
            self._move(key)
        return None

    def _move(self, key: str) -> None:
        steps = {"up": -1, "down": 1, "page up": -self.page, "page down": self.page,
                 "home": -(10**9), "end": 10**9}  # fmt: skip
        if key in steps:
            rows = self.rows()
            self.place.at = min(max(0, self.place.at + steps[key]), max(0, len(rows) - 1))
            self.place.chosen = name_of(rows[self.place.at]) if rows else ""

    def _sort_by_neighbour(self, step: int) -> None:
        """Sorts by the next or previous column; the daemons' own order comes before the first."""
        place, count = self.place, len(ORDERS[self.view])
        at = (0 if place.order is None else place.order + 1) + step
        place.order = None if at % (count + 1) == 0 else at % (count + 1) - 1
        place.is_reversed = False
        place.reorder()

    def _sort_by(self, titles: Sequence[str]) -> None:
        known = [order.title for order in ORDERS[self.view]]
        for title in titles:
            if title in known:
                self.place.order, self.place.is_reversed = known.index(title), False
                self.place.reorder()
                return
        self.message = f"{self.view.value} have no column {' or '.join(titles)}"

    def _filter_key(self, key: str) -> Action | None:
        if key == ENTER:
            self.mode = Mode.LIST
        elif key in (ESCAPE, "\x03", "\x04"):
            self.mode, self.filter = Mode.LIST, ""
        elif key == BACKSPACE:
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter = (self.filter + key)[:FILTER_MAX]
        return None

    def _ask_to_kill(self) -> None:
        """Asks about the job that the screen shows as selected, and no other."""
        if self.view is View.HOSTS:
            self.message = "k ends a job: select one with 2 (jobs) or 3 (queue)"
        elif self.place.chosen:
            self.mode, self.question = Mode.KILL, self.place.chosen
        else:
            self.message = "there is no job to end"

    def _kill_key(self, key: str) -> Action | None:
        """Ends the job only on an explicit yes."""
        job, self.mode, self.question = self.question, Mode.LIST, ""
        if key in ("y", "Y"):
            return Kill(job)
        self.message = f"job {job} was not ended"
        return None

    # -- for the picture -------------------------------------------------------------------------

    @property
    def sorted_by(self) -> str:
        """Returns the heading of the sorted column; "" for the daemons' order."""
        order = self.place.order
        return "" if order is None else ORDERS[self.view][order].title

    def order_text(self) -> str:
        """Describes the view's order for people."""
        place = self.place
        if place.order is None:
            return "as listed, reversed" if place.is_reversed else "as listed"
        order = ORDERS[self.view][place.order]
        return f"{order.title} {'▼' if order.falls != place.is_reversed else '▲'}"

    def job(self, name: str) -> Json:
        return next((one for one in self.facts.jobs if name_of(one) == name), {})


def is_waiting(job: Json) -> bool:
    """Returns whether a job waits; for an array, whether any of its tasks does."""
    return "pending" in states_of(job)


def name_of(row: Json) -> str:
    """Returns a host's name or a job's id. A job has an id and a name."""
    return text(row, "id") or text(row, "name")


def searched(row: Json) -> str:
    """Returns the text that a filter searches: all words that a row shows."""
    keys = ("id", "name", "state", "user", "origin", "host", "address", "reason")
    return " ".join([*(text(row, key) for key in keys), *shown_command(row)])

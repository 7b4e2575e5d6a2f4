"""What `lbctl top` shows and what its keys do. No terminal, no daemon, no clock in here.

`Model.key` takes one key and returns what the program has to do for it, if anything;
`Model.take` takes what the daemons have said. `picture.draw` makes lines of a model and a size.
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
    """The keys in what a terminal sent at once. Unknown sequences are no keys."""
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
    FILTER = "filter"  # a text is being typed
    KILL = "kill"  # a question is open
    HELP = "help"


@dataclass(frozen=True, slots=True)
class Quit:
    pass


@dataclass(frozen=True, slots=True)
class Kill:
    """End this job: it was asked, and the answer was yes."""

    job: str


Action = Quit | Kill
Value = object


@dataclass(frozen=True, slots=True)
class Order:
    """A column that a view may be sorted by. `falls`: the largest first, unless reversed."""

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
    """Something that grows with how long a job has run: what began first has run longest."""
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
    Order("LOCAL", of_number("jobs", "local"), falls=True),
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
LETTERS = {"N": ("HOST", "ID"), "P": ("LOAD", "CPU"), "M": ("MEMORY",), "T": ("RAN",)}
VIEWS = {"1": View.HOSTS, "2": View.JOBS, "3": View.QUEUE}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the daemons said last; what they did not is said by a problem."""

    status: Json = field(default_factory=dict)
    jobs: tuple[Json, ...] = ()
    problems: tuple[str, ...] = ()
    queue_hosts: tuple[str, ...] = ()  # where a dispatcher should be
    has_come: bool = False

    @property
    def hosts(self) -> list[Json]:
        return tables(self.status, "hosts")


@dataclass(slots=True)
class Place:
    """Where one view stands: its order, the chosen row and the first row on the screen."""

    order: int | None = None  # None: as the daemons list them
    is_reversed: bool = False
    chosen: str = ""  # by name, so that it stays chosen wherever it goes
    at: int = 0
    top: int = 0

    def reorder(self) -> None:
        """From its top; but a row that somebody went to stays chosen, and is seen."""
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
        self.question = ""  # the job that may be killed
        self.page = 10  # rows on the screen, as was drawn last
        self.places = {view: Place() for view in View}

    @property
    def place(self) -> Place:
        return self.places[self.view]

    def take(self, facts: Facts) -> None:
        self.facts = facts

    def rows(self, view: View | None = None) -> list[Json]:
        """Those of a view that pass the filter, in its order; what is unknown comes last."""
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
        """The chosen row stays chosen if it is still there, else its neighbour is; it is seen."""
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
        """Of the order, which begins with that of the daemons."""
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
        """Of what the screen shows as chosen, and nothing else."""
        if self.view is View.HOSTS:
            self.message = "k ends a job: select one with 2 (jobs) or 3 (queue)"
        elif self.place.chosen:
            self.mode, self.question = Mode.KILL, self.place.chosen
        else:
            self.message = "there is no job to end"

    def _kill_key(self, key: str) -> Action | None:
        """Only a plain yes kills."""
        job, self.mode, self.question = self.question, Mode.LIST, ""
        if key in ("y", "Y"):
            return Kill(job)
        self.message = f"job {job} was not ended"
        return None

    # -- for the picture -------------------------------------------------------------------------

    @property
    def sorted_by(self) -> str:
        """The heading of that column; "": as the daemons list them."""
        order = self.place.order
        return "" if order is None else ORDERS[self.view][order].title

    def order_text(self) -> str:
        """What the view is sorted by, for people."""
        place = self.place
        if place.order is None:
            return "as listed, reversed" if place.is_reversed else "as listed"
        order = ORDERS[self.view][place.order]
        return f"{order.title} {'▼' if order.falls != place.is_reversed else '▲'}"

    def job(self, name: str) -> Json:
        return next((one for one in self.facts.jobs if name_of(one) == name), {})


def is_waiting(job: Json) -> bool:
    """Of an array: whether any of its tasks is."""
    return "pending" in states_of(job)


def name_of(row: Json) -> str:
    """A host's name, a job's id. A job has both an id and a name."""
    return text(row, "id") or text(row, "name")


def searched(row: Json) -> str:
    """What a filter looks at: all that a row shows as words."""
    keys = ("id", "name", "state", "user", "origin", "host", "address", "reason")
    return " ".join([*(text(row, key) for key in keys), *shown_command(row)])

"""The queued jobs and plain `lbrun` commands that the viewer may see: waiting (why) and running."""

import json
import shlex
from collections.abc import Callable, Sequence
from urllib.parse import quote

from lbd.console.figures import Clock, duration
from lbd.console.jobs import (
    HISTORY_STATES,
    STANDING,
    STATES,
    Filters,
    fetch,
    not_shown,
    shown_command,
    shown_id,
    shown_ran,
    shown_state,
    states_of,
)
from lbd.console.output import marked
from lbd.console.reply import Json, number, table, text, texts, whole
from lbd.local.json_socket import Refusal
from lbd.text.one_line import one_line
from lbd.web.asked import Asked
from lbd.web.view import BAD, DIM, GOOD, WARN, Field, Form, Item, Page, Part, Table, right

STATE_KINDS = {
    "running": GOOD, "pending": WARN, "suspended": WARN, "failed": BAD, "lost": BAD, "done": DIM,
    "cancelled": DIM, "unknown": DIM,
}  # fmt: skip
FILTER_WORDS = ("host", "name", "state", "user")  # parameters of the address
JOBS_WORDS = ("ended", *FILTER_WORDS)
SHOWN_MAX = 200
JSON_CHARS_MAX = 24 << 20
COMMAND_CHARS = 120
RowOf = Callable[[Json, Clock], tuple[Item, ...]]
WAITING_HEAD = ("ID", "Waits for", "Name", "User", "Since", "Command")
HEAD = ("ID", "State", "Host", "Name", "User", "Started", "Ran", "CPU", "Exit", "Command")


def make_jobs(asked: Asked) -> Page:
    asked.need_viewer()
    filters, found = filters_of(asked), Found(Clock(asked.unix_now_s), as_json=asked.as_json)
    reply = fetch(
        asked.daemons,
        asked.word("ended") == "yes" or filters.wants_ended,
        pick=lambda job: found.add(job) if filters.keeps(job) else None,
    )
    if asked.as_json:
        return Page("Jobs", (), json=f"[{', '.join(found.jsons)}]")
    parts: list[Part] = [filter_form(asked, "/jobs"), *found.parts()]
    withheld = {host: str(setting) for host, setting in table(reply, "withheld").items()}
    hidden = not_shown(text(reply, "only_of"), filters.user)
    if count := whole(reply, "unlisted"):
        hidden = "; ".join(
            filter(None, (hidden, f"{count} older jobs: the list would be too long"))
        )
    parts += notes_of(dict.fromkeys(texts(reply, "missing"), ""), withheld, hidden)
    return Page("Jobs", parts, at="/jobs")


class Found:
    """Takes the jobs of a long list one by one, and keeps of each only what is shown."""

    def __init__(self, clock: Clock, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self.jsons: list[str] = []
        self._json_chars = 0
        self._waiting, self._others = Rows(waiting_row, clock), Rows(job_row, clock)

    def add(self, job: Json) -> None:
        """Raises Refusal."""
        if self._as_json:
            self.jsons.append(json.dumps(marked(job)))
            self._json_chars += len(self.jsons[-1])
            if self._json_chars > JSON_CHARS_MAX:
                raise Refusal("too many jobs for a page: use filters, or lbctl jobs --json")
            return
        states = states_of(job)
        if not states.isdisjoint(STANDING):
            self._waiting.add(job)
        if not states <= STANDING:
            self._others.add(job)

    def parts(self) -> list[Part]:
        waiting, others = self._waiting, self._others
        return [
            Table("waiting", f"Waiting: {waiting.count}", WAITING_HEAD, waiting.rows,
                  "nothing is waiting", more_note(waiting.count)),
            jobs_table("others", f"Running and ended: {others.count}", others),
        ]  # fmt: skip


class Rows:
    """The first rows of a table, and how many there would be."""

    def __init__(self, row_of: RowOf, clock: Clock) -> None:
        self._row_of, self._clock = row_of, clock
        self.count = 0
        self.rows: list[tuple[Item, ...]] = []

    def add(self, job: Json) -> None:
        self.count += 1
        if self.count <= SHOWN_MAX:
            self.rows.append(self._row_of(job, self._clock))


def notes_of(
    missing: dict[str, str], withheld: dict[str, str], hidden: str, gaps: Sequence[str] = ()
) -> list[Part]:
    """Lists the hosts whose jobs are not all shown, and why. `missing`: why by host, or "";
    `withheld`: the setting by host; `hidden`: what the viewer may not see of any host, or "";
    `gaps`: what hosts could not record."""
    rows = [
        (Item(host), Item(f"did not answer: {why}" if why else "did not answer", WARN))
        for host, why in missing.items()
    ]
    rows += [
        (Item(host), Item(f"only jobs submitted here ({setting} there)"))
        for host, setting in withheld.items()
    ]
    if hidden:
        rows.append((Item("all hosts"), Item(hidden)))
    rows += [(Item(line.partition(" ")[0]), Item(line)) for line in gaps]
    return [Table("notes", "Not shown", ("Host", "Why"), rows)] if rows else []


def filters_of(asked: Asked) -> Filters:
    state = asked.word("state")
    return Filters(
        asked.word("user") or None,
        asked.word("name") or None,
        frozenset([state]) if state in HISTORY_STATES else None,
        asked.word("host") or None,
    )


def filter_form(asked: Asked, action: str) -> Form:
    states = STATES if action == "/jobs" else HISTORY_STATES
    fields = [
        Field("user", "User", asked.word("user")),
        Field("name", "Name, with * and ?", asked.word("name")),
        Field("host", "Host", asked.word("host")),
        Field("state", "State", asked.word("state"), ("", *states)),
    ]
    if action == "/jobs":
        fields.append(Field("ended", "Include ended jobs", asked.word("ended"), ("", "yes"), "no"))
    return Form("filters", "Which", action, fields, "Show")


def jobs_table(part: str, title: str, found: Rows) -> Table:
    return Table(part, title, HEAD, found.rows, "no jobs", more_note(found.count))


def more_note(count: int) -> str:
    left = count - SHOWN_MAX
    return f"{left} more are not shown: use the filters" if left > 0 else ""


def job_path(name: str) -> str:
    return f"/jobs/{quote(name, safe='')}"


def id_item(job: Json, shown: str) -> Item:
    return Item(shown, href=job_path(text(job, "id")))


def command_item(job: Json) -> Item:
    return Item(one_line(shlex.join(shown_command(job)), COMMAND_CHARS))


def waiting_row(job: Json, clock: Clock) -> tuple[Item, ...]:
    return (
        id_item(job, shown_id(job)),
        Item(text(job, "reason") or shown_state(job), WARN),
        Item(text(job, "name")),
        Item(text(job, "user")),
        right(duration(clock.now_s - number(job, "submitted"))),
        command_item(job),
    )


def job_row(job: Json, clock: Clock) -> tuple[Item, ...]:
    return (
        id_item(job, text(job, "id")),
        Item(shown_state(job), STATE_KINDS.get(text(job, "state"), "")),
        Item(text(job, "host")),
        Item(text(job, "name")),
        Item(text(job, "user")),
        right(clock.time_of_day(number(job, "started"))),
        right(shown_ran(job, clock.now_s)),
        right(duration(number(job, "cpu_s"))),
        right(text(job, "exit_status")),
        command_item(job),
    )

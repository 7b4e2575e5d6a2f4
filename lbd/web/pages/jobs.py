"""The queued jobs and plain `lbrun` commands that the viewer may see: waiting (why) and running."""

import shlex
from collections.abc import Sequence
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
from lbd.console.reply import Json, number, table, tables, text, texts
from lbd.text.one_line import one_line
from lbd.web.asked import Asked
from lbd.web.view import BAD, DIM, GOOD, WARN, Field, Form, Item, Page, Part, Table, right

STATE_KINDS = {
    "running": GOOD, "pending": WARN, "suspended": WARN, "failed": BAD, "lost": BAD, "done": DIM,
    "cancelled": DIM, "unknown": DIM,
}  # fmt: skip
SHOWN_MAX = 200
COMMAND_CHARS = 120
WAITING_HEAD = ("ID", "Waits for", "Name", "User", "Since", "Command")
HEAD = ("ID", "State", "Host", "Name", "User", "Started", "Ran", "CPU", "Exit", "Command")


def make_jobs(asked: Asked) -> Page:
    asked.need_viewer()
    filters = filters_of(asked)
    reply = fetch(asked.daemons, ended_too=asked.word("ended") == "yes" or filters.wants_ended)
    found = [job for job in tables(reply, "jobs") if filters.keeps(job)]
    parts: list[Part] = [filter_form(asked, "/jobs"), *job_parts(found, Clock(asked.unix_now_s))]
    withheld = {host: str(setting) for host, setting in table(reply, "withheld").items()}
    hidden = not_shown(text(reply, "only_of"), filters.user)
    parts += notes_of(dict.fromkeys(texts(reply, "missing"), ""), withheld, hidden)
    return Page("Jobs", parts, found, "/jobs")


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


def job_parts(found: list[Json], clock: Clock) -> list[Part]:
    with_states = [(job, states_of(job)) for job in found]
    waiting = [job for job, states in with_states if not states.isdisjoint(STANDING)]
    others = [job for job, states in with_states if not states <= STANDING]
    return [
        Table("waiting", f"Waiting: {len(waiting)}", WAITING_HEAD,
              [waiting_row(job, clock) for job in waiting[:SHOWN_MAX]], "nothing is waiting",
              more_note(waiting)),
        jobs_table("others", f"Running and ended: {len(others)}", others, clock),
    ]  # fmt: skip


def jobs_table(part: str, title: str, found: list[Json], clock: Clock) -> Table:
    rows = [job_row(job, clock) for job in found[:SHOWN_MAX]]
    return Table(part, title, HEAD, rows, "no jobs", more_note(found))


def more_note(found: list[Json]) -> str:
    left = len(found) - SHOWN_MAX
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

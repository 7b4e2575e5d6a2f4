"""One job: what it is, why it is in its state, its attempts, and its output as it grows."""

import re

from lbd.console import plain_commands
from lbd.console.figures import Clock, size
from lbd.console.job_details import DETAIL_INDENT, attempt_row, detail_lines
from lbd.console.jobs import ANSWER_S
from lbd.console.reply import Json, tables, text
from lbd.local.json_socket import Refusal
from lbd.model import ENDED_NAMES
from lbd.web.asked import Asked
from lbd.web.outputs import Tail
from lbd.web.pages.jobs import STATE_KINDS, Rows, job_path, job_row, jobs_table
from lbd.web.view import Button, Buttons, Facts, Item, Line, Page, Part, Table, Viewer

QUEUED_ID = re.compile(r"[0-9]{1,18}(_[0-9]{1,9})?", re.ASCII)
ATTEMPTS = ("No", "Host", "Tier", "State", "Started", "Ran", "CPU", "Exit", "Reason")
PLAIN_INDENT = 11


def make_job(asked: Asked) -> Page:
    asked.need_viewer()
    name, clock = asked.name, Clock(asked.unix_now_s)
    if plain_commands.is_plain(name):
        one = plain_commands.shown(asked.daemons, name)
        parts = job_facts(one, plain_commands.details(one, clock), PLAIN_INDENT)
        note = plain_commands.why_never_ran(one) or plain_commands.where_its_output_went(one)
        parts += [*acts(one, asked.viewer, queued=False),
                  *attempts_part(plain_commands.attempts_of(one), clock),
                  Line("output", "Output", "", note)]  # fmt: skip
        return Page(f"Job {name}", parts, one, "/jobs")
    if QUEUED_ID.fullmatch(name) is None:
        raise Refusal(f"{name!r} is not a job id, such as 12, 12_7 or h1-26", "missing")
    question: Json = {"op": "queue.jobs", "ids": [name], "attempts": True}
    found = tables(asked.daemons.lbm(question, ANSWER_S), "jobs")
    if len(found) != 1:
        raise Refusal(f"no job {name}", "missing")
    one = {"attempts": [], **found[0]}
    parts = job_facts(one, detail_lines(one, clock), len(DETAIL_INDENT))
    parts += acts(one, asked.viewer, queued=True)
    if text(one, "array"):
        parts.append(tasks_part(asked, name, clock))
    else:
        parts += attempts_part(tables(one, "attempts"), clock)
        parts += output_parts(one, asked.outputs.read(asked.viewer.key, asked.daemons, name))
    return Page(f"Job {name}", parts, one, "/jobs")


def job_facts(one: Json, lines: list[str], indent: int) -> list[Part]:
    """`lines` come from `lbctl job`: a word and its text."""
    state = text(one, "state")
    items: list[tuple[str, Item]] = [("state", Item(state, STATE_KINDS.get(state, "")))]
    for key, label in (("user", "user"), ("name", "name"), ("origin", "from"), ("host", "on")):
        if shown := text(one, key):
            items.append((label, Item(shown)))
    items += [(line[:indent].strip(), Item(line[indent:].strip())) for line in lines]
    if exit_status := text(one, "exit_status"):
        items.append(("exit status", Item(exit_status)))
    return [Facts("job", "Job", items)]


def acts(one: Json, viewer: Viewer, *, queued: bool) -> list[Part]:
    """Returns the actions that the job's state allows."""
    state, path = text(one, "state"), job_path(text(one, "id"))
    if state in ENDED_NAMES:
        return []
    buttons = [Button(f"{path}/kill", "End it", "bad")]
    if queued and state == "pending":
        is_held = text(one, "reason").startswith("held")
        verb, says = ("release", "Release") if is_held else ("hold", "Hold")
        buttons.insert(0, Button(f"{path}/{verb}", says))
    return [Buttons("acts", "Do", buttons, viewer.csrf)]


def attempts_part(attempts: list[Json], clock: Clock) -> list[Part]:
    rows = [
        [Item(cell, STATE_KINDS.get(cell, "") if at == 3 else "") for at, cell in enumerate(row)]
        for row in (attempt_row(attempt, clock) for attempt in attempts)
    ]
    return [Table("attempts", "Attempts", ATTEMPTS, rows)] if rows else []


def tasks_part(asked: Asked, name: str, clock: Clock) -> Part:
    question: Json = {"op": "queue.jobs", "ids": [name], "tasks": True}
    tasks = Rows(job_row, clock)
    asked.daemons.picking("jobs", tasks.add).lbm(question, ANSWER_S)
    return jobs_table("tasks", f"Its tasks: {tasks.count}", tasks)


def output_parts(one: Json, tail: Tail) -> list[Part]:
    name = text(one, "id")
    notes = [tail.note] if tail.note else []
    if tail.passed_bytes:
        notes.append(f"the last of it; {size(tail.passed_bytes)} before that: lbctl logs {name}")
    if tail.behind:
        notes.append("more is being read")
    output, errors = (kept.decode("utf-8", "replace") for kept in tail.kept)
    parts: list[Part] = [Line("output", "Output", output, "; ".join(notes))]
    return [*parts, Line("errors", "Errors", errors)] if errors else parts

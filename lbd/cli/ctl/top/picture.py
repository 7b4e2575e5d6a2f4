"""Draws the lines of `lbctl top` from its model and the terminal's size."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from lbd.cli.ctl.jobs.listing import job_lines
from lbd.cli.ctl.status import cluster_lines, host_lines, note_lines
from lbd.cli.ctl.top.model import Mode, Model, View, name_of
from lbd.console.figures import Clock
from lbd.console.jobs import none_of_yours, others_jobs, shown_command
from lbd.console.output import (
    BOLD,
    DIM,
    PAINTED,
    RED,
    REVERSE,
    YELLOW,
    Page,
    Paint,
    cut,
    folded,
    wrapped,
)
from lbd.console.reply import Json, number, table, text
from lbd.model import ENDED_NAMES

LEAST_LINES = 3  # minimum lines for a list, before what is around it is dropped
KEYS = "? help  q quit  k kill  / filter  < > sort  r reverse  ↑↓ move  Tab view"
HELP = (
    ("1 2 3, Tab", "hosts, jobs, or the queue (what waits, and why)"),
    ("↑ ↓ PgUp PgDn Home End", "move"),
    ("< >", "sort by the next column to the left, to the right"),
    ("N P M T", "sort by name, load or CPU time, memory, time run"),
    ("r", "reverse the order"),
    ("/ (F4)", "show only rows that contain a text; Esc shows all"),
    ("k (F9)", "end the selected job; asks first"),
    ("? (F1)", "this help"),
    ("q (F10), ^C", "quit"),
)


@dataclass(frozen=True, slots=True)
class Size:
    columns: int
    lines: int


def draw(model: Model, size: Size, paint: Paint, clock: Clock, interval_s: float) -> list[str]:
    """Returns at most as many lines as the terminal has, none wider than it."""
    head = head_lines(model, size, paint, clock, interval_s)
    foot = foot_lines(model, paint)
    room = size.lines - len(head) - len(foot)
    if room < LEAST_LINES:
        head, room = [], size.lines - len(foot)
    if room < LEAST_LINES:
        foot, room = foot[-1:] if model.mode in (Mode.FILTER, Mode.KILL) else [], size.lines
        room -= len(foot)
    if model.mode is Mode.HELP:
        body = help_lines(paint)[: max(0, room)]
    else:
        body = body_lines(model, Size(size.columns, max(1, room)), paint, clock)
    body += [""] * (room - len(body))
    return [cut(line, size.columns) for line in (*head, *body, *foot)][: max(1, size.lines)]


def head_lines(
    model: Model, size: Size, paint: Paint, clock: Clock, interval_s: float
) -> list[str]:
    views = " ".join(
        paint(f"[{at}]{view.value}", BOLD if view is model.view else DIM)
        for at, view in enumerate(View, 1)
    )
    now = clock.time_of_day(clock.now_s)
    parts = [f"lbctl top  {now}  every {interval_s:g}s", views]
    parts.append(f"{paint('sorted:', DIM)} {model.order_text()}")
    if model.filter:
        parts.append(f"{paint('filter:', DIM)} {model.filter}")
    lines = folded(parts, size.columns)
    if model.facts.status:
        lines += cluster_lines(model.facts.status, size.columns, model.facts.queue_hosts)
    for problem in model.facts.problems:
        lines += [paint(line, RED) for line in wrapped(problem, size.columns, "  ")]
    return [*lines, ""]


def foot_lines(model: Model, paint: Paint) -> list[str]:
    if model.mode is Mode.FILTER:
        return [f"show rows with: {model.filter}_   (Enter: keep, Esc: show all)"]
    if model.mode is Mode.KILL:
        job = model.job(model.question)
        what, user = text(job, "name") or shlex.join(shown_command(job)), text(job, "user")
        tasks = open_tasks(job)
        which = f"the {tasks} tasks of job" if tasks > 1 else "job"
        asked = f"end {which} {model.question} of {user}? y/n   ({what})"
        return [paint(asked, YELLOW)]
    if model.message:
        return [paint(model.message, YELLOW)]
    return [paint(KEYS, DIM)]


def open_tasks(job: Json) -> int:
    """Returns how many tasks of an array have not ended; 0 for other jobs."""
    counts = table(job, "tasks")
    return sum(int(number(counts, state)) for state in counts if state not in ENDED_NAMES)


def help_lines(paint: Paint) -> list[str]:
    wide = max(len(keys) for keys, _ in HELP)
    lines = [f"{paint(keys, BOLD)}{' ' * (wide - len(keys))}  {does}" for keys, does in HELP]
    return [*lines, "", paint("press any key to go back", DIM)]


def body_lines(model: Model, size: Size, paint: Paint, clock: Clock) -> list[str]:
    if model.view is not View.HOSTS:
        return list_lines(model, size, paint, clock)
    own = text(model.facts.status, "self")
    notes = [
        line for host in model.facts.hosts for line in note_lines(host, own, clock, size.columns)
    ]
    hosts = len(model.rows())
    # The room left below the hosts shows jobs; if there are many hosts, that is a third of the
    # screen.
    share = max(LEAST_LINES + 1, size.lines - max(size.lines // 3, size.lines - hosts - 2))
    lines = list_lines(model, Size(size.columns, min(share, size.lines)), paint, clock)
    left = size.lines - len(lines) - 1
    if notes and left > 0:
        shown = notes if len(notes) <= left // 2 or len(notes) == 1 else notes[: left // 2]
        lines += ["", *shown]
        left = size.lines - len(lines) - 1
    if left >= LEAST_LINES - 1:
        lines += ["", *preview_lines(model, Size(size.columns, left), paint, clock)]
    return lines[: size.lines]


def preview_lines(model: Model, size: Size, paint: Paint, clock: Clock) -> list[str]:
    """Returns the first jobs, without a selection."""
    jobs = model.rows(View.JOBS)
    if not jobs:
        return [paint(nothing(model, View.JOBS), DIM)] if model.facts.has_come else []
    shown = jobs if len(jobs) < size.lines else jobs[: max(1, size.lines - 2)]
    lines = job_lines(shown, clock, Page(paint, size.columns))
    more = len(jobs) - len(shown)
    return [*lines, paint(f"… {more} more (2: jobs)", DIM)] if more else lines


def list_lines(model: Model, size: Size, paint: Paint, clock: Clock) -> list[str]:
    """Returns a heading, the rows around the selected one, and how many more there are."""
    rows = model.rows()
    if not rows:
        return [paint(nothing(model, model.view), DIM)] if model.facts.has_come else []
    page = size.lines - 1
    if len(rows) > page:
        page = max(1, page - 1)
    model.settle([name_of(row) for row in rows], page)
    place = model.place
    shown = rows[place.top : place.top + page]
    gutter = 0 if paint.on else 2
    lines = table_lines(model, shown, size.columns - gutter, paint, clock)
    lines = marked(lines, place.at - place.top + 1, paint, size.columns)
    above, below = place.top, len(rows) - place.top - len(shown)
    if above or below:
        parts = [f"{below} more"] if below else []
        parts += [f"{above} above"] if above else []
        lines.append(paint(f"… {', '.join(parts)}", DIM))
    return lines


def table_lines(
    model: Model, rows: list[Json], columns: int, paint: Paint, clock: Clock
) -> list[str]:
    page = Page(paint, columns, model.sorted_by)
    if model.view is View.HOSTS:
        return host_lines(rows, text(model.facts.status, "self"), page)
    return job_lines(rows, clock, page)


def marked(lines: Sequence[str], chosen: int, paint: Paint, columns: int) -> list[str]:
    """Shows the selected row in reverse video, or with a mark if there are no colours."""
    if not paint.on:
        return [f"{'> ' if at == chosen else '  '}{line}" for at, line in enumerate(lines)]
    plain = "".join(PAINTED.split(lines[chosen])[::2]) if chosen < len(lines) else ""
    return [
        paint(plain.ljust(columns), REVERSE) if at == chosen else line
        for at, line in enumerate(lines)
    ]


def nothing(model: Model, view: View) -> str:
    if not model.filter and model.facts.only_of and view is not View.HOSTS:
        queue = table(table(model.facts.status, "cluster"), "dispatcher")
        if view is View.JOBS:
            return none_of_yours(others_jobs(queue))
        waiting = f" (others: {number(queue, 'queued'):.0f})" if queue.get("queued") else ""
        return f"none of your jobs waits{waiting}"
    what = {View.HOSTS: "hosts", View.JOBS: "jobs", View.QUEUE: "jobs wait"}[view]
    return f"no {what} with {model.filter!r}" if model.filter else f"no {what}"

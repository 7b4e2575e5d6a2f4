"""`lbctl jobs`: what runs now and what ended recently, on every host."""

import argparse
import contextlib
import math
import shlex
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from lbd.cli.complaints import EXIT_FAILED
from lbd.cli.ctl.jobs.filters import (
    HEADING_OF,
    add_view,
    chosen_and_sorted,
    in_order,
    limited,
    waits,
)
from lbd.cli.ctl.verb import Verb, reading, say
from lbd.cli.program import Parser
from lbd.console.daemons import Daemons
from lbd.console.figures import Clock, duration
from lbd.console.job_acts import check_ids
from lbd.console.jobs import (
    ANSWER_S,
    SHORT,
    STATES,
    Filters,
    fetch,
    none_of_yours,
    not_shown,
    others_jobs,
    short_state,
    shown_command,
    shown_id,
    shown_ran,
    shown_state,
    unknown_host,
    why_no_queue,
)
from lbd.console.output import (
    DIM,
    GREEN,
    RED,
    YELLOW,
    Cell,
    Page,
    Paint,
    Row,
    cell,
    fit,
    lay_out,
    own_page,
    print_json,
    put,
    shortened,
    width,
)
from lbd.console.plain_commands import by_name, denied_to, split
from lbd.console.reply import Json, number, table, tables, text, texts, whole
from lbd.errors import LbdError
from lbd.local.json_socket import Refusal
from lbd.text.job_phrases import DISPATCHER, HELD
from lbd.text.one_line import one_line
from lbd.text.spelling import nearest
from lbd.text.units import counted

STATE_COLOURS = {
    "running": GREEN, "pending": YELLOW, "suspended": YELLOW, "failed": RED, "lost": RED,
    "done": DIM, "cancelled": DIM,
}  # fmt: skip
HEADER = ("ID", "NAME", "USER", "STATE", "FROM", "ON", "STARTED", ">AGE", ">RAN", ">CPU", ">EXIT",
          "COMMAND")  # fmt: skip
GO_FIRST = (  # dropped first on a narrow terminal
    "FROM", ">CPU", ">AGE", "STARTED", "NAME", ">RAN", ">EXIT", "USER",
)  # fmt: skip
TEXTS = ("NAME", "COMMAND", "REASON", "WAITS")  # of --format: they may be cut
TIMES = ("submitted", "started", "finished")
FLEXIBLE = ("ID", "STATE", "COMMAND", "WAITS")
NONE_NOW = "no jobs; --all shows those that have ended, too"
COMMAND_WIDTH, NAME_WIDTH, NAME_BRIEF = 60, 40, 20
PIPE_WIDTH = 2000  # of a command, if the output is not a terminal
TOO_LONG = "the list would be too long; name jobs by their ids (`lbctl jobs 1-500`)"
ASK_AGAIN = "ask again in some seconds; `lbctl status` shows whether they are up"


ELSEWHERE = {
    "--csv": "`lbctl history --csv` lists ended jobs, plain and queued; `--json` these",
}


def add_options(parser: Parser) -> None:
    parser.elsewhere = ELSEWHERE
    parser.add_argument(
        "--all", action="store_true", help="include ended jobs; implied by a --state of them"
    )
    add_view(parser, (*STATES, HELD))
    parser.add_argument("--tasks", action="store_true", help="one line per task of an array")
    parser.add_argument("ids", metavar="ID", nargs="*", help="only these jobs")


def jobs(daemons: Daemons, options: argparse.Namespace) -> int:
    queued, others = split(options.ids)
    check_ids(queued)
    reply: Json = {}
    found: list[Json] = []
    missing: list[str] = []
    absent: list[str] = []
    theirs = ""
    # an array as a whole is not on one host
    options.tasks = options.tasks or options.host is not None
    ended_too = options.all or bool(others) or Filters.of(options).wants_ended
    if others or not queued:
        reply = fetch(daemons, ended_too, tasks=options.tasks)
        found = tables(reply, "jobs")
        missing = texts(reply, "missing")
        if hosts := [name for name in missing if name != DISPATCHER]:
            say(f"these hosts did not answer: {', '.join(hosts)}; {ASK_AGAIN}")
        if DISPATCHER in missing:
            say(f"{why_no_queue(daemons)}: no jobs of the queue are shown; see `lbctl doctor`")
        for line in hidden_lines(reply):
            say(line)
    if others:
        denied = partial(denied_to, daemons)
        found, absent = chosen(found, others, denied, several=len(options.ids) > 1)
    if queued:
        asked: Json = {"op": "queue.jobs", "ids": queued, "tasks": options.tasks, "some": True}
        of_queue = daemons.lbm(asked, ANSWER_S)
        found, absent = [*found, *tables(of_queue, "jobs")], absent + texts(of_queue, "absent")
        theirs = others_left_out(of_queue)
    for why in absent:
        say(why)
    if not (queued or others) and ended_too:  # plain and queued ones, the newest last
        found = in_order(found, "submitted")
    found, left_out = limited(chosen_and_sorted(found, options, time.time()), options)
    if options.json:
        print_json([{key: job.get(key) for key in options.fields or job} for job in found])
    elif found:
        show(found, left_out, options)
    elif why := unknown_host(daemons, options.host):
        say(why)
    elif not missing:
        is_now = not (ended_too or queued or options.state)
        say(none_now(daemons, options, reply) if is_now else "no jobs")
    if theirs:
        say(theirs)
    is_whole = not absent if options.ids else not (missing or whole(reply, "unlisted"))
    return 0 if is_whole else EXIT_FAILED


def others_left_out(reply: Json) -> str:
    """Says how many jobs in ranges belong to others; "" if none do."""
    others = whole(reply, "others")
    return f"not shown, since not yours: {counted(others, 'job')}" if others else ""


def none_now(daemons: Daemons, options: argparse.Namespace, reply: Json) -> str:
    """Says that no job is shown, and what others have, which only administrators see."""
    only_of = text(reply, "only_of")
    if why := not_shown(only_of, options.user):
        return why
    if not only_of or Filters.of(options) not in (Filters(), Filters(user=only_of)):
        return NONE_NOW
    others = ""
    with contextlib.suppress(LbdError):  # no queue
        others = others_jobs(daemons.lbm({"op": "queue.status"}))
    return f"{none_of_yours(others)}; --all shows ended ones"


def show(found: list[Json], left_out: int, options: argparse.Namespace) -> None:
    """`options` are those of `add_view`."""
    page, fields = own_page(), options.fields
    if fields:
        rows: list[Row] = [[field_text(job, key, utc=options.utc) for key in fields]
                           for job in found]  # fmt: skip
        lines = page.table([key.upper() for key in fields], rows, (), TEXTS)
    else:
        key = (options.sort or "").removeprefix("-")
        page = replace(page, sorted_by=HEADING_OF.get(key, key.upper()))
        lines = job_lines(found, Clock(time.time(), options.utc), page)
    put(*(lines[1:] if options.no_header else lines))
    if left_out:
        say(f"{left_out} more; --limit N shows more")


def field_text(job: Json, key: str, *, utc: bool) -> str:
    """Times are in the form that --since takes; in JSON they are UNIX seconds."""
    if key in TIMES and not math.isnan(at := number(job, key)):
        return f"{datetime.fromtimestamp(at, UTC if utc else None):%Y-%m-%dT%H:%M:%S}"
    return shlex.join(shown_command(job)) if key == "command" else text(job, key)


def hidden_lines(reply: Json) -> list[str]:
    """Returns a line for each setting that hides jobs, with its hosts, and one if the list of the
    queue's jobs would have been too long."""
    settings = {host: str(why) for host, why in table(reply, "withheld").items()}
    lines = [
        f"{', '.join(host for host in settings if settings[host] == one)}: this host is not shown "
        f"everybody's jobs there ({one} there)"
        for one in sorted({*settings.values()})
    ]
    if count := whole(reply, "unlisted"):
        lines.append(f"{counted(count, 'older job')} of the queue left out: {TOO_LONG}")
    return lines


def chosen(
    found: list[Json], ids: list[str], denied: Callable[[str], str], *, several: bool = False
) -> tuple[list[Json], list[str]]:
    """Returns the named jobs in the order named, and what there is to say of names that are no
    ids. `denied`: says why the caller may not see a plain command. Raises Refusal for one unless it
    is one of several."""
    by_id, absent = {text(job, "id"): job for job in found}, list[str]()
    for name in ids:
        if name not in by_id:
            near = nearest(name, by_id)
            how = f'did you mean "{near}"?' if near else by_name("jobs --all", name)
            why = denied(name)
            absent.append(why or f"no job has the id {name!r}; {how}")
            if not several:
                raise Refusal(absent[0], "denied" if why else "missing")
    return [by_id[name] for name in ids if name in by_id], absent


def job_lines(found: list[Json], clock: Clock, page: Page) -> list[str]:
    """Returns a heading and a line for each job."""
    reasons = [waits(job, clock) for job in found]
    command_width = PIPE_WIDTH if page.columns is None else COMMAND_WIDTH
    rows: list[Row] = [job_row(job, clock, command_width) for job in found]
    header: tuple[str, ...] = HEADER
    if any(reasons):
        header = (*HEADER, "WAITS")
        rows = [(*row, why) for row, why in zip(rows, reasons, strict=True)]
    of_one_user = len({text(job, "user") for job in found}) == 1
    go_first: Sequence[str] = GO_FIRST
    if of_one_user:
        go_first = sorted(GO_FIRST, key=lambda title: title != "USER")
    if page.columns is not None and not of_one_user:
        rows, go_first = whose_jobs(header, rows, found, page)
    flexible: tuple[str, ...] = FLEXIBLE
    named = [bool(text(job, "name")) for job in found]
    if page.columns is not None and any(named):
        kept = ">EXIT" if of_one_user else "USER"  # goes only if there is no other way
        go_first = [*(title for title in go_first if title not in ("NAME", kept)), "NAME", kept]
        briefly = briefly_named(rows)
        titles, _ = fit(header, briefly, page.columns, page.may_go(go_first), FLEXIBLE)
        if "NAME" not in titles and page.sorted_by != "COMMAND":
            header, rows = name_or_command(header, rows, all(named))
            flexible = (*FLEXIBLE, "NAME", "NAME/COMMAND")
            go_first = [title for title in go_first if title != "NAME"]
        elif max(map(width, lay_out(header, rows, Paint(on=False)))) > page.columns:
            rows = briefly
    return page.table(header, rows, go_first, flexible)


def head_of(one: Json, clock: Clock, page: Page, indent: int) -> list[str]:
    """Returns the heading and the line of a job that is shown alone, and whose job it is if the
    terminal has no room for that column. `indent`: of the lines that follow."""
    lines = job_lines([one], clock, page)
    user = text(one, "user")
    return lines if "USER" in lines[0] or not user else [*lines, f"{'user':{indent}}{user}"]


def whose_jobs(
    header: Sequence[str], rows: list[Row], found: list[Json], page: Page
) -> tuple[list[Row], Sequence[str]]:
    """Returns the rows with arrays' states as short as it takes to show USER, and what goes first:
    whose jobs they are says more than how many of their tasks run, or have failed, or than why
    others wait."""

    def has_user(rows: list[Row], go_first: Sequence[str]) -> bool:
        assert page.columns is not None
        return "USER" in fit(header, rows, page.columns, page.may_go(go_first), FLEXIBLE)[0]

    for left_out in ((), ("running",), SHORT):
        shorter = without(left_out, rows, found)
        if has_user(shorter, GO_FIRST):
            return shorter, GO_FIRST
    return shorter, [*(title for title in GO_FIRST if title != "USER"), "WAITS", "USER"]


def without(left_out: Collection[str], rows: list[Row], found: list[Json]) -> list[Row]:
    """Returns the rows with arrays' short states without the counts of these."""
    at = HEADER.index("STATE")
    return [
        (*row[:at], replace(cell(row[at]), short=short_state(job, left_out)), *row[at + 1 :])
        for row, job in zip(rows, found, strict=True)
    ]


def briefly_named(rows: list[Row]) -> list[Row]:
    """Returns the rows with shorter names: one long name takes the room of all others' columns."""
    at = HEADER.index("NAME")
    return [(*row[:at], shortened(cell(row[at]).text, NAME_BRIEF), *row[at + 1 :]) for row in rows]


def name_or_command(
    header: tuple[str, ...], rows: list[Row], are_named: bool
) -> tuple[tuple[str, ...], list[Row]]:
    """Returns the table with one column for the name, or the command of a job without one: people
    name their jobs to tell them apart."""
    name, command = HEADER.index("NAME"), HEADER.index("COMMAND")
    title = "NAME" if are_named else "NAME/COMMAND"

    def merged(row: Row, middle: Cell | str) -> Row:
        return [*row[:name], *row[name + 1 : command], middle, *row[command + 1 :]]

    shown = [merged(row, row[name] or row[command]) for row in rows]
    return (*header[:name], *header[name + 1 : command], title, *header[command + 1 :]), shown


def job_row(job: Json, clock: Clock, command_width: int) -> Row:
    state = text(job, "state")
    return (
        id_cell(job),
        one_line(text(job, "name"), NAME_WIDTH),
        text(job, "user"),
        Cell(shown_state(job), STATE_COLOURS.get(state, ""), short_state(job)),
        text(job, "origin"),
        text(job, "host"),
        clock.time_of_day(number(job, "started")),
        duration(clock.now_s - number(job, "submitted")),
        shown_ran(job, clock.now_s),
        duration(number(job, "cpu_s")),
        text(job, "exit_status"),
        command_cell(shown_command(job), command_width),
    )


def id_cell(job: Json) -> Cell:
    """The id, which is never cut: where room is short, only the first of an array's tasks."""
    whole = shown_id(job)
    array, _, tasks = whole.partition("_[")
    return Cell(whole, short=f"{array}_[{tasks.partition(',')[0]},…]" if "," in tasks else whole)


def command_cell(words: list[str], columns: int) -> Cell:
    """Where a command would be cut, its paths lose their directories first."""
    whole, brief = shlex.join(words), " ".join(map(brief_word, words))
    text = whole if len(whole) <= columns else brief
    return Cell(one_line(text, columns), brief=one_line(brief, columns))


def brief_word(word: str) -> str:
    """Returns a word of a command as a shell reads it, an absolute path as `…/name`."""
    folder, _, name = word.rpartition("/")
    is_long = word.startswith("/") and name and folder
    return f"…/{shlex.quote(name)}" if is_long else shlex.quote(word)


EXAMPLES = (
    "lbctl jobs --user ann --state running     ann's running jobs",
    "lbctl jobs --state failed --since 1d      failed in the last day",
    "lbctl jobs --sort=-cpu_s --limit 10       the ten with the most CPU time",
    "lbctl jobs --format id,state,command      only these columns",
    "lbctl jobs --format id --no-header        only ids, for a script",
)

VERBS = {"jobs": Verb(reading(jobs), add_options, EXAMPLES)}

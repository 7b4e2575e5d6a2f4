"""`lbctl history`: the ended jobs of the whole cluster, from the accounting of every host; and who
drained which host, when and why."""

import argparse
import time
from collections.abc import Collection

from lbd.cli.complaints import EXIT_FAILED
from lbd.cli.ctl.exports.spreadsheet import csv_name, csv_text, print_csv
from lbd.cli.ctl.jobs.filters import Period, add_view, chosen_and_sorted
from lbd.cli.ctl.jobs.listing import field_text, show
from lbd.cli.ctl.verb import Verb, complain_of, reading, say
from lbd.cli.program import Parser
from lbd.console.daemons import Daemons
from lbd.console.figures import Clock
from lbd.console.jobs import (
    HISTORY_STATES,
    Filters,
    fetch,
    not_shown,
    unknown_host,
    why_no_queue,
)
from lbd.console.output import own_page, print_json, put, wrapped
from lbd.console.reply import Json, number, tables, text, texts
from lbd.console.usage_hosts import gather, of_host
from lbd.dispatch.core.job_selection import is_selector
from lbd.errors import ConfigError, LbdError
from lbd.model import ENDED_NAMES, JobState
from lbd.text.job_phrases import DISPATCHER
from lbd.text.units import counted

USUAL_LIMIT = 100
CSV = (
    "id", "name", "user", "state", "host", "origin", "submitted", "started", "finished", "slots",
    "slot_hours", "cpu_s", "exit_status", "command",
)  # fmt: skip
SORTED = 10_000  # read at least so many of each host if --sort is given


def add_options(parser: Parser) -> None:
    add_view(parser, HISTORY_STATES)
    parser.add_argument("--all", action="store_true",
                        help="also queued jobs that are in no host's record: those that "
                             "ended before any host began them or were lost with it")  # fmt: skip
    parser.add_argument("--drains", action="store_true",
                        help="list drains of hosts instead: who, when and why")  # fmt: skip
    parser.add_argument("--csv", action="store_true",
                        help="one line a job with its slot-hours, as CSV")  # fmt: skip


def history(daemons: Daemons, options: argparse.Namespace) -> int:
    if options.drains:
        return past_drains(daemons, options)
    limit: int = USUAL_LIMIT if options.limit is None else options.limit
    filters, now_s = Filters.of(options), time.time()
    period = Period.of(options, now_s)
    question: dict[str, object] = {
        "user": filters.user or "",
        "name": filters.name or "",
        "states": sorted(filters.states or ()),
        "ran_on": filters.host or "",
        "since": period.since_s or 0.0,
        "until": period.until_s or 0.0,
    }
    # the latest may not be the first in that order
    each = max(limit, SORTED) if options.sort else limit
    gathered = gather(daemons, lambda host: of_host(daemons, host, question, each))
    status = complain_of(gathered.missing)
    complain_of_withheld({host: one.withheld for host, one in gathered.answers.items()})
    found = [job for one in gathered.answers.values() for job in one.jobs]
    unrecorded: list[Json] = []
    if options.all or options.csv:
        unrecorded, why = not_on_record(daemons, {text(job, "id") for job in found})
        unrecorded = chosen_and_sorted(unrecorded, options, now_s)
        if options.all and why:
            say(f"{why}: jobs that are in no host's record are not shown; see `lbctl doctor`")
            status = EXIT_FAILED
    if options.all:
        found += unrecorded
    found.sort(key=lambda job: number(job, "finished"))
    found = chosen_and_sorted(found, options, now_s)
    more = len(found) > limit or any(one.more for one in gathered.answers.values())
    found = found[:limit] if options.sort else found[max(0, len(found) - limit) :]
    if options.json:
        print_json([{key: job.get(key) for key in options.fields or job} for job in found])
    elif found:
        if options.csv:
            print_csv(CSV, (csv_row(job, utc=options.utc) for job in found))
        else:
            show(found, 0, options)
        if more:
            which = "first" if options.sort else "latest"
            say(f"only the {which} {limit}; --limit N shows more")
    else:
        only_of = next((one.only_of for one in gathered.answers.values()), "")
        hidden = not_shown(only_of, options.user)
        say(hidden or unknown_host(daemons, options.host) or "no jobs")
    if unrecorded and not options.all:
        say(f"not in this list, since they are in no host's record: "
            f"{counted(len(unrecorded), 'queued job')}; --all lists them, too")  # fmt: skip
    if not (options.json or options.csv or options.fields) and filters in (
        Filters(),
        Filters(host=filters.host),
    ):
        drained = drains(daemons, options, now_s)
        if drained:
            put(*([""] if found else []), *drain_lines(drained, options, now_s))
    return status


def not_on_record(daemons: Daemons, recorded: Collection[str]) -> tuple[list[Json], str]:
    """Returns the ended jobs of the queue that no host has on record, since none began them or they
    were lost with their host; and why these are not known, or "". `recorded`: ids on record."""
    try:
        reply = fetch(daemons, ended_too=True, tasks=True, of_hosts=False)
    except LbdError as problem:
        return [], str(problem)
    found = [
        job
        for job in tables(reply, "jobs")
        if is_selector(text(job, "id"))
        and text(job, "state") in ENDED_NAMES
        and (not job.get("started") or (is_lost(job) and job["id"] not in recorded))
    ]
    is_missing = DISPATCHER in texts(reply, "missing")
    return found, why_no_queue(daemons) if is_missing else ""


def is_lost(job: Json) -> bool:
    return text(job, "state") == JobState.LOST.value


def csv_row(job: Json, *, utc: bool) -> list[str]:
    held_s = number(job, "finished") - number(job, "started")
    figures = {
        "slot_hours": held_s * number(job, "slots") / 3600.0,
        **{key: job.get(key) for key in ("slots", "cpu_s", "exit_status")},
    }
    return [
        csv_text(figures[key]) if key in figures else csv_name(field_text(job, key, utc=utc))
        for key in CSV
    ]


def past_drains(daemons: Daemons, options: argparse.Namespace) -> int:
    others = options.user, options.name, options.state, options.fields, options.sort, options.csv
    if any((*others, options.all)):
        raise ConfigError("--drains can be combined only with --host, --since, --limit and --utc")
    now_s = time.time()
    found = drains(daemons, options, now_s)
    if options.json:
        print_json(list(found))
    elif found:
        put(*drain_lines(found, options, now_s))
    else:
        say("no drains")
    return 0


def drains(daemons: Daemons, options: argparse.Namespace, now_s: float) -> list[Json]:
    """Returns the latest drains, oldest first; a current drain has no end."""
    period = Period.of(options, now_s)
    begin_s, end_s = period.since_s or 0.0, period.until_s or now_s
    found = [
        one
        for one in tables(daemons.lim({"op": "drains"}), "drains")
        if options.host in (None, text(one, "host"))
        and (one.get("until") is None or number(one, "until") >= begin_s)
        and number(one, "since") <= end_s
    ]
    found.sort(key=lambda one: number(one, "since"))
    limit = USUAL_LIMIT if options.limit is None else options.limit
    return found[max(0, len(found) - limit) :]


def drain_lines(found: list[Json], options: argparse.Namespace, now_s: float) -> list[str]:
    page, clock = own_page(), Clock(now_s, options.utc)
    return [line for one in found for line in wrapped(drain_line(one, clock), page.columns, "  ")]


def drain_line(drain: Json, clock: Clock) -> str:
    """Formats `h3: drained by ann 17:30, until 18:02 by bob: replace disk sdb`."""
    said = f"{text(drain, 'host')}: drained by {text(drain, 'by')}"
    said += f" {clock.time_of_day(number(drain, 'since'))}"
    if drain.get("until") is not None:
        end = clock.time_of_day(number(drain, "until"))
        said += f", until {end} by {text(drain, 'until_by')}"
    reason = text(drain, "reason")
    return f"{said}: {reason}" if reason else said


def complain_of_withheld(settings: dict[str, str]) -> None:
    """`settings` is by host; "" means that the host withholds nothing."""
    for setting in sorted({*settings.values()} - {""}):
        hosts = ", ".join(host for host, one in settings.items() if one == setting)
        say(f"{hosts}: only jobs submitted from here are shown ({setting} there)")


EXAMPLES = (
    "lbctl history --since 1d                   the last day's latest 100",
    "lbctl history --since yesterday --until today",
    "lbctl history --state failed --user ann    ann's failed jobs",
    "lbctl history --host h2 --limit 1000       what ran on h2",
    "lbctl history --since today --csv --limit 100000 >today.csv   with slot-hours",
    "lbctl history --all --since today          also those that never began",
    "lbctl history --drains                     who drained which host, when and why",
)
ABOUT = (
    "List ended jobs, as far as each host shows them here. A queued job that ended before any host "
    "began it is in no host's record: `--all` lists it, too."
)
VERBS = {"history": Verb(reading(history), add_options, EXAMPLES, ABOUT)}

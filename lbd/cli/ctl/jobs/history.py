"""`lbctl history`: the ended jobs of the whole cluster, from the accounting of every host; and who
drained which host, when and why."""

import argparse
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from lbd.cli.complaints import EXIT_FAILED
from lbd.cli.ctl.exports.spreadsheet import check_form, csv_name, csv_text, print_csv
from lbd.cli.ctl.jobs.filters import Period, add_view, chosen_and_sorted
from lbd.cli.ctl.jobs.listing import field_text, show
from lbd.cli.ctl.jobs.off_record import CHECKPOINT, OffRecord, off_record
from lbd.cli.ctl.verb import Verb, complain_of, reading, say
from lbd.cli.program import Parser
from lbd.console.daemons import Daemons
from lbd.console.figures import Clock
from lbd.console.jobs import HISTORY_STATES, Filters, not_shown, unknown_host
from lbd.console.output import own_page, print_json, put, wrapped
from lbd.console.record_gaps import gap_lines, gaps_within, late_records
from lbd.console.reply import Json, number, tables, text
from lbd.console.usage_hosts import Gathered, OfHost, gather, of_host
from lbd.errors import ConfigError
from lbd.model import JobState
from lbd.text.units import counted

USUAL_LIMIT = 100
NONE_BEGUN = "no jobs; --all also lists queued jobs that no host began"
CSV = (
    "id", "name", "user", "state", "host", "origin", "submitted", "started", "finished", "slots",
    "slot_hours", "cpu_s", "exit_status", "command",
)  # fmt: skip
SORTED = 10_000  # read at least so many of each host if --sort is given


def add_options(parser: Parser) -> None:
    add_view(parser, HISTORY_STATES)
    parser.add_argument("--all", action="store_true",
                        help="also queued jobs that are in no host's record: those that "
                             "ended before any host began them, were lost with it, or could not "
                             "be recorded")  # fmt: skip
    parser.add_argument("--drains", action="store_true",
                        help="list drains of hosts instead: who, when and why")  # fmt: skip
    parser.add_argument("--csv", action="store_true",
                        help="one line a job with its slot-hours, as CSV")  # fmt: skip


def history(daemons: Daemons, options: argparse.Namespace) -> int:
    check_form(options)
    if options.drains:
        return past_drains(daemons, options)
    limit: int = USUAL_LIMIT if options.limit is None else options.limit
    filters, now_s = Filters.of(options), time.time()
    period = Period.of(options, now_s)
    question = question_of(filters, period)
    # the latest may not be the first in that order
    each = max(limit, SORTED) if options.sort else limit
    gathered = gather(daemons, lambda host: of_host(daemons, host, question, each))
    status = complain_of(gathered.missing)
    complain_of_left_out(gathered.answers)
    found = [job for one in gathered.answers.values() for job in one.jobs]
    off = OffRecord()
    if options.all or options.csv:
        off = off_record(
            daemons, gathered.own, gathered.answers, found,
            in_list(options, now_s, end_of_latest(found, limit)),
        )  # fmt: skip
        status = complain_of(off.silent) or status
        for line in off.unsure:
            say(line)
        if options.all and off.queue_trouble:
            say(f"{off.queue_trouble}: jobs that are in no host's record are not shown; "
                "see `lbctl doctor`")  # fmt: skip
            status = EXIT_FAILED
    if options.all:
        found += off.jobs
    found.sort(key=lambda job: number(job, "finished"))
    found = chosen_and_sorted(found, options, now_s)
    more = len(found) > limit or any(one.more for one in gathered.answers.values())
    found = found[:limit] if options.sort else found[max(0, len(found) - limit) :]
    if options.json:
        print_json([{key: job.get(key) for key in options.fields or job} for job in found])
    elif options.csv:  # a script reads the heading, also of a quiet week
        print_csv(CSV, (csv_row(job, utc=options.utc) for job in found))
    elif found:
        show(found, 0, options)
    if found and more and not options.json:
        which = "first" if options.sort else "latest"
        say(f"only the {which} {limit}; --limit N shows more")
    elif not (found or options.json):
        only_of = next((one.only_of for one in gathered.answers.values()), "")
        hidden = not_shown(only_of, options.user)
        none = "no jobs" if options.all or options.csv else NONE_BEGUN
        say(hidden or unknown_host(daemons, options.host) or none)
    complain_of_off_record(off.jobs, found, options)
    is_cut = not options.sort and (more or period.since_s is None)
    complain_of_gaps(gathered, found if is_cut else (), period, Clock(now_s, options.utc))
    if not (options.json or options.csv or options.fields) and filters in (
        Filters(),
        Filters(host=filters.host),
    ):
        drained = drains(daemons, options, now_s)
        if drained:
            put(*([""] if found else []), *drain_lines(drained, options, now_s))
    return status


def question_of(filters: Filters, period: Period) -> dict[str, object]:
    """Returns what each host is asked for."""
    return {
        "user": filters.user or "",
        "name": filters.name or "",
        "states": sorted(filters.states or ()),
        "ran_on": filters.host or "",
        "since": period.since_s or 0.0,
        "until": period.until_s or 0.0,
    }


def end_of_latest(found: Sequence[Json], limit: int) -> float:
    """Returns the time before which jobs have ended that a list of the latest has no room for."""
    ends = sorted(number(job, "finished") for job in found if job.get("finished"))
    return ends[-limit] if 0 < limit <= len(ends) else -math.inf


def in_list(
    options: argparse.Namespace, now_s: float, latest_s: float
) -> Callable[[Iterable[Json]], list[Json]]:
    """Returns what picks the jobs for the list; `latest_s`: as `end_of_latest` says."""

    def picked(jobs: Iterable[Json]) -> list[Json]:
        chosen = chosen_and_sorted(jobs, options, now_s)
        return [job for job in chosen if options.sort or not number(job, "finished") < latest_s]

    return picked


def complain_of_gaps(
    gathered: Gathered[OfHost], listed: Sequence[Json], period: Period, clock: Clock
) -> None:
    """Says what hosts could not record of that time or, of a list of the latest, since the first of
    these jobs, and whose record begins later. Commands that were submitted within that time have
    ended later."""
    begin_s = max(period.since_s or 0.0, *(number(job, "finished") for job in listed[:1]), 0.0)
    gaps = {
        host: gaps_within(one.gaps, begin_s, math.inf) for host, one in gathered.answers.items()
    }
    begun = {host: one.record_since for host, one in gathered.answers.items()}
    until_s = period.until_s or clock.now_s
    for line in (*gap_lines(gaps, clock), *late_records(begun, begin_s, until_s, clock)):
        say(line)


def complain_of_off_record(
    jobs: Sequence[Json], listed: Sequence[Json], options: argparse.Namespace
) -> None:
    """Says by what a complete list and the sums of `lbctl stats` differ. `jobs`: of the queue, that
    are in no host's record."""
    if not (options.all or options.csv):
        return
    ends = {end_of(job) for job in jobs} if options.all else ()
    kinds = {
        "queued job": ("that no host began or recorded", lambda job: end_of(job) in ends),
        "stop": ("at a checkpoint", lambda job: text(job, "state") == CHECKPOINT),
        "command": ("whose end nobody saw", is_open),
    }
    counts = {noun: sum(map(belongs, listed)) for noun, (_, belongs) in kinds.items()}
    if parts := [f"{counted(n, noun)} {kinds[noun][0]}" for noun, n in counts.items() if n]:
        say(f"in this list, but not in `lbctl stats`: {', '.join(parts)}")
    if jobs and not options.all:
        say(f"not in this list, since no host began or recorded them: "
            f"{counted(len(jobs), 'queued job')}; --all lists them, too")  # fmt: skip


def end_of(job: Json) -> tuple[str, float]:
    """Returns what tells the end of a job from others of the same id."""
    return text(job, "id"), number(job, "finished")


def is_open(job: Json) -> bool:
    return text(job, "state") == JobState.UNKNOWN.value and not job.get("finished")


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


def complain_of_left_out(answers: Mapping[str, OfHost]) -> None:
    for setting in sorted({one.withheld for one in answers.values()} - {""}):
        hosts = ", ".join(host for host, one in answers.items() if one.withheld == setting)
        say(f"{hosts}: only jobs submitted from here are shown ({setting} there)")
    if hosts := ", ".join(host for host, one in answers.items() if one.is_ahead):
        say(f"{hosts}: jobs that ended more than an hour ahead of the clock here are not shown; "
            "compare the hosts' clocks")  # fmt: skip


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
    "began it, or that its host could not record, is in no host's record: `--all` lists it, too, "
    "as the queue knows it. A line says how many commands a host could not record, and when they "
    "ended."
)
VERBS = {"history": Verb(reading(history), add_options, EXAMPLES, ABOUT)}

"""`lbctl stats`: response time, waiting, slowdown and moves of the cluster's ended jobs."""

import argparse
import math
import time
from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise

from lbd.cli.ctl.exports.spreadsheet import check_form, csv_name, csv_text, print_csv
from lbd.cli.ctl.verb import Verb, complain_of, reading, say
from lbd.cli.past_time import past_time
from lbd.console.daemons import Daemons
from lbd.console.figures import SLOWDOWN, Clock, decimal, duration, share
from lbd.console.output import (
    BOLD,
    DIM,
    Cell,
    Page,
    Row,
    own_page,
    print_json,
    put,
    wrapped,
)
from lbd.console.record_gaps import gap_lines, gaps_within, late_records, lost_in
from lbd.console.reply import Json, number, tables, text
from lbd.console.usage_hosts import Gathered, ask_host, gather
from lbd.errors import ConfigError, PeerError
from lbd.lbm.usage.measures import GROUPS_MAX, SIZE_S_MIN, Measure, measure_of_row, merged
from lbd.local.json_socket import Refusal
from lbd.text.units import counted, duration_text

DAY_S = 86400.0
SHOWN = 12  # rows of each kind
KINDS = {"by_command": "command", "by_user": "user", "by_host": "host"}
HEADER = (">JOBS", ">FAILED", ">RESPONSE", ">MEDIAN", ">P95", ">RESP SD", ">WAITING", ">WAIT P95",
          ">WAIT SD", ">SLOWDOWN", ">SLOW P95", ">SLOW SD", ">MOVED", ">WRONG", ">RAN",
          ">CPU")  # fmt: skip
GO_FIRST = (
    ">SLOW SD", ">SLOW P95", ">WAIT SD", ">RESP SD", ">WRONG", ">WAIT P95", ">RAN", ">CPU",
    ">MOVED",
    ">SLOWDOWN", ">FAILED", ">MEDIAN", ">P95",
)  # fmt: skip
LEGENDS = (  # of the columns whose figures alarm those who do not know them
    ("SLOWDOWN", f"SLOWDOWN: {SLOWDOWN}"),
    ("WRONG", "WRONG: sent to a host that was no less busy; high in bursts, as loads lag behind; "
     "if it rises over days, see lbctl advise"),
)  # fmt: skip
MEDIAN, TAIL = 0.5, 0.95
EXAMPLES = (
    "lbctl stats                       the last day, all hosts",
    "lbctl stats --since 7d --user ann",
    "lbctl stats --since 2026-11-01 --until 2026-12-01 --csv >november.csv",
    "lbctl stats --since 30d --json | jq '.by_command[] | [.command, .mean_response_s]'",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", metavar="TIME", type=span, default=DAY_S,
                        help="only jobs that ended since then: 7d, monday, 'last week', 14:35 (the "
                             "last one); default 1d")  # fmt: skip
    parser.add_argument(
        "--until",
        metavar="TIME",
        type=past_time,
        help="only jobs that ended before then; 14:35 is the next one after --since, if the last "
        "was before it; default now",
    )
    parser.add_argument("--csv", action="store_true", help="all rows and figures, as CSV")
    parser.add_argument("--user", metavar="U", default="", help="only that user's jobs")


def span(given: str) -> float:
    """Parses a past time. Returns the seconds from then to now."""
    now_s = time.time()
    found = now_s - past_time(given).unix_s(now_s)
    if found <= 0:
        raise argparse.ArgumentTypeError(f"{given!r} is in the future")
    return found


def stats(daemons: Daemons, options: argparse.Namespace) -> int:
    check_form(options)
    until = now_s = time.time()
    since = max(0.0, now_s - options.since)
    asked = {"since": since, "user": options.user}
    if options.until is not None:
        until = asked["until"] = options.until.end_s(since, now_s)
        if until <= since:
            raise ConfigError("--since is later than --until")
    found = gather(daemons, lambda host: ask_host(daemons, "stats", host, **asked))
    if options.user and whose(found) != options.user:
        raise Refusal(
            f"--user {options.user}: only administrators can see other users' jobs", "denied"
        )
    status = complain_of(found.missing)
    gaps = gaps_of(found, since, until)
    troubles = {host: text(answer, "trouble") for host, answer in found.answers.items()}
    for line in gap_lines(gaps, Clock(now_s), troubles):
        say(line)
    total, groups = summed(found)
    begun = {host: number(answer, "record_since") for host, answer in found.answers.items()}
    late = late_records(begun, since, until, Clock(now_s))
    if options.json:
        print_json(as_json(found, total, groups, gaps, since, until))
    elif options.csv:
        print_sums(total, groups, since, until)
    elif total.jobs:
        said = said_of(options.since, now_s, until)
        changes = changes_lines(found, since, until, Clock(now_s))
        then = "" if changes else algorithm_before(found, since)
        put(*stats_lines(found, total, groups, said, own_page(), then), *changes, *late)
        late = []
    else:
        of = f" of {options.user}" if options.user else " of yours" if whose(found) else ""
        record = " on record that" if late else ""  # older ones may have been dropped
        say(f"no job{of}{record} ended {said_of(options.since, now_s, until)}")
    for line in () if options.json else late:
        say(line)
    return status


def said_of(span_s: float, now_s: float, until: float) -> str:
    """Returns when the jobs ended, in words."""
    if until == now_s:
        return f"within {duration_text(span_s)}"
    ends = [datetime.fromtimestamp(round(at)) for at in (now_s - span_s, until)]
    form = "%Y-%m-%d %H:%M:%S" if any(end.second for end in ends) else "%Y-%m-%d %H:%M"
    since, before = (f"{end:{form}}" for end in ends)
    return f"from {since} until {before}"


def changes_of(found: Gathered[Json], since: float, until: float) -> list[Json]:
    """Returns the changes of algorithm in that time, as known to this host."""
    known = tables(found.answers.get(found.own, {}), "algorithms")
    return [
        {"at": number(one, "since"), "was": text(before, "algorithm"),
         "algorithm": text(one, "algorithm")}
        for before, one in pairwise(known)
        if since < second_of(one) < until
    ]  # fmt: skip


def algorithm_before(found: Gathered[Json], at: float) -> str:
    """Returns the algorithm at that time, as known to this host; "" if it is not known."""
    known = tables(found.answers.get(found.own, {}), "algorithms")
    before = [text(one, "algorithm") for one in known if second_of(one) <= at]
    return before[-1] if before else ""


def second_of(change: Json) -> float:
    """Returns when it was, as it is shown: people give just these times to --since and --until."""
    at = number(change, "since")
    return at if math.isnan(at) else math.floor(at)


def changes_lines(found: Gathered[Json], since: float, until: float, clock: Clock) -> list[str]:
    return [
        f"{clock.time_of_day(number(one, 'at'))}: algorithm {one['was']} → {one['algorithm']}"
        for one in changes_of(found, since, until)
    ]


def print_sums(
    total: Measure, groups: dict[str, dict[str, Measure]], since: float, until: float
) -> None:
    """Prints one row for all jobs, and for each command, user and host."""
    period = [datetime.fromtimestamp(at).isoformat(timespec="seconds") for at in (since, until)]
    rows = [("all", "", total)]
    rows += [(name, key, one) for kind, name in KINDS.items() for key, one in groups[kind].items()]
    print_csv(
        ["by", "name", *measure_json(total), "since", "until"],
        (
            [by, csv_name(key), *map(csv_text, measure_json(measure).values()), *period]
            for by, key, measure in rows
        ),
    )


def summed(found: Gathered[Json]) -> tuple[Measure, dict[str, dict[str, Measure]]]:
    """Adds up the figures of all hosts. Raises PeerError."""
    total = Measure()
    for answer in found.answers.values():
        total.add(measure_of_row(answer.get("all"))[1])
    return total, {
        kind: merged(rows_of(answer, kind) for answer in found.answers.values()) for kind in KINDS
    }


def rows_of(answer: Json, kind: str) -> dict[str, Measure]:
    rows = answer.get(kind)
    if not isinstance(rows, list):
        raise PeerError("the daemon's answer contains no figures; is it another version?")
    return dict(map(measure_of_row, rows))


def whose(found: Gathered[Json]) -> str:
    """Returns the user whose jobs are counted; "" for all users'."""
    return next((text(answer, "user") for answer in found.answers.values()), "")


def gaps_of(found: Gathered[Json], since: float, until: float) -> dict[str, list[Json]]:
    """Returns what is not on record of that time, by host."""
    return {
        host: gaps_within(tables(answer, "gaps"), since, until)
        for host, answer in found.answers.items()
    }


def as_json(
    found: Gathered[Json], total: Measure, groups: dict[str, dict[str, Measure]],
    gaps: dict[str, list[Json]], since: float, until: float,
) -> Json:  # fmt: skip
    return {
        "since": since,
        "until": until,
        "user": whose(found) or None,
        "algorithm": found.algorithm,
        "algorithm_changes": changes_of(found, since, until),
        "hosts": sorted(found.answers),
        "missing": sorted(found.missing),
        "record_since": {host: one.get("record_since") for host, one in found.answers.items()},
        "not_recorded": sum(map(lost_in, gaps.values())),
        "gaps": [{"host": host, **gap} for host in sorted(gaps) for gap in gaps[host]],
        **measure_json(total),
        **{
            kind: [{name: key, **measure_json(one)} for key, one in groups[kind].items()]
            for kind, name in KINDS.items()
        },
        "left_out": {kind: left_out(total, groups[kind]) for kind in KINDS},
    }


def left_out(total: Measure, groups: dict[str, Measure]) -> int:
    """Returns the jobs in no group of a kind: hosts report only the most frequent groups, and some
    jobs have none."""
    return total.jobs - sum(one.jobs for one in groups.values())


def withheld(answers: Iterable[Json], kind: str) -> int:
    """Returns how many of these jobs are in groups that hosts left out of their answers. This is an
    upper bound, because some jobs have no group."""
    found = 0
    for answer in answers:
        rows = rows_of(answer, kind)
        if len(rows) >= GROUPS_MAX:
            found += left_out(measure_of_row(answer.get("all"))[1], rows)
    return found


def measure_json(measure: Measure) -> Json:
    shown: Json = {"jobs": measure.jobs, "failed": measure.failed}
    shown |= {"ran_s": measure.ran_s, "cpu_s": measure.cpu_s}
    for name, moments, unit in (
        ("response", measure.response, "_s"),
        ("waiting", measure.waiting, "_s"),
        ("slowdown", measure.slowdown, ""),
    ):
        shown[f"mean_{name}{unit}"] = moments.mean
        shown[f"sd_{name}{unit}"] = moments.sd
        shown[f"median_{name}{unit}"] = moments.percentile(MEDIAN)
        shown[f"p95_{name}{unit}"] = moments.percentile(TAIL)
    shown["transferred"] = measure.transferred
    shown["wrong_transfers"] = measure.wrong_transfers
    shown["slot_hours"] = measure.slot_s / 3600.0
    return shown


def stats_lines(
    found: Gathered[Json],
    total: Measure,
    groups: dict[str, dict[str, Measure]],
    when: str,
    page: Page,
    then: str = "",
) -> list[str]:
    """Returns one table with sections, so that all columns are aligned. `then`: the algorithm in
    all that time, if it is known."""
    user = whose(found)
    hosts = counted(len(found.answers), "host")
    said = (
        f"jobs{f' of {user}' if user else ''} that ended {when}, by the records of {hosts}"
        f"; algorithm {f'then {then}, ' if then not in ('', found.algorithm) else ''}"
        f"now {found.algorithm}"
    )
    rows, notes = [row_of("all", total)], {}
    for kind, name in KINDS.items():
        rows += [blank_row(""), blank_row(f"{name.upper()}S")]
        rows += [row_of(key, measure) for key, measure in list(groups[kind].items())[:SHOWN]]
        lines = notes_of(name, total, groups[kind], withheld(found.answers.values(), kind))
        notes[len(rows)] = [line for note in lines for line in wrapped(note, page.columns, "  ")]
    lines = [*wrapped(said, page.columns), ""]
    table = page.table(("", *HEADER), rows, GO_FIRST, ("",))
    for at, line in enumerate(table):
        lines += [line, *(page.paint(note, DIM) for note in notes.get(at, []))]
    legends = [legend for title, legend in LEGENDS if title in table[0]]
    if (unknown := without_slowdown(total)) and "SLOWDOWN" in table[0]:
        legends.append(unknown)
    shown = [line for legend in legends for line in wrapped(legend, page.columns, "  ")]
    return [*lines, "", *(page.paint(line, DIM) for line in shown)]


def without_slowdown(total: Measure) -> str:
    """Says how many jobs have no slowdown; "" if all have one."""
    count = total.response.count - total.slowdown.count
    if count <= 0:
        return ""
    of = "this job" if total.jobs == 1 else f"{count} of these {total.jobs} jobs"
    least = duration(SIZE_S_MIN)
    return f"SLOWDOWN: without {of}, whose CPU time is below {least} or not known"


def notes_of(name: str, total: Measure, groups: dict[str, Measure], cut_off: int) -> list[str]:
    """Returns notes on what the rows of a kind leave out."""
    notes = []
    if len(groups) > SHOWN:
        notes.append(f"… {len(groups) - SHOWN} more (--json)")
    if cut_off:
        notes.append(
            f"{cut_off} jobs of other {name}s are not included: each host reports only its "
            f"{GROUPS_MAX} most frequent ones"
        )
    if none := left_out(total, groups) - cut_off:
        notes.append(
            f"{counted(none, 'plain command')} ended before starting: cancelled while waiting, or "
            "refused"
            if name == "host"
            else f"{counted(none, 'job')} without a {name}"
        )
    return notes


def blank_row(title: str) -> Row:
    return (Cell(title, BOLD), *[""] * len(HEADER))


def row_of(key: str, measure: Measure) -> Row:
    return (
        key,
        str(measure.jobs),
        str(measure.failed),
        duration(measure.response.mean),
        duration(measure.response.percentile(MEDIAN)),
        duration(measure.response.percentile(TAIL)),
        duration(measure.response.sd),
        duration(measure.waiting.mean),
        duration(measure.waiting.percentile(TAIL)),
        duration(measure.waiting.sd),
        decimal(measure.slowdown.mean),
        decimal(measure.slowdown.percentile(TAIL)),
        decimal(measure.slowdown.sd),
        share(measure.transferred),
        share(measure.wrong_transfers),
        duration(measure.ran_s),
        duration(measure.cpu_s if measure.cpu_s > 0 else math.nan),  # 0: of none known
    )


VERBS = {"stats": Verb(reading(stats), add_options, EXAMPLES)}

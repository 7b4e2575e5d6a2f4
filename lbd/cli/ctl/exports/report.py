"""`lbctl report`: a picture of the cluster over a day or a month, as one HTML file."""

import argparse
import importlib.util
import time
from pathlib import Path

from lbd.cli.ctl import advise, advise_rules
from lbd.cli.ctl.stats import DAY_S, gaps_of, measure_json, span, summed, whose
from lbd.cli.ctl.verb import Verb, reading
from lbd.cli.program import Parser, add_utc
from lbd.console.daemons import Daemons
from lbd.console.figures import Clock
from lbd.console.output import cell, print_json, put
from lbd.console.past_loads import ask_past_loads
from lbd.console.record_gaps import gap_lines
from lbd.console.reply import Json, table, tables, text
from lbd.console.usage_hosts import Gathered, OfHost, ask_host, gather, of_host
from lbd.errors import ConfigError, LbdError
from lbd.process.whole_file import write_whole
from lbd.sim.advice import best
from lbd.text.install_line import lacks
from lbd.text.units import counted, duration_text
from lbd.web.report import Advice, Material, report_page

NEEDED = ("jinja2",)
JOBS_MAX = 5000  # of one host, for the parts that need single jobs
HOUR_S = 3600.0
EXAMPLES = (
    "lbctl report --out day.html                 for the last day",
    "lbctl report --out week.html --since 7d     for the last week",
)


def add_options(parser: Parser) -> None:
    parser.add_argument("--out", metavar="FILE", required=True, help="the HTML file to write")
    parser.add_argument("--since", metavar="TIME", type=span, default=DAY_S,
                        help="start of the report: 7d, yesterday; default 1d")  # fmt: skip
    parser.add_argument("--no-advise", action="store_true",
                        help="leave out the advice of `lbctl advise`, which takes a "
                             "while")  # fmt: skip
    add_utc(parser)


def report(daemons: Daemons, options: argparse.Namespace) -> int:
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise ConfigError(lacks("this", missing))
    from lbd.web.rendering import report_html

    until = time.time()
    since = max(0.0, until - options.since)
    status = daemons.lim({"op": "status"})
    hosts = [text(row, "name") for row in tables(status, "hosts")]
    found = gather(daemons, lambda host: ask_host(daemons, "stats", host, since=since))
    total, groups = summed(found)
    past, notes = past_jobs(daemons, since)
    notes += gap_lines(gaps_of(found, since, until), Clock(until, options.utc))
    broken_down = time.gmtime if options.utc else time.localtime
    material = Material(
        cluster=text(table(status, "cluster"), "name"),
        user=whose(found),
        since_s=since,
        until_s=until,
        hosts=hosts,
        curve=ask_past_loads(daemons, hosts, finest(options.since)),
        hours=ask_past_loads(daemons, hosts, "month"),
        total=measure_json(total),
        groups={
            kind: {key: measure_json(one) for key, one in of_kind.items()}
            for kind, of_kind in groups.items()
        },
        jobs=past,
        advice=None if options.no_advise else advice_of(daemons, since, options.since),
        missing=found.missing,
        notes=notes,
        hour_of=lambda unix_s: broken_down(unix_s).tm_hour,
        when=lambda unix_s: time.strftime("%Y-%m-%d %H:%M", broken_down(unix_s)),
    )
    made = f"{material.when(since)} to {material.when(until)}, as {text(status, 'self')} sees it"
    write(Path(options.out), report_html(report_page(material), made))
    if options.json:
        print_json({"file": options.out, "since": since, "until": until, "hosts": hosts,
                    "missing": sorted(found.missing), "jobs": total.jobs})  # fmt: skip
    else:
        put(f"{options.out}: {total.jobs} jobs of {duration_text(options.since)} "
            f"on {counted(len(hosts), 'host')}")  # fmt: skip
    return 0


def finest(span_s: float) -> str:
    """Returns the finest record of loads that covers the span."""
    return "hour" if span_s <= HOUR_S else "day" if span_s <= DAY_S else "month"


def past_jobs(daemons: Daemons, since: float) -> tuple[list[Json], list[str]]:
    """Returns the latest jobs, and notes on jobs left out. Raises LbdError."""
    question: dict[str, object] = {
        "user": "", "name": "", "states": [], "ran_on": "", "since": since,
    }  # fmt: skip

    def ask(host: str) -> OfHost:
        return of_host(daemons, host, question, JOBS_MAX)

    found: Gathered[OfHost] = gather(daemons, ask)
    notes = []
    if many := [host for host, one in found.answers.items() if one.more]:
        notes.append(f"waiting by class covers the latest {JOBS_MAX} jobs of {', '.join(many)}")
    if settings := sorted({one.withheld for one in found.answers.values() if one.withheld}):
        notes.append(f"waiting by class leaves out jobs withheld by {', '.join(settings)}")
    return [job for one in found.answers.values() for job in one.jobs], notes


def advice_of(daemons: Daemons, since: float, span_s: float) -> Advice:
    """Returns what `lbctl advise` says, or why it has no advice."""
    try:
        told = gather(daemons, lambda host: advise.history(daemons, host, since))
        day = advise.read_day(daemons, [job for jobs in told.answers.values() for job in jobs])
        owners = advise_rules.owner_results(daemons, since)
        queue = advise_rules.queue_results(daemons, since)
    except LbdError as problem:
        return Advice(str(problem))
    lines = [*(["", *advise_rules.owner_lines(owners)] if owners else []),
             *(["", *advise_rules.malleable_lines(queue)] if queue else [])]  # fmt: skip
    if why := advise.reason_not(day, span_s):
        return Advice("\n".join([why, *lines]))
    results = advise.replayed(day)
    now = results[0]
    ranked = [now, *sorted(results[1:], key=lambda one: -one.gain)]
    rows = [[cell(item).text for item in advise.row_of(one, is_now=one is now)] for one in ranked]
    head = [name.lstrip(">").capitalize() for name in advise.HEADER]
    said = advise.advice(now, best(results), is_short=day.span_s < advise.HOUR_S)
    return Advice("\n".join([*said, *lines]), head, rows)


def write(path: Path, html: str) -> None:
    """Raises ConfigError."""
    try:
        write_whole(path, html.encode("utf-8", "replace"))
    except OSError as problem:
        raise ConfigError(f"--out {path}: {problem.strerror}") from None


VERBS = {"report": Verb(reading(report), add_options, EXAMPLES)}

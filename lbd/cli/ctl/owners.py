"""`lbctl owners`: which hosts' owners are back, and what was learnt about them."""

import argparse
import time

from lbd.cli.ctl.verb import Verb, complain_of, reading
from lbd.cli.program import Parser, add_utc
from lbd.console.daemons import Daemons
from lbd.console.figures import Clock
from lbd.console.output import Page, own_page, print_json, put
from lbd.console.owners import DAY_HOURS, DAYS, owner_row, tenths
from lbd.console.reply import Json, tables, text
from lbd.console.usage_hosts import ask_host, gather

HEADER = ("HOST", "OWNER", "SINCE", ">STAYS", ">FREE WITHIN", ">P01", ">P11", ">SEEN", "RULE")
OTHERS = ("interruptions", "admission")  # fields for other commands
GO_FIRST = (">P01", ">P11", ">STAYS", ">SEEN", "SINCE")
EXAMPLES = (
    "lbctl owners                      whose owner is back, and when the host will be free",
    "lbctl owners --hours              when they are usually away, by hour of the week",
    "lbctl owners --json | jq '.[] | {host, owner, since}'",
)


def add_options(parser: Parser) -> None:
    about = "also show how likely each owner is away, in tenths, by hour of the week"
    parser.add_argument("--hours", action="store_true", help=about)
    add_utc(parser)


def owners(daemons: Daemons, options: argparse.Namespace) -> int:
    found = gather(daemons, lambda host: ask_host(daemons, "owners", host))
    complain_of(found.missing, "owners")
    rows = list(found.answers.values())
    if options.json:
        shown = [{key: row[key] for key in row if key not in OTHERS} for row in rows]
        print_json(shown)
        return 0
    put(*owners_lines(rows, Clock(time.time(), options.utc), own_page()))
    for row in rows if options.hours else ():
        put("", *hour_lines(row))
    return 0


def owners_lines(rows: list[Json], clock: Clock, page: Page) -> list[str]:
    shown = [owner_row(row, clock) for row in rows]
    table = page.table(HEADER, shown, GO_FIRST, ("HOST", "RULE"))
    why = [f"{text(row, 'host')}: {text(row, 'shown_by')}" for row in rows if row.get("shown_by")]
    return [*table, *(["", *why] if why else [])]


def hour_lines(row: Json) -> list[str]:
    """Returns a line a day with a digit an hour: 9 is nearly always away, `.` never seen."""
    hours = tables(row, "by_hour")
    lines = [f"{text(row, 'host'):8} 0     6     12    18"]
    for day, name in enumerate(DAYS):
        of_day = hours[day * DAY_HOURS : (day + 1) * DAY_HOURS]
        lines.append(f"{name:>8} {''.join(map(tenths, of_day))}")
    return lines


VERBS = {"owners": Verb(reading(owners), add_options, EXAMPLES)}

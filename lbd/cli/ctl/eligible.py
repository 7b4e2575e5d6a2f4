"""`lbctl eligible`: what is known of the caller's commands, or of one, and its consequences."""

import argparse
import os
import shlex
import time
from collections.abc import Sequence

from lbd.cli.ctl.verb import Verb, reading
from lbd.cli.program import Parser
from lbd.console.daemons import Daemons
from lbd.console.decision import trouble_of, verdict_line, working_directory
from lbd.console.figures import duration
from lbd.console.output import DIM, GREEN, Cell, Row, print_json, print_table, put
from lbd.console.reply import Json, number, tables, text, texts
from lbd.launch.exec import exit_status_of
from lbd.text.missing_program import why_not_run

LISTS = (("always", "your list"), ("never", "your list"),
         ("features", "your list"), ("host_features", "this host's list"),
         ("host_always", "this host's list"), ("host_never", "this host's list"))  # fmt: skip


def add_command(
    parser: Parser, nargs: str | None = "?", use: str = "only asked about, not run"
) -> None:
    """All words after it are its own, options too."""
    parser.add_argument("command", metavar="COMMAND", nargs=nargs, help=use)
    rest = parser.add_argument("arguments", metavar="ARG", nargs=argparse.REMAINDER)
    rest.required = False  # otherwise it is named as missing in place of COMMAND


def eligible(daemons: Daemons, options: argparse.Namespace) -> int:
    """Sends the lists of the caller's lbd.toml along, because the LBM reads no user's files."""
    lists = daemons.config.eligibility
    request: Json = {
        "op": "eligible", "always": list(lists.always), "never": list(lists.never),
        "features": list(lists.features),
    }  # fmt: skip
    if options.command is None:
        reply = daemons.lbm(request)
        if options.json:
            print_json(reply)
        else:
            show_all(reply)
        return 0
    command = [options.command, *options.arguments]
    reply = daemons.lbm({**request, "command": command, "directory": working_directory()})
    if options.json:
        print_json({"command": command, **reply})
    else:
        directory, path = working_directory(), os.environ.get("PATH", os.defpath)
        trouble = trouble_of(*map(os.fsencode, (command[0], directory, path)))
        show_one(command, reply, trouble if text(reply, "reason") == "new" else None)
    return 0


def show_one(command: Sequence[str], reply: Json, trouble: OSError | None) -> None:
    """`trouble`: why a new command could not be measured here."""
    verdict = verdict_line(reply)
    if trouble is not None:
        status = exit_status_of(trouble)
        verdict = f"{why_not_run(command, trouble)}; the exit status would be {status}"
    put(f"{shlex.join(command)}: {verdict}")
    put(f"known as      {text(reply, 'key')}")
    if needs := text(reply, "needs"):
        put(f"runs where    {needs} (eligibility.features)")
    runs = int(number(reply, "runs"))
    if runs:
        mean, ago = duration(number(reply, "cpu_s")), age(number(reply, "measured"))
        put(f"CPU time      {mean} by {runs} measured run{'s' * (runs > 1)}, the last {ago} ago")
    else:
        put("CPU time      not known")
    threshold = duration(number(reply, "threshold_s"))
    put(f"worth moving  from {threshold} of CPU time (lim.job_threshold_s)")


def show_all(reply: Json) -> None:
    """Lists the commands by cost, the most expensive first."""
    for key, whose in LISTS:
        if names := texts(reply, key):
            put(f"{key.removeprefix('host_')} by {whose}: {', '.join(names)}")
    known = sorted(tables(reply, "commands"), key=lambda row: -number(row, "cpu_s"))
    if not known:
        put("none of your commands has been measured yet")
        return
    put(f"worth moving from {duration(number(reply, 'threshold_s'))} of CPU time", "")
    header = ("COMMAND", "LEAVES", ">CPU TIME", ">RUNS", ">MEASURED")
    print_table(header, [row_of(row) for row in known])


def row_of(row: Json) -> Row:
    leaves = row.get("eligible") is True
    return (
        text(row, "key"),
        Cell("yes", GREEN) if leaves else Cell("no", DIM),
        duration(number(row, "cpu_s")),
        text(row, "runs"),
        age(number(row, "measured")),
    )


def age(unix_s: float) -> str:
    """Formats how long ago that was, in one unit."""
    since_s = max(0.0, time.time() - unix_s)
    for unit, size_s in (("d", 86400), ("h", 3600), ("m", 60)):
        if since_s >= size_s:
            return f"{since_s / size_s:.0f}{unit}"
    return f"{since_s:.0f}s"


VERBS = {"eligible": Verb(reading(eligible), add_command)}

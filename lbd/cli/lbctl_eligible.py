"""`lbctl eligible`: what is known of the caller's commands, or of one, and what follows from it."""

import argparse
import os
import time
from collections.abc import Callable, Sequence

from lbd.cli.daemons import Daemons
from lbd.cli.output import DIM, GREEN, Cell, Row, figure, print_json, print_table, put
from lbd.cli.reply import Json, number, tables, text, texts
from lbd.errors import LbdError

LISTS = (("always", "your list"), ("never", "your list"),
         ("host_always", "this host's list"), ("host_never", "this host's list"))  # fmt: skip


def eligible(daemons: Daemons, options: argparse.Namespace) -> int:
    """The lists of the caller's lbd.toml go along: the LBM reads no user's files."""
    lists = daemons.config.eligibility
    request: Json = {
        "op": "eligible", "always": list(lists.always), "never": list(lists.never)
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
        show_one(command, reply)
    return 0


def ask_eligible(ask: Callable[[Json], Json], command: Sequence[str]) -> Json | None:
    """For those who explain: None if this LBM cannot say."""
    question: Json = {
        "op": "eligible", "command": list(command), "directory": working_directory()
    }  # fmt: skip
    try:
        reply = ask(question)
    except LbdError:
        return None
    return {key: value for key, value in reply.items() if key not in ("ok", "id")}


def working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"


def verdict_line(eligible: Json) -> str:
    """What the LBM says of a command's eligibility, in one line."""
    may = "may leave" if eligible.get("eligible") is True else "stays here"
    why = text(eligible, "why")
    return f"{may}: {text(eligible, 'reason')}{f' ({why})' if why else ''}"


def show_one(command: Sequence[str], reply: Json) -> None:
    put(f"{' '.join(command)}: {verdict_line(reply)}")
    put(f"known as      {text(reply, 'key')}")
    runs = int(number(reply, "runs"))
    if runs:
        mean, ago = seconds(number(reply, "cpu_s")), age(number(reply, "measured"))
        put(f"CPU time      {mean} by {runs} measured run{'s' * (runs > 1)}, the last {ago} ago")
    else:
        put("CPU time      not known")
    put(f"worth moving  from {seconds(number(reply, 'threshold_s'))} (lim.job_threshold_s)")


def show_all(reply: Json) -> None:
    """The commands by what they cost, the most expensive first."""
    for key, whose in LISTS:
        if names := texts(reply, key):
            put(f"{key.removeprefix('host_')} by {whose}: {', '.join(names)}")
    known = sorted(tables(reply, "commands"), key=lambda row: -number(row, "cpu_s"))
    if not known:
        put("no command of yours has been measured yet")
        return
    put(f"worth moving from {seconds(number(reply, 'threshold_s'))} of CPU time", "")
    header = ("COMMAND", "LEAVES", ">CPU TIME", ">RUNS", ">MEASURED")
    print_table(header, [row_of(row) for row in known])


def row_of(row: Json) -> Row:
    leaves = row.get("eligible") is True
    return (
        text(row, "key"),
        Cell("yes", GREEN) if leaves else Cell("no", DIM),
        seconds(number(row, "cpu_s")),
        text(row, "runs"),
        age(number(row, "measured")),
    )


def seconds(value: float) -> str:
    return f"{value * 1000:.1f} ms" if value < 1.0 else f"{figure(value)} s"


def age(unix_s: float) -> str:
    """How long ago that was, in one unit."""
    since_s = max(0.0, time.time() - unix_s)
    for unit, size_s in (("d", 86400), ("h", 3600), ("m", 60)):
        if since_s >= size_s:
            return f"{since_s / size_s:.0f}{unit}"
    return f"{since_s:.0f}s"

"""`lbctl top`: the table of hosts and the running jobs, live. With --json, one object a look."""

import argparse
import sys
import time

from lbd.cli.daemons import Daemons
from lbd.cli.lbctl_jobs import fetch, job_lines
from lbd.cli.lbctl_status import ask_status, status_lines
from lbd.cli.output import DIM, RED, Paint, paint_for, print_json
from lbd.cli.reply import Json, tables
from lbd.cli.screen import Screen
from lbd.errors import ConfigError, LbdError


def top(daemons: Daemons, options: argparse.Namespace) -> int:
    """Until q, ^C or a signal. Raises ConfigError without a terminal."""
    if not options.json and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("top needs a terminal; use `lbctl status`, or `lbctl top --json`")
    first = ask_status(daemons)  # not running: say so on the plain screen
    interval_s = max(0.1, options.interval)
    if options.json:
        return stream(daemons, first, interval_s)
    paint = paint_for(sys.stdout)
    with Screen() as screen:
        while True:
            screen.draw(picture(daemons, paint, interval_s))
            end_s = time.monotonic() + interval_s
            while (left_s := end_s - time.monotonic()) > 0:
                key = screen.key(left_s)
                if key in ("q", "Q", "\x03", "\x04"):
                    screen.is_leaving = True
                    return 0
                if not key:
                    break


def stream(daemons: Daemons, reply: Json, interval_s: float) -> int:
    while True:
        print_json(reply, in_a_line=True)
        time.sleep(interval_s)
        reply = ask_status(daemons)


def picture(daemons: Daemons, paint: Paint, interval_s: float) -> list[str]:
    """What to draw now; a daemon that went away is said in its place, and asked again next time."""
    clock = time.strftime("%H:%M:%S")
    title = f"lbctl top   {clock}   every {interval_s:g} s   q ends it"
    lines = [paint(title, DIM), ""]
    try:
        lines += status_lines(ask_status(daemons), paint)
    except LbdError as problem:
        lines.append(paint(str(problem), RED))
    lines.append("")
    try:
        found = tables(fetch(daemons, ended_too=False), "jobs")
    except LbdError as problem:
        return [*lines, paint(str(problem), RED)]
    return lines + (job_lines(found, paint, time.time()) if found else [paint("no jobs", DIM)])

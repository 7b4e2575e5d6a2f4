"""`lbctl top`: hosts, jobs and the queue, live. With --json, one object for each refresh.

`curses` would need drawing code apart from that of `lbctl status`, and `rich` would cost some 60 ms
of CPU time at each start; this is 200 lines with the standard library.
"""

import argparse
import queue
import sys
import threading
import time
from collections.abc import Callable

from lbd.cli.ctl.jobs.listing import hidden_lines
from lbd.cli.ctl.top.model import Facts, Kill, Model, Quit, keys_of
from lbd.cli.ctl.top.picture import Size, draw
from lbd.cli.ctl.verb import Verb, reading
from lbd.cli.program import Parser, add_utc
from lbd.cli.quantities import duration
from lbd.cli.screen import Screen
from lbd.console.daemons import Daemons
from lbd.console.figures import Clock
from lbd.console.hosts import ask_status
from lbd.console.job_acts import act
from lbd.console.jobs import fetch
from lbd.console.output import cut, paint_for, print_json
from lbd.console.reply import Json, tables, text, texts
from lbd.errors import ConfigError, LbdError, PeerError

LEAST_INTERVAL_S = 0.1
REDRAW_S = 1.0  # at the latest, because the clock runs on while no daemon answers


def add_options(parser: Parser) -> None:
    parser.add_argument("--interval", metavar="DUR", type=duration, default=1.0,
                        help="refresh interval (default 1s)")  # fmt: skip
    add_utc(parser)


def top(daemons: Daemons, options: argparse.Namespace) -> int:
    """Runs until q, ^C or a signal. Raises ConfigError without a terminal."""
    if not options.json and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("top needs a terminal; use `lbctl status`, or `lbctl top --json`")
    first = ask_status(daemons)  # fails on the plain screen if no daemon runs
    interval_s = max(LEAST_INTERVAL_S, options.interval)
    if options.json:
        return stream(daemons, first, interval_s)
    model, paint = Model(), paint_for(sys.stdout)
    with Screen() as screen:
        looker = Looker(daemons, interval_s, screen.wake)
        looker.start()
        while True:
            looker.hand_over(model)
            clock = Clock(time.time(), options.utc)
            try:
                lines = draw(model, Size(*screen.size()), paint, clock, interval_s)
            except PeerError as problem:
                lines = [cut(str(problem), screen.size()[0])]
            screen.draw(lines)
            for key in keys_of(screen.key(REDRAW_S)):
                match model.key(key):
                    case Quit():
                        screen.is_leaving = True
                        return 0
                    case Kill(job):
                        looker.orders.put(job)


def stream(daemons: Daemons, reply: Json, interval_s: float) -> int:
    while True:
        print_json(reply, in_a_line=True)
        time.sleep(interval_s)
        reply = ask_status(daemons)


class Looker(threading.Thread):
    """Asks the daemons in a thread of its own, so that keys work while a daemon does not answer."""

    def __init__(self, daemons: Daemons, interval_s: float, wake: Callable[[], None]) -> None:
        super().__init__(name="looker", daemon=True)
        self.orders: queue.SimpleQueue[str] = queue.SimpleQueue()  # jobs to end
        self._daemons = daemons
        self._interval_s = interval_s
        self._wake = wake
        self._found: queue.SimpleQueue[Facts | str | Exception] = queue.SimpleQueue()

    def run(self) -> None:
        try:
            self._look_again_and_again()
        except Exception as problem:  # reported once the screen is restored
            self._found.put(problem)
            self._wake()

    def _look_again_and_again(self) -> None:
        while True:
            self._found.put(look(self._daemons))
            self._wake()
            try:
                job = self.orders.get(timeout=self._interval_s)
            except queue.Empty:
                continue
            self._found.put(kill(self._daemons, job))

    def hand_over(self, model: Model) -> None:
        """Passes what was found since the last call to the model; a text is a message."""
        while not self._found.empty():
            found = self._found.get()
            if isinstance(found, str):
                model.message = found
            elif isinstance(found, Exception):
                raise found
            else:
                model.take(found)


def look(daemons: Daemons) -> Facts:
    """Asks the daemons. One that does not answer is shown as a problem and asked again later."""
    problems: list[str] = []
    status: Json = {}
    jobs: list[Json] = []
    only_of = ""
    try:
        status = ask_status(daemons)
        tables(status, "hosts")
    except LbdError as problem:
        problems.append(str(problem))
    try:
        reply = fetch(daemons, ended_too=False)
        jobs, only_of = tables(reply, "jobs"), text(reply, "only_of")
        problems += hidden_lines(reply)
        if missing := texts(reply, "missing"):
            problems.append(f"jobs of {', '.join(missing)} are missing: no answer")
    except LbdError as problem:
        problems.append(str(problem))
    queue_hosts, _ = daemons.queue()
    return Facts(status, tuple(jobs), tuple(problems), queue_hosts, True, only_of)


def kill(daemons: Daemons, job: str) -> str:
    try:
        done = act(daemons, [job], "kill")
    except LbdError as problem:
        return str(problem)
    return "; ".join(done.errors) or f"{job} was asked to end"


VERBS = {"top": Verb(reading(top), add_options)}

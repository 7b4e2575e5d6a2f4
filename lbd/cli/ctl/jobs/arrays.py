"""What `lbctl wait` says on its way and at its end, and the options of `requeue` and `update`."""

import argparse
import math
import shlex
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from lbd.cli.ctl.verb import say
from lbd.cli.program import Parser
from lbd.cli.quantities import duration
from lbd.client.progress import Progress
from lbd.client.wait_rules import begin_unix_s
from lbd.console.plain_commands import is_plain
from lbd.console.reply import Json, number, table, texts
from lbd.errors import ConfigError
from lbd.text.array_phrases import (
    SHOWN,
    Pace,
    ended_of,
    failed_in,
    progress_line,
    running_of,
    were_cancelled,
)
from lbd.text.job_phrases import HELD, only_together

END_EVERY_S = 2.0  # when it ends is asked for no more often, since that may take longer
POLL_S = 0.3  # longer if an answer takes its time
ASKED_SHARE = 5
Ask = Callable[[Json, float], Json]


def wait_showing(
    ask: Ask,
    ids: list[str],
    give_up_s: float,
    progress: Progress,
    remark: Callable[[], None] = lambda: None,
) -> Json:
    """Returns the answer to `queue.wait` once all jobs have ended, or when the time is up.
    `remark`: says what there is to say meanwhile, if it is due."""
    pace, end, ask_end_s = Pace(), math.nan, -math.inf
    try:
        while True:
            asked_s = time.monotonic()
            left_s = max(0.0, give_up_s - asked_s)
            question: Json = {"op": "queue.wait", "ids": ids, "patience_s": 0.0, "counts": True}
            question["some"] = True
            if len(ids) == 1 and asked_s >= ask_end_s:
                question["ends"], ask_end_s = True, asked_s + END_EVERY_S
            reply = ask(question, left_s)
            now_s = time.monotonic()
            if reply.get("open") == 0 or now_s >= give_up_s:
                return reply
            remark()
            counts = {state: int(count) for state, count in table(reply, "states").items()
                      if isinstance(count, int)}  # fmt: skip
            if isinstance(held := reply.get("held"), int) and held:
                counts |= {"pending": counts.get("pending", 0) - held, HELD: held}
            by_pace_s = pace.left_s(*ended_of(counts), running_of(counts), now_s)
            if "ends" in question:
                end = number(reply, "expected_end")
            end_s = by_pace_s if math.isnan(end) else max(0.0, end - time.time())
            progress.show(progress_line(counts, end_s))
            pause_s = max(POLL_S, ASKED_SHARE * (now_s - asked_s))
            time.sleep(min(pause_s, max(0.0, give_up_s - now_s)))
    finally:
        progress.clear()


@dataclass(frozen=True, slots=True)
class Ends:
    """How the jobs ended that were waited for."""

    ids: list[str]  # as given
    states: Counter[str] = field(default_factory=Counter)  # how many jobs and tasks are in each
    bad: list[str] = field(default_factory=list)  # the first that have not succeeded

    @classmethod
    def of(cls, reply: Json, ids: list[str]) -> "Ends":
        """`reply`: to `queue.wait`."""
        states = table(reply, "states").items()
        counts = {state: count for state, count in states if isinstance(count, int)}
        return cls(ids, Counter(counts), texts(reply, "bad"))

    def and_of(self, other: "Ends") -> "Ends":
        return Ends(self.ids + other.ids, self.states + other.states, self.bad + other.bad)


def outcome(ends: Ends) -> str:
    """Returns the line at the end of a wait; "" if nothing is known."""
    counts, ids, bad = ends.states, ends.ids, ends.bad
    failed, cancelled = failed_in(counts), counts["cancelled"]
    total = counts.total()
    if not failed and not cancelled:
        return f"all {total} are done" if total > 1 else f"job {ids[0]} is done" if total else ""
    others = f", {were_cancelled(cancelled)}" if cancelled else ""
    how = f": see `lbctl job {ids[0]}`" if len(ids) == 1 else ""
    # Of arrays with tasks that were cancelled, and none that failed, each is named as a whole.
    is_part = bool(bad) and (len(bad) < failed or len(bad) >= SHOWN)
    is_array = len(ids) == 1 and (total == 1 or ids[0].isdecimal())  # of which `job` names them
    if ids[0].startswith("@") or (is_part and not is_array):
        which = ",".join(one for one in ("failed", "lost", "cancelled") if counts[one])
        how = f": see `lbctl jobs --tasks --state {which} {shlex.join(ids)}`"
    elif bad and not is_array:
        how = f": see `lbctl job{'s' if bad[1:] else ''} {' '.join(bad)}`"
    if total == 1:
        (state,) = (one for one, count in counts.items() if count)
        name = f"job {ids[0]}" if is_plain(ids[0]) or ids[0][:1].isdigit() else "the job"
        return f"{name} {'failed' if state == 'failed' else f'was {state}'}{how}"
    if not failed:
        return f"{were_cancelled(cancelled, f'of {total} ')}{how}"
    return f"{failed} of {total} failed{others}{how}"


def add_ids(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="3, 2-5, 12_7, 12_[3-5], last, @me")


def add_requeue_options(parser: Parser) -> None:
    parser.add_argument("--failed", action="store_true",
                        help="only tasks that failed or were lost; without it, also those that "
                             "are done, run or never started: each runs again from the start, and "
                             "overwrites the files of its -o")  # fmt: skip
    add_ids(parser)


def add_update_options(parser: Parser) -> None:
    parser.add_argument("--priority", metavar="N", type=priority, help="higher starts first")
    parser.add_argument("--name", metavar="TEXT", help="new name")
    parser.add_argument("--timeout", metavar="DUR", type=limit, dest="timeout_s",
                        help="new time limit; 0 removes it")  # fmt: skip
    parser.add_argument("--begin", metavar="TIME", type=begin_time,
                        help="earliest start: 17:30, 2026-12-01T06:00 or +2h; now: at "
                             "once")  # fmt: skip
    parser.add_argument("ids", metavar="ID", nargs="+",
                        help="3, 2-5, last, @me; of an array all tasks or none: 12")  # fmt: skip


def limit(given: str) -> float:
    try:
        return duration(given)
    except argparse.ArgumentTypeError as problem:
        raise argparse.ArgumentTypeError(f"{problem}; 0 for none") from None


def begin_time(given: str) -> float:
    """Returns UNIX seconds; 0 means at once."""
    try:
        at = 0.0 if given == "now" else begin_unix_s(given)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    if 0 < at <= time.time():
        say(f"--begin: {given} has passed, so it may start now")
    return at


def priority(given: str) -> int:
    digits = given[1:] if given[:1] in ("-", "+") else given
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 4):
        raise argparse.ArgumentTypeError(f"{given!r}: must be a whole number from -999 to 999")
    return int(given)


def change_of(options: argparse.Namespace) -> Json:
    """Returns the changes that `update` makes. Raises ConfigError."""
    names = ("priority", "name", "timeout_s", "begin")
    change = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if not change:
        raise ConfigError("nothing to change: give --priority, --name, --timeout or --begin")
    if problem := only_together(options.ids):
        raise ConfigError(problem)
    return change

"""`lbctl job, logs, wait, kill, hold, release, requeue`: the jobs of the queue."""

import argparse
import base64
import math
import os
import shlex
import sys
import time

from lbd.cli.daemons import Daemons
from lbd.cli.lbctl_jobs import ANSWER_S, job_lines, since
from lbd.cli.output import lay_out, paint_for, print_json, put
from lbd.cli.program import Parser, complain
from lbd.cli.quantities import duration, signal_named
from lbd.cli.reply import Json, number, tables, text, texts
from lbd.dispatch.selectors import read_selectors
from lbd.errors import LbdError, Unavailable
from lbd.rpc.local import AWAY, Refusal
from lbd.units import duration_text

PATIENCE_S = 15.0
FOLLOW_S = 0.2
LEAST_ANSWER_S = 5.0  # however little time a caller has: less is no answer of anybody's
RETRY_S = 0.5
RETRY_FOR_S = 60.0  # a daemon that is being started again
SILENT_S = 2.0  # of that
NOT_ALL, NO_ANSWER = 1, 2
SLOTS_MAX = 65536
ATTEMPTS = (">NO", "HOST", ">TIER", "STATE", ">RAN", ">CPU", ">EXIT", "REASON")


def add_options(name: str, parser: Parser) -> None:
    if name == "predict":
        parser.add_argument("-n", "--slots", metavar="SLOTS", type=slot_count, default=1,
                            help="of a job that needs so many (default 1)")  # fmt: skip
        return
    one = name in ("job", "logs")
    if name == "logs":
        parser.add_argument("-f", "--follow", action="store_true", help="until it has ended")
        parser.add_argument("--attempt", metavar="N", type=attempt_number,
                            help="that one, not the last")  # fmt: skip
    elif name == "kill":
        parser.add_argument("-s", "--signal", metavar="SIG", type=signal_named, default=0,
                            help="only this signal (default: TERM, then KILL)")  # fmt: skip
    elif name == "wait":
        parser.add_argument("--timeout", metavar="DUR", type=duration, default=math.inf,
                            help="then exit 2")  # fmt: skip
    help_text = "3, or last" if one else "3, 2-5, last, @me"
    parser.add_argument("ids", metavar="ID", nargs=1 if one else "+", help=help_text)


def slot_count(given: str) -> int:
    if not (given.isascii() and given.isdecimal() and 0 < int(given) <= SLOTS_MAX):
        raise argparse.ArgumentTypeError(f"{given!r} is no number of slots")
    return int(given)


def attempt_number(given: str) -> int:
    if not (given.isascii() and given.isdecimal() and 0 < int(given) < 1 << 31):
        raise argparse.ArgumentTypeError(f"{given!r} is no attempt; the first is 1")
    return int(given)


def check_ids(ids: list[str]) -> None:
    """Raises ConfigError."""
    read_selectors(ids, "", 1)


def job(daemons: Daemons, options: argparse.Namespace) -> int:
    check_ids(options.ids)
    found = tables(daemons.lbm({"op": "queue.jobs", "ids": options.ids, "attempts": True}), "jobs")
    if options.json:
        shown: list[Json] = [{"attempts": [], **one} for one in found]
        print_json(shown[0] if len(shown) == 1 else shown)
        return 0
    paint = paint_for(sys.stdout)
    for one in found:
        put(*job_lines([one], paint, time.time()))
        put(f"command  {shlex.join(texts(one, 'command'))}")
        if reason := text(one, "reason"):
            put(f"{'waits   ' if text(one, 'state') == 'pending' else 'reason  '} {reason}")
        if begins := begin_told(one):
            put(f"begins   {begins}")
        rows = [attempt_row(attempt) for attempt in tables(one, "attempts")]
        if rows:
            put("", *lay_out(ATTEMPTS, rows, paint))
    return 0


def begin_told(one: Json) -> str:
    """When a job will, and how that is estimated; "" if nothing can be said."""
    how = text(one, "predicted_by")
    wait_s = number(one, "predicted_wait_s")
    return f"in about {duration_text(wait_s)} ({how})" if not math.isnan(wait_s) else how


def predict(daemons: Daemons, options: argparse.Namespace) -> int:
    slots: int = options.slots
    reply = daemons.lbm({"op": "queue.predict", "slots": slots}, ANSWER_S)
    if options.json:
        told = {key: reply.get(key) for key in ("slots", "predicted_wait_s", "predicted_by")}
        print_json(told)
    else:
        what = "a job" if slots == 1 else f"a job of {slots} slots"
        put(f"{what} that came now would begin: {begin_told(reply)}")
    return 0


def attempt_row(attempt: Json) -> tuple[str, ...]:
    started, finished = number(attempt, "started"), number(attempt, "finished")
    end = time.time() if math.isnan(finished) else finished
    return (
        text(attempt, "number"),
        text(attempt, "host"),
        text(attempt, "tier"),
        text(attempt, "state"),
        since(end - started),
        since(number(attempt, "cpu_s")),
        text(attempt, "exit_status"),
        text(attempt, "reason"),
    )


def logs(daemons: Daemons, options: argparse.Namespace) -> int:
    check_ids(options.ids)
    question: Json = {"op": "queue.logs", "ids": options.ids, "attempt": options.attempt}
    at: object = [0, 0]
    seen, warned = 0, set[str]()
    while True:
        question |= {"at": at, "seen_attempt": seen}
        reply = patiently(daemons, question, follows=options.follow)
        again = int(number(reply, "attempt"))
        if seen and again and again != seen and not reply.get("continued"):
            complain("lbctl", f"attempt {seen} came to nothing; this is attempt {again}")
        seen, at = again or seen, reply.get("at")
        data = texts(reply, "data")
        if (warning := text(reply, "warning")) and warning not in warned:
            warned.add(warning)
            complain("lbctl", warning)
        if dropped := reply.get("dropped_bytes"):
            complain("lbctl", f"{dropped} bytes of output were dropped here")
        for descriptor, piece in enumerate(data, 1):
            write_all(descriptor, base64.b64decode(piece))
        if data:
            continue
        if not (options.follow and reply.get("more")):
            return 0
        time.sleep(FOLLOW_S)


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def patiently(
    daemons: Daemons, question: Json, patience_s: float = RETRY_FOR_S, *, follows: bool = False
) -> Json:
    """The answer; daemons that are away are given time to come back, and for who `follows` a job
    those of its host. Raises LbdError."""
    began_s = time.monotonic()
    give_up_s = began_s + min(patience_s, RETRY_FOR_S)
    told = False
    while True:
        try:
            return daemons.lbm(question, min(ANSWER_S, patience_s + LEAST_ANSWER_S))
        except LbdError as problem:
            away = isinstance(problem, Unavailable) or "dispatcher" in str(problem)
            away = away or (follows and isinstance(problem, Refusal) and problem.code == AWAY)
            left_s = give_up_s - time.monotonic()
            if not away or left_s <= 0:
                raise
            if not told and time.monotonic() - began_s >= SILENT_S:
                told = True
                complain("lbctl", f"{problem}; asked again for {left_s:.0f} s")
            time.sleep(min(RETRY_S, left_s))


def wait(daemons: Daemons, options: argparse.Namespace) -> int:
    check_ids(options.ids)
    give_up_s = time.monotonic() + options.timeout
    try:
        while True:
            left_s = give_up_s - time.monotonic()
            patience_s = max(0.0, min(PATIENCE_S, left_s))
            question: Json = {"op": "queue.wait", "ids": options.ids, "patience_s": patience_s}
            reply = patiently(daemons, {**question, "brief": not options.json}, max(0.0, left_s))
            if reply.get("open") == 0:
                break
            if left_s <= 0:
                count = int(number(reply, "open"))
                some = "1 job has" if count == 1 else f"{count} jobs have"
                complain("lbctl", f"{some} not ended yet")
                return NO_ANSWER
    except LbdError as problem:
        complain("lbctl", problem)
        return NO_ANSWER
    if options.json:
        print_json(tables(reply, "jobs"))
    return 0 if reply.get("all_done") else NOT_ALL


def act(daemons: Daemons, options: argparse.Namespace, verb: str, number: int = 0) -> int:
    check_ids(options.ids)
    question: Json = {"op": "queue.act", "verb": verb, "ids": options.ids, "signal": number}
    reply = daemons.lbm(question, ANSWER_S)
    errors = texts(reply, "errors")
    if options.json:
        print_json({"done": reply.get("done"), "errors": errors})
    for error in errors:
        complain("lbctl", error)
    return 1 if errors else 0


def kill(daemons: Daemons, options: argparse.Namespace) -> int:
    return act(daemons, options, "kill", options.signal)


def hold(daemons: Daemons, options: argparse.Namespace) -> int:
    return act(daemons, options, "hold")


def release(daemons: Daemons, options: argparse.Namespace) -> int:
    return act(daemons, options, "release")


def requeue(daemons: Daemons, options: argparse.Namespace) -> int:
    return act(daemons, options, "requeue")

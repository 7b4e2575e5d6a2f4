"""`lbctl job, logs, wait` for queued jobs; verbs.py adds those of plain commands."""

import argparse
import base64
import contextlib
import math
import sys
import time
from collections.abc import Iterator
from functools import partial

from lbd.cli.complaints import complain, report_error
from lbd.cli.ctl.jobs.arrays import outcome, wait_showing
from lbd.cli.ctl.jobs.listing import job_lines
from lbd.cli.ctl.jobs.own_files import copy_files, where_it_goes
from lbd.cli.program import Parser
from lbd.cli.quantities import duration
from lbd.client.progress import Progress, has_terminal
from lbd.console.daemons import Daemons, OnlyInLab
from lbd.console.figures import Clock
from lbd.console.job_acts import check_ids
from lbd.console.job_details import (
    DETAIL_INDENT,
    attempt_row,
    detail_lines,
    end_phrase,
    status_phrase,
    whole,
)
from lbd.console.jobs import ANSWER_S
from lbd.console.output import own_page, print_json, put, wrapped
from lbd.console.reply import Json, number, table, tables, text, texts
from lbd.errors import ConfigError, LbdError, Unavailable
from lbd.local.json_socket import AWAY, SEVERAL, Refusal
from lbd.local.write_all import write_all
from lbd.text.job_phrases import CANNOT_OPEN

FAILED = ("failed", "lost")
UNSUCCESSFUL = (*FAILED, "cancelled")
SHOWN_MAX = 1000  # outputs of tasks shown at once
NAMED_MAX = 20  # tasks named whose output is left out
PATIENCE_S = 15.0
OUTPUTS_S = 600.0  # for the outputs of --fetch, after all jobs have ended
FOLLOW_S = 0.2
PIECE_CHARACTERS = 64 << 10  # a shorter piece means that the output was read up to its end
LEAST_ANSWER_S = 5.0  # minimum timeout of a request, however little time the caller has
RETRY_S = 0.5
RETRY_FOR_S = 60.0  # for a daemon that is restarting
SILENT_S = 2.0  # of these, before the first message
NOT_ALL, NO_ANSWER = 1, 2
ATTEMPTS = (">NO", "HOST", ">TIER", "STATE", "STARTED", ">RAN", ">CPU", ">EXIT", "REASON")
ATTEMPTS_GO_FIRST = (">TIER", ">CPU", "STARTED", ">RAN")


def add_ids(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+",
                        help="3, 2-5, 12_7, 12_[3-5], last, @me, h1-26")  # fmt: skip


def add_id(parser: Parser) -> None:
    parser.add_argument(
        "ids", metavar="ID", nargs=1, help="3, 12_7, last or h1-26; one job, array or task"
    )


def add_logs_options(parser: Parser) -> None:
    parser.elsewhere = dict.fromkeys(("--tail", "--lines", "-n"), "use lbctl logs ID | tail")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="follow the output until the job ends"
    )
    parser.add_argument("--attempt", metavar="N", type=attempt_number,
                        help="show that attempt instead of the last")  # fmt: skip
    parser.add_argument("--failed", action="store_true",
                        help="the outputs of an array's failed or lost tasks, one after another; "
                             "their standard error goes to stderr, so use 2>&1 to keep the order "
                             "in a file or pipe")  # fmt: skip
    parser.add_argument("--daemons", action="store_true",
                        help="instead of its output, what was done with it, step by step, as the "
                             "daemons of all hosts logged it since they started")  # fmt: skip
    add_id(parser)


def add_wait_options(parser: Parser) -> None:
    parser.add_argument("--timeout", metavar="DUR", type=duration, default=math.inf,
                        help="give up after this time, with exit status 2")  # fmt: skip
    add_ids(parser)


def attempt_number(given: str) -> int:
    if not (given.isascii() and given.isdecimal() and 0 < int(given) < 1 << 31):
        raise argparse.ArgumentTypeError(f"{given!r} is not an attempt number; the first is 1")
    return int(given)


def job(daemons: Daemons, options: argparse.Namespace) -> int:
    check_ids(options.ids)
    question: Json = {"op": "queue.jobs", "ids": options.ids, "attempts": True}
    found = tables(daemons.lbm(question, ANSWER_S), "jobs")
    if options.json:
        shown: list[Json] = [{"attempts": [], **one} for one in found]
        print_json(shown[0] if len(shown) == 1 else shown)
        return 0
    page, clock = own_page(), Clock(time.time(), options.utc)
    for one in found:
        put(*job_lines([one], clock, page))
        for line in detail_lines(one, clock):
            put(*wrapped(line, page.columns, DETAIL_INDENT))
        rows = [attempt_row(attempt, clock) for attempt in tables(one, "attempts")]
        if rows and not text(one, "array"):  # for an array these are its first task's
            put("", *page.table(ATTEMPTS, rows, ATTEMPTS_GO_FIRST, ("REASON",)))
    return 0


def logs(daemons: Daemons, options: argparse.Namespace) -> int:
    check_ids(options.ids)
    if options.failed:
        return logs_of_failed(daemons, options)
    ids = settled(daemons, options.ids)
    try:
        return show_output(daemons, ids, options.attempt, set(), follows=options.follow)
    except Refusal as problem:
        if problem.code != SEVERAL:
            raise
        if options.follow or options.attempt is not None:
            raise ConfigError(str(problem)) from None
    found = tasks_of(daemons, ids)
    begun = [one for one in found if has_begun(one)]
    if len(begun) > SHOWN_MAX:
        raise ConfigError(f"{len(begun)} tasks have begun, and the outputs of {SHOWN_MAX} are "
                          "shown at once: name some of them, like 12_[1-100]")  # fmt: skip
    status = show_each(daemons, begun)
    for line in why_not_begun([one for one in found if not has_begun(one)]):
        complain("lbctl", line)
    return status


def has_begun(one: Json) -> bool:
    return not math.isnan(number(one, "started"))


def why_not_begun(found: list[Json]) -> Iterator[str]:
    """Yields a line on the tasks that wait, and one on those that ended without a start, with the
    first reason among these."""
    ended = [one for one in found if text(one, "state") != "pending"]
    if left := len(found) - len(ended):
        yield (
            f"{left} of these tasks have not begun"
            if left > 1
            else "1 of these tasks has not begun"
        )
    if ended:
        why = next((f": {reason}" for one in ended if (reason := text(one, "reason"))), "")
        yield f"{len(ended)} of these tasks never ran{why}"


def settled(daemons: Daemons, ids: list[str], patience_s: float = RETRY_FOR_S) -> list[str]:
    """Replaces `last` by the job's id, so that repeated requests mean the same job whatever is
    submitted meanwhile. Raises LbdError."""
    if "last" not in ids:
        return ids
    found = patiently(daemons, {"op": "queue.jobs", "ids": ["last"]}, patience_s)
    (job,) = tables(found, "jobs") or ({},)
    return [text(job, "id") or one if one == "last" else one for one in ids]


def logs_of_failed(daemons: Daemons, options: argparse.Namespace) -> int:
    if options.follow or options.attempt is not None:
        raise ConfigError("--failed shows the last attempt of ended jobs: it takes neither -f nor "
                          "--attempt")  # fmt: skip
    failed = [one for one in tasks_of(daemons, options.ids) if text(one, "state") in FAILED]
    if not failed:
        complain("lbctl", "none of these jobs has failed")
    # One that is lost may have begun unseen.
    ran = [one for one in failed if has_begun(one) or text(one, "state") == "lost"]
    status = show_each(daemons, ran)
    for line in why_not_begun([one for one in failed if one not in ran]):
        complain("lbctl", line)
    return status


def tasks_of(daemons: Daemons, ids: list[str]) -> list[Json]:
    """Returns the tasks in the order of their indexes. Raises LbdError."""
    question: Json = {"op": "queue.jobs", "ids": ids, "tasks": True}
    return tables(daemons.lbm(question, ANSWER_S), "jobs")


def show_each(daemons: Daemons, found: list[Json]) -> int:
    """Shows outputs one after the other, each under its task's id, as `tail` shows several files.
    Asks a host that does not answer only once, and shows the others' outputs. Returns the exit
    status."""
    copied, left = set[str](), dict[str, list[str]]()  # host -> tasks left out
    is_complete = True
    for one in found:
        host, task = text(one, "host"), text(one, "id")
        if host in left:
            left[host].append(task)
            continue
        where = f" on {host}" if host else ""
        how = f", {phrase}" if (phrase := status_phrase(one)) else ""
        put(f"==> {task}: {text(one, 'state')}{where}{how} <==")
        sys.stdout.flush()
        try:
            show_output(daemons, [task], None, copied, follows=False)
        except Refusal as problem:
            if problem.code not in (AWAY, "unavailable") or not host:
                raise
            if problem.code != AWAY and "dispatcher" in str(problem):  # as for every other task
                raise
            complain("lbctl", str(problem))
            if problem.code == AWAY:
                left[host] = [task]
            else:
                is_complete = False
    for host, tasks in left.items():
        more = f" and {len(tasks) - NAMED_MAX} more" if len(tasks) > NAMED_MAX else ""
        named = ", ".join(tasks[:NAMED_MAX]) + more
        complain("lbctl", f"left out until {host} is back: the output of {named}")
    return 0 if is_complete and not left else 1


def show_output(
    daemons: Daemons, ids: list[str], attempt: int | None, copied: set[str], *, follows: bool
) -> int:
    question: Json = {"op": "queue.logs", "ids": ids, "attempt": attempt}
    at: object = [0, 0]
    seen, warned, asked, printed = 0, set[str](), False, False
    while True:
        question |= {"at": at, "seen_attempt": seen}
        reply = patiently(daemons, question, follows=follows)
        again = int(number(reply, "attempt"))
        if seen and again and again != seen and not reply.get("continued"):
            complain("lbctl", f"attempt {seen} failed; this is attempt {again}")
        seen, at = again or seen, reply.get("at")
        data = texts(reply, "data")
        if (warning := text(reply, "warning")) and warning not in warned:
            warned.add(warning)
            complain("lbctl", warning)
        if dropped := reply.get("dropped_bytes"):
            complain("lbctl", f"{dropped} bytes of output were dropped here")
        printed = printed or bool(data)
        for descriptor, piece in enumerate(data, 1):
            write_all(descriptor, base64.b64decode(piece))
        if data and not (follows and has_caught_up(reply, data)):
            continue
        if not (data or warned or asked):
            asked = True
            show_rest(daemons, ids, None if follows or attempt else copied, printed=printed)
        if not (follows and reply.get("more")):
            if follows and text(reply, "state") in UNSUCCESSFUL:
                say_how_it_ended(daemons, ids)
            return 0
        time.sleep(FOLLOW_S)


def has_caught_up(reply: Json, data: list[str]) -> bool:
    """Returns whether to pause before asking a running job again: an immediate request would return
    little more, and each costs a request to its host."""
    return text(reply, "state") == "running" and sum(map(len, data)) < PIECE_CHARACTERS


def show_rest(daemons: Daemons, ids: list[str], copied: set[str] | None, *, printed: bool) -> None:
    """Says why there is no output, as far as known: the job has not started, or it writes to files,
    which are shown unless `copied` is None. `printed`: some output was stored."""
    question: Json = {"op": "queue.jobs", "ids": ids, "attempts": True}
    try:
        found = tables(daemons.lbm(question, ANSWER_S), "jobs")
    except LbdError:
        return
    if not found or (printed and text(found[0], "output")):  # the file could not be opened
        return
    job, said = found[0], []
    is_pending = text(job, "state") == "pending"
    if is_pending:
        reason = text(job, "reason")
        said.append(f"job {text(job, 'id')} has not started" + (f": {reason}" if reason else ""))
    elif copied is not None:
        if (reason := text(job, "reason")).startswith(CANNOT_OPEN):
            complain("lbctl", f"job {text(job, 'id')} never ran: {reason}")
            return
        if copy_files(job, copied):
            return
    if where := where_it_goes(job):
        said.append(where)
    if said:
        complain("lbctl", "; ".join(said))


def say_how_it_ended(daemons: Daemons, ids: list[str]) -> None:
    """Says how a followed job failed, because its output alone does not show that."""
    with contextlib.suppress(LbdError):
        found = tables(daemons.lbm({"op": "queue.jobs", "ids": ids}, ANSWER_S), "jobs")
        for one in found:
            complain("lbctl", end_phrase(one))


def patiently(
    daemons: Daemons,
    question: Json,
    patience_s: float = RETRY_FOR_S,
    *,
    follows: bool = False,
    progress: Progress | None = None,
) -> Json:
    """Returns the answer, and retries while daemons are away; with `follows`, also while those of
    the job's host are. Raises LbdError."""
    began_s = time.monotonic()
    give_up_s = began_s + min(patience_s, RETRY_FOR_S)
    notified = False
    while True:
        try:
            return daemons.lbm(question, min(ANSWER_S, patience_s + LEAST_ANSWER_S))
        except LbdError as problem:
            if isinstance(problem, Refusal) and problem.code == AWAY:
                away = follows
            else:
                away = isinstance(problem, Unavailable) or "dispatcher" in str(problem)
            left_s = give_up_s - time.monotonic()
            if not away or isinstance(problem, OnlyInLab) or left_s <= 0:
                raise
            if not notified and time.monotonic() - began_s >= SILENT_S:
                notified = True
                if progress is not None:
                    progress.clear()
                complain("lbctl", f"{problem}; trying again for {left_s:.0f} s (^C to stop)")
            time.sleep(min(RETRY_S, left_s))


def not_ended(count: int, held: int = 0) -> Unavailable:
    """`held`: of these, how many begin only once they are released."""
    some = "1 job has" if count == 1 else f"{count} jobs have"
    if held >= count:
        apart = ": it is held" if count == 1 else ": all are held"
    else:
        apart = f"; {held} of them {'is' if held == 1 else 'are'} held" if held else ""
    return Unavailable(f"{some} not ended yet{apart}")


def waits_for_release(held: int, ids: list[str]) -> str:
    some = "the job that has not ended is" if held == 1 else f"the {held} that have not ended are"
    return f"{some} held; to let go: lbctl release {' '.join(ids)}"


def wait(
    daemons: Daemons, given: list[str], give_up_s: float, *, listed: bool
) -> tuple[int, list[Json]]:
    """Waits until the jobs have ended and their outputs have come, and says how they ended.

    Returns the exit status and, if `listed`, the jobs: none if they have not all ended by
    `give_up_s`, a monotonic time. Raises ConfigError for ids that are none.
    """
    check_ids(given)
    progress = Progress(has_terminal())
    counts: Json = {}
    delay, said_held = "", False  # why outputs have not come, as far as it was said
    found: list[Json] = []
    try:
        ids = settled(daemons, given, max(0.0, give_up_s - time.monotonic()))
        if progress.is_on:
            ask = partial(patiently, daemons, progress=progress)
            counts = table(wait_showing(ask, ids, give_up_s, progress), "states")
        while True:
            left_s = give_up_s - time.monotonic()
            patience_s = max(0.0, min(PATIENCE_S, left_s))
            question: Json = {"op": "queue.wait", "ids": ids, "patience_s": patience_s}
            question |= {"brief": not listed, "outputs": True}
            reply = patiently(daemons, question, max(0.0, left_s))
            if reply.get("open") == 0:
                found = tables(reply, "jobs")
                if not (coming := reply.get("outputs_coming")):
                    break
                if not delay and (delay := text(reply, "outputs_trouble")):
                    complain("lbctl", f"outputs not fetched yet: {delay}; waiting for them")
                give_up_s = min(give_up_s, time.monotonic() + OUTPUTS_S)
                if left_s <= 0:
                    raise Unavailable(f"ended, but outputs of {coming} are still being fetched")
                continue
            left, held = (whole(reply, name) for name in ("open", "held"))
            if left_s <= 0:
                raise not_ended(left, held)
            if held >= left and not said_held:
                said_held = True
                complain("lbctl", waits_for_release(left, ids))
    except LbdError as problem:
        report_error("lbctl", problem)
        return NO_ANSWER, found
    trouble = text(reply, "outputs_trouble")
    if trouble:
        complain("lbctl", f"outputs not fetched yet: {trouble}")
    if line := outcome(counts, ids):
        complain("lbctl", line)
    if trouble:
        return NO_ANSWER, found
    return 0 if reply.get("all_done") else NOT_ALL, found

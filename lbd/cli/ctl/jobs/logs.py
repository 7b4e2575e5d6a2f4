"""`lbctl logs`: the outputs of queued jobs, stored by the daemons or in the jobs' own files."""

import argparse
import base64
import contextlib
import math
import sys
import time
from collections.abc import Iterator
from functools import partial

from lbd.cli.complaints import EXIT_FAILED
from lbd.cli.ctl.jobs.own_files import FollowedFiles, copy_files, followed_files, where_it_goes
from lbd.cli.ctl.jobs.queued_jobs import (
    RESTART_S,
    RETRY_FOR_S,
    patiently,
    settled,
    with_attempts,
)
from lbd.cli.ctl.verb import say
from lbd.cli.program import Parser
from lbd.console.daemons import Daemons
from lbd.console.job_acts import check_ids
from lbd.console.job_details import end_phrase, status_phrase
from lbd.console.job_output import SHORT_MAX, begins_anew, is_short, printed_so_far
from lbd.console.jobs import ANSWER_S
from lbd.console.output import put
from lbd.console.reply import Json, number, tables, text, texts, whole
from lbd.errors import ConfigError, LbdError
from lbd.local.json_socket import AWAY, SEVERAL, Refusal
from lbd.local.write_all import write_all
from lbd.model import ENDED_NAMES
from lbd.text.array_phrases import NOT_STARTED
from lbd.text.job_phrases import CANNOT_OPEN, NOT_STORED

FAILED = ("failed", "lost")
UNSUCCESSFUL = (*FAILED, "cancelled")
SHOWN_MAX = 1000  # outputs of tasks shown at once
NAMED_MAX = 20  # tasks named whose output is left out
FOLLOW_S = 0.2


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
    parser.add_argument("ids", metavar="ID", nargs=1,
                        help="3, 12_7, 12_[3-5], last or h1-26; one job, array or "
                             "task")  # fmt: skip
    # given a default, argparse does not call it required
    parser.add_argument("others", nargs="*", default=[], help=argparse.SUPPRESS)


def attempt_number(given: str) -> int:
    if not (given.isascii() and given.isdecimal() and 0 < int(given) < 1 << 31):
        raise argparse.ArgumentTypeError(f"{given!r} is not an attempt number; the first is 1")
    return int(given)


def logs(daemons: Daemons, options: argparse.Namespace) -> int:
    check_ids(options.ids)
    if options.failed:
        return logs_of_failed(daemons, options)
    ids = settled(daemons, options.ids, patience_of(follows=options.follow))
    of_one = options.follow or options.attempt is not None
    if {",", "-"}.intersection(ids[0]) and not of_one:
        return show_tasks(daemons, ids)
    try:
        return show_output(daemons, ids, options.attempt, set(), follows=options.follow)
    except Refusal as problem:
        if NOT_STORED in str(problem) and (why := why_refused(daemons, ids, options.attempt)):
            raise Refusal(why, problem.code) from None
        if problem.code != SEVERAL:
            raise
        if of_one:
            raise ConfigError(str(problem)) from None
    return show_tasks(daemons, ids)


def output_json(daemons: Daemons, options: argparse.Namespace) -> Json:
    """Returns what one job has printed so far; bytes that are no text as Python's surrogateescape
    has them. Raises LbdError."""
    if options.follow or options.failed:
        raise ConfigError("--json shows one job's output as it is now: it takes neither -f nor "
                          "--failed")  # fmt: skip
    patience_s = patience_of(follows=False)
    name = settled(daemons, options.ids, patience_s)[0]
    ask = partial(patiently, daemons, patience_s=patience_s)
    found = printed_so_far(ask, name, options.attempt)
    output, error = (
        whole.decode(errors="surrogateescape") for whole in (found.output, found.error)
    )
    one: Json = {"id": name, "attempt": found.attempt, "state": found.state}
    return one | {"kept": True, "output": output, "error": error}


def why_refused(daemons: Daemons, ids: list[str], attempt: int | None) -> str:
    """Returns why that attempt never ran; "" if it did, or if that is not known."""
    try:
        found = with_attempts(daemons, ids)[0]
    except LbdError:
        return ""
    for one in (one for job in found for one in tables(job, "attempts")):
        if number(one, "number") == attempt and text(one, "state") == "refused":
            why = f": {reason}" if (reason := text(one, "reason")) else ""
            return f"attempt {attempt} was refused, so it has no output{why}"
    return ""


def show_tasks(daemons: Daemons, ids: list[str]) -> int:
    """Shows the outputs of those that exist, and says which do not. Returns the exit status.
    Raises LbdError."""
    absent: list[str] = []
    found = tasks_of(daemons, ids, absent)
    for why in absent:
        say(why)
    begun = [one for one in found if has_begun(one)]
    if len(begun) > SHOWN_MAX:
        example = f"{text(begun[0], 'id').partition('_')[0]}_[1-100]"
        raise ConfigError(f"at most {SHOWN_MAX} outputs are shown at once, and {len(begun)} tasks "
                          f"have begun: name some, like {example}")  # fmt: skip
    status = show_each(daemons, begun)
    for line in why_not_begun([one for one in found if not has_begun(one)]):
        say(line)
    return EXIT_FAILED if absent else status


def has_begun(one: Json) -> bool:
    return not math.isnan(number(one, "started"))


def why_not_begun(found: list[Json]) -> Iterator[str]:
    """Yields a line on the tasks that wait, one on those that ended without a start, and one on the
    lost ones, which may have begun unseen; with the first reason among these."""
    ended = [one for one in found if text(one, "state") not in ("pending", "lost")]
    lost = [one for one in found if text(one, "state") == "lost"]
    if left := len(found) - len(ended) - len(lost):
        yield f"{left} of these tasks {'have' if left > 1 else 'has'} not begun"
    again = any(number(one, "attempt") > 1 for one in ended)
    did_not = "did not run, or not again" if again else "never ran"
    for some, what in ((ended, did_not), (lost, "were lost" if len(lost) > 1 else "was lost")):
        if some:
            why = next((f": {reason}" for one in some if (reason := text(one, "reason"))), "")
            yield f"{len(some)} of these tasks {what}{why}"


def logs_of_failed(daemons: Daemons, options: argparse.Namespace) -> int:
    if options.follow or options.attempt is not None:
        raise ConfigError("--failed shows the last attempt of ended jobs: it takes neither -f nor "
                          "--attempt")  # fmt: skip
    failed = [one for one in tasks_of(daemons, options.ids) if text(one, "state") in FAILED]
    if not failed:
        say("none of these jobs has failed")
    # One that is lost may have begun unseen.
    ran = [one for one in failed if has_begun(one) or text(one, "state") == "lost"]
    status = show_each(daemons, ran)
    for line in why_not_begun([one for one in failed if one not in ran]):
        say(line)
    return status


def tasks_of(daemons: Daemons, ids: list[str], absent: list[str] | None = None) -> list[Json]:
    """Returns the tasks in the order of their indexes. Raises LbdError if one does not exist; given
    `absent`, only if none does, and otherwise adds what to say of those."""
    question: Json = {"op": "queue.jobs", "ids": ids, "tasks": True, "foretold": False}
    question["some"] = absent is not None
    reply = daemons.lbm(question, ANSWER_S)
    if absent is not None:
        absent += texts(reply, "absent")
    return tables(reply, "jobs")


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
        reason = text(one, "reason")
        if whole(one, "exit_status") in NOT_STARTED and reason:
            how += f": {reason}"
        put(f"==> {task}: {text(one, 'state')}{where}{how} <==")
        sys.stdout.flush()
        if reason.startswith(CANNOT_OPEN):  # it never ran
            continue
        try:
            show_output(daemons, [task], None, copied, follows=False)
        except Refusal as problem:
            if problem.code not in (AWAY, "unavailable") or not host:
                raise
            if problem.code != AWAY and "dispatcher" in str(problem):  # as for every other task
                raise
            say(problem)
            if problem.code == AWAY:
                left[host] = [task]
            else:
                is_complete = False
    for host, tasks in left.items():
        more = f" and {len(tasks) - NAMED_MAX} more" if len(tasks) > NAMED_MAX else ""
        named = ", ".join(tasks[:NAMED_MAX]) + more
        say(f"left out until {host} is back: the output of {named}")
    return 0 if is_complete and not left else 1


def show_output(
    daemons: Daemons, ids: list[str], attempt: int | None, copied: set[str], *, follows: bool
) -> int:
    question: Json = {"op": "queue.logs", "ids": ids, "attempt": attempt}
    at: object = [0, 0]
    seen, warned, asked, printed, short = 0, set[str](), False, False, 0
    files: FollowedFiles | None = None
    files_attempt = -1  # whose `files` are
    while True:
        question |= {"at": at, "seen_attempt": seen}
        reply = patiently(daemons, question, patience_of(follows=follows), follows=follows)
        again = whole(reply, "attempt")
        if begins_anew(seen, reply):
            say(f"attempt {seen} failed; this is attempt {again}")
        short = short if again == seen else 0
        seen, at = again or seen, reply.get("at")
        data, state, is_last = texts(reply, "data"), text(reply, "state"), not reply.get("more")
        if (warning := text(reply, "warning")) and warning not in warned:
            warned.add(warning)
            say(warning)
        if dropped := reply.get("dropped_bytes"):
            say(f"{dropped} bytes of output were dropped here")
        printed = printed or bool(data)
        for descriptor, piece in enumerate(data, 1):
            write_all(descriptor, base64.b64decode(piece))
        short += bool(data) and is_short(data) and state not in ENDED_NAMES
        if short > SHORT_MAX and not follows:  # it prints all the time
            return 0
        if data and not (follows and has_caught_up(reply, data)):
            continue
        follows_files = follows and attempt is None and state != "pending"
        if follows_files and files_attempt != again:
            files, files_attempt = files_of(daemons, ids, files, printed=printed), again
        elif not (data or asked or follows_files):
            asked = True
            shown = None if follows or attempt else copied
            show_rest(daemons, ids, shown, printed=printed, is_whole=not warned)
        if files is not None and not files.copy(is_last=is_last):
            say(files.where())
            if not is_last and files.have_all:
                return 0
            files = None
        if not follows or is_last:
            if follows and state in UNSUCCESSFUL:
                say_how_it_ended(daemons, ids)
            return 0
        time.sleep(FOLLOW_S)


def patience_of(*, follows: bool) -> float:
    return RETRY_FOR_S if follows else RESTART_S


def files_of(
    daemons: Daemons, ids: list[str], before: FollowedFiles | None, *, printed: bool
) -> FollowedFiles | None:
    """Returns the files that the job's current attempt writes to, None if it has none. `printed`:
    some output was stored."""
    question: Json = {"op": "queue.jobs", "ids": ids, "attempts": True}
    found = tables(patiently(daemons, question), "jobs")
    if not found or text(found[0], "reason").startswith(CANNOT_OPEN):
        return None
    if printed and text(found[0], "output"):  # the file could not be opened
        return None
    return followed_files(found[0], before)


def has_caught_up(reply: Json, data: list[str]) -> bool:
    """Returns whether to pause before asking a running job again: an immediate request would return
    little more, and each costs a request to its host."""
    return text(reply, "state") == "running" and is_short(data)


def show_rest(
    daemons: Daemons, ids: list[str], copied: set[str] | None, *, printed: bool, is_whole: bool
) -> None:
    """Says why there is no output, as far as known: the job has not started, or it writes to files,
    which are shown unless `copied` is None. `printed`: some output was stored;
    `is_whole`: none of it is missing."""
    question: Json = {"op": "queue.jobs", "ids": ids, "attempts": True}
    try:
        found = tables(daemons.lbm(question, ANSWER_S), "jobs")
    except LbdError:
        return
    if not found or (printed and text(found[0], "output")):  # the file could not be opened
        return
    job, said = found[0], []
    can_read: bool | None = None
    is_pending = text(job, "state") == "pending"
    if is_pending:
        reason = text(job, "reason")
        said.append(f"job {text(job, 'id')} has not started" + (f": {reason}" if reason else ""))
    elif copied is not None:
        if (reason := text(job, "reason")).startswith(CANNOT_OPEN):
            say(f"job {text(job, 'id')} never ran: {reason}")
            return
        files = copy_files(job, copied)
        if any(file.copied_bytes for file in files):
            return
        has_ended = text(job, "state") in ENDED_NAMES
        if has_ended and files and not printed and all(file.is_empty for file in files):
            empty = " and ".join(file.path for file in files)
            are = "is" if len(files) == 1 else "are"
            say(f"{nothing_phrase(job)} ({empty} {are} empty)")
            return
        kept = is_whole and not (files or printed or text(job, "output"))  # by the daemons
        if kept and text(job, "state") in UNSUCCESSFUL:
            say(nothing_phrase(job))
            return
        can_read = next((file.can_read for file in files if file.descriptor == 1), None)
    if where := where_it_goes(job, can_read):
        said.append(where)
    if said:
        say("; ".join(said))


def nothing_phrase(job: Json) -> str:
    """Returns that an ended job has printed nothing, and if it failed, why: somebody looks for that
    in its output."""
    if text(job, "state") in UNSUCCESSFUL:
        return f"{end_phrase(job)}; it printed nothing"
    return f"job {text(job, 'id')} printed nothing"


def say_how_it_ended(daemons: Daemons, ids: list[str]) -> None:
    """Says how a followed job failed, because its output alone does not show that."""
    with contextlib.suppress(LbdError):
        found = tables(daemons.lbm({"op": "queue.jobs", "ids": ids}, ANSWER_S), "jobs")
        for one in found:
            say(end_phrase(one))

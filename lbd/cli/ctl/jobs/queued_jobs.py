"""`lbctl job, wait` for queued jobs; verbs.py and wait_for.py add those of plain commands."""

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from lbd.cli.complaints import report_error
from lbd.cli.ctl.jobs.arrays import Ask, Ends, outcome, wait_showing
from lbd.cli.ctl.jobs.listing import head_of, others_left_out
from lbd.cli.ctl.verb import say
from lbd.cli.program import Parser
from lbd.cli.quantities import duration
from lbd.client.progress import Progress, has_terminal
from lbd.console.daemons import Daemons, NeverRan
from lbd.console.figures import Clock
from lbd.console.job_acts import check_ids
from lbd.console.job_details import DETAIL_INDENT, attempt_row, detail_lines
from lbd.console.jobs import ANSWER_S, states_of
from lbd.console.output import Page, put, wrapped
from lbd.console.reply import Json, number, table, tables, text, texts, whole
from lbd.dispatch.core.job_selection import is_last, with_last
from lbd.errors import LbdError, Unavailable
from lbd.local.json_socket import AWAY, Refusal
from lbd.model import ENDED_NAMES
from lbd.text.job_phrases import NOT_STORED, OUTPUT_DROPPED, OUTPUT_GONE, waits_for_mending
from lbd.text.units import counted

PATIENCE_S = 15.0
UNTAKEN_AFTER_S = 5.0
OUTPUTS_S = 600.0  # for the outputs of --fetch, after all jobs have ended
LEAST_ANSWER_S = 5.0  # minimum timeout of a request, however little time the caller has
RETRY_S = 0.5
RETRY_FOR_S = 60.0  # for a daemon that is restarting
EXTRA_S = 1.0  # for what `lbctl job` says in more detail if it is answered at once
SILENT_S = 2.0  # of these, before the first message
RESTART_S = 10.0  # instead, for who only wants to see what there is now
FULL_MAX = 50  # jobs shown at once with all that is known of them, each of which takes a request
NOT_ALL, NO_ANSWER = 1, 2
ALL_EXTRA_S = 4.0  # for what takes EXTRA_S at most, of all jobs together
LOST_OUTPUT = {  # in an answer: what `lbctl job` says
    OUTPUT_GONE: OUTPUT_GONE,
    NOT_STORED: "which no longer has it",
    OUTPUT_DROPPED: "which removed it because its disk was nearly full",
}
ATTEMPTS = (">NO", "HOST", ">TIER", "STATE", "STARTED", ">RAN", ">CPU", ">EXIT", "REASON")
ATTEMPTS_GO_FIRST = (">TIER", ">CPU", "STARTED", ">RAN")


def add_ids(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+",
                        help="3, 2-5, 12_7, 12_[3-5], last, @me, h1-26")  # fmt: skip


def add_wait_options(parser: Parser) -> None:
    parser.add_argument("--timeout", metavar="DUR", type=duration, default=math.inf,
                        help="give up after this time, with exit status 2")  # fmt: skip
    add_ids(parser)


def with_attempts(daemons: Daemons, ids: list[str]) -> tuple[list[Json], list[str], str]:
    """Returns the jobs that exist, what there is to say of the other ids, and what of others' jobs
    in ranges. Raises LbdError."""
    question: Json = {"op": "queue.jobs", "ids": ids, "attempts": True, "some": True}
    reply = daemons.lbm(question, ANSWER_S)
    found: list[Json] = [{"attempts": [], **one} for one in tables(reply, "jobs")]
    return found, texts(reply, "absent"), others_left_out(reply)


def each_in_full(daemons: Daemons, found: list[Json]) -> list[Json]:
    """Returns several jobs, each as if it were asked about alone: only then an answer has what its
    user gave, which may be a megabyte of each. Of very many it says that the last ones lack
    that."""
    if len(found) < 2:
        return found
    if len(found) > FULL_MAX:
        say(f"only of the first {FULL_MAX} of these jobs all is shown; name fewer at a time")
    full = list[Json]()
    for one in found[:FULL_MAX]:
        alone: list[Json] = []
        with contextlib.suppress(LbdError):  # it has just been forgotten
            alone, _, _ = with_attempts(daemons, [text(one, "id")])
        full += alone or [one]
    return full + found[FULL_MAX:]


def with_lost_outputs(daemons: Daemons, found: list[Json]) -> list[Json]:
    """Like `with_lost_output` for several, unless hosts that do not answer take long."""
    give_up_s = time.monotonic() + ALL_EXTRA_S
    return [
        with_lost_output(daemons, one) if at < FULL_MAX and time.monotonic() < give_up_s else one
        for at, one in enumerate(found)
    ]


def with_lost_output(daemons: Daemons, one: Json) -> Json:
    """Returns an ended job with why its output can no longer be read where it was kept, if that is
    so and its host can be asked."""
    is_kept = number(one, "started") >= 0 and not (text(one, "output") or text(one, "array"))
    if not (is_kept and text(one, "state") in ENDED_NAMES):
        return one
    try:
        daemons.lbm({"op": "queue.logs", "ids": [text(one, "id")]}, EXTRA_S)
    except LbdError as problem:
        for phrase, why in LOST_OUTPUT.items():
            if phrase in str(problem):
                return {**one, "output_lost": why}
    return one


def without_tiers(daemons: Daemons, found: list[Json]) -> list[Json]:
    """Returns the jobs, their attempts without a tier if the queue's discipline has none: all are
    in tier 1 then. An attempt in another is from before the discipline was changed."""
    tiers = {number(attempt, "tier") for one in found for attempt in tables(one, "attempts")}
    if tiers != {1}:
        return found
    with contextlib.suppress(LbdError):
        if not table(daemons.lbm({"op": "queue.status"}, EXTRA_S), "tiers"):
            return [
                {
                    **one,
                    "attempts": [{**attempt, "tier": None} for attempt in tables(one, "attempts")],
                }
                for one in found
            ]
    return found


def show(found: list[Json], clock: Clock, page: Page) -> None:
    for at, one in enumerate(found):
        if at:
            put("")
        put(*head_of(one, clock, page, len(DETAIL_INDENT)))
        for line in detail_lines(one, clock):
            put(*wrapped(line, page.columns, DETAIL_INDENT))
        rows = [attempt_row(attempt, clock) for attempt in tables(one, "attempts")]
        if rows and not text(one, "array"):  # for an array these are its first task's
            put("", *page.table(ATTEMPTS, rows, ATTEMPTS_GO_FIRST, ("REASON",)))


def settled(daemons: Daemons, ids: list[str], patience_s: float = RETRY_FOR_S) -> list[str]:
    """Replaces `last` by the job's id, so that repeated requests mean the same job whatever is
    submitted meanwhile. Raises LbdError."""
    if not any(map(is_last, ids)):
        return ids
    question: Json = {"op": "queue.jobs", "ids": ["last"], "foretold": False}
    found = patiently(daemons, question, patience_s)
    (job,) = tables(found, "jobs") or ({},)
    if not (last := text(job, "id")):
        return ids
    return [with_last(one, last) if is_last(one) else one for one in ids]


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
                away = isinstance(problem, Unavailable) or is_of_daemons(problem)
            left_s = give_up_s - time.monotonic()
            if not away or isinstance(problem, NeverRan) or left_s <= 0:
                raise
            if not notified and time.monotonic() - began_s >= SILENT_S:
                notified = True
                if progress is not None:
                    progress.clear()
                say(f"{problem}; trying again for {left_s:.0f} s (^C to stop)")
            time.sleep(min(RETRY_S, left_s))


def is_of_daemons(problem: LbdError) -> bool:
    """Whether the LBM has refused because it does not reach the dispatcher, or its own LIM."""
    return "dispatcher" in str(problem) or str(problem).startswith("lim did not answer")


def not_ended(count: int, ids: list[str], held: int = 0) -> Unavailable:
    """`held`: of these, how many begin only once they are released."""
    are_tasks = all("_" in one for one in ids) or (count > len(ids) == 1 and ids[0].isdecimal())
    some = f"{counted(count, 'task' if are_tasks else 'job')} {'has' if count == 1 else 'have'}"
    if held >= count:
        apart = ": it is held" if count == 1 else ": all are held"
    else:
        apart = f"; {held} of them {'is' if held == 1 else 'are'} held" if held else ""
    return Unavailable(f"{some} not ended yet{apart}")


@dataclass(slots=True)
class Telling:
    """Asks, and says once of an answer that a command has ended, but not yet on record."""

    ask: Ask
    before: Callable[[], None]  # called before anything is said
    _has_said: bool = False

    def __call__(self, question: Json, left_s: float) -> Json:
        reply = self.ask(question, left_s)
        if not self._has_said and (why := text(reply, "unrecorded")):
            self._has_said = True
            self.before()
            say(why)
        return reply


def waits_for_release(held: int, ids: list[str]) -> str:
    some = "the job that has not ended is" if held == 1 else f"the {held} that have not ended are"
    return f"{some} held; to let go: lbctl release {' '.join(ids)}"


def said_absent(daemons: Daemons, ids: list[str], patience_s: float) -> list[str]:
    """Says which of several ids have no job, before the others are waited for. Raises LbdError."""
    if len(ids) == 1 and ids[0].isdecimal():
        return []
    question: Json = {"op": "queue.wait", "ids": ids, "patience_s": 0.0, "brief": True}
    absent = texts(patiently(daemons, question | {"some": True}, patience_s), "absent")
    if absent:
        say("; ".join(absent))
    return absent


@dataclass(slots=True)
class Untaken:
    """Says once which of the jobs no host takes, or the full disk of the ledger keeps from
    beginning, and why. Looks after a few seconds of a wait, then at ever longer intervals."""

    daemons: Daemons
    ids: list[str]
    progress: Progress
    began_s: float = field(default_factory=time.monotonic)
    due_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.due_s = self.began_s + UNTAKEN_AFTER_S

    def __call__(self) -> None:
        if (now_s := time.monotonic()) < self.due_s:
            return
        self.due_s = now_s + max(UNTAKEN_AFTER_S, now_s - self.began_s)
        question: Json = {"op": "queue.jobs", "ids": self.ids, "some": True, "foretold": False}
        with contextlib.suppress(LbdError):
            jobs = tables(self.daemons.lbm(question, ANSWER_S), "jobs")
            found = [one for one in jobs if waits_for_mending(text(one, "reason"))]
            if waits := [one for one in found if "pending" in states_of(one)]:
                self.due_s = math.inf
                self.progress.clear()
                others = len(waits) - 1
                more = f"; so {'does' if others == 1 else 'do'} {others} more" if others else ""
                say(f"job {text(waits[0], 'id')} waits: {text(waits[0], 'reason')}{more}")


def wait(
    daemons: Daemons, given: list[str], give_up_s: float, plain: Ends, *, listed: bool
) -> tuple[int, list[Json]]:
    """Waits until the jobs have ended and their outputs have come, and says how they ended,
    together with the plain commands that were waited for before.

    Returns the exit status and, if `listed`, the jobs: none if they have not all ended by
    `give_up_s`, a monotonic time. Raises ConfigError for ids that are none.
    """
    check_ids(given)
    progress = Progress(has_terminal())
    telling = Telling(partial(patiently, daemons, progress=progress), progress.clear)
    ends: Json = {}  # how many ended how, and which not well, as far as it was asked
    absent: list[str] = []  # what there is to say of ids without a job
    delay, said_held = "", False  # why outputs have not come, as far as it was said
    found: list[Json] = []
    try:
        ids = settled(daemons, given, max(0.0, give_up_s - time.monotonic()))
        absent = said_absent(daemons, ids, max(0.0, give_up_s - time.monotonic()))
        untaken = Untaken(daemons, ids, progress)
        if progress.is_on:
            ends = wait_showing(telling, ids, give_up_s, progress, untaken)
        while True:
            left_s = give_up_s - time.monotonic()
            patience_s = max(0.0, min(PATIENCE_S, left_s, untaken.due_s - time.monotonic()))
            question: Json = {"op": "queue.wait", "ids": ids, "patience_s": patience_s}
            question |= {"brief": not listed, "outputs": True, "some": True}
            reply = telling(question, max(0.0, left_s))
            if reply.get("open") == 0:
                found = tables(reply, "jobs")
                if not (coming := reply.get("outputs_coming")):
                    break
                if not delay and (delay := text(reply, "outputs_trouble")):
                    say(f"outputs not fetched yet: {delay}; waiting for them")
                give_up_s = min(give_up_s, time.monotonic() + OUTPUTS_S)
                if left_s <= 0:
                    raise Unavailable(f"ended, but outputs of {coming} are still being fetched")
                continue
            left, held = (whole(reply, name) for name in ("open", "held"))
            if left_s <= 0:
                raise not_ended(left, ids, held)
            untaken()
            if held >= left and not said_held:
                said_held = True
                say(waits_for_release(left, ids))
        if not (ends or listed or reply.get("all_done")):
            ends = reply
    except LbdError as problem:
        report_error("lbctl", problem)
        return NO_ANSWER, found
    trouble = text(reply, "outputs_trouble")
    if trouble:
        say(f"outputs not fetched yet: {trouble}")
    if ends and (line := outcome(Ends.of(ends, ids).and_of(plain))):
        say(line)
    if trouble or absent:
        return NO_ANSWER, found
    return 0 if reply.get("all_done") else NOT_ALL, found

"""Checks what hosts send the dispatcher: every number, time and text that is kept.

A value that a store cannot hold would make a whole batch of other users' changes fail, so
everything reaches the ledger and the queue only through these functions. One file because these
are all of them. Pure.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lbd.config.dispatch import LEASE_S_MAX, DispatchConfig
from lbd.config.resources import fault_of_name
from lbd.dispatch.array_limits import fault_of_tasks
from lbd.dispatch.core.dependencies.conditions import HOWS, TASK
from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.job_selection import is_number
from lbd.dispatch.core.ledger_rows import Submission
from lbd.dispatch.core.records import Cause, Ending
from lbd.dispatch.core.shares import Rules, Shares
from lbd.errors import LbdError
from lbd.model import NO_FACTS, Facts, HostId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from lbd.net.spooled_output import NO_ROOM_CHARS, is_spooled
from lbd.net.submitter import (
    Submitter,
    contradiction,
    has_too_many_words,
    request_in,
    words_in,
)
from lbd.text.command_words import QUEUED_WORDS_MAX, TOO_MANY_WORDS
from lbd.text.index_list import Runs, count_of, read_runs
from lbd.text.job_limits import (
    AFTER_MAX,
    EXCLUDED_MAX,
    GANG_MAX,
    HELD_MAX,
    PRIORITY_MAX,
    REQUEST_BYTES_MAX,
    SLOTS_MAX,
    SPEEDUP_MAX,
    TIME_MAX,
    WORK_S_MAX,
)
from lbd.text.needs_words import are_needs, read_facts, read_needs_text
from lbd.text.one_line import one_line

KEEPER_CHARS = 200
NAME_CHARS = 255
GANG_HOSTS_BYTES = (128 << 10) - len("LBD_GANG_HOSTS=\0")  # of one string, as in execve
ARRAY_INDEX_MAX = 10**18 - 1  # as in lbrun
TEXT_MAX = 255
KEY_MAX = 200
PATH_BYTES_MAX = 1 << 16
COMMAND_BYTES_MAX = 4 << 20
NO_PRIORITIES = (
    "--priority: this cluster does not use priorities; an administrator turns them on: "
    "lbctl config set dispatch.priorities true --cluster"
)
CPU_S_MAX = LOAD_MAX = SAID_MAX_S = 1e12
WAIT_S_MAX = 8 * 86400.0
AGO_S_MAX = 30 * 86400.0
SIGNAL_MAX = 64
WORK_S_MIN = 1e-9  # so that no share of it underflows a float
STATUS_MAX = 255
VALUES = (
    "user, origin, host", "user, origin, host, files", "excluded", "key", "command", "slots",
    "priority", "speedup, work", "array", "at_once", "submitted", "timeout",
    "output, error, checkpoint", "input (dispatch.max_input_bytes)", "needs",
)  # fmt: skip
RSS_BYTES_MAX = 1 << 62
OF_END = "cause", "exit_status", "errno", "wait_s", "signal", "cpu_s", "stop_reason", "memory"
CAUSES = {cause.value: cause for cause in Cause}


def submission_of(
    asked: pb.SubmitRequest, own: DispatchConfig, rules: Rules, *, by_uid: bool
) -> Submission:
    """`by_uid`: users are identified by number, so keys are too. Raises LbdError."""
    if own.closed:
        raise LbdError("the queue accepts no new jobs: it is being disabled (lbctl queue)")
    stored = asked.spec  # each access copies it
    submitter, request = submitter_of(asked, stored)
    if request.needs != asked.needs:  # hosts would refuse what the queue offers them, without end
        raise LbdError("this cannot be queued: its command needs something else than its job")
    check_waits(asked)
    indexes = indexes_of(asked)
    count = count_of(indexes) if indexes else asked.count
    sent = Submission(
        user=submitter.user,
        origin=submitter.origin,
        name=one_line(name, TEXT_MAX) if (name := asked.name) else "",
        command=b"\0".join(asked.command),
        spec=stored.SerializeToString(),
        slots=asked.slots or 1,
        slots_most=asked.slots_most,
        priority=asked.priority,
        may_restart=asked.may_restart,
        only=asked.only,
        excluded=tuple(asked.excluded),
        key=asked.key,
        first_index=asked.first_index if asked.is_array else None,
        count=count,
        indexes=indexes,
        at_once=asked.at_once,
        needs=asked.needs,
        spooled=is_spooled(stored, request),
        takes_checkpoints=bool(stored.checkpoint),
        uid=submitter.uid,
        gang=count if asked.gang else 0,
        not_before=asked.not_before,
        limit_s=request.timeout_s,
        speedup=(asked.parallelism, asked.sigma) if asked.HasField("parallelism") else None,
        work_s=asked.work_s if asked.HasField("work_s") else None,
    )
    if fault := fault_of_tasks(sent, words_in(request), len(asked.after), own):
        raise LbdError(fault)
    if len(sent.key) > KEY_MAX:
        raise LbdError(f"--idempotency-key: at most {KEY_MAX} characters")
    if sent.priority and not rules.priorities:
        raise LbdError(NO_PRIORITIES)
    if rules.user_slots and sent.slots > rules.user_slots:
        raise LbdError(
            f"--slots {sent.slots}: the limit per user is {rules.user_slots} (dispatch.user_slots)"
        )
    if sent.gang and (fault := fault_of_gang(sent, stored, own, rules)):
        raise LbdError(f"--gang: {fault}")
    if fault := fault_of(sent, stored, own):
        raise LbdError(f"this cannot be queued: {fault}")
    return replace(sent, key=f"{sent.uid}:{sent.key}") if by_uid and sent.key else sent


def indexes_of(asked: pb.SubmitRequest) -> Runs:
    """Returns the indexes where they are not simply consecutive. Raises LbdError."""
    if not asked.indexes:
        return ()
    try:
        if not asked.is_array:
            raise ValueError
        return read_runs(asked.indexes)
    except ValueError:
        raise LbdError("this cannot be queued: array is not valid") from None


def is_early(asked: pb.SubmitRequest) -> bool:
    """Whether it waits for other jobs, or for a time, before it joins the queue."""
    return bool(asked.after) or asked.HasField("not_before")


def check_waits(asked: pb.SubmitRequest) -> None:
    """Raises LbdError."""
    if asked.HasField("not_before") and not 0 <= asked.not_before <= TIME_MAX:  # nor NaN
        raise LbdError("this cannot be queued: --begin is not valid")
    if len(asked.after) > AFTER_MAX:
        raise LbdError(
            f"--after: cannot wait for {len(asked.after)} jobs; the limit is {AFTER_MAX}"
        )


def after_of(text: str) -> tuple[str, int, int | None]:
    """Returns the condition, the number of a job or array, and a task's index. Raises LbdError."""
    how, colon, job = text.partition(":")
    array, line, index = job.partition("_")
    if not (colon and (how in HOWS or how == TASK) and is_number(array)):
        raise LbdError(
            f"--after {one_line(job, 40)!r} is not a queued job's id; must be 12 or 12_7"
        )
    is_index = index.isascii() and index.isdecimal() and len(index) <= len(str(ARRAY_INDEX_MAX))
    if line and not is_index:
        raise LbdError(f"--after {one_line(job, 40)!r} is not a task's id; must be 12_7")
    return how, int(array), int(index) if line else None


def target_of(
    asked: pb.SubmitRequest, own: DispatchConfig, unix_s: float
) -> tuple[float | None, float | None]:
    """Returns the target and the deadline in UNIX seconds; `unix_s` is now. Raises LbdError."""
    within_s = asked.target_s if asked.HasField("target_s") else None
    deadline = asked.deadline if asked.HasField("deadline") else None
    if within_s is None and deadline is None:
        return None, None
    option = "--deadline" if within_s is None else "--target"
    if own.mode != "fcfs":
        raise LbdError(
            f'{option}: it needs dispatch.mode = "fcfs", where a free slot takes any task; here it '
            f"is {own.mode}"
        )
    at = deadline if deadline is not None else unix_s + (within_s or 0.0)
    # Checked separately: the maximum of a number and NaN may be the number.
    if not (asked.is_array and at <= TIME_MAX and (within_s or 0.0) <= TIME_MAX):
        raise LbdError(f"this cannot be queued: {option} is not valid")
    if within_s is not None and deadline is not None:
        raise LbdError("--target and --deadline both set when the array should end: use only one")
    if asked.gang:
        raise LbdError(f"{option} cannot be used with --gang: all jobs of a gang start together")
    if asked.slots_most > (asked.slots or 1):
        raise LbdError(f"{option} cannot be used with a range of slots: give a number")
    if at <= unix_s:
        raise LbdError(f"{option}: it has passed, by the clock of the dispatcher's host")
    return (at, None) if deadline is None else (None, at)


def fault_of_gang(sent: Submission, spec: pb.StoredSpec, own: DispatchConfig, rules: Rules) -> str:
    """Returns why these jobs can never start together; "" if they can."""
    if own.mode != "fcfs":
        return f'it needs dispatch.mode = "fcfs", one queue for all hosts; here it is {own.mode}'
    if sent.first_index is None:
        return "it needs --array: it starts all tasks of an array together"
    if sent.gang > GANG_MAX:
        return f"{sent.gang} jobs; the limit is {GANG_MAX}"
    if sent.slots_most > sent.slots:
        return (
            f"it cannot be used with --slots {sent.slots}-{sent.slots_most}: give a number, not "
            "a range"
        )
    if sent.at_once:
        return f"it cannot be used with --array …%{sent.at_once}: all tasks start together"
    if spec.checkpoint:
        return "it cannot be used with --checkpoint: its tasks cannot stop and continue separately"
    needed = sent.gang * sent.slots
    if rules.user_slots and needed > rules.user_slots:
        most = rules.user_slots
        return f"it needs {needed} slots; the limit per user is {most} (dispatch.user_slots)"
    limit = Shares(rules).name_limit(sent.name)
    if limit and sent.gang > limit:
        return (
            f"{sent.gang} jobs named {sent.name}; only {limit} may run at once (dispatch.name_jobs)"
        )
    return ""


def fault_of_resources(needs: str, names: Sequence[str]) -> str:
    """Returns why no host will ever have what is needed, given the cluster's resource `names`, or
    ""."""
    if not names:
        return ""
    faults = (fault_of_name(name, names) for name, _ in read_needs_text(needs).resources)
    return next((f"--need: {fault}" for fault in faults if fault), "")


def fault_of_gang_hosts(sent: Submission, hosts: Iterable[HostId]) -> str:
    """Returns why the names of all its hosts may not fit in one variable; "" if they do, on any of
    `hosts`."""
    longest = max(hosts, key=lambda name: len(name.encode()), default=None)
    if not sent.gang or longest is None:
        return ""
    most = GANG_HOSTS_BYTES // (len(longest.encode()) + 1)
    if sent.gang <= most:
        return ""
    return (
        f"--gang: {sent.gang} jobs; with host names as long as {longest}, LBD_GANG_HOSTS has "
        f"room for {most}"
    )


def submitter_of(
    asked: pb.SubmitRequest, stored: pb.StoredSpec
) -> tuple[Submitter, lbm_pb2.RunRequest]:
    """Returns the submitter, who must also own the command, and the request. Raises LbdError."""
    if len(asked.command) > QUEUED_WORDS_MAX or has_too_many_words(stored):
        raise LbdError(f"this cannot be queued: {TOO_MANY_WORDS}")
    request = request_in(stored)
    if request is None:
        raise LbdError("this cannot be queued: its command is not a RunRequest")
    if not asked.HasField("uid"):  # 0 is root
        raise LbdError("this cannot be queued: it does not say whose it is")
    submitter = Submitter(asked.origin, asked.user, asked.uid)
    if fault := contradiction(request, submitter):
        raise LbdError(f"this cannot be queued: {fault}")
    return submitter, request


def fault_of(sent: Submission, spec: pb.StoredSpec, own: DispatchConfig) -> str:
    """Names the first invalid value; "" if all are valid."""
    paths = spec.output + spec.error + spec.checkpoint + spec.notify
    files, first = spec.files, sent.first_index
    words = sent.user, sent.origin, sent.only or "-"
    shown = "".join((*words, *sent.excluded, files))
    most = own.max_input_bytes
    holds = (
        all(words) and max(map(len, words)) <= TEXT_MAX,
        shown.isprintable() and len(files) <= TEXT_MAX,
        not sent.excluded or are_hosts(sent.excluded),
        "\0" not in sent.key,
        len(sent.command) <= COMMAND_BYTES_MAX and len(spec.run_request) <= REQUEST_BYTES_MAX,
        sent.slots <= SLOTS_MAX and sent.slots_most <= SLOTS_MAX,
        -PRIORITY_MAX <= sent.priority <= PRIORITY_MAX,
        is_speedup(sent.speedup, sent.work_s),
        first is None or 0 <= first <= ARRAY_INDEX_MAX + 1 - sent.count,
        sent.at_once <= own.max_array and not (sent.at_once and first is None),
        0 <= spec.submitted <= TIME_MAX,  # nor NaN
        0 <= sent.limit_s <= TIME_MAX,
        len(paths) <= PATH_BYTES_MAX and b"\0" not in paths,
        len(sent.spec) <= most or len(spec.input) <= most,  # each access is a copy
        are_needs(sent.needs),
    )
    if all(holds):
        return ""
    return ", ".join([name for name, one in zip(VALUES, holds, strict=True) if not one])


def heartbeat_fault(heartbeat: pb.Heartbeat) -> str:
    """Names the first invalid value of a host's heartbeat; "" if all are valid."""
    rules = {
        "slots": max(heartbeat.slots, heartbeat.open_slots, heartbeat.ahead, heartbeat.beside_hog)
        <= SLOTS_MAX,
        "load": is_within(heartbeat.load, LOAD_MAX),
        "held": len(heartbeat.held) <= HELD_MAX
        and all(is_within(one.left_s, LEASE_S_MAX) for one in heartbeat.held),
        "hog": len(heartbeat.hog) <= NAME_CHARS,
        "no_room": len(heartbeat.no_room) <= NO_ROOM_CHARS,
        "keeper": len(heartbeat.keeper) <= KEEPER_CHARS,
        "said_s": is_within(heartbeat.said_s, SAID_MAX_S),
        "features, resources": facts_of(heartbeat) is not None,
    }
    return ", ".join(name for name, holds in rules.items() if not holds)


def slots_of(
    name: HostId, heartbeat: pb.Heartbeat, ceiling: float, tiers: tuple[int, ...]
) -> HostSlots:
    """Returns what a host that takes jobs offers; nothing while its load is above the ceiling, and
    never more than it may hold."""
    closed = ""
    if heartbeat.load > ceiling:
        closed = f"its load of {heartbeat.load:.1f} is above dispatch.load_ceiling, {ceiling:g}"
    slots = min(heartbeat.slots, HELD_MAX)
    open_slots = 0 if closed else min(heartbeat.open_slots, HELD_MAX)
    ahead = min(heartbeat.ahead, HELD_MAX - open_slots) if open_slots else 0
    beside_hog = 0 if closed else min(heartbeat.beside_hog, HELD_MAX)
    return HostSlots(
        name, slots, open_slots, heartbeat.load, tiers, ahead, closed,
        facts_of(heartbeat) or NO_FACTS, heartbeat.hog, beside_hog,
        one_line(heartbeat.no_room, NO_ROOM_CHARS),
    )  # fmt: skip


def facts_of(heartbeat: pb.Heartbeat) -> Facts | None:
    """Returns what the host has for jobs' needs; None if it is invalid."""
    memory = heartbeat.memory_for_jobs, heartbeat.memory_given
    try:
        return read_facts(heartbeat.features, heartbeat.resources, *memory)
    except ValueError:
        return None


def how_long_ago_s(report: pb.AttemptReport, sent_s: float, leased_s: float = math.inf) -> float:
    """Returns how long ago the reported event happened; 0 if the host does not say, or it is
    impossible. `leased_s`: how long ago its attempt was leased, as nothing was before."""
    ago_s = sent_s - report.at_s if report.at_s and sent_s else 0.0
    return min(ago_s, leased_s) if 0.0 <= ago_s <= AGO_S_MAX else 0.0


def ending_of(report: pb.AttemptReport, sent_s: float = 0.0, leased_s: float = math.inf) -> Ending:
    """Returns how an attempt ended, or why it was refused; `sent_s` is when its host sent that, and
    `leased_s` as in `how_long_ago_s`. Raises ValueError if it is invalid."""
    cpu_s = report.cpu_s if report.HasField("cpu_s") else None
    refused = report.event == "refused"
    status = (
        report.errno if refused else report.exit_status if report.HasField("exit_status") else None
    )
    holds = (
        refused or report.cause in CAUSES,
        status is None or refused or -STATUS_MAX <= status <= STATUS_MAX,
        not refused or 0 <= report.errno <= 1 << 16,
        is_within(report.wait_s, WAIT_S_MAX),
        0 <= report.signal <= SIGNAL_MAX,
        cpu_s is None or is_within(cpu_s, CPU_S_MAX),
        len(report.stop_reason) <= TEXT_MAX,
        report.max_rss_bytes <= RSS_BYTES_MAX,
    )
    if not all(holds):
        fault = ", ".join([name for name, one in zip(OF_END, holds, strict=True) if not one])
        raise ValueError(f"the end of job {one_line(report.job, 40)}: {fault}")
    reason = one_line(report.reason)
    if refused:
        return Ending(
            Cause.LOST,
            status,
            reason=reason,
            stop_reason=report.stop_reason,
            wait_s=report.wait_s,
        )
    cause, ago_s = CAUSES[report.cause], how_long_ago_s(report, sent_s, leased_s)
    how = cause, status, report.signal, cpu_s, reason, report.stop_reason, ago_s
    return Ending(*how, max_rss_bytes=report.max_rss_bytes)


def checked_signal(number: int) -> int:
    """Checks the signal of `lbctl kill`. Raises LbdError."""
    if not 0 <= number <= SIGNAL_MAX:
        raise LbdError(f"signal {number}: no such signal")
    return number


def are_hosts(names: Sequence[str]) -> bool:
    """Whether these are host names that the ledger can store, joined by blanks."""
    return len(names) <= EXCLUDED_MAX and all(
        0 < len(name) <= TEXT_MAX and " " not in name for name in names
    )


def is_speedup(speedup: tuple[float, float] | None, work_s: float | None) -> bool:
    """Whether A, σ and the work, as far as given, are valid."""
    parallelism, sigma = speedup or (1.0, 0.0)
    shape = 1 <= parallelism <= SPEEDUP_MAX and 0 <= sigma <= SPEEDUP_MAX
    return shape and (work_s is None or WORK_S_MIN <= work_s <= WORK_S_MAX)


def is_within(number: float, most: float) -> bool:
    return math.isfinite(number) and 0 <= number <= most

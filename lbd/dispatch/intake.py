"""What hosts send the dispatcher, checked: every number, time and text of it that is kept.

A value that a store cannot hold would make a whole group of other people's changes fail, so nothing
gets to the ledger or the queue but by these functions. Pure.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from lbd.config_dispatch import DispatchConfig
from lbd.dispatch.jobs import Cause, Ending
from lbd.dispatch.ledger.rows import Submission
from lbd.dispatch.shares import Rules
from lbd.errors import LbdError
from lbd.one_line import one_line
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.submitter import Submitter, contradiction, request_in

ARRAY_INDEX_MAX = 10**18 - 1  # as lbrun has it
SLOTS_MAX = 1 << 16
PRIORITY_MAX = 999  # as lbrun has it, up and down
TEXT_MAX = 255
KEY_MAX = 200
EXCLUDED_MAX = 1024
PATH_BYTES_MAX = 1 << 16
COMMAND_BYTES_MAX = 4 << 20
TIME_MAX = 1e11  # UNIX seconds
CPU_S_MAX = LOAD_MAX = 1e12
SIGNAL_MAX = 64
STATUS_MAX = 255
CAUSES = {cause.value: cause for cause in Cause}


def submission_of(
    asked: pb.SubmitRequest, own: DispatchConfig, rules: Rules, *, by_uid: bool
) -> Submission:
    """`by_uid`: users are told apart by their numbers, so keys are as well. Raises LbdError."""
    submitter = submitter_of(asked)
    sent = Submission(
        user=submitter.user,
        origin=submitter.origin,
        name=one_line(asked.name, TEXT_MAX),
        command=b"\0".join(asked.command),
        spec=asked.spec.SerializeToString(),
        slots=asked.slots or 1,
        slots_most=asked.slots_most,
        priority=asked.priority,
        may_restart=asked.may_restart,
        only=asked.only,
        excluded=tuple(asked.excluded),
        key=asked.key,
        first_index=asked.first_index if asked.is_array else None,
        count=asked.count,
        uid=submitter.uid,
    )
    if not 1 <= sent.count <= own.max_array:
        raise LbdError(f"an array of {sent.count} jobs; dispatch.max_array is {own.max_array}")
    if len(sent.key) > KEY_MAX:
        raise LbdError(f"--idempotency-key: {KEY_MAX} characters at most")
    if sent.priority and not rules.priorities:
        raise LbdError("--priority: this cluster has none (dispatch.priorities)")
    if rules.user_slots and sent.slots > rules.user_slots:
        raise LbdError(
            f"--slots {sent.slots}: no user may hold more than {rules.user_slots} "
            "(dispatch.user_slots)"
        )
    if fault := fault_of(sent, asked.spec, own):
        raise LbdError(f"this cannot be queued: {fault}")
    return replace(sent, key=f"{sent.uid}:{sent.key}") if by_uid and sent.key else sent


def submitter_of(asked: pb.SubmitRequest) -> Submitter:
    """Whose it is; its command can be nobody else's. Raises LbdError."""
    request = request_in(asked.spec)
    if request is None:
        raise LbdError("this cannot be queued: its command is not a RunRequest")
    # A host of the release before says its user's number in there alone.
    uid = asked.uid if asked.HasField("uid") else request.uid
    submitter = Submitter(asked.origin, asked.user, uid)
    if fault := contradiction(request, submitter):
        raise LbdError(f"this cannot be queued: {fault}")
    return submitter


def fault_of(sent: Submission, spec: pb.StoredSpec, own: DispatchConfig) -> str:
    """Which of its values cannot be; "" if all can."""
    paths, files, first = spec.output + spec.error + spec.checkpoint, spec.files, sent.first_index
    words = sent.user, sent.origin, sent.only or "-"
    shown = "".join((*words, *sent.excluded, files))
    rules = (
        ("user, origin, host", all(words) and max(map(len, words)) <= TEXT_MAX),
        ("user, origin, host, files", shown.isprintable() and len(files) <= TEXT_MAX),
        ("excluded", not sent.excluded or are_hosts(sent.excluded)),
        ("key", "\0" not in sent.key),
        ("command", len(sent.command) <= COMMAND_BYTES_MAX),
        ("slots", sent.slots <= SLOTS_MAX and sent.slots_most <= SLOTS_MAX),
        ("priority", -PRIORITY_MAX <= sent.priority <= PRIORITY_MAX),
        ("array", first is None or 0 <= first <= ARRAY_INDEX_MAX + 1 - sent.count),
        ("submitted", 0 <= spec.submitted <= TIME_MAX),  # nor NaN
        ("output, error, checkpoint", len(paths) <= PATH_BYTES_MAX and b"\0" not in paths),
        ("input (dispatch.max_input_bytes)", len(spec.input) <= own.max_input_bytes),
    )
    return ", ".join([name for name, holds in rules if not holds])


def beat_fault(beat: pb.Beat) -> str:
    """Which value of a host's heartbeat cannot be; "" if all can."""
    rules = {
        "slots": max(beat.slots, beat.open_slots, beat.ahead) <= SLOTS_MAX,
        "load": is_within(beat.load, LOAD_MAX),
    }
    return ", ".join(name for name, holds in rules.items() if not holds)


def ending_of(news: pb.News) -> Ending:
    """How an attempt ended, or why it was refused. Raises ValueError if that makes no sense."""
    cpu_s = news.cpu_s if news.HasField("cpu_s") else None
    refused = news.event == "refused"
    status = news.errno if refused else news.exit_status if news.HasField("exit_status") else None
    rules = {
        "cause": refused or news.cause in CAUSES,
        "exit_status": status is None or refused or -STATUS_MAX <= status <= STATUS_MAX,
        "errno": not refused or 0 <= news.errno <= 1 << 16,
        "signal": 0 <= news.signal <= SIGNAL_MAX,
        "cpu_s": cpu_s is None or is_within(cpu_s, CPU_S_MAX),
        "wish": len(news.wish) <= TEXT_MAX,
    }
    if fault := ", ".join(name for name, holds in rules.items() if not holds):
        raise ValueError(f"the end of job {one_line(news.job, 40)}: {fault}")
    reason = one_line(news.reason)
    if refused:
        return Ending(Cause.LOST, status, reason=reason, wish=news.wish)
    return Ending(CAUSES[news.cause], status, news.signal, cpu_s, reason, news.wish)


def checked_signal(number: int) -> int:
    """Of `lbctl kill`. Raises LbdError."""
    if not 0 <= number <= SIGNAL_MAX:
        raise LbdError(f"signal {number}: there is none with this number")
    return number


def are_hosts(names: Sequence[str]) -> bool:
    """The ledger keeps several of them with a blank between each two."""
    return len(names) <= EXCLUDED_MAX and all(
        0 < len(name) <= TEXT_MAX and " " not in name for name in names
    )


def is_within(number: float, most: float) -> bool:
    return math.isfinite(number) and 0 <= number <= most

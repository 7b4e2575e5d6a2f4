"""What hosts send the dispatcher, checked: every number, time and text of it that is kept.

A value that a store cannot hold would make a whole group of other people's changes fail, so nothing
gets to the ledger or the queue but by these functions. Pure.
"""

import math

from lbd.config_dispatch import DispatchConfig
from lbd.dispatch.jobs import Cause, Ending
from lbd.dispatch.ledger.rows import Submission
from lbd.dispatch.shares import Rules
from lbd.errors import LbdError
from lbd.one_line import one_line
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.submitter import Submitter, contradiction, request_in, submitter_in

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
    if not 1 <= asked.count <= own.max_array:
        raise LbdError(f"an array of {asked.count} jobs; dispatch.max_array is {own.max_array}")
    if len(asked.key) > KEY_MAX:
        raise LbdError(f"--idempotency-key: {KEY_MAX} characters at most")
    if asked.priority and not rules.priorities:
        raise LbdError("--priority: this cluster has none (dispatch.priorities)")
    if rules.user_slots and asked.slots > rules.user_slots:
        raise LbdError(
            f"--slots {asked.slots}: no user may hold more than {rules.user_slots} "
            "(dispatch.user_slots)"
        )
    if fault := fault_of(asked, own):
        raise LbdError(f"this cannot be queued: {fault}")
    key = f"{submitter.uid}:{asked.key}" if by_uid and asked.key else asked.key
    return Submission(
        user=submitter.user,
        origin=submitter.origin,
        name=one_line(asked.name, TEXT_MAX),
        command=b"\0".join(asked.command),
        spec=asked.spec.SerializeToString(),
        slots=max(1, asked.slots),
        slots_most=asked.slots_most,
        priority=asked.priority,
        may_restart=asked.may_restart,
        only=asked.only,
        excluded=tuple(asked.excluded),
        key=key,
        first_index=asked.first_index if asked.is_array else None,
        count=asked.count,
        uid=submitter.uid,
    )


def submitter_of(asked: pb.SubmitRequest) -> Submitter:
    """Whose it is; its command can be nobody else's. Raises LbdError."""
    request = request_in(asked.spec)
    if request is None:
        raise LbdError("this cannot be queued: its command is not a RunRequest")
    # A host of the release before says its user's number in there alone.
    uid = asked.uid if asked.HasField("uid") else submitter_in(request).uid
    submitter = Submitter(asked.origin, asked.user, uid)
    if fault := contradiction(request, submitter):
        raise LbdError(f"this cannot be queued: {fault}")
    return submitter


def fault_of(asked: pb.SubmitRequest, own: DispatchConfig) -> str:
    """Which of its values cannot be; "" if all can."""
    spec = asked.spec
    paths = spec.output, spec.error, spec.checkpoint
    rules = {
        "user": is_word(asked.user),
        "origin": is_word(asked.origin),
        "only": not asked.only or is_word(asked.only),
        "excluded": len(asked.excluded) <= EXCLUDED_MAX and all(map(is_host, asked.excluded)),
        "key": "\0" not in asked.key,
        "command": sum(map(len, asked.command)) + len(asked.command) <= COMMAND_BYTES_MAX,
        "slots": asked.slots <= SLOTS_MAX and asked.slots_most <= SLOTS_MAX,
        "priority": -PRIORITY_MAX <= asked.priority <= PRIORITY_MAX,
        "array": 0 <= asked.first_index <= ARRAY_INDEX_MAX + 1 - asked.count,
        "submitted": is_within(spec.submitted, TIME_MAX),
        "output, error, checkpoint": all(is_path(path) for path in paths),
        "files": len(spec.files) <= TEXT_MAX and spec.files.isprintable(),
        f"input (dispatch.max_input_bytes is {own.max_input_bytes})": len(spec.input)
        <= own.max_input_bytes,
    }
    return ", ".join(name for name, holds in rules.items() if not holds)


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


def is_word(text: str) -> bool:
    return 0 < len(text) <= TEXT_MAX and text.isprintable()


def is_host(text: str) -> bool:
    """The ledger keeps several of them with a blank between each two."""
    return is_word(text) and " " not in text


def is_path(path: bytes) -> bool:
    return len(path) <= PATH_BYTES_MAX and b"\0" not in path


def is_within(number: float, most: float) -> bool:
    return math.isfinite(number) and 0 <= number <= most

"""The request of an `lbrun` to its LBM, as read from a RUN frame. Pure."""

import json
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from lbd.launch.terminal_modes import Attributes, Size, read_modes, read_size
from lbd.lbm.core.journey_events import NotRun, Used
from lbd.lbm.core.next_host_after_refusal import Demands
from lbd.lbm.core.pauses import Pauses
from lbd.local import client_tags as tags
from lbd.local import frames
from lbd.local.field_reader import Reader, TooManyFields, by_key
from lbd.local.field_table import Field
from lbd.local.rate_limit import turns_of
from lbd.model import NO_NEEDS, HostId, Needs
from lbd.policy.invocation import name_of
from lbd.text.command_words import QUEUED_FIELDS_MAX, QUEUED_WORDS_MAX, TOO_MANY_WORDS
from lbd.text.job_limits import EXCLUDED_MAX, SLOTS_MAX
from lbd.text.needs_words import is_count, read_needs_text
from lbd.text.one_line import one_line

ALL_SIGNALS = (1 << 64) - 1
LONG = tags.RUN + tags.QUEUE + tags.LOCAL  # requests with a command; only one per connection
NAME_CHARS_MAX = 255
LENGTH, WORDS_USUAL, TURN_WORDS = b"\0\0\0", 1000, 32
FLAGS_MAX = 256
WORDS_MAX = 1 << 18  # arguments and variables: as many as fit a stack of 8 MiB
TIMEOUT_S_MAX = 1e9
MEMORY_BYTES_MAX = 1 << 62
WORD_BYTES_MAX = 32 * os.sysconf("SC_PAGE_SIZE")  # with its final NUL, as the kernel has it
WHY_CHARS = 300
CPU_S_MAX = 1e8  # the most that one run may claim; sums stay numbers
DEPTH_MAX = 1 << 16
PATH_BYTES_MAX = 1 << 12  # as in the kernel
FETCHED_MAX, SENT_MAX = 1000, 10_000  # names in a request: each task of an array has them all
FETCHED_BYTES_MAX = 1 << 20  # all names to fetch: in the queue each %h in them grows


@dataclass(slots=True)
class ClientRequest:
    """One command of a local user. Byte strings are as the kernel gave them."""

    argv: list[bytes] = field(default_factory=list)
    environment: list[bytes] = field(default_factory=list)
    directory: bytes = b"/"
    umask: int = 0o022
    mode: str = "auto"  # auto | remote | host | local
    host: HostId | None = None
    send: list[bytes] = field(default_factory=list)
    fetch: list[bytes] = field(default_factory=list)
    let_through: set[bytes] = field(default_factory=set)  # variables that go along in any case
    excluded: set[HostId] = field(default_factory=set)
    flags: bytes = b""
    timeout_s: float = 0.0
    memory_bytes: int = 0
    name: str = ""
    slots: tuple[int, int] = (1, 1)  # minimum and maximum
    closed_fds: int = 0
    null_outputs: int = 0
    depth: int = 0
    ignored_signals: int = 0
    terminal: Size | None = None  # requested, with its size
    modes: Attributes | None = None  # of the caller's terminal
    needs: Needs = NO_NEEDS

    @property
    def is_staged(self) -> bool:
        """Whether it brings its files along."""
        return bool(self.send or self.fetch)

    @property
    def may_restart(self) -> bool:
        """Whether another host might start it again: not if its user named one, or forbade it."""
        fixed = self.mode == "host" or self.is_staged or self.terminal is not None
        return not fixed and not self.has(tags.FLAG_NO_RESTART)

    @property
    def pauses(self) -> Pauses:
        """What its user is told when the owner of its host has it suspended."""
        return Pauses(self.has(tags.FLAG_PAUSES))

    def has(self, flag: bytes) -> bool:
        return flag in self.flags

    def demands(self, *, stays_as: str) -> Demands:
        """What its journey needs to know. `stays_as`: why it must not move again; "" if it may."""
        return Demands(
            name=name_of(self.argv),
            mode=self.mode,
            host=self.host,
            excluded=frozenset(self.excluded),
            slots=self.slots,
            timeout_s=self.timeout_s,
            memory_bytes=self.memory_bytes,
            may_fall_back=not self.has(tags.FLAG_NO_FALLBACK),
            may_restart=self.may_restart,
            must_stay=bool(stays_as),
            stays_as=stays_as,
            only_asks=self.has(tags.FLAG_ASK),
            is_staged=self.is_staged,
            needs=self.needs,
        )


def read_request(body: bytes) -> ClientRequest:
    """Raises ValueError on a malformed field; unknown keys are ignored."""
    return request_of(by_key(body, WORDS_MAX))


def queued_fields(body: bytes) -> dict[bytes, list[bytes]]:
    """The fields of a QUEUE frame, of which no more are read than a queued job may have. Raises
    ValueError."""
    try:
        given = by_key(body, QUEUED_FIELDS_MAX)
    except TooManyFields:
        raise ValueError(TOO_MANY_WORDS) from None
    if sum(len(given.get(key, ())) for key in (tags.ARGUMENT, tags.ENVIRONMENT)) > QUEUED_WORDS_MAX:
        raise ValueError(TOO_MANY_WORDS)
    return given


def request_of(given: dict[bytes, list[bytes]]) -> ClientRequest:
    """Like `read_request`. Raises ValueError."""
    request = ClientRequest()
    READER.set(given, request)
    if not request.argv:
        raise ValueError("no command")
    if max(map(len, (*request.argv, *request.environment))) >= WORD_BYTES_MAX:
        raise ValueError(f"an argument or variable of {WORD_BYTES_MAX} bytes or more")
    if b"\0" in b"".join((*request.argv, *request.environment, request.directory)):
        raise ValueError("a zero byte in a word")
    if len(request.directory) > PATH_BYTES_MAX:
        raise ValueError(f"a directory whose name has more than {PATH_BYTES_MAX} bytes")
    if len(request.fetch) > FETCHED_MAX:
        raise ValueError(f"more than {FETCHED_MAX} names to fetch: fetch a directory")
    if len(request.send) > SENT_MAX:
        raise ValueError(f"more than {SENT_MAX} names to send: send a directory")
    if not are_paths(request.send, request.fetch):
        raise ValueError("paths to send or to fetch that are too long")
    if len(request.excluded) > EXCLUDED_MAX:
        raise ValueError(f"more than {EXCLUDED_MAX} hosts excluded")
    if len(request.flags) > FLAGS_MAX:
        raise ValueError("more flags than there are")
    if request.mode not in ("auto", "remote", "host", "local"):
        raise ValueError(f"mode {request.mode!r}")
    return request


def complaint(problem: Exception, input_bytes: int) -> tuple[bytes, bytes]:
    """Returns the frame that tells a client why its request cannot be read. `input_bytes`: the most
    standard input of a queued job."""
    why = one_line(str(problem), WHY_CHARS)
    if isinstance(problem, UnicodeDecodeError):
        why = "an option is not valid UTF-8"
    elif isinstance(problem, frames.TooLong) and problem.tag == frames.JSON:
        refusal = {"ok": False, "error": f"question too long: {problem}"}
        return frames.JSON, json.dumps(refusal).encode()
    elif isinstance(problem, frames.TooLong) and problem.tag in LONG:
        limit = f"lbm.max_request_bytes is {problem.limit_bytes}"
        why = f"it has {problem.size} bytes with its arguments and environment; {limit}"
        if problem.tag == tags.QUEUE:
            why = (
                f"it has {problem.size} bytes with its standard input; {limit}, of which "
                f"dispatch.max_input_bytes, {input_bytes}, may be input: let the command read a "
                "file, or use --no-stdin"
            )
    return tags.UNFIT, f"the LBM cannot accept this request: {why}".encode()


def turns_of_request(body: bytes) -> float:
    """How many turns it counts. Reading and sending many words takes longer than as many bytes in
    few words. No word contains zeros, but the length of each does, unless the word is long."""
    return turns_of(len(body)) + turns_of_words(body.count(LENGTH))


def turns_of_words(count: int) -> float:
    return max(0, count - WORDS_USUAL) / TURN_WORDS


def are_paths(send: Collection[bytes], fetch: Collection[bytes]) -> bool:
    """Whether files may have these names, and they are not too many."""
    if len(send) > SENT_MAX or len(fetch) > FETCHED_MAX:
        return False
    longest = max(map(len, (*send, *fetch)), default=0)
    return longest <= PATH_BYTES_MAX and sum(map(len, fetch)) <= FETCHED_BYTES_MAX


def host_name(value: bytes) -> HostId:
    text = value.decode(errors="replace")
    if len(text) > NAME_CHARS_MAX or not text.isprintable() or "\ufffd" in text:
        raise ValueError(f"{one_line(text, NAME_CHARS_MAX)!r} is not the name of a host")
    return HostId(text)


def read_slots(value: bytes) -> tuple[int, int]:
    least, _, most = value.partition(b"-")
    found = int(least), int(most)
    if not 1 <= found[0] <= found[1] <= SLOTS_MAX:
        raise ValueError("slots that cannot be")
    return found


def read_name(value: bytes) -> str:
    return one_line(value.decode(errors="replace"), NAME_CHARS_MAX)


def within(value: float, high: float) -> float:
    if not 0 <= value <= high:  # also excludes NaN
        raise ValueError(f"{value} is out of range")
    return value


def read_needs(value: bytes) -> Needs:
    return read_needs_text(value.decode())


def masked(mask: int) -> Callable[[bytes], int]:
    return lambda value: int(value) & mask


def up_to(most: int) -> Callable[[bytes], int]:
    return lambda value: int(within(int(value), most))


READER = Reader(
    (
        Field(tags.ARGUMENT, "argv", decode_all=list),
        Field(tags.ENVIRONMENT, "environment", decode_all=list),
        Field(tags.SEND, "send", decode_all=list),
        Field(tags.FETCH, "fetch", decode_all=list),
        Field(tags.LET_THROUGH, "let_through", decode_all=set),
        Field(tags.EXCLUDED, "excluded", decode_all=lambda values: set(map(host_name, values))),
        Field(tags.FLAGS, "flags", decode_all=b"".join),
        Field(tags.DIRECTORY, "directory", decode=bytes),
        Field(tags.UMASK, "umask", decode=masked(0o777)),
        Field(tags.MODE, "mode", decode=bytes.decode),
        Field(tags.HOST, "host", decode=host_name),
        Field(tags.TIMEOUT, "timeout_s", decode=lambda value: within(float(value), TIMEOUT_S_MAX)),
        Field(tags.MEMORY, "memory_bytes", decode=up_to(MEMORY_BYTES_MAX)),
        Field(tags.NAME, "name", decode=read_name),
        Field(tags.SLOTS, "slots", decode=read_slots),
        Field(tags.CLOSED_FDS, "closed_fds", decode=masked(7)),
        Field(tags.NULL_OUTPUTS, "null_outputs", decode=masked(6)),
        Field(tags.DEPTH, "depth", decode=up_to(DEPTH_MAX)),
        Field(tags.IGNORED, "ignored_signals", decode=masked(ALL_SIGNALS)),
        Field(tags.TERMINAL, "terminal", decode=read_size),
        Field(tags.MODES, "modes", decode=read_modes),
        Field(tags.NEEDS, "needs", decode=read_needs),
    )
)


def read_not_run(body: bytes) -> NotRun:
    """Reads a NOT_RUN frame. Raises ValueError."""
    found = dict(frames.fields(body))
    status = int(found.get(tags.STATUS, b""))
    why = one_line(found.get(tags.REASON, b"").decode(errors="replace"))
    if not 0 < status <= 255 or not why:
        raise ValueError(f"exit status {status} of a command that was not run")
    return NotRun(status, why)


def read_used(body: bytes) -> Used:
    """Reads a USED frame. Raises ValueError."""
    found = dict(frames.fields(body))
    status = int(found.get(tags.STATUS, b""))
    if not 0 <= status <= 255:
        raise ValueError(f"exit status {status}")
    peak = found.get(tags.PEAK, b"")
    peak_bytes = int(peak) if is_count(peak.decode("ascii", "replace")) else 0
    return Used(within(float(found.get(tags.CPU, b"")), CPU_S_MAX), status, peak_bytes)


REPORTS: dict[bytes, Callable[[bytes], Used | NotRun]] = {  # on how a command ran here
    tags.USED: read_used,
    tags.NOT_RUN: read_not_run,
}

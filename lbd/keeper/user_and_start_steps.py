"""The steps by which a child of the keeper becomes a command. Pure.

The keeper compiles an order into such a list once: the user, the limits and the accepted directory
are decided here and nowhere else. Two small interpreters carry the list out and decide nothing:
spare.c, and interpreter.py, which also handles terminals and rules.

A step is a field of frames.py: a letter, a length, a value. A value is either a row of signed
64-bit numbers in native byte order, or texts that each end in a zero byte. An interpreter that
fails replies with the letter of the step; `PHASES` turns that into a phase for people.
"""

import errno
import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from lbd.keeper.program_rules import without_code
from lbd.keeper.spawn_order import ALLOWED, BEHIND, DENIED, SUBJECT, Order
from lbd.launch.directory_stamp import NETWORK_MAGICS, SEEN_OVER_NETWORK, Stamp, comparison
from lbd.launch.exec import DEFAULT_PATH
from lbd.local import frames

STEPS = b"S"  # the tag of the frame with all of them
# Steps of both interpreters.
WORDS = b"a"  # texts: argv
VARIABLES = b"e"  # texts: NAME=VALUE
WRITE = b"w"  # path, text
TRY_WRITE = b"W"  # the same; failures are ignored
CLOSE = b"c"  # number
PLACE = b"d"  # index of a received descriptor, target number
# Replaces standard input, a file in the LBM's memory, by a copy that is charged to the job, and
# empties the original: a process that keeps its descriptor then holds no memory of the LBM.
COPY_INPUT = b"I"
LIMIT = b"l"  # resource, soft, hard
TRY_LIMIT = b"L"
NICE = b"n"  # value, as far as allowed
GROUPS = b"g"  # any number of gids
GROUP = b"G"
USER = b"U"  # also sets the parent death signal again: setuid clears it
KEYRING = b"k"  # a session keyring of the user's, or else the one the child was born with
NO_NEW_PRIVILEGES = b"P"
IGNORE = b"i"  # bit N - 1 for signal N
UMASK = b"u"
DIRECTORY = b"C"  # path
SAME = b"="  # numbers of directory_stamp.comparison, then magics of network file systems
EXEC = b"x"  # text: PATH
# Steps of interpreter.py only.
TERMINAL = b"t"  # in the background?, owner (-1: ours), maker; the child becomes the session leader
RULES = b"r"  # fields ALLOWED, DENIED, SUBJECT, EXEC: the program rules
LOOK = b"?"  # path: reply with its stamp
CHECK = b"!"  # text: PATH; reply whether there is a program to run
# argv is for file_worker.py, in this process; the first time loads it, the last runs it
WORKER = b"s"

# An interpreter's replies; end of file without one: it has become the command.
FAILED = b"F"  # letter of a step, then the errno as REPLY_ERRNO
RULED_OUT = b"R"  # the rule, the path found and the path it resolves to
ANSWER = b"A"  # to LOOK: the stamp; to CHECK: nothing
REPLY_ERRNO = struct.Struct("=i")

PHASES = {
    **dict.fromkeys((WRITE, LIMIT), "limits"),
    **dict.fromkeys((GROUPS, GROUP, USER), "user"),
    **dict.fromkeys((CLOSE, PLACE, COPY_INPUT), "descriptors"),
    **dict.fromkeys((RULES, CHECK, EXEC), "exec"),
    KEYRING: "keyring",
    DIRECTORY: "chdir",
    SAME: "directory",
}
OTHER_PHASE = "spawn"
# prefix of a phase that is a rule; then come its name and the paths, each after a \0
RULE = "admission."
PATH_SHOWN_BYTES = 1000
ALL_SIGNALS = (1 << 64) - 1
Limit = tuple[int, tuple[int, int]]  # resource, soft and hard


class Refused(Exception):
    """No child can carry the order out. Holds the phase in which it would fail, and the errno."""

    def __init__(self, phase: str, number: int) -> None:
        super().__init__(phase, number)
        self.phase = phase
        self.number = number


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the keeper knows of itself and of the child."""

    identity: tuple[int, ...]  # uid, gid, groups of the keeper
    kernel: str
    mark: bytes  # NAME=VALUE; the job's id is appended
    lbm_uid: int
    joined: tuple[str, ...] = ()  # cgroup files to which it must write itself
    ceilings: tuple[Limit, ...] = ()  # used in place of cgroups


def compile_order(order: Order, here: Surroundings, taken: tuple[Limit, ...]) -> bytes:
    """Returns the steps. `taken`: those of the caller's limits to set here. Raises Refused."""
    steps = [(WORDS, texts(order.argv))]
    if order.worker:
        steps.append((WORKER, b""))
    if order.terminal:
        owner = order.user[0] if order.user else -1
        steps.append((TERMINAL, numbers(order.terminal == BEHIND, owner, here.lbm_uid)))
    steps += [(WRITE, texts((file.encode(), b"0"))) for file in here.joined]
    steps += [(LIMIT, numbers(number, *limit)) for number, limit in here.ceilings]
    first = frames.pack_fields(steps)
    becomes = order.user if order.user != here.identity else ()
    copies = order.copies_input and not order.closed_fds & 1
    facts = order.closed_fds & 7, copies, order.nice, becomes, order.no_new_privileges
    where = order.ignored_signals, order.umask, order.directory, order.stamp, here.kernel
    last = frames.pack_fields(_last_steps(order, here, taken))
    return frames.pack(STEPS, first + common_steps(*facts, *where) + last)


@functools.lru_cache(maxsize=64)
def common_steps(
    closed_fds: int,
    copies_input: bool,
    nice: int,
    becomes: tuple[int, ...],
    no_new_privileges: bool,
    ignored_signals: int,
    umask: int,
    directory: bytes,
    stamp: Stamp | None,
    kernel: str,
) -> bytes:
    """Returns the steps that many successive commands share. `becomes`: the user to become; () =
    none. Raises Refused."""
    steps = [*placing(closed_fds)]
    if copies_input:
        # as root, whom no user can stop here
        steps.append((COPY_INPUT, b""))
    if nice:
        # Done while still root, which could also raise priority; so values below 0 are clamped.
        steps.append((NICE, numbers(min(max(nice, 0), 19))))
    if becomes:
        steps += becoming(becomes)
    if no_new_privileges:
        steps.append((NO_NEW_PRIVILEGES, b""))
    if ignored_signals:
        steps.append((IGNORE, numbers(ignored_signals & ALL_SIGNALS)))
    steps.append((UMASK, numbers(umask & 0o777)))
    steps.append((DIRECTORY, text(directory)))
    if stamp is not None:
        compared = comparison(stamp, kernel)
        magics = NETWORK_MAGICS if compared[0] == SEEN_OVER_NETWORK else ()
        steps.append((SAME, numbers(*compared, *magics)))
    return frames.pack_fields(steps)


@functools.lru_cache(maxsize=8)
def placing(closed_fds: int) -> tuple[tuple[bytes, bytes], ...]:
    """Returns the steps for the three standard descriptors."""
    steps, came = [], 0
    for number in (0, 1, 2):
        if closed_fds >> number & 1:
            steps.append((CLOSE, numbers(number)))
        else:
            steps.append((PLACE, numbers(came, number)))
            came += 1
    return tuple(steps)


@functools.lru_cache(maxsize=16)
def becoming(user: tuple[int, ...]) -> tuple[tuple[bytes, bytes], ...]:
    """Returns the steps from root to uid, gid and groups, for good."""
    uid, gid, *groups = user
    return (
        # audit attributes actions by this
        (TRY_WRITE, texts((b"/proc/self/loginuid", b"%d" % uid))),
        (GROUPS, numbers(*groups)),
        (GROUP, numbers(gid)),
        (USER, numbers(uid)),
        (KEYRING, b""),
    )


@functools.lru_cache(maxsize=16)
def limiting(taken: tuple[Limit, ...]) -> tuple[tuple[bytes, bytes], ...]:
    """Returns the steps that set the caller's limits, by which steps after them may fail."""
    return tuple((TRY_LIMIT, numbers(number, *limit)) for number, limit in taken)


def _last_steps(
    order: Order, here: Surroundings, taken: tuple[Limit, ...]
) -> list[tuple[bytes, bytes]]:
    """Returns the steps that end the list: exec, or the order's question."""
    if order.worker:
        return [*limiting(taken), (WORKER, b"")]
    if order.look:
        return [(LOOK, text(order.argv[0]))]
    steps = []
    environment = order.environment
    path = environment.get(b"PATH", DEFAULT_PATH)
    if order.allowed or order.denied:
        environment = without_code(environment)
        rules = [(ALLOWED, one.encode()) for one in order.allowed]
        rules += [(DENIED, one.encode()) for one in order.denied]
        rules += [(SUBJECT, order.subject), (EXEC, path)]
        steps.append((RULES, frames.pack_fields(rules)))
    if order.check:
        return [*steps, (CHECK, text(path))]
    name, _, so_far = here.mark.partition(b"=")
    marked = {**environment, name: so_far + order.job.encode()}
    steps.append((VARIABLES, texts([*map(b"=".join, marked.items())])))
    return [*steps, *limiting(taken), (EXEC, text(path))]


def failed(letter: bytes, number: int) -> bytes:
    """Returns the reply of an interpreter that failed."""
    return FAILED + letter + REPLY_ERRNO.pack(number)


def ruled_out(rule: str, found: bytes, program: bytes) -> bytes:
    """Returns the reply for a program that the owner's rule forbids."""
    paths = (one[:PATH_SHOWN_BYTES] for one in (found, program))
    return RULED_OUT + b"\0".join((rule.encode(), *paths))


def read_failure(reply: bytes) -> tuple[str, int]:
    """Returns the phase in which a child failed, and the errno."""
    if reply.startswith(RULED_OUT):
        said = reply.removeprefix(RULED_OUT).decode(errors="replace")
        return f"{RULE}{said}", errno.EACCES
    letter, number = reply[1:2], reply[2:]
    if len(number) != REPLY_ERRNO.size:
        return OTHER_PHASE, 0
    return PHASES.get(letter, OTHER_PHASE), int(REPLY_ERRNO.unpack(number)[0])


def text(value: bytes) -> bytes:
    """Raises Refused."""
    return texts((value,))


def texts(values: Sequence[bytes]) -> bytes:
    """Raises Refused if a text has a zero byte, since exec could not pass it."""
    joined = b"\0".join((*values, b""))
    if joined.count(b"\0") != len(values):
        raise Refused(PHASES[EXEC], errno.ENOENT)
    return joined


def numbers(*values: int) -> bytes:
    """Packs numbers; unsigned ones may use all 64 bits. Raises Refused."""
    layout = f"={len(values)}q"
    try:
        return struct.pack(layout, *values)
    except struct.error:  # one is too large for a signed number
        return _packed_as_signed(layout, values)


def _packed_as_signed(layout: str, values: Sequence[int]) -> bytes:
    """Raises Refused."""
    try:
        return struct.pack(layout, *map(as_signed, values))
    except struct.error:
        raise Refused(OTHER_PHASE, errno.EOVERFLOW) from None


def as_signed(value: int) -> int:
    return value - (1 << 64) if 1 << 63 <= value < 1 << 64 else value


def read_numbers(value: bytes) -> tuple[int, ...]:
    """Raises struct.error."""
    return struct.unpack(f"={len(value) // 8}q", value)

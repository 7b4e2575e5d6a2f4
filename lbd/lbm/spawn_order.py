"""What the keeper is told to start: the fields of a SPAWN frame. Pure."""

import functools
from dataclasses import dataclass, field

from lbd.lbm.stamp import Stamp, read_stamp
from lbd.rpc import frames

ORDER = b"S"
# its fields
JOB = b"j"
ARGUMENT = b"a"
ENVIRONMENT = b"e"
DIRECTORY = b"d"
UMASK = b"u"
LIMIT = b"l"
USER = b"w"  # "uid gid group group …"; absent: stay who we are
NICE = b"N"
IGNORED = b"i"  # signals it is to ignore: bit N - 1 for signal N
NO_NEW_PRIVILEGES = b"P"
MEMORY = b"M"
CLOSED_FDS = b"c"
STAMP = b"s"  # of DIRECTORY at the origin; absent: any will do
CHECK = b"?"  # only say whether it could begin
WORKER = b"W"  # no program: the arguments are for stage_worker.py, here and now

ALLOWED, DENIED, SUBJECT = b"A", b"D", b"B"
PROCESSES = b"q"
LOOK = b"L"  # the argument is a directory: only say what it is

SUBJECT_AT = 6  # of argv, if there is a SUBJECT
SEEN = "seen:"  # begins the "stage" at which an order to look fails when all is well
ABLE = "able"  # the "stage" at which an order to check fails when all is well
TERMINAL = b"t"  # the first descriptor that is one becomes the session's; value: a place below

IN_FRONT, BEHIND = 1, 2  # of the terminal: whether the command's group has it


@dataclass(slots=True)
class Order:
    """A SPAWN frame, read."""

    job: str = ""
    argv: list[bytes] = field(default_factory=list)
    environment: dict[bytes, bytes] = field(default_factory=dict)
    directory: bytes = b"/"
    umask: int = 0o022
    limits: list[tuple[int, int, int]] = field(default_factory=list)
    user: tuple[int, ...] = ()  # uid, gid, then every group; () = stay who we are
    nice: int = 0
    ignored_signals: int = 0
    no_new_privileges: bool = False
    memory_bytes: int = 0
    closed_fds: int = 0
    stamp: Stamp | None = None
    terminal: int = 0  # 0 = none, IN_FRONT or BEHIND
    check: bool = False
    worker: bool = False
    look: bool = False
    processes: int = 0  # at most; 0 = any number
    allowed: list[str] = field(default_factory=list)  # programs; see program.py
    denied: list[str] = field(default_factory=list)
    subject: bytes = b""  # what they are about, where argv is a shell that becomes it
    packed: bytes = b""  # by pack_common; then of the rest argv, environment and subject count


PLAIN = {
    JOB, ARGUMENT, ENVIRONMENT, DIRECTORY, STAMP, UMASK, LIMIT, USER, NICE, IGNORED,
    NO_NEW_PRIVILEGES, CLOSED_FDS,
}  # fmt: skip


def is_plain(given: dict[bytes, bytes]) -> bool:
    """Whether an order asks for nothing that spare.c does not know."""
    return given.keys() <= PLAIN


def read_order(body: bytes) -> Order:
    """Raises ValueError if a field is malformed."""
    order = Order()
    for key, value in frames.fields(body):
        if key == ARGUMENT:
            order.argv.append(value)
        elif key == ENVIRONMENT:
            name, _, text = value.partition(b"=")
            order.environment[name] = text
        elif key == JOB:
            order.job = value.decode()
        elif key == DIRECTORY:
            order.directory = value
        elif key == UMASK:
            order.umask = int(value)
        elif key == LIMIT:
            number, soft, hard = (int(n) for n in value.split())
            order.limits.append((number, soft, hard))
        elif key == USER:
            order.user = tuple(int(number) for number in value.split())
        elif key == IGNORED:
            order.ignored_signals = int(value)
        elif key == NO_NEW_PRIVILEGES:
            order.no_new_privileges = True
        elif key == NICE:
            order.nice = int(value)
        elif key == MEMORY:
            order.memory_bytes = int(value)
        elif key == CLOSED_FDS:
            order.closed_fds = int(value)
        elif key == STAMP:
            order.stamp = read_stamp(value)
        elif key == CHECK:
            order.check = True
        elif key == WORKER:
            order.worker = True
        elif key == PROCESSES:
            order.processes = int(value)
        elif key == LOOK:
            order.look = True
        elif key == ALLOWED:
            order.allowed.append(value.decode())
        elif key == SUBJECT:
            order.subject = value
        elif key == DENIED:
            order.denied.append(value.decode())
        elif key == TERMINAL:
            order.terminal = int(value)
    if not order.job or not order.argv:
        raise ValueError("a job without id or command")
    return order


def pack_order(order: Order) -> bytes:
    """The body of a SPAWN frame."""
    pairs = [(JOB, order.job.encode()), *((ARGUMENT, argument) for argument in order.argv)]
    if order.subject:
        pairs.append((SUBJECT, order.subject))
    if order.packed:
        return frames.pack_fields(pairs) + pack_environment(order.environment) + order.packed
    return frames.pack_fields(pairs) + pack_common(order)


def pack_environment(environment: dict[bytes, bytes]) -> bytes:
    return frames.pack_fields(
        [(ENVIRONMENT, name + b"=" + text) for name, text in environment.items()]
    )


def pack_common(order: Order) -> bytes:
    """What many orders may have in common: all but the job and its arguments."""
    pairs: list[tuple[bytes, bytes]] = [
        (DIRECTORY, order.directory),
        (UMASK, b"%d" % order.umask),
        (NICE, b"%d" % order.nice),
        (CLOSED_FDS, b"%d" % order.closed_fds),
    ]
    if order.stamp is not None:
        pairs.append((STAMP, order.stamp.pack()))
    if order.worker:
        pairs.append((WORKER, b""))
    pairs += [(ALLOWED, pattern.encode()) for pattern in order.allowed]
    pairs += [(DENIED, pattern.encode()) for pattern in order.denied]
    if order.processes:
        pairs.append((PROCESSES, b"%d" % order.processes))
    if order.look:
        pairs.append((LOOK, b""))
    if order.check:
        pairs.append((CHECK, b""))
    if order.ignored_signals:
        pairs.append((IGNORED, b"%d" % order.ignored_signals))
    if order.no_new_privileges:
        pairs.append((NO_NEW_PRIVILEGES, b""))
    if order.terminal:
        pairs.append((TERMINAL, b"%d" % order.terminal))
    if order.memory_bytes:
        pairs.append((MEMORY, b"%d" % order.memory_bytes))
    if order.user:
        pairs.append((USER, b" ".join(b"%d" % number for number in order.user)))
    limits = pack_limits(tuple(order.limits))
    return pack_environment(order.environment) + limits + frames.pack_fields(pairs)


@functools.lru_cache(maxsize=64)
def pack_limits(limits: tuple[tuple[int, int, int], ...]) -> bytes:
    """Those of a caller are as a rule those of the one before."""
    return frames.pack_fields([(LIMIT, b"%d %d %d" % limit) for limit in limits])

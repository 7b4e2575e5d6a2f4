"""An order to the keeper to start a command: the fields of a SPAWN frame. Pure.

user_and_start_steps.py defines what a child does with it.
"""

import functools
import operator
import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Never

from lbd.launch.directory_stamp import Stamp, read_stamp
from lbd.local import field_table, frames
from lbd.local.field_reader import Reader, by_key, by_key_until
from lbd.local.field_table import Field, count, flag

# Keys that other files use, too.
JOB, CLOSED_FDS = b"j", b"c"
BELONGINGS = b"h"
ALLOWED, DENIED, SUBJECT = b"A", b"D", b"B"
SHARED = b"S"  # begins the part that many orders may share, with the environment in it
SUBJECT_AT = 6  # the index in argv that the SUBJECT has, if there is one

IN_FRONT, BEHIND = 1, 2  # whether the command's group is in the terminal's foreground
USER = re.compile(rb"[0-9]+( [0-9]+)+")
ID_MAX = (1 << 32) - 2  # the next number means "none"


@dataclass(slots=True)
class Order:
    """A command for the keeper to start, or work that a child does instead of a command."""

    job: str = ""
    argv: list[bytes] = field(default_factory=list)
    environment: dict[bytes, bytes] = field(default_factory=dict)
    directory: bytes = b"/"
    umask: int = 0o022
    limits: tuple[tuple[int, int, int], ...] = ()
    user: tuple[int, ...] = ()  # uid, gid, then every group; () = the keeper's own
    nice: int = 0
    ignored_signals: int = 0  # bit N - 1 for signal N
    no_new_privileges: bool = False
    memory_bytes: int = 0
    closed_fds: int = 0
    stamp: Stamp | None = None  # of the directory at the origin; None: any directory fits
    terminal: int = 0  # 0 = none, IN_FRONT or BEHIND
    check: bool = False  # only check whether it could start
    worker: bool = False  # no program: the arguments are for file_worker.py
    look: bool = False  # the argument is a directory: only return its stamp
    processes: int = 0  # limit; 0 = none
    allowed: tuple[str, ...] = ()  # programs; see program_rules.py
    denied: tuple[str, ...] = ()
    subject: bytes = b""  # the program that the rules apply to, if argv is a shell that becomes it
    copies_input: bool = False  # standard input is a file in memory, to be charged to the job
    start_by_ms: int = 0  # latest start on the boot clock; 0 = no limit
    belongings: bytes = b""  # what it holds of the host, for the next LBM
    # by pack_common; then only OWN and environment are packed from the other fields
    packed: bytes = b""

    @property
    def is_plain(self) -> bool:
        """Returns whether spare.c can carry it out."""
        rules = self.allowed or self.denied
        return not (self.terminal or rules or self.check or self.worker or self.look)


def read_environment(items: list[bytes]) -> dict[bytes, bytes]:
    """Raises ValueError."""
    return dict([item.split(b"=", 1) for item in items])


def read_limits(values: list[bytes]) -> tuple[tuple[int, int, int], ...]:
    return tuple(map(read_limit, values))


@functools.lru_cache(maxsize=256)
def read_limit(value: bytes) -> tuple[int, int, int]:
    """Cached, because a caller's limits are usually the same as the last time."""
    number, soft, hard = map(int, value.split())
    return number, soft, hard


@functools.lru_cache(maxsize=16)  # a user may have many groups
def pack_user(user: tuple[int, ...]) -> bytes:
    return b" ".join(b"%d" % number for number in user)


@functools.lru_cache(maxsize=16)
def read_user(value: bytes) -> tuple[int, ...]:
    """Reads numbers separated by one space each. Raises ValueError."""
    if not USER.fullmatch(value):
        raise ValueError("not the numbers of a user and its groups")
    numbers = tuple(map(int, value.split(b" ")))
    if max(numbers) > ID_MAX:
        raise ValueError("a user or a group that cannot be")
    return numbers


@functools.lru_cache(maxsize=256)
def pack_limit(limit: tuple[int, int, int]) -> bytes:
    return b"%d %d %d" % limit


def patterns(key: bytes, attribute: str) -> Field:
    return Field(
        key, attribute, str.encode, decode_all=lambda values: tuple(map(bytes.decode, values))
    )


OWN = (
    Field(JOB, "job", str.encode, bytes.decode),
    Field(b"a", "argv", decode_all=list),
    Field(SUBJECT, "subject"),
    flag(b"I", "copies_input"),
    count(b"b", "start_by_ms"),
    Field(BELONGINGS, "belongings"),
)
ENVIRONMENT = Field(b"e", "environment", b"=".join, decode_all=read_environment)
COMMON = (
    Field(b"d", "directory", always=True),
    count(b"u", "umask", always=True),
    Field(b"l", "limits", pack_limit, decode_all=read_limits),
    Field(b"w", "user", pack_user, read_user),
    count(b"N", "nice"),
    count(b"i", "ignored_signals"),
    flag(b"P", "no_new_privileges"),
    count(b"M", "memory_bytes"),
    count(CLOSED_FDS, "closed_fds", always=True),
    Field(b"s", "stamp", Stamp.pack, read_stamp),
    count(b"t", "terminal"),
    flag(b"?", "check"),
    flag(b"W", "worker"),
    flag(b"L", "look"),
    count(b"q", "processes"),
    patterns(ALLOWED, "allowed"),
    patterns(DENIED, "denied"),
)
READER = Reader((*OWN, ENVIRONMENT, *COMMON))
OWN_READER, COMMON_READER = Reader((*OWN, ENVIRONMENT)), Reader((ENVIRONMENT, *COMMON))
COMMON_KEYS = frozenset(field.key for field in COMMON)
SHARED_KEYS = COMMON_KEYS | {SHARED}
COMMON_NAMES = tuple(field.attribute for field in COMMON)
common_values = operator.attrgetter(*COMMON_NAMES)
REMEMBERED = 64  # common parts of successive orders are packed and read once
REMEMBERED_BYTES = 1 << 14


def read_order(body: bytes) -> Order:
    """Raises ValueError if a field is malformed."""
    given, at = by_key_until(body, SHARED_KEYS)
    common = read_common(body[at:]) if len(body) - at <= REMEMBERED_BYTES else None
    if common is None:
        order = Order()
        READER.read(body, order)
    else:
        order = Order(**common)
        shared, order.environment = order.environment, {}
        OWN_READER.set(given, order)
        order.environment |= shared
    if not order.job or not order.argv:
        raise ValueError("a job without id or command")
    return order


@functools.lru_cache(maxsize=REMEMBERED)
def read_common(rest: bytes) -> dict[str, Never] | None:
    """Returns the fields set by `rest`, shared and not to be changed; None if it has other fields.
    Raises ValueError."""
    given = by_key(rest)
    if not given.keys() <= (SHARED_KEYS | {ENVIRONMENT.key} if SHARED in given else COMMON_KEYS):
        return None
    COMMON_READER.set(given, order := Order())
    return {field.attribute: getattr(order, field.attribute) for field in (ENVIRONMENT, *COMMON)}


def pack_order(order: Order) -> bytes:
    """Returns the body of a SPAWN frame."""
    own = field_table.pack((*OWN, ENVIRONMENT), order)
    return own + (order.packed or pack_values(common_values(order)))


@functools.lru_cache(maxsize=REMEMBERED)
def pack_values(values: tuple[object, ...]) -> bytes:
    return field_table.pack(COMMON, SimpleNamespace(**dict(zip(COMMON_NAMES, values, strict=True))))


def pack_common(order: Order) -> bytes:
    """Packs what many orders may share: all but the job and its arguments."""
    return frames.field(SHARED, b"") + field_table.pack((ENVIRONMENT, *COMMON), order)

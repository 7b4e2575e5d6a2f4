"""The shared vocabulary: hosts, loads, placements, jobs. Plain values with almost no behaviour.

Names follow Zhou's thesis and LSF. Units come last in a name. Times are seconds on the receiver's
own monotonic clock unless a name says otherwise; only ages travel between hosts.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NewType, Protocol, TypeVar, dataclass_transform

HostId = NewType("HostId", str)
JobId = NewType("JobId", str)
Value = TypeVar("Value")


@dataclass_transform(frozen_default=True)
def quick_value(kind: type[Value]) -> type[Value]:
    """A frozen dataclass to the reader and to the type checker, but not at run time: frozen
    instances take three times as long to create, and some classes are instantiated thousands of
    times a second.

    All these classes share one `__eq__`, one `__hash__` and one `__repr__`: a daemon has up to 120
    of them, and dataclasses would generate 4 KiB of functions for each.
    """
    made = dataclass(slots=True, eq=False, repr=False)(kind)
    for special in (__eq__, __hash__, __repr__):
        setattr(made, special.__name__, special)
    if not kind.__annotations__:
        delattr(made, "__init__")  # that of `object` does as little, in less time
    return made


class Quick(Protocol):
    __match_args__: tuple[str, ...]


def contents(value: Quick) -> tuple[object, ...]:
    """Returns the field values, in order."""
    return tuple([getattr(value, name) for name in value.__match_args__])


def __eq__(self: Quick, other: Quick) -> bool:
    if self.__class__ is not other.__class__:
        return NotImplemented
    return contents(self) == contents(other)


def __hash__(self: Quick) -> int:
    return hash(contents(self))


def __repr__(self: Quick) -> str:
    shown = zip(self.__match_args__, contents(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in shown)})"


STOPPED = "was stopped"  # why a host is down: its daemons were shut down cleanly


class HostState(Enum):
    UP = "up"
    LATE = "late"  # its last sample is older than stale_after_s: not zero, not trusted
    DOWN = "down"
    DRAINED = "drained"  # its owner wants no new jobs on it


class Closed(IntEnum):
    """Why a host accepts no commands from other hosts. The numbers are those used in messages
    between hosts; `text/closed_words.py` has the texts."""

    UNSAID = 0
    NO_LBM = 1
    STARTING = 2
    ALONE = 3
    HOURS = 4
    LOAD = 5
    MEMORY = 6
    OWNER = 7
    DRAINED = 8
    STOPPING = 9
    NO_KEEPER = 10

    @classmethod
    def numbered(cls, number: int) -> "Closed":
        """Returns UNSAID for a number that only a later release knows."""
        return cls(number) if number in cls._value2member_map_ else cls.UNSAID


class JobState(Enum):
    """The job states of the contract, for queued and other jobs."""

    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    UNKNOWN = "unknown"  # it ran on its own host, and nobody saw it end


ENDED_STATES = (
    JobState.DONE, JobState.FAILED, JobState.CANCELLED, JobState.LOST, JobState.UNKNOWN
)  # fmt: skip
ENDED_NAMES = frozenset(state.value for state in ENDED_STATES)

# What the host of one gang member reports besides suspended and resumed. MOVE: the owner is back,
# and all members start over elsewhere. SHOWN: they must not, because this member's output has been
# seen.
GANG_MOVES, GANG_SHOWN = "move", "shown"

# Why a dispatcher ends an attempt: the job is cancelled, or it starts over.
CANCEL, REQUEUE = "cancel", "requeue"
# The same, because of another member of the job's gang.
DISBAND, REGROUP = "disband", "regroup"


@quick_value
class Queues:
    """Smoothed queue lengths, in tasks."""

    cpu: float = 0.0
    io: float = 0.0
    memory: float = 0.0


@dataclass(frozen=True, slots=True)
class Needs:
    """What a command needs of its host besides slots. Names and amounts are as parsed by
    text/needs.py, each name once and in order."""

    resources: tuple[tuple[str, int], ...] = ()
    features: tuple[str, ...] = ()
    not_features: tuple[str, ...] = ()
    memory_bytes: int = 0  # requested for a queued job; 0: no request
    # Memory the command used lately, as learnt: a host with less available is passed over.
    peak_bytes: int = 0
    counted_bytes: int = 0  # memory that is charged to it as it uses it, on any host

    @property
    def is_given(self) -> bool:
        """Whether there is anything to allocate."""
        return bool(self or self.counted_bytes)

    def __bool__(self) -> bool:
        return bool(
            self.resources
            or self.features
            or self.not_features
            or self.memory_bytes
            or self.peak_bytes
        )


NO_NEEDS = Needs()


@dataclass(frozen=True, slots=True)
class Facts:
    """What a host has to satisfy needs."""

    features: tuple[str, ...] = ()  # sorted, as `resources` is
    resources: tuple[tuple[str, int, int], ...] = ()  # name, total, used
    memory_total: int = 0  # bytes that jobs may be allocated; 0: unknown
    memory_given: int = 0  # bytes of these allocated to running jobs


NO_FACTS = Facts()


@quick_value
class LoadVector:
    """One host's load as sampled. `index` is tasks per usable core of reference speed."""

    index: float
    queues: Queues
    utilisation: float  # of all usable cores, 0..1
    cores: float  # usable: affinity and cgroup quota
    speed: float  # relative to the reference machine
    slots_total: int
    slots_used: int
    jobs_local: int
    jobs_foreign: int
    accepting: bool  # its LBM is running and takes jobs
    # A user who holds so many slots that other users may still get one when none is free.
    hog: str = ""
    site: tuple[tuple[str, float], ...] = ()  # loads measured by the site itself, by name
    owner: str = ""  # "here" or "away"; "": not watched
    memory_total: int = 0  # bytes, of the host or its container; 0: unknown
    memory_available: int = 0  # bytes that new programs can get without swapping
    facts: Facts = NO_FACTS
    closed: Closed = Closed.UNSAID  # why it is not accepting
    opens: str = ""  # when its hours begin, by its own clock, for people; "": unknown

    @property
    def memory(self) -> tuple[int, int]:
        """Total and available bytes, both capped at host.memory, since jobs get nothing beyond
        that. (0, 0) if unknown."""
        if not self.memory_total:
            return 0, 0
        total = self.facts.memory_total or self.memory_total
        return total, min(self.memory_available, total)


def target_of(address: str, port: int) -> str:
    """Returns a gRPC target; an IPv6 address gets brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class Verdict(Enum):
    HERE = "here"
    THERE = "there"
    WAIT = "wait"  # no host has room: hold the command until one has


@quick_value
class Candidate:
    """One host as the policy saw it when it decided."""

    name: HostId
    load: float  # its index with this job added; includes picks not yet seen in a sample
    age_s: float
    willing: bool
    why: str  # why it cannot be chosen; "" if it can


@quick_value
class Placement:
    verdict: Verdict
    host: HostId
    reason: str  # a short slug, counted and shown: "below-threshold", "lowest", "no-peer" ...
    candidates: tuple[Candidate, ...] = ()  # best first


@quick_value
class PlacementRequest:
    """What the policy needs to know about a command."""

    job: JobId
    wanted: HostId | None = None  # -H: this host, whatever its load
    excluded: frozenset[HostId] = frozenset()  # -x, and hosts that just refused it
    must_leave: bool = False  # --remote
    must_stay: bool = False  # --local, or already moved too often
    user: str = ""  # the user asking
    cpu_s: float = 0.0  # expected CPU time on a reference core, as learnt; 0: unknown
    shown: bool = True  # the answer lists the other candidates
    may_wait: bool = True  # a command inside a placed job must not wait: its parent holds a slot
    needs: Needs = NO_NEEDS

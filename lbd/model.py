"""The shared words: hosts, loads, placements, jobs. Values only, no behaviour to speak of.

Names are those of Zhou's thesis and of LSF. Units come last in a name. Times are seconds on the
receiver's own monotonic clock unless a name says otherwise; between hosts only ages travel.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NewType, Protocol, TypeVar, dataclass_transform

HostId = NewType("HostId", str)
JobId = NewType("JobId", str)
Value = TypeVar("Value")


@dataclass_transform(frozen_default=True)
def quick_value(kind: type[Value]) -> type[Value]:
    """A frozen dataclass to whoever reads it and to the type checker. At run time it is not, as
    frozen ones take three times as long to make, and some are made thousands of times a second.

    What compares, hashes and shows them is one function each for all of them: a daemon has up to
    120 such classes, and for each of them dataclasses would make functions of 4 KiB."""
    made = dataclass(slots=True, eq=False, repr=False)(kind)
    for special in (__eq__, __hash__, __repr__):
        setattr(made, special.__name__, special)
    return made


class Quick(Protocol):
    __match_args__: tuple[str, ...]


def contents(value: Quick) -> tuple[object, ...]:
    """Its fields, in order."""
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


STOPPED = "was stopped"  # why a host is down: its daemons have ended in order


class HostState(Enum):
    UP = "up"
    LATE = "late"  # its last sample is older than stale_after_s: not zero, not trusted
    DOWN = "down"
    DRAINED = "drained"  # its owner wants no new jobs there


class Closed(IntEnum):
    """Why a host takes no commands of others. The numbers are those of the messages between hosts;
    `text/closed_words.py` has the words."""

    UNSAID = 0  # by a host of an earlier release
    NO_LBM = 1
    STARTING = 2
    ALONE = 3
    HOURS = 4
    LOAD = 5
    MEMORY = 6
    OWNER = 7
    DRAINED = 8
    STOPPING = 9

    @classmethod
    def numbered(cls, number: int) -> "Closed":
        """UNSAID for what a later release may say."""
        return cls(number) if number in cls._value2member_map_ else cls.UNSAID


class JobState(Enum):
    """The states of the contract, of queued jobs and of others."""

    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    UNKNOWN = "unknown"  # it ran on its own host, and nobody saw its end


ENDED_STATES = (
    JobState.DONE, JobState.FAILED, JobState.CANCELLED, JobState.LOST, JobState.UNKNOWN
)  # fmt: skip
ENDED_NAMES = frozenset(state.value for state in ENDED_STATES)

# What the host of one of a gang says beside that it stands still or goes on: the owner is back, and
# all are to begin again elsewhere; or they must not, as somebody has seen what this one has printed
GANG_MOVES, GANG_SHOWN = "move", "shown"

# For what a dispatcher ends an attempt: its job is to be no more, or to begin again
CANCEL, REQUEUE = "cancel", "requeue"
# Likewise for the sake of its gang
DISBAND, REGROUP = "disband", "regroup"


@quick_value
class Queues:
    """Smoothed lengths, in tasks."""

    cpu: float = 0.0
    io: float = 0.0
    memory: float = 0.0


@dataclass(frozen=True, slots=True)
class Needs:
    """What a command needs of its host besides slots. Names and amounts are as text/needs.py reads
    them, each name once and in order."""

    resources: tuple[tuple[str, int], ...] = ()
    features: tuple[str, ...] = ()
    not_features: tuple[str, ...] = ()
    memory_bytes: int = 0  # a job of the queue is to have; 0: whatever it takes
    # that it took lately, as was learnt: a host that has not so much available is passed over
    peak_bytes: int = 0
    counted_bytes: int = 0  # of memory: given to it as it may take them, wherever it is

    @property
    def is_given(self) -> bool:
        """Is there anything to hand out?"""
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
    """What a host has of what commands may need."""

    features: tuple[str, ...] = ()  # in order, as the next
    resources: tuple[tuple[str, int, int], ...] = ()  # name, total, used
    memory_total: int = 0  # bytes that jobs may be given; 0: not known
    memory_given: int = 0  # of these, to jobs that run


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
    accepting: bool  # its LBM is there and takes jobs
    # the user who has so many of the slots that others may have one although none is free
    hog: str = ""
    site: tuple[tuple[str, float], ...] = ()  # loads that the site measures itself, by name
    owner: str = ""  # "here", "away"; "" = nobody looks
    memory_total: int = 0  # bytes, of the host or its container; 0 = not known
    memory_available: int = 0  # to new programs, without swapping
    facts: Facts = NO_FACTS
    closed: Closed = Closed.UNSAID  # why it is not accepting
    opens: str = ""  # when its hours begin, by its own clock, for people; "" = not known

    @property
    def memory(self) -> tuple[int, int]:
        """All of it and what is available, as host.memory has it: what is beyond that is not for
        jobs. (0, 0): not known."""
        if not self.memory_total:
            return 0, 0
        total = self.facts.memory_total or self.memory_total
        return total, min(self.memory_available, total)


def target_of(address: str, port: int) -> str:
    """As gRPC takes it: an IPv6 address in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class Verdict(Enum):
    HERE = "here"
    THERE = "there"
    WAIT = "wait"  # nobody has room: hold the command until somebody has


@quick_value
class Candidate:
    """One host as the policy saw it when it decided."""

    name: HostId
    load: float  # index as it would be with this job, picks not yet seen in a sample included
    age_s: float
    willing: bool
    why: str  # "" or the reason it cannot be chosen


@quick_value
class Placement:
    verdict: Verdict
    host: HostId
    reason: str  # a few-word slug, counted and shown: "below-threshold", "lowest", "no-peer" ...
    candidates: tuple[Candidate, ...] = ()  # best first


@quick_value
class PlacementRequest:
    """What the policy needs to know of a command."""

    job: JobId
    wanted: HostId | None = None  # -H: there, whatever the load
    excluded: frozenset[HostId] = frozenset()  # -x, and hosts that just refused it
    must_leave: bool = False  # --remote
    must_stay: bool = False  # --local, or moved too often already
    user: str = ""  # who asks
    cpu_s: float = 0.0  # it will take, on a reference core, by what was learnt of it; 0: not known
    shown: bool = True  # the answer is to list the other candidates
    may_wait: bool = True  # a command inside a placed job must not wait: its parent holds a slot
    needs: Needs = NO_NEEDS

"""What a policy sees and what it may answer: plain values.

A policy is a function of the replies so far, `next_step(request, view, replies, rng)`. The driver
is the same few lines in the daemon, in the tests and in the simulator:

    while isinstance(step := next_step(...), Probe | Ask):
        replies += carry_out(step)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Protocol

from lbd.config.schema import LimConfig
from lbd.model import Candidate, HostId, Placement, PlacementRequest, quick_value
from lbd.policy.needs import Unmet

NO_SLOT = "no free slot"
AVOIDED = "avoided"  # followed by the reason


@dataclass(slots=True)
class HostView:
    """One host, as last reported. Replaced, never altered, when something changes.

    It is not frozen only because each pick creates one, and frozen ones take three times as long.
    """

    name: HostId
    load_now: float  # its index, including picks not yet seen in a sample
    load: float  # the same with one more job
    sampled_at_s: float
    alive: bool  # up, late or drained: not down
    why: str  # "" if it may be picked, else why it may not: NO_SLOT or any text
    hog: str = ""  # NO_SLOT applies to this user only
    cores: float = 1.0  # usable
    speed: float = 1.0  # of a core, relative to the reference machine
    charged: float = 0.0  # the part of `load_now` that is picks no sample shows yet
    free_at_s: float = 0.0  # time of the newest sample that showed a free core
    fits: bool = True  # it has what the command needs; else `why` says what it lacks
    is_taken: bool = False  # other jobs hold what it lacks, and will release it
    is_short: bool = False  # too little memory for the command's recent peak; `why` says so

    def for_user(self, user: str) -> "HostView":
        """Returns this view as the given user sees it."""
        if not (self.hog and user and self.hog != user and self.why == NO_SLOT):
            return self
        return replace(self, why="")

    def believed(self, load_now: float, load: float) -> "HostView":
        """Spelled out, as `dataclasses.replace` takes four times as long."""
        return HostView(
            self.name, load_now, load, self.sampled_at_s, self.alive, self.why, self.hog,
            self.cores, self.speed, self.charged, self.free_at_s, self.fits, self.is_taken,
            self.is_short,
        )  # fmt: skip

    def needing(self, lack: Unmet | None) -> "HostView":
        """Returns this view for a command that needs what the host lacks. As the reason, something
        the host never has outranks something other jobs hold, and that outranks a full host."""
        if lack is None:
            return self
        is_known = self.alive and not (lack.later and self.why not in ("", NO_SLOT))
        why = lack.why if is_known else self.why
        return replace(self, why=why, hog="", fits=False, is_taken=lack.later and is_known)

    def short(self, why: str) -> "HostView":
        """Returns this view for a command whose recent peak exceeds the host's memory."""
        return replace(self, why=why, hog="", is_short=True) if why and not self.why else self

    @property
    def is_full(self) -> bool:
        """Whether it might take the command once other jobs have ended."""
        return self.is_taken or self.why == NO_SLOT


@dataclass(slots=True)
class View:
    """The cluster as seen from one host. `hosts` includes that host, `me`."""

    me: HostView
    hosts: Mapping[HostId, HostView]
    params: LimConfig
    now_s: float
    centre: HostId | None  # the load information centre; None: none that we know of
    reserved: tuple[HostId, ...] = ()  # RESERVE: hosts that asked us for a job, newest first


@quick_value
class Probe:
    """Ask these hosts for their current load, within this share of the remaining time."""

    hosts: tuple[HostId, ...]
    time_share: float


@quick_value
class Ask:
    """Let the centre decide."""

    centre: HostId


@dataclass(frozen=True, slots=True)
class Nowhere:
    """The command cannot run as the user demands."""

    reason: str  # one line
    candidates: tuple[Candidate, ...] = ()


@quick_value
class Reply:
    """The outcome of probing or asking `host`. A probed host's load is in the view by then."""

    host: HostId
    answered: bool
    decision: "Placement | Nowhere | None" = None  # made by the centre


Decision = Placement | Nowhere
Step = Probe | Ask | Placement | Nowhere


class Reporting(Enum):
    """To whom hosts report changes of their load, each period; the keep-alive is sent in
    addition."""

    VECTOR = "the coordinator, which broadcasts it", True
    CENTRE = "the coordinator, which keeps it to itself", True
    EVERYBODY = "everybody", True
    NOBODY = "nobody", False
    RESERVATIONS = "no host; lightly loaded hosts ask loaded ones for jobs", False

    def __init__(self, _whom: str, of_changes: bool) -> None:
        self.of_changes = of_changes


class Policy(Protocol):
    """One algorithm."""

    reporting: Reporting

    def next_step(
        self, request: PlacementRequest, view: View, replies: Sequence[Reply], rng: Random
    ) -> Step: ...

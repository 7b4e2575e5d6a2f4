"""The events and the actions of a LIM: the two sides of `state.LimState.handle`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lbd.lim.core.messages import Body, DrainNote, Message, PastDrain, Seal, Settings
from lbd.lim.core.settings import InForce, Value, changed
from lbd.model import NO_FACTS, Closed, Facts, HostId, JobId, LoadVector, Queues, quick_value


@dataclass(frozen=True, slots=True)
class Tick:
    """`next_due_s` has been reached."""


@quick_value
class Sampled:
    """The sampler's result of one second."""

    queues: Queues
    index: float
    utilisation: float
    site: tuple[tuple[str, float], ...] = ()
    memory: tuple[int, int] = (0, 0)  # bytes: total, available


@dataclass(frozen=True, slots=True)
class LbmStatus:
    """This host's LBM reported its state, or its connection ended (not accepting)."""

    accepting: bool
    slots_total: int = 0
    hog: str = ""
    slots_used: int = 0
    jobs_local: int = 0
    jobs_foreign: int = 0
    owner: str = ""
    facts: Facts = NO_FACTS
    closed: Closed = Closed.UNSAID
    opens: str = ""

    def vector(self, sampled: Sampled, cores: float, speed: float) -> LoadVector:
        """Returns all that this host reports of itself, together with what was sampled."""
        memory_total, memory_available = sampled.memory
        return LoadVector(  # positional, as keywords take four times as long
            sampled.index, sampled.queues, sampled.utilisation, cores, speed,
            self.slots_total, self.slots_used, self.jobs_local, self.jobs_foreign,
            self.accepting, self.hog, sampled.site, self.owner,
            memory_total, memory_available, self.facts, self.closed,
            self.opens,
        )  # fmt: skip


@quick_value
class JobStarted:
    job: JobId
    host: HostId


@quick_value
class JobEnded:
    job: JobId


@dataclass(frozen=True, slots=True)
class Trouble:
    """The LBM could not use a host."""

    host: HostId
    reason: str


@dataclass(frozen=True, slots=True)
class SetDrained:
    drained: bool
    for_good: bool = False  # it leaves the cluster once it is empty


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    algorithm: str | None
    params: Mapping[str, Value]
    drains: Mapping[HostId, bool] = field(default_factory=dict)  # of hosts that are away
    drain_notes: Mapping[HostId, DrainNote | None] = field(default_factory=dict)
    ended_drain: PastDrain | None = None
    save: bool = False  # the settings also outlast a stop of all LIMs
    reset: frozenset[str] = frozenset()  # full names that again follow each host's lbd.toml
    # settings of lbd.toml: `lbd.config.cluster`
    shared: Mapping[str, str] = field(default_factory=dict)
    seal: Seal | None = None  # of the policy with this change, where policies are signed

    def applied_to(self, settings: Settings, author: HostId) -> Settings:
        """Raises ConfigError."""
        return changed(
            settings, author, self.algorithm, self.params, self.drains, self.drain_notes,
            self.ended_drain, save=self.save, reset=self.reset, shared=self.shared, seal=self.seal,
        )  # fmt: skip

    @property
    def is_of_policy(self) -> bool:
        return bool(self.algorithm or self.params or self.save or self.reset or self.shared)


@quick_value
class Received:
    """A message came from another LIM; exactly one of the actions is a Reply."""

    message: Message


@quick_value
class Replied:
    """`sent` reached its host, and this reply came back."""

    to: HostId
    sent: Body
    reply: Message


@dataclass(frozen=True, slots=True)
class Undelivered:
    to: HostId
    sent: Body
    why: str
    skewed: bool = False  # our release and its release are incompatible


@dataclass(frozen=True, slots=True)
class Skewed:
    """A host whose release does not understand ours has called, and was refused."""

    host: HostId
    why: str


@dataclass(frozen=True, slots=True)
class Stopping:
    """This LIM was asked to stop."""


Event = (
    Tick | Sampled | LbmStatus | JobStarted | JobEnded | Trouble | SetDrained | ChangeSettings
    | Received | Replied | Undelivered | Skewed | Stopping
)  # fmt: skip


@quick_value
class Send:
    """Send to another LIM. `to` is "" when only an address is known yet."""

    to: HostId
    target: str  # address:port
    body: Body
    timeout_s: float


@quick_value
class Broadcast:
    """Send the same to several LIMs, all of them in the table, as one `Send` each."""

    to: tuple[HostId, ...]
    body: Body
    timeout_s: float


@quick_value
class Reply:
    body: Body


@dataclass(frozen=True, slots=True)
class SaveIncarnation:
    """Others know this host by one above its clock: its next start must be above that."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class SaveDrained:
    """Save the host's own drain across a restart."""

    drained: bool


@dataclass(frozen=True, slots=True)
class SaveLasting:
    """Save the part of the settings that outlives all LIMs across a restart."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class Configure:
    """Other settings are in force."""

    in_force: InForce


@dataclass(frozen=True, slots=True)
class Log:
    text: str
    warning: bool = False
    peer: str = ""  # the host it is about


@dataclass(frozen=True, slots=True)
class Stop:
    """This LIM cannot go on."""

    reason: str


Action = (
    Send | Broadcast | Reply | SaveIncarnation | SaveDrained | SaveLasting | Configure | Log | Stop
)

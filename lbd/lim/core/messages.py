"""The messages between LIMs (proto/lbd/v1/lim.proto), as values.

`net.convert` makes them from bytes and checks every value on the way, so the code behind it can
rely on them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from lbd.config import cluster
from lbd.model import (
    NO_NEEDS,
    HostId,
    JobId,
    LoadVector,
    Needs,
    Queues,
    Verdict,
    quick_value,
    target_of,
)

COUNTER_MAX = (1 << 62) - 1  # of incarnations, samples and settings, on the wire
CLOCK_WRONG_MS = 100 * 365 * 86_400 * 1000  # how far a clock may be behind
DRAINS_MAX = 1 << 10  # hosts that are away, to be drained when they are back
DRAIN_NOTES_MAX = 128  # beyond that the oldest note is dropped; its host stays drained
SLOTS_MAX = 1 << 16  # hosts in a delta
HOSTS_MAX = 8192  # in one message; for one centre it may be twice lim.max_hosts
PAST_DRAINS_MAX = 64  # ended drains; beyond that the oldest is dropped
SAVED_MAX, SAVED_CHARS_MAX = cluster.SAVED_MAX, cluster.TEXT_CHARS_MAX
REASON_CHARS_MAX, BY_CHARS_MAX = 160, 64  # of a drain
OPENS_CHARS_MAX = 32  # of the text that says when a host's hours begin
TRIAL_BYTES, CERTIFICATE_BYTES_MAX, SIGNATURE_BYTES_MAX = 32, 8192, 80  # of a seal


def hosts_max(max_hosts: int) -> int:
    """Returns the limit for a LIM with so many hosts in its table; others may have larger
    tables."""
    return max(HOSTS_MAX, 2 * max_hosts)


def counter_max(unix_s: float) -> int:
    """Returns the highest counter that settings, and their seal, are accepted with at that time.

    A change has the counter after the last one, or the time in seconds. So that no host can use up
    the counters, none is accepted above the time in milliseconds, which rises faster than anybody
    makes changes. A counter that one host accepts may be too high by the clock of another, so that
    is never a fault of the whole message.
    """
    return int(unix_s * 1000) + CLOCK_WRONG_MS


@dataclass(frozen=True, slots=True)
class Member:
    """One host and where its daemons listen. The lowest (rank, name) that is up is the centre."""

    name: HostId
    address: str
    lim_port: int
    lbm_port: int
    rank: int
    incarnation: int
    version: str = ""
    more: bytes = b""  # fields of a later release, as received: passed on with the rest

    @property
    def lim_target(self) -> str:
        return target_of(self.address, self.lim_port)

    @property
    def lbm_target(self) -> str:
        return target_of(self.address, self.lbm_port)


@quick_value
class Sample:
    """One host's load, and its age when it was sent."""

    host: HostId
    incarnation: int
    number: int
    age_s: float
    vector: LoadVector
    drained: bool
    more: bytes = b""  # as in Member


@dataclass(frozen=True, slots=True)
class Hello:
    self: Member
    wants_members: bool


@dataclass(frozen=True, slots=True)
class DrainNote:
    """Why a host was drained, by whom, and since when in UNIX seconds."""

    reason: str
    by: str
    since: float


@dataclass(frozen=True, slots=True)
class PastDrain:
    """A drain that has ended, or was replaced by one with another reason."""

    host: HostId
    note: DrainNote
    until_by: str
    until: float  # UNIX seconds


@dataclass(frozen=True, slots=True)
class Seal:
    """The author of a policy, and the proof; see `signed`."""

    counter: int = 0  # 0: unsigned
    author: str = ""
    trial: bytes = b""  # SHA-256 of what ends with all LIMs
    certificate: bytes = b""  # the author's, DER
    signature: bytes = b""


NO_SEAL = Seal()


@dataclass(frozen=True, slots=True)
class Settings:
    """What is the same on every host. The higher (counter, author) wins; 0 is the configuration.

    Where hosts have certificates, the policy (`algorithm`, `params`, `words` and `saved`) is
    ordered by its seal instead: see `signed`.
    """

    counter: int = 0
    author: str = ""
    algorithm: str = ""
    params: dict[str, float] = field(default_factory=dict)
    tuned: dict[str, float] = field(default_factory=dict)  # overrides `params`, set by the centre
    words: dict[str, str] = field(default_factory=dict)  # parameters that are not numbers
    more: bytes = b""  # as in Member
    # Hosts that were drained, or undrained, while away: each removes itself from the list.
    drains: dict[HostId, bool] = field(default_factory=dict)
    drain_notes: dict[HostId, DrainNote] = field(default_factory=dict)
    past_drains: tuple[PastDrain, ...] = ()  # the oldest first
    # "section.name" -> value, as in lbd.toml: what applies again after all LIMs were stopped.
    saved: dict[str, str] = field(default_factory=dict)
    seal: Seal = NO_SEAL

    @property
    def version(self) -> tuple[int, str]:
        return (self.counter, self.author)

    @property
    def outlives(self) -> tuple[object, ...]:
        """The part that `lasting` keeps."""
        return (self.drains, self.drain_notes, self.past_drains, self.saved, self.seal)

    @property
    def lasting(self) -> "Settings":
        """The part that outlives all LIMs, with its number but without its author."""
        return Settings(
            self.counter, drains=self.drains, drain_notes=self.drain_notes,
            past_drains=self.past_drains, saved=self.saved, seal=self.seal,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Members:
    members: tuple[Member, ...]
    settings: Settings


@quick_value
class Report:
    """`ended`: ended jobs that the centre had placed for this host."""

    sample: Sample
    ended: tuple[JobId, ...] = ()


@quick_value
class HostLoad:
    """The frequently changing values of a host that a delta has introduced by its slot."""

    slot: int
    number: int
    age_s: float
    index: float
    queues: Queues
    utilisation: float
    slots_used: int
    jobs_local: int
    jobs_foreign: int
    memory_available: int  # bytes


@quick_value
class Delta:
    """What the centre has published after `since` (0: everything), up to `version`. Without any
    line it says only that the centre is alive."""

    since: int
    version: int
    digest: int  # of everything published in that version
    settings_version: tuple[int, str]
    whole: tuple[tuple[int, Sample], ...] = ()  # by slot: new hosts, and those with changed facts
    loads: tuple[HostLoad, ...] = ()
    silent: tuple[int, ...] = ()  # hosts among these that have missed a keep-alive
    gone: tuple[int, ...] = ()
    fresh_age_s: float | None = None  # all other hosts' loads were unchanged that long ago
    policy_version: tuple[int, str] = (0, "")  # `signed.policy_version`


@dataclass(frozen=True, slots=True)
class Probe:
    pass


@quick_value
class ProbeReply:
    sample: Sample


@quick_value
class AskCentre:
    job: JobId
    excluded: frozenset[HostId]
    must_leave: bool
    may_wait: bool
    dry: bool
    sample: Sample
    charges: float
    ended: tuple[JobId, ...] = ()
    needs: Needs = NO_NEEDS


@quick_value
class CentreReply:
    """The centre's answer; `verdict` None means that no host is suitable."""

    verdict: Verdict | None
    host: HostId
    reason: str


@quick_value
class Reserve:
    """From a lightly loaded host: send it your next command."""

    sample: Sample


@quick_value
class ReserveReply:
    taken: bool  # declined by a host that is not loaded itself
    sample: Sample


@dataclass(frozen=True, slots=True)
class Unreserve:
    pass


@dataclass(frozen=True, slots=True)
class Drain:
    drained: bool


@dataclass(frozen=True, slots=True)
class Leave:
    for_good: bool = False


@dataclass(frozen=True, slots=True)
class Forget:
    host: HostId
    for_good: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Ping:
    pass


@quick_value
class Ack:
    error: str = ""
    unknown_sender: bool = False
    known_incarnation: int = 0
    unix_time_s: float = 0.0
    version: str = ""
    name_taken: bool = False
    algorithm: str = ""
    settings_version: tuple[int, str] = (0, "")  # in force there; in an answer to Ping
    known_version: int = 0  # in an answer to a Delta: the version known there, 0 for none
    policy_version: tuple[int, str] = (0, "")  # in an answer to Ping


Body = (
    Hello | Members | Report | Delta | Probe | ProbeReply | AskCentre | CentreReply
    | Settings | Drain | Leave | Forget | Ping | Ack | Reserve | ReserveReply | Unreserve
)  # fmt: skip


@quick_value
class Message:
    cluster: str
    sender: HostId
    incarnation: int
    body: Body


def with_settings(message: Message, made: Callable[[Settings], Settings]) -> Message:
    """Returns the same message with its settings, if it has any, replaced."""
    body = message.body
    if isinstance(body, Settings):
        made_of: Body = made(body)
    elif isinstance(body, Members):
        made_of = Members(body.members, made(body.settings))
    else:
        return message
    return Message(message.cluster, message.sender, message.incarnation, made_of)


def unsealed(settings: Settings) -> Settings:
    """Removes the seal, for a cluster without certificates, where no host can check it and none
    counts."""
    return replace(settings, seal=NO_SEAL) if settings.seal.counter else settings

"""What LIMs say to each other (proto/lbd/v1/lim.proto), as values of ours.

`rpc.convert` makes these of bytes and checks every value on the way, so nothing behind it need
doubt a message.
"""

from dataclasses import dataclass, field

from lbd.model import HostId, JobId, LoadVector, Verdict, quick_value, target_of

COUNTER_MAX = (1 << 62) - 1  # of incarnations, samples and settings, on the wire
DRAINS_MAX = 1 << 10  # hosts that are away, and are to be drained when they are back


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
    more: bytes = b""  # fields of a later release, as they came: passed on with the rest

    @property
    def lim_target(self) -> str:
        return target_of(self.address, self.lim_port)

    @property
    def lbm_target(self) -> str:
        return target_of(self.address, self.lbm_port)


@quick_value
class Sample:
    """One host's load, and how old it was when it was sent."""

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
class Settings:
    """What is the same everywhere. The higher (counter, author) wins; 0 is the configuration."""

    counter: int = 0
    author: str = ""
    algorithm: str = ""
    params: dict[str, float] = field(default_factory=dict)
    tuned: dict[str, float] = field(default_factory=dict)  # laid over `params`, by the centre
    words: dict[str, str] = field(default_factory=dict)  # parameters that are no numbers
    more: bytes = b""  # as in Member
    # Hosts that were drained, or no longer, while they were away: each takes itself off the list
    drains: dict[HostId, bool] = field(default_factory=dict)

    @property
    def version(self) -> tuple[int, str]:
        return (self.counter, self.author)


@dataclass(frozen=True, slots=True)
class Members:
    members: tuple[Member, ...]
    settings: Settings


@quick_value
class Report:
    """`ended`: jobs that the centre placed for this host."""

    sample: Sample
    ended: tuple[JobId, ...] = ()


@quick_value
class Vector:
    samples: tuple[Sample, ...]
    settings_version: tuple[int, str]


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


@quick_value
class CentreReply:
    """`verdict` None: nowhere."""

    verdict: Verdict | None
    host: HostId
    reason: str


@quick_value
class Reserve:
    """From a lightly loaded host: send me your next command."""

    sample: Sample


@quick_value
class ReserveReply:
    taken: bool  # not by a host that is not loaded itself
    sample: Sample


@dataclass(frozen=True, slots=True)
class Unreserve:
    pass


@dataclass(frozen=True, slots=True)
class Drain:
    drained: bool


@dataclass(frozen=True, slots=True)
class Leave:
    pass


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


Body = (
    Hello | Members | Report | Vector | Probe | ProbeReply | AskCentre | CentreReply | Settings
    | Drain | Leave | Ping | Ack | Reserve | ReserveReply | Unreserve
)  # fmt: skip


@quick_value
class Message:
    cluster: str
    sender: HostId
    incarnation: int
    body: Body

"""The messages of simulated daemons: between dispatcher and hosts, and among hosts."""

from collections.abc import Mapping
from dataclasses import field

from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.records import Ending
from lbd.lbm.core.execution_events import Action, Spec
from lbd.model import NO_NEEDS, HostId, JobId, Needs, quick_value

Key = tuple[JobId, int]  # a queued job, and its attempt number


def attempt_id(key: Key) -> JobId:
    return JobId(f"{key[0]}.{key[1]}")


def key_of(attempt: JobId) -> Key:
    job, _, number = attempt.rpartition(".")
    return JobId(job), int(number)


# From a host to the dispatcher


@quick_value
class Heartbeat:
    number: int
    held: tuple[tuple[JobId, int, str], ...]  # with the reason for which each was asked to end
    slots: HostSlots
    keeper: str = ""  # which runs the attempts, if it has none beside those held
    said_s: float = 0.0  # by the host's clock
    # for how long each may run without this renewal
    left_s: Mapping[Key, float] = field(default_factory=dict)


@quick_value
class AttemptReady:
    """An attempt of a gang is ready and held on its host."""

    key: Key


@quick_value
class AttemptBegun:
    key: Key


@quick_value
class AttemptStopped:
    """An attempt was stopped by its host's owner, with the reason; or it continues."""

    key: Key
    stopped: bool
    reason: str
    wanted: str = ""  # GANG_MOVES, or ""


@quick_value
class AttemptEnded:
    key: Key
    ending: Ending


@quick_value
class AttemptRefused:
    key: Key
    phase: str
    ending: Ending


Upward = (
    Heartbeat | AttemptReady | AttemptBegun | AttemptStopped | AttemptEnded | AttemptRefused
)  # fmt: skip


# From the dispatcher to a host


@quick_value
class StartAttempt:
    key: Key
    anchor: int  # the heartbeat from which its lease counts
    lease_s: float
    cutoff_s: float | None
    slots: int
    movable: bool = False  # to another host, if this host's owner is back
    gang_hosts: tuple[HostId, ...] = ()  # hosts of all its tasks, if it is one of a gang
    needs: Needs = NO_NEEDS
    user: str = ""


@quick_value
class ReleaseAttempt:
    key: Key


@quick_value
class LeasesRenewed:
    number: int  # of the heartbeat
    lease_s: float
    keys: tuple[Key, ...]


@quick_value
class EndAttempt:
    key: Key
    number: int
    stop_reason: str


@quick_value
class ForgetAttempt:
    key: Key


Downward = StartAttempt | ReleaseAttempt | LeasesRenewed | EndAttempt | ForgetAttempt


# Between the host of a command's user and the host where it runs


@quick_value
class StartCommand:
    spec: Spec


@quick_value
class SendSignal:
    job: JobId
    number: int


@quick_value
class LetGo:
    """Nobody waits for the command any more."""

    job: JobId
    number: int


@quick_value
class Report:
    """A report of its execution."""

    job: JobId
    action: Action


@quick_value
class Printed:
    """The command has written something, or read something."""

    job: JobId


BetweenHosts = StartCommand | SendSignal | LetGo | Report | Printed

"""What simulated daemons send each other: dispatcher and hosts, and hosts among themselves."""

from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.records import Ending
from lbd.lbm.core.execution_events import Action, Spec
from lbd.model import NO_NEEDS, HostId, JobId, Needs, quick_value

Key = tuple[JobId, int]  # a queued job, and the number of its attempt


def attempt_id(key: Key) -> JobId:
    return JobId(f"{key[0]}.{key[1]}")


def key_of(attempt: JobId) -> Key:
    job, _, number = attempt.rpartition(".")
    return JobId(job), int(number)


# From a host to the dispatcher


@quick_value
class Heartbeat:
    number: int
    held: tuple[tuple[JobId, int, str], ...]  # and what each was asked to end for
    slots: HostSlots


@quick_value
class AttemptReady:
    """Of a gang's: it is held there."""

    key: Key


@quick_value
class AttemptBegun:
    key: Key


@quick_value
class AttemptStopped:
    """By its host's owner, and why; or it goes on."""

    key: Key
    stopped: bool
    reason: str
    wanted: str = ""  # GANG_MOVES, or nothing


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
    cutoff_s: float | None
    slots: int
    movable: bool = False  # to another host, if the owner of this one is back
    gang_hosts: tuple[HostId, ...] = ()  # of all its tasks, if it is one of a gang
    needs: Needs = NO_NEEDS


@quick_value
class ReleaseAttempt:
    key: Key


@quick_value
class LeasesRenewed:
    number: int  # of the heartbeat
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


# From the host of a command's user to the one where it runs, and back


@quick_value
class StartCommand:
    spec: Spec


@quick_value
class SendSignal:
    job: JobId
    number: int


@quick_value
class LetGo:
    """Nobody waits for it any more."""

    job: JobId
    number: int


@quick_value
class Report:
    """What its execution reports."""

    job: JobId
    action: Action


@quick_value
class Printed:
    """Something it wrote, or that it has read something."""

    job: JobId


BetweenHosts = StartCommand | SendSignal | LetGo | Report | Printed

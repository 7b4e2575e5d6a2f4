"""The actions that a pool of workers asks for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    worker: int
    host: str


@dataclass(frozen=True, slots=True)
class Send:
    worker: int
    task: int


@dataclass(frozen=True, slots=True)
class SendBlob:
    worker: int
    blob: bytes
    task: int  # a task that needs it
    # the worker is alone on its host and keeps the blob to itself; else all there share it
    is_own: bool


@dataclass(frozen=True, slots=True)
class ShareBlob:
    """The worker shares a blob of its own with all workers on its host."""

    worker: int
    blob: bytes


@dataclass(frozen=True, slots=True)
class DropBlob:
    worker: int
    blob: bytes


@dataclass(frozen=True, slots=True)
class AskBack:
    """The worker returns the tasks that it has not started."""

    worker: int


@dataclass(frozen=True, slots=True)
class End:
    worker: int
    by_force: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    task: int
    reason: str
    is_lost: bool  # the worker was lost; otherwise no worker could be started


@dataclass(frozen=True, slots=True)
class Tell:
    """Print a notice for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Look:
    """Ask for the cluster's hosts, then call `look_at`."""


Action = Start | Send | SendBlob | ShareBlob | DropBlob | AskBack | End | Fail | Tell | Look

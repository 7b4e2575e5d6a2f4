"""What a pool of workers wants done."""

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
    task: int  # one that has it
    is_own: bool  # of that worker alone, the only one on its host; else of all there


@dataclass(frozen=True, slots=True)
class ShareBlob:
    """What the worker has for itself, all on its host shall have."""

    worker: int
    blob: bytes


@dataclass(frozen=True, slots=True)
class DropBlob:
    worker: int
    blob: bytes


@dataclass(frozen=True, slots=True)
class AskBack:
    """What the worker has not begun shall come back."""

    worker: int


@dataclass(frozen=True, slots=True)
class End:
    worker: int
    by_force: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    task: int
    reason: str
    is_lost: bool  # with its worker; otherwise no worker could be had


@dataclass(frozen=True, slots=True)
class Tell:
    """The user shall hear of it."""

    text: str


@dataclass(frozen=True, slots=True)
class Look:
    """Ask which hosts there are, then call `look_at`."""


Action = Start | Send | SendBlob | ShareBlob | DropBlob | AskBack | End | Fail | Tell | Look

"""What a command on its way out knows of the `lbrun` that asked for it."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lbd.lbm.kinds import why_not
from lbd.model import JobId
from lbd.one_line import one_line
from lbd.rpc import client_tags as tags
from lbd.rpc import frames

if TYPE_CHECKING:
    from lbd.lbm.caller import PeerProcess
    from lbd.lbm.staging import Pipes
    from lbd.lbm.user_threads import Threads

LBRUN_FAILED = 125  # the exit status of a command that never began, or whose end is not known


@dataclass(slots=True)
class Ends:
    """The caller's descriptors, ours to close; None where the caller has none or keeps it."""

    stdin: int | None
    stdout: int | None
    stderr: int | None

    def copy(self) -> "Ends":
        """Of our own, to `close`. Raises OSError."""
        return Ends(*(None if fd is None else os.dup(fd) for fd in self._all()))

    def close(self, threads: "Threads") -> None:
        for descriptor in self._all():
            if descriptor is not None:
                threads.close(descriptor)

    def why_not(self) -> str:
        """One of them is nothing that a command could use; "" if all are."""
        names = ("standard input", "standard output", "standard error")
        held = [(name, fd) for name, fd in zip(names, self._all(), strict=True) if fd is not None]
        return next(filter(None, (why_not(name, fd) for name, fd in held)), "")

    def _all(self) -> tuple[int | None, ...]:
        return self.stdin, self.stdout, self.stderr


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended, as its `lbrun` is told in DONE."""

    status: int
    cause: str
    host: str = ""
    reason: str = ""
    signal: int = 0  # its number
    cpu_s: float = 0.0
    attempt: int = 1  # of a job of the queue

    def pack(self) -> bytes:
        pairs = (
            (tags.STATUS, str(self.status)),
            (tags.CAUSE, self.cause),
            (tags.HOST, self.host),
            (tags.REASON, one_line(self.reason)),
            (tags.SIGNAL_NUMBER, str(self.signal)),
            (tags.ENDED_CPU, f"{self.cpu_s:.6f}"),
            (tags.ATTEMPT, str(self.attempt)),
        )
        return frames.pack_fields((key, text.encode()) for key, text in pairs)


class Listener(Protocol):
    """What the client is told while its command runs."""

    def input_taken(self) -> None: ...  # what was typed has been consumed
    def notice(self, tag: bytes) -> None: ...  # STOPPED, WANTED or SCREEN


class Client(Listener, Protocol):
    """The connection to one `lbrun`."""

    def here(self, job: JobId, reason: str, slots: int = 0, *, measure: bool = False) -> None: ...
    def away(self) -> None: ...
    async def descriptors(self) -> Ends: ...
    def placed(self, job: JobId, host: str, reason: str) -> None: ...
    def warn(self, text: str) -> None: ...
    @property
    def pipes(self) -> "Pipes": ...
    @property
    def peer(self) -> "PeerProcess": ...  # who has connected
    def done(self, end: CommandEnd) -> None: ...

"""What a command on its way out knows of the `lbrun` that asked for it."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lbd.lbm.core.command_end import CommandEnd
from lbd.lbm.core.resources import NOTHING, Grant, variables
from lbd.lbm.handover.codec import Fd
from lbd.lbm.link.descriptor_kinds import why_not
from lbd.local import client_tags as tags
from lbd.local import frames
from lbd.model import JobId
from lbd.text.one_line import one_line

if TYPE_CHECKING:
    from lbd.lbm.link.user_threads import Threads
    from lbd.lbm.session.peer_process import PeerProcess

PIPE_S = 10.0


@dataclass(slots=True)
class StdFds:
    """The caller's descriptors, ours to close; None where the caller has none or keeps it."""

    stdin: Fd | None = None
    stdout: Fd | None = None
    stderr: Fd | None = None

    def copy(self) -> "StdFds":
        """Of our own, to `close`. Raises OSError."""
        return StdFds(*(None if fd is None else Fd(os.dup(fd)) for fd in self._all()))

    def close(self, threads: "Threads") -> None:
        for descriptor in self._all():
            if descriptor is not None:
                threads.close(descriptor)

    def why_not(self) -> str:
        """One of them is nothing that a command could use; "" if all are."""
        names = ("standard input", "standard output", "standard error")
        held = [(name, fd) for name, fd in zip(names, self._all(), strict=True) if fd is not None]
        return next(filter(None, (why_not(name, fd) for name, fd in held)), "")

    def _all(self) -> tuple[Fd | None, ...]:
        return self.stdin, self.stdout, self.stderr


def pack_end(end: CommandEnd) -> bytes:
    """The body of DONE."""
    pairs = [
        (tags.STATUS, str(end.status)),
        (tags.CAUSE, end.cause),
        (tags.HOST, end.host),
        (tags.REASON, one_line(end.reason)),
        (tags.SIGNAL_NUMBER, str(end.signal)),
        (tags.ENDED_CPU, f"{end.cpu_s:.6f}"),
        (tags.ATTEMPT, str(end.attempt)),
    ]
    if end.heard_signals is not None:
        pairs.append((tags.HEARD, str(end.heard_signals)))
    return frames.pack_fields([(key, text.encode()) for key, text in pairs])


def pack_place(
    job: JobId, host: str, reason: str, slots: int, *, measure: bool, grant: Grant
) -> bytes:
    """The body of HERE."""
    pairs = [(tags.JOB, job), (tags.HOST, host), (tags.REASON, reason)]
    pairs += [(tags.MEASURE, "1")] if measure else []
    pairs += [(tags.SLOTS, str(slots))] if slots else []
    told = [(key, text.encode()) for key, text in pairs]
    if given := [name + b"=" + value for name, value in variables(grant).items()]:
        told.append((tags.VARIABLES, b"\n".join(given)))
    return frames.pack_fields(told)


class Pipes:
    """What the client packs comes out of these pipes, and what it unpacks goes into them."""

    def __init__(self, send: Callable[[bytes, bytes], None], threads: "Threads") -> None:
        self._send = send
        self.threads = threads  # the client's user's
        self._pipe: asyncio.Future[int] | None = None
        self._outcome: asyncio.Future[str] | None = None

    async def open(self, tag: bytes, body: bytes) -> Fd:
        """Our end of one, to be closed by us. Raises TimeoutError if none comes."""
        loop = asyncio.get_running_loop()
        self._pipe, self._outcome = loop.create_future(), loop.create_future()
        self._send(tag, body)
        async with asyncio.timeout(PIPE_S):
            descriptor = await asyncio.shield(self._pipe)
        self._pipe = None
        return Fd(descriptor)

    async def outcome(self) -> str:
        """Why the client could not pack or unpack, "" if it did; as soon as it has ended."""
        assert self._outcome is not None
        return await asyncio.shield(self._outcome)

    def came(self, descriptor: int) -> None:
        if self._pipe is None or self._pipe.done():
            self.threads.close(descriptor)
        else:
            self._pipe.set_result(descriptor)

    def ended(self, complaint: str) -> None:
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(complaint)

    def close(self) -> None:
        if self._pipe is not None and self._pipe.done() and not self._pipe.cancelled():
            self.threads.close(self._pipe.result())


class Listener(Protocol):
    """What the client is told while its command runs."""

    def input_taken(self) -> None: ...  # what was typed has been consumed
    def notice(self, tag: bytes) -> None: ...  # STOPPED, WANTED or SCREEN


class Follower(Listener, Protocol):
    """Who follows a command on another host."""

    def stands_still(self, why: str) -> None: ...  # by that host's owner; "": it goes on


class Client(Listener, Protocol):
    """The connection to one `lbrun`."""

    def here(
        self, job: JobId, reason: str, slots: int = 0, *, measure: bool = False,
        grant: Grant = NOTHING,
    ) -> None: ...  # fmt: skip
    def away(self) -> None: ...
    async def descriptors(self, *, keep: bool) -> StdFds: ...  # `keep` copies, for another start
    def placed(self, job: JobId, host: str, reason: str) -> None: ...
    def warn(self, text: str) -> None: ...
    @property
    def pipes(self) -> Pipes: ...
    @property
    def peer(self) -> "PeerProcess": ...  # who has connected
    def done(self, end: CommandEnd) -> None: ...

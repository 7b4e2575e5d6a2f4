"""What a command on its way out has of the `lbrun` that asked for it, and says to it."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Protocol

from lbd.errors import Unavailable
from lbd.launch.terminal_modes import read_modes
from lbd.lbm.core.journey_events import CommandEnd
from lbd.lbm.core.slots import NOTHING, Grant, variables
from lbd.lbm.handover.codec import Fd
from lbd.lbm.handover.records import CallerState
from lbd.lbm.link.pty import CallersTerminal
from lbd.lbm.link.user_threads import StdFds, Threads
from lbd.lbm.session.peer_process import PeerProcess
from lbd.lbm.session.request import ClientRequest
from lbd.local import client_tags as tags
from lbd.local import frames
from lbd.model import JobId
from lbd.text.one_line import one_line

PIPE_S = 10.0
LISTEN_AFTER_S = 0.02  # most commands that are over sooner have nothing to say
TAKEN_AFTER_S = 0.3
GIVEN_WITHIN_S = 10.0


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

    def __init__(self, send: Callable[[bytes, bytes], None], threads: Threads) -> None:
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


class CallerStdio:
    """Its standard input and outputs: asked for once, and there until a command has them."""

    def __init__(self, threads: Threads, ask: Callable[[], None]) -> None:
        """`threads`: of its user; `ask` sends for the descriptors."""
        self._threads = threads
        self._ask = ask
        self._asked = False
        self._came: asyncio.Future[StdFds] = asyncio.get_running_loop().create_future()
        self._is_taken = False
        self._ready = asyncio.Event()
        self.terminal: CallersTerminal | None = None

    async def take(self, *, keep: bool) -> StdFds:
        """To be closed by who takes them. `keep`: copies, to be taken again. Raises Unavailable,
        TimeoutError, OSError."""
        if complaint := self._threads.why_stuck():
            raise Unavailable(complaint)
        if not self._asked:
            self._asked = True
            self._ask()
        async with asyncio.timeout(GIVEN_WITHIN_S):
            ends = await asyncio.shield(self._came)
            if self.terminal is not None:
                await self._ready.wait()
        kept = ends.copy() if keep else None
        self._is_taken = kept is None
        if kept is not None:
            self._came = asyncio.get_running_loop().create_future()
            self._came.set_result(kept)
        return ends

    @property
    def have_come(self) -> bool:
        return self._came.done()

    def came(self, request: ClientRequest, descriptors: list[int]) -> None:
        """Those that it does not use are closed. Raises ValueError if some are missing."""
        ends = self._sorted(request, descriptors)
        if complaint := ends.why_not():
            ends.close(self._threads)
            self._came.set_exception(Unavailable(complaint))
        else:
            self._came.set_result(ends)

    def _sorted(self, request: ClientRequest, descriptors: list[int]) -> StdFds:
        numbers = [n for n in (0, 1, 2) if not request.closed_fds >> n & 1]
        if len(numbers) != len(descriptors):
            raise ValueError(f"received {len(descriptors)} descriptors instead of {len(numbers)}")
        by_number = dict(zip(numbers, map(Fd, descriptors), strict=True))
        stdin = by_number.get(0)
        if stdin is not None and request.has(tags.FLAG_TERMINAL_INPUT):
            self.terminal, stdin = CallersTerminal(stdin, request.modes, self._threads), None
        elif stdin is not None and request.has(tags.FLAG_NO_STDIN):
            self._threads.close(stdin)
            stdin = None
        stderr = by_number.get(2)
        if stderr is not None and request.has(tags.FLAG_JOINED):
            self._threads.close(stderr)  # all comes as standard output
            stderr = None
        return StdFds(stdin, by_number.get(1), stderr)

    def is_ready(self) -> None:
        """Its terminal is raw now."""
        self._ready.set()

    def _at_hand(self) -> StdFds | None:
        """Those that have come, and nobody has taken."""
        came = self._came
        if self._is_taken or not came.done() or came.cancelled() or came.exception():
            return None
        return came.result()

    def left(self) -> CallerState:
        terminal = self.terminal.left() if self.terminal is not None else ()
        return CallerState(self._asked, self._at_hand(), self._ready.is_set(), *terminal)

    def restore(self, left: CallerState, *, are_taken: bool) -> None:
        """Raises ValueError. `are_taken`: a command has them."""
        self._asked, self._is_taken = left.asked, are_taken and left.came is None
        if left.terminal >= 0:
            modes = read_modes(left.modes) if left.modes else None
            self.terminal = CallersTerminal(left.terminal, modes, self._threads)
        if left.is_ready:
            self._ready.set()
        if left.came is not None or are_taken:
            self._came.set_result(left.came or StdFds())

    def close(self) -> None:
        """What nobody has taken; the terminal is closed by itself."""
        if (ends := self._at_hand()) is not None:
            self._is_taken = True
            ends.close(self._threads)


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
    def peer(self) -> PeerProcess: ...  # who has connected
    def done(self, end: CommandEnd) -> None: ...


class Attending:
    """The client is listened to while its command is on its way.

    The journey goes on in the client's own task, since each other task and each wait for one costs
    a short command about as much as a message to another host.
    """

    def __init__(
        self, listen: Callable[[], Coroutine[object, object, None]], is_slow: Callable[[], None]
    ) -> None:
        """`listen`: until the client is gone; `is_slow` is called if it takes long."""
        self._listen, self._is_slow = listen, is_slow
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(LISTEN_AFTER_S, self._take_time)
        self._running: asyncio.Task[object] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._is_gone = False

    async def run(self, journey: Coroutine[object, object, bool]) -> bool:
        """What it returns. If the client is gone before, it is cancelled: False."""
        self._running = asyncio.current_task()
        try:
            return await journey and not self._is_gone
        except asyncio.CancelledError:
            if self._is_gone:
                return False
            raise
        finally:
            self._running = None

    def _take_time(self) -> None:
        self.listen()
        self._timer = self._loop.call_later(TAKEN_AFTER_S, self._is_slow)

    def listen(self) -> "asyncio.Task[None]":
        """From now on at the latest."""
        if self._listening is None:
            self._listening = self._loop.create_task(self._listen())
            self._listening.add_done_callback(self._client_gone)
        return self._listening

    def _client_gone(self, _: object) -> None:
        if self._running is not None:
            self._is_gone = True
            self._running.cancel()

    async def end(self) -> None:
        """Raises what listening has failed with, unless that is the client's doing."""
        self._timer.cancel()
        if (listening := self._listening) is not None:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError, ValueError):
                await listening

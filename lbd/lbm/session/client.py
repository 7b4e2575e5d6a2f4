"""What a command on its way out needs from the `lbrun` that asked for it, and sends to it."""

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
from lbd.lbm.link.descriptor_kinds import DescriptorKind, kind_of
from lbd.lbm.link.pty import CallersTerminal
from lbd.lbm.link.user_threads import StdFds, Threads
from lbd.lbm.session.peer_process import PeerProcess
from lbd.lbm.session.request import ClientRequest
from lbd.local import client_tags as tags
from lbd.local import frames
from lbd.model import JobId
from lbd.text.one_line import one_line

PIPE_S = 10.0
LISTEN_AFTER_S = 0.02  # most commands that end sooner have no messages
TAKEN_AFTER_S = 0.3
GIVEN_WITHIN_S = 10.0


def pack_end(end: CommandEnd) -> bytes:
    """Returns the body of DONE."""
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
    """Returns the body of HERE."""
    pairs = [(tags.JOB, job), (tags.HOST, host), (tags.REASON, reason)]
    pairs += [(tags.MEASURE, "1")] if measure else []
    pairs += [(tags.SLOTS, str(slots))] if slots else []
    told = [(key, text.encode()) for key, text in pairs]
    if given := [name + b"=" + value for name, value in variables(grant).items()]:
        told.append((tags.VARIABLES, b"\n".join(given)))
    return frames.pack_fields(told)


class Pipes:
    """The pipes through which the client packs and unpacks files."""

    def __init__(self, send: Callable[[bytes, bytes], None], threads: Threads) -> None:
        self._send = send
        self.threads = threads  # those of the client's user
        self._pipe: asyncio.Future[int] | None = None
        self._outcome: asyncio.Future[str] | None = None

    async def open(self, tag: bytes, body: bytes) -> Fd:
        """Returns our end of a new pipe, which we close. Raises TimeoutError if none comes."""
        loop = asyncio.get_running_loop()
        self._pipe, self._outcome = loop.create_future(), loop.create_future()
        self._send(tag, body)
        async with asyncio.timeout(PIPE_S):
            descriptor = await asyncio.shield(self._pipe)
        self._pipe = None
        return Fd(descriptor)

    async def outcome(self) -> str:
        """Returns, once the client has packed or unpacked, why it could not; "" if it could."""
        assert self._outcome is not None
        return await asyncio.shield(self._outcome)

    def came(self, descriptor: int) -> None:
        """Takes a pipe; nothing else, as it is written to."""
        is_pipe = kind_of(descriptor) is DescriptorKind.PIPE
        if self._pipe is None or self._pipe.done() or not is_pipe:
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
    """The client's stdin and outputs: requested once, and kept until a command takes them."""

    def __init__(self, threads: Threads, uid: int, ask: Callable[[], None]) -> None:
        """`threads`: of its user, `uid`; `ask` requests the descriptors."""
        self._threads, self._uid = threads, uid
        self._ask = ask
        self._asked = False
        self._came: asyncio.Future[StdFds] = asyncio.get_running_loop().create_future()
        self._is_taken = False
        self._ready = asyncio.Event()
        self.terminal: CallersTerminal | None = None

    async def take(self, *, keep: bool) -> StdFds:
        """Returns the descriptors, which the caller closes. `keep`: copies are kept, to be taken
        again. Raises Unavailable, TimeoutError, OSError."""
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
        """Takes descriptors and closes those not needed. Raises ValueError if some are missing."""
        ends = self._sorted(request, descriptors)
        if complaint := ends.why_not(self._uid):
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
            self._threads.close(stderr)  # both outputs come as standard output
            stderr = None
        return StdFds(stdin, by_number.get(1), stderr)

    def is_ready(self) -> None:
        """Notes that the client's terminal is raw now."""
        self._ready.set()

    def _at_hand(self) -> StdFds | None:
        """The descriptors that have come and that nobody has taken."""
        came = self._came
        if self._is_taken or not came.done() or came.cancelled() or came.exception():
            return None
        return came.result()

    def left(self) -> CallerState:
        terminal = self.terminal.left() if self.terminal is not None else ()
        return CallerState(self._asked, self._at_hand(), self._ready.is_set(), *terminal)

    def restore(self, left: CallerState, *, are_taken: bool) -> None:
        """Restores the state. `are_taken`: a command has the descriptors. Raises ValueError."""
        self._asked, self._is_taken = left.asked, are_taken and left.came is None
        if left.terminal >= 0:
            modes = read_modes(left.modes) if left.modes else None
            self.terminal = CallersTerminal(left.terminal, modes, self._threads)
        if left.is_ready:
            self._ready.set()
        if left.came is not None or are_taken:
            self._came.set_result(left.came or StdFds())

    def close(self) -> None:
        """Closes descriptors that nobody has taken; the terminal is closed separately."""
        if (ends := self._at_hand()) is not None:
            self._is_taken = True
            ends.close(self._threads)


class Listener(Protocol):
    """Messages for the client while its command runs."""

    def input_taken(self) -> None: ...  # typed input has been consumed
    def notice(self, tag: bytes) -> None: ...  # STOPPED, WANTED or SCREEN


class Follower(Listener, Protocol):
    """Follows a command on another host."""

    # suspended by that host's owner; "": it continues
    def stands_still(self, why: str) -> None: ...


class Client(Listener, Protocol):
    """The connection to one `lbrun`."""

    def here(
        self, job: JobId, reason: str, slots: int = 0, *, measure: bool = False,
        grant: Grant = NOTHING,
    ) -> None: ...  # fmt: skip
    def away(self) -> None: ...
    # `keep`: copies are kept for another start
    async def descriptors(self, *, keep: bool) -> StdFds: ...
    def placed(self, job: JobId, host: str, reason: str) -> None: ...
    def warn(self, text: str) -> None: ...
    @property
    def pipes(self) -> Pipes: ...
    @property
    def peer(self) -> PeerProcess: ...  # the connected process
    def done(self, end: CommandEnd) -> None: ...


class Attending:
    """Listens to the client while its command is on its way.

    The journey runs in the client's own task, because each other task and each wait for one costs a
    short command about as much as a message to another host.
    """

    def __init__(
        self, listen: Callable[[], Coroutine[object, object, None]], is_slow: Callable[[], None]
    ) -> None:
        """`listen`: runs until the client is gone; `is_slow` is called if that takes long."""
        self._listen, self._is_slow = listen, is_slow
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(LISTEN_AFTER_S, self._take_time)
        self._running: asyncio.Task[object] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._is_gone = False

    async def run(self, journey: Coroutine[object, object, bool]) -> bool:
        """Returns the journey's result; False if the client goes first, which cancels it."""
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
        """Starts listening, if that has not happened yet."""
        if self._listening is None:
            self._listening = self._loop.create_task(self._listen())
            self._listening.add_done_callback(self._client_gone)
        return self._listening

    def _client_gone(self, _: object) -> None:
        if self._running is not None:
            self._is_gone = True
            self._running.cancel()

    async def end(self) -> None:
        """Ends listening. Raises the error of a failed listener, unless the client caused it."""
        self._timer.cancel()
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError, ValueError):
                await listening
        del listening  # breaks the cycle of its exception, the traceback, this frame and it

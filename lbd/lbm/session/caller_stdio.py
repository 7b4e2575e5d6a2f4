"""A caller's standard input and outputs: asked for once, and there until a command has them."""

import asyncio
from collections.abc import Callable

from lbd.errors import Unavailable
from lbd.launch.terminal_modes import read_modes
from lbd.lbm.handover.codec import Fd
from lbd.lbm.handover.records import CallerState
from lbd.lbm.link.pty import CallersTerminal
from lbd.lbm.link.user_threads import Threads
from lbd.lbm.session.replies import StdFds
from lbd.lbm.session.request import ClientRequest
from lbd.local import client_tags as tags

GIVEN_WITHIN_S = 10.0


class CallerStdio:
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

"""One transfer of an attached command's files, and how long its host may take. A host that does not
end it, whether it is hung or does not want to, is given up, so that no `lbrun` waits for ever."""

import asyncio
import signal
from collections.abc import Callable

from lbd.errors import LostContact
from lbd.lbm.core.journey import ENDING_SIGNALS
from lbd.lbm.core.journey_events import Refused
from lbd.lbm.link import wire as tags
from lbd.lbm.link.user_threads import StdFds
from lbd.lbm.outbound.remote_run import RemoteRun
from lbd.net.gen import lbm_pb2

LULL_S, SLOWEST_BYTES_PER_S = 60.0, 1 << 12  # many small files on a slow disk are not much faster
# Beyond a time limit, a host with many bytes to send gets the time that a slow network takes.
LIMITED_BYTES_PER_S = 1 << 18
TOLD_S = 10.0  # nothing is lost by not waiting for its end
TICK_S = 1.0
STOPPING = (signal.SIGTSTP, signal.SIGSTOP, signal.SIGTTIN, signal.SIGTTOU)


class FilesPace:
    """Counts the time in which a host has had something to move."""

    def __init__(self, *, sends: bool, within_s: float = 0.0, limit_s: float = 0.0) -> None:
        """`sends`: it sends files, or else takes them; `within_s`: all of them, 0 for no limit,
        because of the command's own limit, `limit_s`."""
        self._verb = "sent" if sends else "taken"
        self._patience_s = LULL_S
        self._is_limited, self._left_s = bool(within_s), within_s
        self._limit = (
            f"did not send the files within {within_s:g} s after the end of the command, which had "
            f"a time limit of {limit_s:g} s"
        )

    def passes(self, passed_s: float, moved_bytes: int, *, is_suspended: bool) -> str:
        """Returns why it is given up, or "". `is_suspended`: it says that its owner is back, which
        is no lull, but does not outlast a time limit."""
        self._left_s += moved_bytes / LIMITED_BYTES_PER_S - passed_s
        if self._is_limited and self._left_s < 0.0:
            return self._limit
        if not is_suspended:
            self._patience_s += moved_bytes / SLOWEST_BYTES_PER_S - passed_s
            self._patience_s = min(self._patience_s, LULL_S)
        if self._patience_s < 0.0:
            return f"has {self._verb} next to nothing of the files for {LULL_S:g} s"
        return ""


class Transfer:
    """A step that moves files. It follows its run."""

    def __init__(self, run: RemoteRun, pace: FilesPace, show: Callable[[str], None]) -> None:
        """`show` is told why that host's owner has suspended it; "": it continues."""
        self._run, self._pace, self._show = run, pace, show
        self._is_stopped = self._is_suspended = False
        self._watching: asyncio.Task[None] | None = None
        self._end: asyncio.TimerHandle | None = None
        self._why = ""

    async def start(self, request: lbm_pb2.RunRequest) -> Refused | None:
        """Raises LbdError."""
        if request.workdir.step == "pack":  # to unpack, it may wait for its turn
            self._watch()
        answer = await self._run.start(request)
        return answer if isinstance(answer, Refused) else None

    async def follow(self, ends: StdFds) -> tuple[lbm_pb2.Ended | None, str]:
        """Returns its end, and what went wrong; no end: its host is given up. Raises LbdError."""
        self._run.attach(ends)
        self._watch()
        try:
            return await self._run.follow(self), self._run.trouble()
        except LostContact:
            if not self._why:
                raise
            return None, self._why

    def _watch(self) -> None:
        if self._watching is None:
            self._watching = asyncio.create_task(self._count(), name="files of a command")

    async def _count(self) -> None:
        """Counts each look as one tick, however late it comes: we may have stood still ourselves,
        and what has arrived meanwhile be unread."""
        before = 0
        while not self._why:
            await asyncio.sleep(TICK_S)
            moved, is_awaited = self._run.movement
            passed_s = TICK_S if is_awaited and not self._is_stopped else 0.0
            how = {"is_suspended": self._is_suspended}
            self._give_up(self._pace.passes(passed_s, moved - before, **how))
            before = moved

    def _give_up(self, why: str) -> None:
        if why and not self._why:
            self._why = why
            self._run.give_up(why)

    def signal(self, number: int) -> None:
        if number in STOPPING or number == signal.SIGCONT:
            self._is_stopped = number != signal.SIGCONT
        self._run.send(tags.SIGNAL, bytes((number,)))
        if number in ENDING_SIGNALS:
            self._end_soon()

    def force(self) -> None:
        self._run.send(tags.FORCE)
        self._end_soon()

    def _end_soon(self) -> None:
        if self._end is None:
            why = f"did not end the transfer of the files within {TOLD_S:g} s after it was told to"
            self._end = asyncio.get_running_loop().call_later(TOLD_S, self._give_up, why)

    def close(self) -> None:
        for waiting in (self._watching, self._end):
            if waiting is not None:
                waiting.cancel()
        self._run.close()

    # As the follower of its run

    def input_taken(self) -> None:
        """Nobody types."""

    def notice(self, tag: bytes) -> None:
        """Nothing that it has to say is for the user."""

    def stands_still(self, why: str) -> None:
        self._is_suspended = bool(why)
        self._show(why)

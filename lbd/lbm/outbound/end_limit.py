"""By when a host must have reported the end of a command that it had to end. A host that does not,
whether it is hung or does not want to, is given up, so that no `lbrun` waits for it for ever."""

import asyncio

from lbd.errors import LostContact
from lbd.lbm.link.conversation import INBOX_BYTES, Conversation, Message
from lbd.lbm.outbound.remote_stdio import RemoteStdio

# If we ourselves have stood still until the limit, the end may be among what waits to be read.
CATCH_UP_S = 1.0
# A reader may take its time for what was printed before the end. It gets this much more time again
# and again, for as much as a host may still have had to send.
LOOK_S = 10.0
LATE_BYTES = INBOX_BYTES


class EndLimit:
    def __init__(self) -> None:
        self._until_s: float | None = None  # by the event loop's clock
        self._why = ""
        self._reading: asyncio.Timeout | None = None
        self._is_late, self._late_bytes = False, 0

    def set(self, within_s: float, since: str) -> None:
        """From now on the end must be reported `within_s`. An earlier limit stays."""
        until_s = asyncio.get_running_loop().time() + within_s
        if self._until_s is not None and self._until_s <= until_s:
            return
        self._until_s = until_s
        self._why = f"did not report the end of the command within {within_s:g} s {since}"
        if self._reading is not None:
            self._reading.reschedule(until_s)

    def left(self) -> tuple[float | None, str]:
        """For another LBM: the seconds that are left, and what is said after them."""
        if self._until_s is None:
            return None, ""
        return max(0.0, self._until_s - asyncio.get_running_loop().time()), self._why

    def restore(self, within_s: float | None, why: str) -> None:
        """Takes up what `left` has returned."""
        if within_s is not None:
            self._until_s, self._why = asyncio.get_running_loop().time() + within_s, why

    async def read(self, talk: Conversation, stdio: RemoteStdio, host: str) -> list[Message]:
        """Returns the messages that have arrived. Raises LostContact once it is too late, and the
        error that broke the stream."""
        while True:
            self._check(stdio, host)
            try:
                async with asyncio.timeout_at(self._until_s) as self._reading:
                    received = await talk.read()
            except TimeoutError:
                continue
            finally:
                self._reading = None
            if self._is_late:
                self._late_bytes += sum(len(body) for _, body in received)
            return received

    def _check(self, stdio: RemoteStdio, host: str) -> None:
        """Raises LostContact."""
        now_s = asyncio.get_running_loop().time()
        if self._until_s is None or now_s < self._until_s:
            return
        if not self._is_late:
            self._is_late, self._until_s = True, now_s + CATCH_UP_S
        elif stdio.is_unread and self._late_bytes <= LATE_BYTES:
            self._until_s = now_s + LOOK_S
        else:
            raise LostContact(f"{host} {self._why}")

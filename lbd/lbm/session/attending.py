"""A client's command on its way, and the client, which is listened to meanwhile.

The journey goes on in the client's own task, since each other task and each wait for one costs a
short command about as much as a message to another host.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine

LISTEN_AFTER_S = 0.02  # most commands that are over sooner have nothing to say
TAKEN_AFTER_S = 0.3


class Attending:
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

"""Sends the changes of a page as server-sent events for as long as the client reads them."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable

from lbd.errors import LbdError
from lbd.web.desk import Desk, Question
from lbd.web.drawn import event
from lbd.web.view import Viewer

TICK_S = 2.0
LIFE_S = 900.0  # then the browser reconnects
STREAMS_MAX = 256
NOBODYS_MAX, OF_USER_MAX = STREAMS_MAX // 2, STREAMS_MAX // 8
RETRY = b"retry: 3000\n\n"


class Streams:
    def __init__(
        self,
        desk: Desk,
        ending: asyncio.Event,
        tick_s: float = TICK_S,
        may_look: Callable[[Viewer], bool] = lambda viewer: True,
    ) -> None:
        """`may_look` returns whether a viewer's sign-in is still valid."""
        self._desk, self._ending, self._tick_s = desk, ending, tick_s
        self._may_look = may_look
        self._open: Counter[int | None] = Counter()  # by the viewer's uid

    @property
    def count(self) -> int:
        return self._open.total()

    def is_full(self, viewer: Viewer) -> bool:
        """Returns whether this viewer may open no more streams. All viewers without a sign-in share
        half of them; each user gets an eighth."""
        own = OF_USER_MAX if viewer.signed_in else NOBODYS_MAX
        return self._open[viewer.uid] >= own or self.count >= STREAMS_MAX

    def _pause_s(self, question: Question) -> float:
        """Returns the time until the next update, which is the same for all viewers of a page."""
        if not self._tick_s:
            return 0.0
        phase_s = self._tick_s * (hash(question.key) % 1000) / 1000
        return self._tick_s - (asyncio.get_running_loop().time() - phase_s) % self._tick_s

    async def events(self, question: Question, mark: str = "") -> AsyncIterator[bytes]:
        """Yields the events. While a slow reader holds up writing, nothing is made for it. `mark`
        is the version of the page that the viewer has."""
        uid = question.viewer.uid
        self._open[uid] += 1
        try:
            yield RETRY
            parts: tuple[str, ...] = ()  # that the viewer has, if known
            end_s = asyncio.get_running_loop().time() + LIFE_S
            while not self._ending.is_set() and asyncio.get_running_loop().time() < end_s:
                if not self._may_look(question.viewer):
                    yield event("reload", "{}")
                    return
                try:
                    drawn = (await self._desk.page(question)).drawn
                except LbdError as problem:
                    yield event("trouble", json.dumps(str(problem)))
                else:
                    shown = self._desk.given(question, mark)
                    parts = parts or (tuple(shown.parts) if shown is not None else ())
                    if parts and set(parts) != drawn.parts.keys():
                        yield event("reload", "{}")
                        return
                    self._desk.give(question, drawn)
                    mark, parts, news = drawn.mark, tuple(drawn.parts), drawn.since(shown)
                    del drawn, shown  # the desk keeps so many of these; the next tick may be late
                    yield news
                try:
                    async with asyncio.timeout(self._pause_s(question)):
                        await self._ending.wait()
                except TimeoutError:
                    continue
        finally:
            self._open[uid] -= 1
            if not self._open[uid]:
                del self._open[uid]

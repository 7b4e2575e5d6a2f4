"""Pages as they are asked for: each is made once a second at most, however many look at it.

They are made in threads, a few at a time, since a daemon may take its time; who asks for a page
that is being made waits for the same one. All who have not signed in, and each user who has, are
given half of the threads at most, so that a user who asks for thousands holds up nobody else.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from markupsafe import Markup

from lbd.console.daemons import Daemons
from lbd.console.past_loads import NOTHING
from lbd.errors import LbdError, Unavailable
from lbd.process.timed_cache import TimedCache
from lbd.web.asked import Asked, Make
from lbd.web.outputs import Outputs
from lbd.web.rendering import part_html
from lbd.web.view import Page, Viewer

FRESH_S = 1.0
KEPT_MAX = 128  # pages
UNDER_WAY_MAX = 64  # of those who have signed in, and as many of all others
OF_USER_MAX = 16
AT_ONCE = 8
PATIENCE_S = 12.0


@dataclass(frozen=True, slots=True)
class Made:
    """A page, its parts as HTML, and each of those as JSON text for the streams."""

    page: Page
    parts: dict[str, Markup]
    encoded: dict[str, str]


@dataclass(frozen=True, slots=True)
class Kind:
    """A page of the site: its path begins so, and this makes it."""

    path: str
    make: Make
    fresh_s: float = FRESH_S
    is_live: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    kind: Kind
    viewer: Viewer
    name: str
    query: tuple[tuple[str, str], ...]

    @property
    def key(self) -> tuple[str, str, str, tuple[tuple[str, str], ...]]:
        return (self.kind.path, self.viewer.key, self.name, self.query)


class Places:
    """Of what is being made or waits for that, by the viewer's uid; None: who has not signed in."""

    def __init__(self) -> None:
        self._of_user: Counter[int | None] = Counter()
        self.turns: dict[int | None, asyncio.Semaphore] = {}

    def take(self, uid: int | None) -> None:
        """Raises Unavailable."""
        strangers = self._of_user[None]
        if uid is None:
            is_full = strangers >= UNDER_WAY_MAX
        else:
            users = self._of_user.total() - strangers
            is_full = self._of_user[uid] >= OF_USER_MAX or users >= UNDER_WAY_MAX
        if is_full:
            raise Unavailable("too many pages are being made at once; try again in a moment")
        self._of_user[uid] += 1
        self.turns.setdefault(uid, asyncio.Semaphore(AT_ONCE // 2))

    def give_back(self, uid: int | None) -> None:
        self._of_user[uid] -= 1
        if not self._of_user[uid]:
            del self._of_user[uid], self.turns[uid]


DaemonsFor = Callable[[Viewer], Daemons]


class Desk:
    def __init__(self, daemons_for: DaemonsFor) -> None:
        self._daemons_for = daemons_for
        self.hour = NOTHING  # the loads of all hosts
        self._outputs = Outputs()
        self._made: TimedCache[object, Made | LbdError] = TimedCache(FRESH_S, KEPT_MAX)
        self._under_way: dict[object, asyncio.Task[Made]] = {}
        self._places = Places()
        self._threads = ThreadPoolExecutor(AT_ONCE, "page")

    async def page(self, question: Question) -> Made:
        """Raises LbdError."""
        known = self._made.get(question.key, time.monotonic())
        if known is not None:
            if isinstance(known[0], LbdError):
                raise known[0]
            return known[0]
        task = self._under_way.get(question.key)
        if task is None:
            self._places.take(question.viewer.uid)
            task = asyncio.create_task(self._make(question), name="page")
            self._under_way[question.key] = task
            task.add_done_callback(lambda done: self._is_made(question, done))
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await asyncio.shield(task)
        except TimeoutError:
            raise Unavailable(f"the daemons did not answer within {PATIENCE_S:g} s") from None

    async def _make(self, question: Question) -> Made:
        loop = asyncio.get_running_loop()
        async with self._places.turns[question.viewer.uid]:
            return await loop.run_in_executor(self._threads, self.make_now, question)

    def _is_made(self, question: Question, task: asyncio.Task[Made]) -> None:
        self._under_way.pop(question.key, None)
        self._places.give_back(question.viewer.uid)
        if task.cancelled():
            return
        problem = task.exception()
        if problem is None or isinstance(problem, LbdError):
            known = task.result() if problem is None else problem
            fresh_s = question.kind.fresh_s if problem is None else FRESH_S
            self._made.put(question.key, known, time.monotonic(), fresh_s)

    def forget(self) -> None:
        """Somebody has acted: what is shown next is to show that."""
        self._made = TimedCache(FRESH_S, KEPT_MAX)

    def ask(self, question: Question) -> Asked:
        return Asked(
            self._daemons_for(question.viewer), question.viewer, question.name,
            dict(question.query), self.hour, self._outputs, time.time(),
        )  # fmt: skip

    def make_now(self, question: Question) -> Made:
        """Waits for the daemons. Raises LbdError."""
        page = question.kind.make(self.ask(question))
        parts = {part.id: part_html(part) for part in page.parts}
        return Made(page, parts, {name: json.dumps(html) for name, html in parts.items()})

    async def act(self, viewer: Viewer, act: Callable[[Daemons], str]) -> str:
        """What is shown then. Raises LbdError."""
        loop = asyncio.get_running_loop()
        self._places.take(viewer.uid)
        try:
            async with self._places.turns[viewer.uid]:
                then = await loop.run_in_executor(
                    self._threads, lambda: act(self._daemons_for(viewer))
                )
        finally:
            self._places.give_back(viewer.uid)
        self.forget()
        return then

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def changed(made: Made, sent: Mapping[str, str]) -> dict[str, str]:
    """The parts, as JSON text, that are not as they were sent."""
    return {name: text for name, text in made.encoded.items() if sent.get(name) != text}

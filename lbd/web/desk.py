"""Makes pages on request, each at most once a second however many viewers it has.

Pages are made in threads, a few at a time, because a daemon may be slow to answer. Requests for a
page that is being made wait for the same one. Each signed-in user, and all viewers without a
sign-in together, get at most half of the threads, so that one who requests thousands of pages
delays nobody else.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from lbd.console.daemons import Daemons
from lbd.console.output import marked
from lbd.console.past_loads import NOTHING
from lbd.errors import LbdError, Unavailable
from lbd.local.json_socket import Reading
from lbd.web.asked import Asked, Make
from lbd.web.drawn import Drawn, draw
from lbd.web.memory import Kept, Turns
from lbd.web.outputs import Outputs
from lbd.web.view import NOBODY, Page, Viewer

if TYPE_CHECKING:
    from lbd.web.charts import Spark

FRESH_S = 1.0
PROBLEM_BYTES = 4096  # of an error that is kept
UNDER_WAY_MAX = 64  # for signed-in viewers, and as many again for all others
OF_USER_MAX = 16
AT_ONCE = 8
PATIENCE_S = 12.0
GIVEN_S, GIVEN_BYTES = 20.0, 24 << 20  # versions that viewers have, for what changes next
NOTHING_DRAWN = Drawn({}, {}, {})
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Made:
    """What is sent of a page; nothing else of it is kept."""

    title: str
    at: str  # entry in the navigation
    drawn: Drawn
    json: str = ""  # all there is, if only that was wanted

    @property
    def size_bytes(self) -> int:
        return len(self.json) + self.drawn.size_bytes


@dataclass(frozen=True, slots=True)
class Kind:
    """A page of the site: the path it is served under and the function that makes it."""

    path: str
    make: Make
    fresh_s: float = FRESH_S
    is_live: bool = True
    is_for_all: bool = False  # the same for every viewer, so it is made once for all of them
    title: str = ""  # if set, the head is sent before the page is made
    words: tuple[str, ...] = ()  # the parameters of its address; no others count


@dataclass(frozen=True, slots=True)
class Question:
    kind: Kind
    viewer: Viewer
    name: str
    query: tuple[tuple[str, str], ...]
    as_json: bool = False

    @property
    def key(self) -> tuple[str, str, str, tuple[tuple[str, str], ...], bool]:
        viewer = "" if self.kind.is_for_all else self.viewer.key
        return (self.kind.path, viewer, self.name, self.query, self.as_json)


class Places:
    """Counts the pages being made or waiting, by the viewer's uid (None: not signed in)."""

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
            raise Unavailable("too many pages are being generated; try again in a moment")
        self._of_user[uid] += 1
        self.turns.setdefault(uid, asyncio.Semaphore(AT_ONCE // 2))

    def give_back(self, uid: int | None) -> None:
        self._of_user[uid] -= 1
        if not self._of_user[uid]:
            del self._of_user[uid], self.turns[uid]


def json_of(page: Page) -> str:
    return page.json or json.dumps(marked(page.data))


DaemonsFor = Callable[[Viewer, Reading], Daemons]


class Desk:
    def __init__(self, daemons_for: DaemonsFor) -> None:
        self._daemons_for = daemons_for
        self.hour = NOTHING  # loads of all hosts
        self.sparks: Mapping[str, Spark] = {}  # drawn from `hour`
        self._outputs = Outputs()
        self._turns = Turns()
        self._made: Kept[Made | LbdError] = Kept()
        self._given: Kept[Drawn] = Kept(GIVEN_BYTES)
        self._under_way: dict[object, asyncio.Task[Made]] = {}
        self._places = Places()
        self._threads = ThreadPoolExecutor(AT_ONCE, "page")

    async def page(self, question: Question) -> Made:
        """Raises LbdError."""
        known = self._made.get(question.key, time.monotonic())
        if isinstance(known, LbdError):
            raise known
        if known is not None:
            return known
        maker = question.viewer.uid, question.key  # nobody waits in another user's queue
        task = self._under_way.get(maker)
        if task is None:
            self._places.take(question.viewer.uid)
            task = asyncio.create_task(self._make(question), name="page")
            self._under_way[maker] = task
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
        self._under_way.pop((question.viewer.uid, question.key), None)
        self._places.give_back(question.viewer.uid)
        if task.cancelled():
            return
        problem = task.exception()
        key, now_s = question.key, time.monotonic()
        if isinstance(problem, LbdError):
            self._made.put(key, problem, PROBLEM_BYTES, now_s, FRESH_S)
        elif problem is None:
            made = task.result()
            self._made.put(key, made, made.size_bytes, now_s, question.kind.fresh_s)

    def forget(self) -> None:
        """Drops all pages after an action, so that the next ones show its effect."""
        self._made.clear()

    def ask(self, question: Question, reading: Reading) -> Asked:
        viewer = NOBODY if question.kind.is_for_all else question.viewer
        return Asked(
            self._daemons_for(viewer, reading), viewer, question.name, dict(question.query),
            self.hour, self.sparks, self._outputs, time.time(), question.as_json,
        )  # fmt: skip

    def make_now(self, question: Question) -> Made:
        """Waits for the daemons. Raises LbdError."""
        with self._turns.page() as reading:
            page = question.kind.make(self.ask(question, reading))
            if question.as_json:
                return Made(page.title, page.at, NOTHING_DRAWN, json_of(page))
            return Made(page.title, page.at, draw(page))

    def give(self, question: Question, drawn: Drawn) -> None:
        """Remembers the page as the viewer has it. If there are too many, the viewer is sent all of
        the page again."""
        key, now_s = (question.key, drawn.mark), time.monotonic()
        if self._given.get(key, now_s) is None:
            self._given.put(key, drawn, drawn.size_bytes, now_s, GIVEN_S)

    def given(self, question: Question, mark: str) -> Drawn | None:
        return self._given.get((question.key, mark), time.monotonic())

    async def in_turn(self, viewer: Viewer, work: Callable[[], Found]) -> Found:
        """Runs slow work in a thread. Raises LbdError."""
        loop = asyncio.get_running_loop()
        self._places.take(viewer.uid)
        try:
            async with self._places.turns[viewer.uid]:
                return await loop.run_in_executor(self._threads, work)
        finally:
            self._places.give_back(viewer.uid)

    async def act(self, viewer: Viewer, act: Callable[[Daemons], str]) -> str:
        """Carries out an action. Returns the page to show next. Raises LbdError."""

        def acted() -> str:
            with self._turns.page() as reading:
                return act(self._daemons_for(viewer, reading))

        then = await self.in_turn(viewer, acted)
        self.forget()
        return then

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

"""Sends jobs to their watchers: each at once, and again when it changes, until it ends."""

import asyncio
import contextlib
import sys
import time
from array import array
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field

from lbd.dispatch.core.job_selection import read_range
from lbd.dispatch.core.ledger_rows import Ledger, Wanted
from lbd.dispatch.core.records import Jobs
from lbd.dispatch.job_view import EXPLAINED_MAX, JobViews, in_pieces
from lbd.errors import LbdError
from lbd.local.budget import Budget
from lbd.local.long_answers import in_turns
from lbd.local.rate_limit import Rates
from lbd.model import ENDED_NAMES, JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.ranges import ranges_in

GATHER_S = 0.05  # changes of many jobs are sent in one message
# The same for the changes of one job: if it ends meanwhile it is looked up once, not three times,
# and its watcher asks for its output once. Its end is sent at once.
GATHER_ONE_S = 0.02
PIECE_BYTES = 1 << 20
PIECE_JOBS = 500  # looked up at once
RETELL_S = 3.0  # after which a watcher is sent again why a job waits
RETOLD_MAX = 4  # jobs of one watcher
RETOLD_PER_S, RETOLD_AT_ONCE = 50.0, 500.0  # watchers of one host; with more, each waits longer
# Looks for the watchers of one user of a host: thousands may watch a job that changes again and
# again. All users of a host together have twice as many.
LOOKS_PER_S, LOOKS_AT_ONCE = 500.0, 2000.0
BLOCK, FEW_JOBS = 1 << 10, 64  # of job numbers; that a watcher is found by
WATCHED_OF_USER = 1_000_000  # jobs, over all watchers of one user of a host
WATCHED_OF_HOST = 4_000_000
FOR_EVER_S = float("inf")
Send = Callable[[Sequence[pb.JobInfo]], Awaitable[None]]
Turn = Callable[[], contextlib.AbstractAsyncContextManager[None]]


def is_long(asked: pb.JobsAsked) -> bool:
    """Whether the request may name more jobs than are looked up at once. Raises LbdError."""
    if not asked.by_number or not 0 < len(asked.selectors) <= PIECE_JOBS:
        return True
    return sum(high - low + 1 for low, high in map(read_range, asked.selectors)) > PIECE_JOBS


class TooManyWatched(LbdError):
    """A user or a host already watches too many jobs."""


class Watcher:
    """A client that is notified of changes of some jobs. There may be very many clients and jobs,
    so each job takes only a few bytes here."""

    __slots__ = ("changed", "ended", "ends_only", "event", "gathering", "ids", "open")

    def __init__(self, ids: Sequence[int], ends_only: bool) -> None:
        """`ids`: sorted."""
        self.ids = array("q", ids)
        self.changed = bytearray(b"\1" * len(ids))  # 1 for each changed job
        self.ended = bytearray(len(ids))
        self.open = len(ids)
        self.ends_only = ends_only
        self.event = asyncio.Event()
        self.gathering: asyncio.TimerHandle | None = None

    def place(self, job: int) -> int:
        """Returns the job's position among the watched jobs; -1 if it is not watched."""
        at = bisect_left(self.ids, job)
        return at if at < len(self.ids) and self.ids[at] == job else -1

    def change(self, job: int, *, has_ended: bool) -> None:
        if (at := self.place(job)) < 0 or self.ended[at]:
            return
        self.changed[at] = 1
        if has_ended and self.open == 1:
            self.event.set()
        else:
            self.wake_soon()

    def wake_soon(self) -> None:
        if self.gathering is None:
            gather_s = GATHER_S if len(self.ids) > 1 else GATHER_ONE_S
            self.gathering = asyncio.get_running_loop().call_later(gather_s, self.event.set)

    def rest(self) -> None:
        """Waits for the next change from now on."""
        self.event.clear()
        if self.gathering is not None:
            self.gathering.cancel()
            self.gathering = None

    def end(self, job: int) -> None:
        """There will be no more changes of the job."""
        if (at := self.place(job)) >= 0 and not self.ended[at]:
            self.ended[at] = 1
            self.open -= 1

    def next_changed(self, most: int) -> list[int]:
        """Returns some changed jobs, and marks them as unchanged."""
        found: list[int] = []
        at = self.changed.find(1)
        while at >= 0 and len(found) < most:
            self.changed[at] = 0
            if not self.ended[at]:
                found.append(self.ids[at])
            at = self.changed.find(1, at + 1)
        return found

    def only_heard_of(self, jobs: Jobs) -> None:
        """Its client has just submitted them: it knows that those wait that have never started, and
        needs to hear that of one only."""
        for at in range(1, len(self.ids)):
            self.changed[at] = not jobs.has_only_waited(self.ids[at])

    def change_all(self) -> None:
        for at, ended in enumerate(self.ended):
            self.changed[at] = not ended


class EndsWatcher(Watcher):
    """A client that is only notified once all of its jobs have ended."""

    __slots__ = ()

    def __init__(self, ids: Sequence[int]) -> None:
        super().__init__(ids, ends_only=True)

    def change(self, job: int, *, has_ended: bool) -> None:
        self.end(job)
        if not self.open:
            self.event.set()


@dataclass(slots=True)
class Watchers:
    """Which client watches which job."""

    # Of few jobs, by job; of many, by `-1 - block`. So few are looked at for each change.
    _by_place: dict[int, set[Watcher]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._by_place)

    def add(self, watcher: Watcher) -> None:
        for place in places(watcher):
            self._by_place.setdefault(place, set()).add(watcher)

    def remove(self, watcher: Watcher) -> None:
        for place in places(watcher):
            self._by_place[place].discard(watcher)
            if not self._by_place[place]:
                del self._by_place[place]

    def notify(self, job: JobId, *, has_ended: bool, is_leased: bool = False) -> None:
        """`is_leased`: a host was just given the job, so there is another reason why it waits. Who
        watches many jobs looks only at their states."""
        if not self._by_place:
            return
        number = int(job)
        for place in (number, -1 - number // BLOCK):
            for watcher in self._by_place.get(place, ()):
                if is_leased and len(watcher.ids) > RETOLD_MAX:
                    continue
                if has_ended or not watcher.ends_only:
                    watcher.change(number, has_ended=has_ended)


def pieces(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    return (numbers[at : at + PIECE_JOBS] for at in range(0, len(numbers), PIECE_JOBS))


def places(watcher: Watcher) -> set[int]:
    if len(watcher.ids) <= FEW_JOBS:
        return {*watcher.ids}
    return {-1 - job // BLOCK for job in watcher.ids}


@dataclass(frozen=True, slots=True)
class Watching:
    watchers: Watchers
    ledger: Ledger
    job_views: JobViews
    live: Jobs
    _of_user: Budget = field(
        default_factory=lambda: Budget(WATCHED_OF_USER, sys.maxsize), init=False
    )
    _of_host: Budget = field(
        default_factory=lambda: Budget(WATCHED_OF_HOST, sys.maxsize), init=False
    )

    _retold: Rates = field(default_factory=lambda: Rates(RETOLD_PER_S, RETOLD_AT_ONCE), init=False)
    _looks_of_user: Rates = field(
        default_factory=lambda: Rates(LOOKS_PER_S, LOOKS_AT_ONCE), init=False
    )
    _looks_of_host: Rates = field(
        default_factory=lambda: Rates(2 * LOOKS_PER_S, 2 * LOOKS_AT_ONCE), init=False
    )

    @contextlib.contextmanager
    def held(self, who: tuple[str, str], count: int) -> Iterator[None]:
        """Counts the jobs watched for this user of this host meanwhile. Raises TooManyWatched."""
        host, user = who
        if not self._of_user.take(who, count):
            raise TooManyWatched(f"{user or host} is already waiting for {WATCHED_OF_USER} jobs")
        try:
            if not self._of_host.take(host, count):
                raise TooManyWatched(f"{host} is already waiting for {WATCHED_OF_HOST} jobs")
            try:
                yield
            finally:
                self._of_host.give_back(host, count)
        finally:
            self._of_user.give_back(who, count)

    async def follow(
        self, who: tuple[str, str], watched: Sequence[int], send: Send, turn: Turn, *,
        once_ended: bool = False, are_new: bool = False,
    ) -> None:  # fmt: skip
        """`who`: the asking host and user. `watched`: sorted job numbers. `turn`: wraps each look
        at many jobs, so that others get their turn. `once_ended`: sends each job only when it has
        ended. `are_new`: the client has just submitted them."""
        watcher = Watcher(watched, once_ended)
        if are_new:
            watcher.only_heard_of(self.live)
        self.watchers.add(watcher)
        try:
            if len(watched) == 1 and JobId(str(watched[0])) in self.live:
                watcher.wake_soon()
                await watcher.event.wait()
            await self._send_changes(who, watcher, send, turn)
        finally:
            self.watchers.remove(watcher)
            watcher.rest()

    async def until_ended(
        self, who: tuple[str, str], numbers: Coroutine[None, None, Sequence[int]], turn: Turn
    ) -> None:
        """Waits until the queue is done with all these jobs, without reading them from the ledger;
        that they have ended may not be on disk yet. Those that are not in the queue take no memory
        meanwhile. `who`: as for `held`; `numbers`: reads them, once it is its turn; `turn`: as for
        `follow`. Raises LbdError."""
        with contextlib.closing(numbers), contextlib.ExitStack() as held:
            async with turn():
                watched, dropped = await numbers, self.live.dropped
                live = [
                    job async for some in in_turns(pieces(watched)) for job in self.live.among(some)
                ]
                del watched
                held.enter_context(self.held(who, len(live)))
                watcher = EndsWatcher(live)
                del live
                self.watchers.add(watcher)
                held.callback(self.watchers.remove, watcher)
                if self.live.dropped > dropped:  # while they were looked up
                    await self._end_others(watcher)
            if watcher.open:
                await watcher.event.wait()

    async def _end_others(self, watcher: Watcher) -> None:
        """Ends the jobs of the watcher that have left the queue since they were looked up."""
        async for some in in_turns(pieces(watcher.ids)):
            for job in {*some}.difference(self.live.among(some)):
                watcher.end(job)

    async def _send_changes(
        self, who: tuple[str, str], watcher: Watcher, send: Send, turn: Turn
    ) -> None:
        explained = len(watcher.ids) <= EXPLAINED_MAX
        waits = False
        while watcher.open:
            watcher.rest()
            while some := watcher.next_changed(PIECE_JOBS):
                if len(watcher.ids) > PIECE_JOBS:
                    async with turn():
                        jobs = await self._jobs(some, watcher.ends_only, explained)
                else:
                    await self._look_turn(who)
                    jobs = await self._jobs(some, watcher.ends_only, explained)
                waits = any(job.state == "pending" for job in jobs)
                for job in jobs:
                    if job.state in ENDED_NAMES:
                        watcher.end(job.id)
                for piece in in_pieces(jobs, PIECE_BYTES) if jobs else ():
                    await send(piece)
            if watcher.open:
                await self._change(who[0], watcher, waits)

    async def _look_turn(self, who: tuple[str, str]) -> None:
        host, now_s = who[0], time.monotonic()
        if wait_s := self._looks_of_user.turn_s(who, now_s, FOR_EVER_S):
            await asyncio.sleep(wait_s)
            now_s = time.monotonic()
        if wait_s := self._looks_of_host.turn_s(host, now_s, FOR_EVER_S):
            await asyncio.sleep(wait_s)

    async def _change(self, host: str, watcher: Watcher, waits: bool) -> None:
        """Waits for a change; with few jobs only for a while, since why they wait changes when
        others start."""
        if waits and watcher.open <= RETOLD_MAX:
            turn_s = self._retold.turn_s(host, time.monotonic(), FOR_EVER_S) or 0.0
            try:
                async with asyncio.timeout(RETELL_S + turn_s):
                    await watcher.event.wait()
            except TimeoutError:
                watcher.change_all()
        else:
            await watcher.event.wait()

    async def _jobs(
        self, some: Sequence[int], ended_only: bool, explained: bool
    ) -> list[pb.JobInfo]:
        """Returns the jobs without their commands: clients that want those ask once."""
        ranges = tuple(ranges_in(some))
        wanted = Wanted(
            ranges, ended_too=True, ended_only=ended_only, limit=len(some), commands=False
        )
        rows = await self.ledger.find(wanted)
        return await self.job_views.of(rows, explained=explained, foretold=explained)

"""Room on the disk of the spool: while it is short, the users with most output lose their oldest.

The files are the daemons' own, which no quota counts, and the same disk may hold the queue itself
and other users' outputs. A user who fills it, with many attempts or through a descriptor that a
process has kept, loses their own output: that of ended attempts goes first, the oldest before all.
Running attempts share the limit of one attempt, or less on a small disk.

This is done once a second, and a disk can fill up sooner. So what was printed in the last second
counts as taken already. If it was more than half of the room that is left, twice in a row, the user
who printed most of it loses the attempts that did, and for some minutes the output of new ones.
However many jobs a user has, the disk is full for only a few seconds of these minutes.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from lbd.lbm.core.leases import Key
from lbd.lbm.link.user_threads import STUCK_S
from lbd.lbm.queue.kept_outputs import drop, held_by_somebody, kept_in
from lbd.lbm.queue.output_file import owner_of, remove
from lbd.lbm.queue.spool import Spool
from lbd.model import JobId
from lbd.process.boot_clock import clock_s
from lbd.process.disk_space import RUNNING_BYTES_MIN, Shortage, shortage_of
from lbd.process.wake_ups import next_moment

log = logging.getLogger("lbd.lbm")

TRIM_EVERY_S = 1.0
SWEEP_EVERY_S = 3600.0
ROOM_EVERY_S = 5.0  # while it is short, and at most a twentieth of the time
ROOM_REST = 20

ROOM_PARTS = 2  # a user who prints more of the room between two looks may fill it before the next,
QUICK_PARTS = 8  # but this part of the wanted free space is no reason to end an attempt
DISCARD_S = 300.0
ROUNDS_MAX = 16
WRITTEN_S = 3.0  # a file last written longer ago is not what fills the disk now


@dataclass(slots=True)
class Dropped:
    """What was dropped, by user."""

    lost: Counter[int] = field(default_factory=Counter)  # bytes, or files if files are short
    written: dict[int, list[str]] = field(default_factory=dict)
    """Outputs of attempts that have ended, to which somebody writes all the same."""


def totals_of(root: Path, *, by_file: bool) -> Counter[int]:
    """What each user keeps: bytes, or files."""
    totals: Counter[int] = Counter()
    for kept in kept_in(root):
        totals[kept.uid] += 1 if by_file else kept.size_bytes
    return totals


async def make_room(
    spool: Spool,
    short: Shortage,
    floor_bytes: int,
    running: Collection[str],
    dropping: dict[int, str],
    lately_s: float = WRITTEN_S,
) -> Dropped:
    """Removes what users' ended attempts have left, until there is enough room or nobody keeps more
    than `floor_bytes`. `running`: attempts; `dropping`: the file of each user that is being
    dropped, even after we return; `lately_s`: as for `drop`."""
    by_file = short.files > 0
    wanted, floor = (short.files, 1) if by_file else (short.size_bytes, floor_bytes)
    dropped = Dropped()
    totals = await asyncio.to_thread(totals_of, spool.root, by_file=by_file)
    for _ in range(ROUNDS_MAX):
        (uid, most), (_, second) = (*totals.most_common(2), (0, 0), (0, 0))[:2]
        goal = min(wanted, most - max(floor, second // 2))
        if goal <= 0:
            break
        drop = partial(drop_oldest, spool, uid, goal, running, dropped, dropping, by_file,
                       lately_s)  # fmt: skip
        before = dropped.lost[uid]
        await spool.calls.run(uid, "room", drop)
        found = dropped.lost[uid] - before
        wanted -= found
        totals[uid] -= found
        if not found and spool.calls.is_under_way(uid, "room"):
            if not spool.calls.is_under_way(uid, "room", STUCK_S):
                break  # no other user shall lose output for that
            dropped.written.setdefault(uid, []).append(dropping.get(uid, ""))
        if not found:
            del totals[uid]  # the rest belongs to running attempts
    return dropped


def drop_oldest(
    spool: Spool,
    uid: int,
    goal: int,
    running: Collection[str],
    dropped: Dropped,
    dropping: dict[int, str],
    by_file: bool,
    lately_s: float,
) -> None:
    done = 0
    for kept in kept_in(spool.root):
        if done >= goal:
            break
        if kept.uid == uid and kept.attempt not in running and (by_file or kept.size_bytes):
            dropping[uid] = kept.path
            with contextlib.suppress(OSError):
                if drop(kept, spool.left, lately_s, by_file=by_file):
                    dropped.written.setdefault(uid, []).append(kept.path)
                done += 1 if by_file else kept.size_bytes
                dropped.lost[uid] += 1 if by_file else kept.size_bytes


def limits_of_running(owners: Mapping[Key, int], limit_bytes: int) -> dict[Key, int]:
    """Limits while the disk is short: the running attempts of one user share `limit_bytes`."""
    counts = Counter(owners.values())
    return {key: max(RUNNING_BYTES_MIN, limit_bytes // counts[uid]) for key, uid in owners.items()}


def as_key(key: tuple[str, int]) -> Key:
    return JobId(key[0]), key[1]


class Pace:
    """How much attempts print between two looks."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._printed: dict[Key, int] | None = None  # at the last look

    def look(self, owners: Mapping[Key, int]) -> dict[Key, tuple[int, int]]:
        """User and bytes of each attempt that runs, or has run since the last look."""
        now = {key: (uid, self._spool.printed_bytes(*key)) for key, uid in owners.items()}
        gone = {as_key(key): one for key, one in self._spool.quick.gone.items()}
        before, self._printed = self._printed, {key: size for key, (_, size) in now.items()}
        self._spool.quick.gone.clear()
        if before is None:
            return {}
        return {
            key: (uid, max(0, size - before.get(key, 0)))  # it may have been emptied
            for key, (uid, size) in (gone | now).items()
        }


def too_quick(pace: Iterable[tuple[int, int]], short: Shortage) -> set[int]:
    """The users who print so much that the disk may be full at the next look. `pace`: user and
    bytes of each attempt since the last look; `short`: the shortage now."""
    printed: Counter[int] = Counter()
    for uid, size_bytes in pace:
        printed[uid] += size_bytes
    room_bytes = max(short.room_bytes // ROOM_PARTS, short.wanted_bytes // QUICK_PARTS)
    if not short.wanted_bytes or (total_bytes := printed.total()) <= room_bytes:
        return set()
    return {uid for uid, size_bytes in printed.items() if size_bytes * len(printed) >= total_bytes}


class Attempts(Protocol):
    """The queue's attempts on this host."""

    def begun(self) -> list[Key]: ...

    def held_names(self) -> set[str]: ...

    def alive(self, job: str, attempt: int) -> bool: ...

    def end(self, job: JobId, attempt: int) -> None: ...


class SpoolCare:
    """Keeps the spool within its bounds."""

    def __init__(
        self,
        spool: Spool,
        keep_days: float,
        attempts: Attempts,
        end_holders: Callable[[int, Sequence[str]], Awaitable[None]],
        shortage: Callable[[Path], Shortage] = shortage_of,
    ) -> None:
        """`end_holders`: ends the processes of a user that have one of these files open."""
        self._spool, self._end_holders = spool, end_holders
        self._shortage = shortage
        self._keep_days = keep_days
        self._attempts = attempts
        self._trouble = ""  # as last reported
        self._room_due_s = self._room_began_s = self._room_pause_s = 0.0
        self._pace = Pace(spool)
        self._dropping: dict[int, str] = {}
        self._too_quick: set[int] = set()  # at the last look

    async def run(self) -> None:
        """Runs until cancelled."""
        sweep_due_s = 0.0
        while True:
            await self.look()
            if clock_s() >= sweep_due_s:
                sweep_due_s = clock_s() + SWEEP_EVERY_S
                held, calls = self._attempts.held_names(), self._spool.calls
                old = await asyncio.to_thread(self._spool.old, self._keep_days, held)
                for uid, paths in old.items():
                    calls.start(uid, "old", partial(remove, paths))
            await next_moment(TRIM_EVERY_S)

    async def look(self) -> None:
        """Looks at the running attempts, and at the room on the disk."""
        spool, begun = self._spool, self._attempts.begun()
        full = bool(begun) and spool.is_full()
        owners = {key: spool.owner(*key) or owner_of(spool.output(*key)) for key in begun}
        pace = self._pace.look(owners)
        printed_bytes = sum(size_bytes for _, size_bytes in pace.values())
        short = self._shortage(spool.root).once_printed(printed_bytes)
        limits: dict[Key, int] = {}
        if short:
            limits = limits_of_running(owners, short.of_user(spool.holes.limit_bytes))
            await self._make_room(short)
        if full:
            spool.to_mark |= {key for key in begun if self._attempts.alive(*key)}
        over = [key for key in begun if spool.is_over(*key, limits.get(key))]
        trims = [
            self._trim(key, owners[key], limits.get(key), is_short=bool(short)) for key in over
        ]
        marks = [self._mark(key, owners.get(key)) for key in map(as_key, spool.to_mark)]
        await asyncio.gather(*trims, *marks)
        self._end_quick(begun, pace)

    def _end_quick(self, begun: list[Key], pace: Mapping[Key, tuple[int, int]]) -> None:
        """Ends attempts that fill the disk faster than room can be made on it."""
        spool, before = self._spool, self._too_quick
        spool.quick.ended.intersection_update(begun)
        for key in spool.quick.freed.keys() - {*begun}:  # noted as it went
            del spool.quick.freed[key]
        self._too_quick = too_quick(pace.values(), self._shortage(spool.root))
        for uid in self._too_quick & before:
            spool.quick.until_s[uid] = clock_s() + DISCARD_S
            log.warning("%s: user %d prints more than fits; ended those jobs, and storing none of "
                        "this user's output for %g s", spool.root, uid, DISCARD_S)  # fmt: skip
            for key in begun:
                owner, size_bytes = pace.get(key, (uid, 0))
                if owner == uid and size_bytes > RUNNING_BYTES_MIN:
                    spool.quick.ended.add(key)
                    self._attempts.end(*key)

    async def _make_room(self, short: Shortage) -> None:
        if (began_s := clock_s()) < self._room_due_s:
            return
        spool, running = self._spool, self._attempts.held_names()
        floor_bytes = short.of_user(spool.holes.limit_bytes)
        # A user who stays quiet just before each look has written since the last one.
        since_s, self._room_began_s = began_s - self._room_began_s, began_s
        lately_s = max(WRITTEN_S, min(since_s, 2 * self._room_pause_s))
        dropped = await make_room(spool, short, floor_bytes, running, self._dropping, lately_s)
        self._room_pause_s = max(ROOM_EVERY_S, ROOM_REST * (clock_s() - began_s))
        self._room_due_s = clock_s() + self._room_pause_s
        for uid, count in dropped.lost.items():
            what = f"{count} files" if short.files else f"{count >> 20} MiB"
            log.warning(
                "%s: the disk is almost full; dropped output of user %d: %s", spool.root, uid, what
            )
        for uid, paths in dropped.written.items():
            spool.quick.until_s[uid] = clock_s() + DISCARD_S
            log.warning("%s: user %d writes on to what an attempt that has ended has left; end the "
                        "processes that do, and keep no output of theirs for %g s", spool.root, uid,
                        DISCARD_S)  # fmt: skip
            # They may have written through a descriptor closed since, and hold others.
            held = partial(held_by_somebody, spool.root, uid, running)
            more = await spool.calls.run(uid, "held", held) or ()
            await self._end_holders(uid, sorted({*paths, *more}))
            self._room_due_s = 0.0  # they keep writing until they end

    async def _trim(self, key: Key, uid: int, limit_bytes: int | None, *, is_short: bool) -> None:
        spool = self._spool
        try:
            takes_more = await spool.calls.run(uid, key, partial(spool.trim, *key, limit_bytes))
        except OSError as problem:
            if (text := str(problem)) != self._trouble:
                log.warning("dispatch.max_output_bytes cannot be enforced here: %s", text)
            self._trouble = text
            return
        if is_short and (takes_more or spool.calls.is_under_way(uid, key, STUCK_S)):
            self._attempts.end(*key)
            log.warning("%s: the disk is short; ended what took more of it than it printed, or "
                        "does not give it back, of user %d", spool.root, uid)  # fmt: skip

    async def _mark(self, key: Key, uid: int | None) -> None:
        spool = self._spool
        uid = owner_of(spool.output(*key)) if uid is None else uid

        def mark() -> None:
            spool.mark_cut(*key)
            spool.to_mark.discard(key)

        await spool.calls.run(uid, ("mark", key), mark)

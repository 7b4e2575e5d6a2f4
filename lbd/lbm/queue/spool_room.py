"""Room on the disk of the spool: while that is short, who keeps most output there loses the oldest.

The files are the daemons' own, which no quota counts, and the same disk may hold the queue itself
and others' outputs. Whoever fills it, with many attempts or by a descriptor that a process has
kept, loses their own: what ended attempts have printed goes first, the oldest before all, and those
that run share what one alone may print otherwise, or less on a small disk.

All that is done once a second, and a disk can be full sooner. So what was printed in the last
second counts as taken already; and where it was more than half of the room that there is then,
twice in a row, who printed most of it loses the attempts that did, and for some minutes the output
of new ones. However many jobs a user has, the disk is full for a few seconds of these minutes.
"""

import asyncio
import contextlib
import logging
import os
import stat
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from lbd.lbm.core.leases import Key
from lbd.lbm.queue.spool import ACCESS_LIST, BLOCK_BYTES, OWNER, STREAMS, Spool
from lbd.model import JobId
from lbd.process.boot_clock import clock_s

log = logging.getLogger("lbd.lbm")

TRIM_EVERY_S = 1.0
SWEEP_EVERY_S = 3600.0
ROOM_EVERY_S = 5.0  # while it is short, and at most a twentieth of the time
ROOM_REST = 20

SHORT_SHARE = 10  # with less than a tenth free a disk is short,
SHORT_BYTES = 2 << 30  # and with more than so much it is not
RUNNING_BYTES_MIN = 1 << 16
USER_PARTS = 2  # of what is to be free: so much the outputs of a user may take while it is not
ROOM_PARTS = 2  # who prints more of the room between two looks may fill it before the next,
QUICK_PARTS = 8  # but so much of what is to be free is nothing to end an attempt for
DISCARD_S = 300.0
ROUNDS_MAX = 16
LIST_HEAD_BYTES, LIST_ENTRY_BYTES, LIST_USER = 4, 8, 0x02


@dataclass(frozen=True, slots=True)
class Shortage:
    """So much more is to be free."""

    size_bytes: int  # below 0: so much is there beyond that
    files: int
    wanted_bytes: int = 0  # so much is to be free in all; 0: not known

    def __bool__(self) -> bool:
        return self.size_bytes > 0 or self.files > 0

    @property
    def room_bytes(self) -> int:
        """Above half of what is to be free: with less, the queue's ledger soon takes no job."""
        return self.wanted_bytes // 2 - self.size_bytes

    def once_printed(self, size_bytes: int) -> "Shortage":
        return replace(self, size_bytes=self.size_bytes + size_bytes)

    def of_user(self, limit_bytes: int) -> int:
        """What the outputs of one user may take. `limit_bytes`: those of an attempt."""
        part = self.wanted_bytes // USER_PARTS
        return min(limit_bytes, max(part, RUNNING_BYTES_MIN)) if part else limit_bytes


def shortage_of(root: Path, limit_bytes: int = SHORT_BYTES) -> Shortage:
    """Of that disk. Some file systems do not say how large they are."""
    try:
        found = os.statvfs(root)
    except OSError:
        return Shortage(0, 0)
    wanted_bytes = min(found.f_blocks * found.f_frsize // SHORT_SHARE, limit_bytes)
    return Shortage(
        wanted_bytes - found.f_bavail * found.f_frsize,
        max(0, found.f_files // SHORT_SHARE - found.f_favail) if found.f_files else 0,
        wanted_bytes,
    )


@dataclass(frozen=True, slots=True)
class Kept:
    path: str
    uid: int
    size_bytes: int  # on the disk
    is_output: bool  # and no pack

    @property
    def job(self) -> str:
        return os.path.basename(self.path).partition(".")[0]


def make_room(
    root: Path, short: Shortage, floor_bytes: int, running: Collection[str]
) -> dict[int, int]:
    """What whose ended attempts have left is removed, until there is enough or nobody keeps more
    than `floor_bytes`. Bytes, or files where these are short, by user."""
    by_file = short.files > 0
    wanted, floor = (short.files, 1) if by_file else (short.size_bytes, floor_bytes)
    lost: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    for kept in kept_in(root):
        totals[kept.uid] += 1 if by_file else kept.size_bytes
    for _ in range(ROUNDS_MAX):
        (uid, most), (_, second) = (*totals.most_common(2), (0, 0), (0, 0))[:2]
        goal = min(wanted, most - max(floor, second // 2))
        if goal <= 0:
            break
        found = drop_oldest(root, uid, goal, running, by_file=by_file)
        if found:
            lost[uid] += found
            wanted -= found
            totals[uid] -= found
        else:
            del totals[uid]  # all that is left belongs to attempts that run
    return dict(lost)


def drop_oldest(root: Path, uid: int, goal: int, running: Collection[str], *, by_file: bool) -> int:
    """How much that was."""
    done = 0
    for kept in kept_in(root):
        if done >= goal:
            break
        if kept.uid == uid and kept.job not in running and (by_file or kept.size_bytes):
            with contextlib.suppress(OSError):
                drop(kept, by_file=by_file)
                done += 1 if by_file else kept.size_bytes
    return done


def drop(kept: Kept, *, by_file: bool) -> None:
    """An output stays, empty and marked as cut short: a process that has kept a descriptor of it
    may write on, and that is to be seen. Raises OSError."""
    if by_file or not kept.is_output:
        os.unlink(kept.path)
    else:
        os.truncate(kept.path, 0)
        os.chmod(kept.path, stat.S_IMODE(os.stat(kept.path).st_mode) | stat.S_ISVTX)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{kept.path}.cut")


def kept_in(root: Path) -> Iterator[Kept]:
    """Outputs and packs, those of the oldest jobs first."""
    with contextlib.suppress(OSError):
        names = sorted(filter(str.isdecimal, os.listdir(root)), key=int)
        for name in names:
            with contextlib.suppress(OSError), os.scandir(root / name) as entries:
                for entry in sorted(entries, key=age_of):
                    kind = entry.name.rpartition(".")[2]
                    if kind not in (*STREAMS, "pack"):
                        continue
                    with contextlib.suppress(OSError):
                        found = entry.stat(follow_symlinks=False)
                        size_bytes = found.st_blocks * BLOCK_BYTES
                        yield Kept(entry.path, owner_of(entry.path), size_bytes, kind in STREAMS)


def age_of(entry: os.DirEntry[str]) -> int:
    """Jobs are numbered in the order in which they came."""
    job = entry.name.partition(".")[0]
    return int(job) if job.isdecimal() else 0


def owner_of(path: str) -> int:
    """Whose output it is; ours, where nothing says so."""
    with contextlib.suppress(OSError, struct.error):
        data = os.getxattr(path, ACCESS_LIST)
        for at in range(LIST_HEAD_BYTES, len(data), LIST_ENTRY_BYTES):
            tag, _, uid = struct.unpack_from("<HHI", data, at)
            if tag == LIST_USER:
                return int(uid)
    with contextlib.suppress(OSError, ValueError):
        return int(os.getxattr(path, OWNER))
    return os.geteuid()


def limits_of_running(owners: Mapping[Key, int], limit_bytes: int) -> dict[Key, int]:
    """While the disk is short: those of one user share `limit_bytes`."""
    counts = Counter(owners.values())
    return {key: max(RUNNING_BYTES_MIN, limit_bytes // counts[uid]) for key, uid in owners.items()}


class Pace:
    """How much attempts print between two looks."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._printed: dict[Key, int] | None = None  # at the last look

    def look(self, owners: Mapping[Key, int]) -> dict[Key, tuple[int, int]]:
        """User and bytes of each that runs, or has run since then."""
        now = {key: (uid, self._spool.printed_bytes(*key)) for key, uid in owners.items()}
        gone = {(JobId(job), number): one for (job, number), one in self._spool.quick.gone.items()}
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
    bytes of each attempt since the last look; `short`: now."""
    printed: Counter[int] = Counter()
    for uid, size_bytes in pace:
        printed[uid] += size_bytes
    room_bytes = max(short.room_bytes // ROOM_PARTS, short.wanted_bytes // QUICK_PARTS)
    if not short.wanted_bytes or (total_bytes := printed.total()) <= room_bytes:
        return set()
    return {uid for uid, size_bytes in printed.items() if size_bytes * len(printed) >= total_bytes}


class Attempts(Protocol):
    """Those of the queue on this host."""

    def begun(self) -> list[Key]: ...

    def held_jobs(self) -> set[str]: ...

    def alive(self, job: str, attempt: int) -> bool: ...

    def end(self, job: JobId, attempt: int) -> None: ...


class SpoolCare:
    """Keeps the spool within its bounds."""

    def __init__(
        self,
        spool: Spool,
        keep_days: float,
        attempts: Attempts,
        shortage: Callable[[Path], Shortage] = shortage_of,
    ) -> None:
        self._spool = spool
        self._shortage = shortage
        self._keep_days = keep_days
        self._attempts = attempts
        self._trouble = ""  # as it was reported last
        self._room_due_s = 0.0
        self._pace = Pace(spool)
        self._too_quick: set[int] = set()  # at the last look

    async def run(self) -> None:
        """Until cancelled."""
        sweep_due_s = 0.0
        while True:
            await self.look()
            if clock_s() >= sweep_due_s:
                sweep_due_s = clock_s() + SWEEP_EVERY_S
                held = self._attempts.held_jobs()
                await asyncio.to_thread(self._spool.sweep, self._keep_days, held)
            await asyncio.sleep(TRIM_EVERY_S)

    async def look(self) -> None:
        """At what runs, and at the room that there is."""
        begun = self._attempts.begun()
        full = bool(begun) and self._spool.is_full()
        owners = {
            key: self._spool.owner(*key) or owner_of(self._spool.output(*key)) for key in begun
        }
        pace = self._pace.look(owners)
        printed_bytes = sum(size_bytes for _, size_bytes in pace.values())
        short = self._shortage(self._spool.root).once_printed(printed_bytes)
        limits: dict[Key, int] = {}
        if short:
            limits = limits_of_running(owners, short.of_user(self._spool.limit_bytes))
            await self._make_room(short)
        for job, number in begun:
            if self._trim(job, number, limits.get((job, number))) and short:
                self._attempts.end(job, number)
                uid = owner_of(self._spool.output(job, number))
                log.warning("%s: the disk is almost full; ended jobs of user %d that used more of "
                            "it than they printed", self._spool.root, uid)  # fmt: skip
            if full and self._attempts.alive(job, number):
                self._spool.mark_cut(job, number)
        self._end_quick(begun, pace)

    def _end_quick(self, begun: list[Key], pace: Mapping[Key, tuple[int, int]]) -> None:
        """What fills the disk sooner than room can be made on it."""
        spool, before = self._spool, self._too_quick
        spool.quick.ended.intersection_update(begun)
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
        spool, running = self._spool, self._attempts.held_jobs()
        floor_bytes = short.of_user(spool.limit_bytes)
        lost = await asyncio.to_thread(make_room, spool.root, short, floor_bytes, running)
        self._room_due_s = clock_s() + max(ROOM_EVERY_S, ROOM_REST * (clock_s() - began_s))
        for uid, count in lost.items():
            what = f"{count} files" if short.files else f"{count >> 20} MiB"
            log.warning(
                "%s: the disk is almost full; dropped output of user %d: %s", spool.root, uid, what
            )

    def _trim(self, job: JobId, number: int, limit_bytes: int | None) -> bool:
        """Returns as `Spool.trim`."""
        try:
            return self._spool.trim(job, number, limit_bytes)
        except OSError as problem:
            if (text := str(problem)) != self._trouble:
                log.warning("dispatch.max_output_bytes cannot be enforced here: %s", text)
            self._trouble = text
            return False

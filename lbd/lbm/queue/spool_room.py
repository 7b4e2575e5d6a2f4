"""Room on the disk of the spool: while that is short, who keeps most output there loses the oldest.

The files are the daemons' own, which no quota counts, and the same disk may hold the queue itself
and others' outputs. Whoever fills it, with many attempts or by a descriptor that a process has
kept, loses their own: what ended attempts have printed goes first, the oldest before all, and those
that run share what one alone may print otherwise.
"""

import asyncio
import contextlib
import logging
import os
import stat
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
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
ROUNDS_MAX = 16
LIST_HEAD_BYTES, LIST_ENTRY_BYTES, LIST_USER = 4, 8, 0x02


@dataclass(frozen=True, slots=True)
class Shortage:
    """So much more is to be free."""

    size_bytes: int
    files: int

    def __bool__(self) -> bool:
        return self.size_bytes > 0 or self.files > 0


def shortage_of(root: Path, limit_bytes: int = SHORT_BYTES) -> Shortage:
    """Of that disk. Some file systems do not say how large they are."""
    try:
        found = os.statvfs(root)
    except OSError:
        return Shortage(0, 0)
    wanted_bytes = min(found.f_blocks * found.f_frsize // SHORT_SHARE, limit_bytes)
    return Shortage(
        max(0, wanted_bytes - found.f_bavail * found.f_frsize),
        max(0, found.f_files // SHORT_SHARE - found.f_favail) if found.f_files else 0,
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


def limits_of_running(spool: Spool, begun: Collection[Key]) -> dict[Key, int]:
    """While the disk is short: those of one user share what one may have."""
    owners = {(job, number): owner_of(spool.output(job, number)) for job, number in begun}
    counts = Counter(owners.values())
    return {
        key: max(RUNNING_BYTES_MIN, spool.limit_bytes // counts[uid]) for key, uid in owners.items()
    }


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
        short = self._shortage(self._spool.root)
        limits: dict[Key, int] = {}
        if short:
            limits = limits_of_running(self._spool, begun)
            await self._make_room(short)
        for job, number in begun:
            if self._trim(job, number, limits.get((job, number))) and short:
                self._attempts.end(job, number)
                uid = owner_of(self._spool.output(job, number))
                log.warning("%s: the disk is short; ended what took more of it than it printed, of "
                            "user %d", self._spool.root, uid)  # fmt: skip
            if full and self._attempts.alive(job, number):
                self._spool.mark_cut(job, number)

    async def _make_room(self, short: Shortage) -> None:
        if (began_s := clock_s()) < self._room_due_s:
            return
        spool, running = self._spool, self._attempts.held_jobs()
        floor_bytes = spool.limit_bytes
        lost = await asyncio.to_thread(make_room, spool.root, short, floor_bytes, running)
        self._room_due_s = clock_s() + max(ROOM_EVERY_S, ROOM_REST * (clock_s() - began_s))
        for uid, count in lost.items():
            what = f"{count} files" if short.files else f"{count >> 20} MiB"
            log.warning("%s: the disk is short; lost of user %d: %s", spool.root, uid, what)

    def _trim(self, job: JobId, number: int, limit_bytes: int | None) -> bool:
        """Returns as `Spool.trim`."""
        try:
            return self._spool.trim(job, number, limit_bytes)
        except OSError as problem:
            if (text := str(problem)) != self._trouble:
                log.warning("dispatch.max_output_bytes is not kept to here: %s", text)
            self._trouble = text
            return False

"""Holding a job's process tree together, so that all of it can be ended.

Best first: a cgroup v2 of its own (`cgroup.kill` ends it in one write), a cgroup v1 (`cgroup.procs`
killed until empty), else its session plus what the keeper, as subreaper, inherits from it and
recognises by the job's mark in the environment. Delegation differs from host to host, so each is
tried, not assumed.
"""

import contextlib
import os
import time
import zlib
from collections.abc import Callable, Collection, Generator
from functools import partial
from pathlib import Path

from lbd.keeper.limits.ceilings import GROUP_MODE, Ceilings, join, usable
from lbd.keeper.limits.marked_processes import MarkLook
from lbd.keeper.limits.portions import at_once, begun_in, kill_begun, kill_group, tasks_of
from lbd.load import cgroup, process_table
from lbd.load.process_table import uid_of, with_descendants
from lbd.load.procfs import TICKS_PER_S, read_small
from lbd.process.boot_clock import clock_s

CLEAR_TRIES = 100
CLEAR_PAUSE_S = 0.02
CLEAR_LOOK_S = 10.0  # at all that is there; the keeper takes no orders before
V1_CONTROLLERS = ("pids", "freezer", "name=systemd", "cpuacct")  # any does to hold processes
UNFIT = 100
CHILDREN_BYTES = 1 << 16  # whom it does not show is seen once the next job has ended
MEMBERS_BYTES = 1 << 16  # of those it kills; who comes after is killed in the next round
ENVIRONMENT_BYTES = 8 << 20
LINKS_OF_A_LEAF = 2  # of a directory without subdirectories
MARK = b"LBD_KEPT"  # in every job's environment: which keeper's it is, and the job


def preference(hierarchy: cgroup.Hierarchy) -> int:
    """Version 2 first, then version 1 by V1_CONTROLLERS; UNFIT for the others."""
    if hierarchy.version == 2:
        return -1
    ranks = [V1_CONTROLLERS.index(name) for name in hierarchy.controllers & set(V1_CONTROLLERS)]
    return min(ranks, default=UNFIT)


def name_of(runtime_dir: str) -> str:
    """What a keeper's cgroups are called, and its jobs marked with.

    Hosts in containers, each with a directory of that name, may share a cgroup hierarchy, and their
    processes are seen from the host that the containers run on; what one takes for leftovers must
    not be the jobs of another.
    """
    found = os.stat(runtime_dir)
    identity = f"{runtime_dir} {found.st_dev} {found.st_ino}"
    return f"lbd-{zlib.crc32(identity.encode()):08x}"


class Containment:
    """One keeper's way of holding jobs. `kind` is cgroup2, cgroup1 or session."""

    def __init__(self, runtime_dir: str, use_cgroups: bool, readers: int = -1) -> None:
        """`readers`: as of `usable`."""
        name = name_of(runtime_dir)
        self.mark = MARK + b"=" + name.encode() + b":"
        self.kind = "session"
        self._groups = 0
        self.base: Path | None = None
        found = cgroup.mounted() if use_cgroups else []
        for hierarchy in sorted(found, key=preference):
            if self.base is None and preference(hierarchy) < UNFIT:
                self.base = usable(hierarchy.own / name, readers)
                self.kind = f"cgroup{hierarchy.version}" if self.base else "session"
        self.ceilings = Ceilings.find(name, self.base, found, readers)
        self._beside = list(map(str, self.ceilings.directories(self.base)))
        # by job that ends; and when those began that are looked at
        self._looks: dict[str, tuple[MarkLook, dict[int, int]]] = {}
        self._rounds: dict[str, Generator[None, None, bool]] = {}  # by job that ends
        self.others: Callable[[], Collection[int]] = tuple  # leaders of sessions that are no strays
        self._strays: Generator[None, None, None] | None = None

    def described(self, kind: bytes, limits: bytes) -> tuple[tuple[bytes, str], ...]:
        """What we are, by these keys."""
        return (kind, self.kind), (limits, self.ceilings.described())

    def clear_leftovers(self) -> None:
        """End what a keeper of the same runtime directory left when it was killed."""
        unread, until_s = set[int](), time.monotonic() + CLEAR_LOOK_S
        for _ in range(CLEAR_TRIES):
            began = {pid: task.started_ticks for pid, task in _others().items()}
            look = MarkLook(began.keys() - unread, self._is_ours, uid_of, until_s)
            while (marked := look.answers()) is None:
                time.sleep(CLEAR_PAUSE_S)
            unread |= {pid for pid, is_marked in marked.items() if is_marked is None}
            left = [pid for pid, is_marked in marked.items() if is_marked]
            at_once(kill_begun({pid: began[pid] for pid in left}))
            members = dict[int, int]()
            for parent in self._directories():
                for group in [path for path in parent.iterdir() if path.is_dir()]:
                    members |= at_once(begun_in(partial(cgroup.members, group)))
                    _remove(str(group))
            at_once(kill_begun(members))
            if not left and not members:
                return
            time.sleep(CLEAR_PAUSE_S)

    def _is_ours(self, pid: int) -> bool:
        """Was it begun by a keeper of this runtime directory?"""
        return any(item.startswith(self.mark) for item in _environment(pid))

    def new_group(self) -> str:
        """A cgroup for one job, "" without cgroups. Raises OSError.

        Made and joined before there is a job for it: moving a process takes the kernel 15 ms when
        it has not been asked for a while (a grace period of RCU).
        """
        if self.base is None:
            return ""
        self._groups += 1
        group = f"{self.base}/job-{self._groups}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(group, GROUP_MODE)
        return group

    def enter(self, group: str) -> None:
        """In a child: join its cgroup. Raises OSError."""
        if group:
            join(Path(group))

    def end_tree(self, job: str, leader: int, group: str, uid: int) -> bool:
        """Kill whatever is left of the job, by portions. True once nothing is; else call again
        shortly. `uid`: whose it is."""
        steps = self._rounds.get(job)
        if steps is None:
            if not (_members(group) if group else _has_children()):
                return True
            steps = self._round(job, leader, group, uid)
        self._rounds[job] = steps
        try:
            next(steps)
        except StopIteration as end:
            del self._rounds[job]
            return not end.value
        return False

    def is_between_portions(self, job: str) -> bool:
        """Is it to be gone on with soon?"""
        return job in self._rounds

    def _round(self, job: str, leader: int, group: str, uid: int) -> Generator[None, None, bool]:
        """Over all that there is now. True if there was something, or may be."""
        if group:
            yield from kill_group(group, leader, has_kill=self.kind == "cgroup2")
            return True
        return (yield from self._kill_marked(job, leader, uid))

    def _kill_marked(self, job: str, leader: int, uid: int) -> Generator[None, None, bool]:
        """Without cgroups: kill the leader's session, what carries the job's mark, and the children
        of both: those that hide where they come from are not to be found once their parents are
        dead.

        Anybody can write a mark. So it counts below ourselves only, with a process of the job's
        user. One of these whose mark cannot be read has it.

        True if there was something, or may be.
        """
        everybody = yield from tasks_of(process_table.pids())
        ours = with_descendants([os.getpid()], everybody)
        everybody.pop(os.getpid(), None)
        others = self.others()
        alive = {pid: task for pid, task in everybody.items() if not task.has_ended}
        found = {pid for pid, task in alive.items() if task.session == leader}
        elsewhere = [pid for pid in ours & alive.keys() if alive[pid].session not in others]
        strays = {pid for pid in elsewhere if pid not in found and uid_of(pid) == uid}
        if job not in self._looks:
            mark = self.mark + job.encode()
            look = MarkLook(strays, lambda pid: mark in _environment(pid), uid_of)
            self._looks[job] = look, {pid: alive[pid].started_ticks for pid in strays}
        look, began = self._looks[job]
        if (marked := look.answers()) is not None:
            del self._looks[job]
            same = {pid for pid in strays if began.get(pid) == alive[pid].started_ticks}
            found |= {pid for pid in same if marked[pid] is not False}
        tree = with_descendants(found, everybody)
        yield from kill_begun({pid: everybody[pid].started_ticks for pid in tree}, leader)
        return bool(found) or marked is None

    def ended(self, job: str) -> None:
        """Nothing more is asked about it."""
        self._rounds.pop(job, None)
        if (look := self._looks.pop(job, None)) is not None:
            look[0].close()

    def end_strays(self) -> None:
        """With no job alive, every child that is no spare was left by one that hid its origin. By
        portions: `go_on` until `has_strays` no more."""
        left = _children() - set(self.others()) if self.base is None else None
        if left and not self.has_strays:
            self._strays = _kill_with_descendants(left)

    @property
    def has_strays(self) -> bool:
        return self._strays is not None

    def go_on(self) -> None:
        """With the next portion of the strays."""
        if self._strays is not None and next(self._strays, True):
            self._strays = None

    def forget(self, group: str, *, beside: bool = True) -> None:
        """Remove a job's empty cgroups; `beside`: those of its limits, too."""
        if group:
            _remove(group)
        for parent in self._beside if group and beside else ():
            _remove(f"{parent}/{os.path.basename(group)}")

    def close(self) -> None:
        for parent in self._directories():
            with contextlib.suppress(OSError):
                parent.rmdir()

    def _directories(self) -> list[Path]:
        """All of our own."""
        own = [self.base] if self.base is not None else []
        return [*own, *self.ceilings.directories(self.base)]


def _kill_with_descendants(left: Collection[int]) -> Generator[None, None, None]:
    """Those that are there now, and not who has the number of one by the time it is looked at: jobs
    may begin meanwhile."""
    now_ticks = int(clock_s() * TICKS_PER_S)
    everybody = yield from tasks_of(process_table.pids())
    there = {pid: task for pid, task in everybody.items() if task.started_ticks <= now_ticks}
    tree = with_descendants(there.keys() & left, there)
    yield from kill_begun({pid: there[pid].started_ticks for pid in tree})


def _members(group: str) -> list[int]:
    """Some of the processes of the job, if it has any; cgroups of its own are looked into, too."""
    try:
        pids = map(int, read_small(f"{group}/cgroup.procs", MEMBERS_BYTES).split())
        found = [pid for pid in pids if pid > 0]  # 0 is one of another PID namespace
        if not found and os.stat(group).st_nlink > LINKS_OF_A_LEAF:
            found = cgroup.members(Path(group))
    except OSError:
        return []
    return found


def _remove(group: str) -> None:
    """An empty cgroup and those a job has made in it."""
    try:
        os.rmdir(group)
        return
    except FileNotFoundError:
        return
    except OSError:
        pass
    for directory, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def _others() -> dict[int, process_table.TaskStat]:
    return {pid: task for pid, task in process_table.everybody().items() if pid != os.getpid()}


def _has_children() -> bool:
    """Every orphan of ours becomes a child of the keeper, the subreaper; so without any child there
    is nothing to look for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children() -> set[int]:
    """Of this process, which has no threads. Not every kernel has a list of them."""
    try:
        return set(map(int, read_small("/proc/thread-self/children", CHILDREN_BYTES).split()))
    except OSError:
        own, everybody = os.getpid(), process_table.everybody()
        return {pid for pid, task in everybody.items() if task.parent == own}


def _is_alive(pid: int) -> bool:
    task = process_table.task_of(pid)
    return task is not None and not task.has_ended


def _environment(pid: int) -> list[bytes]:
    """As far as it is not longer than exec lets one be."""
    if not _is_alive(pid):
        return []
    try:
        return read_small(f"/proc/{pid}/environ", ENVIRONMENT_BYTES).split(b"\0")
    except OSError:
        return []

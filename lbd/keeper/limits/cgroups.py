"""Holds a job's process tree together, so that all of it can be ended.

There are three ways, the best first: a cgroup v2 of its own (frozen, its members killed, then
`cgroup.kill` for what has come in meanwhile); a cgroup v1 (`cgroup.procs` killed until empty); else
its session, plus the processes that the keeper inherits as subreaper and recognises by the job's
mark in their environment. Delegation differs from host to host, so each way is tried, not assumed.
"""

import contextlib
import os
import select
import signal
import time
import zlib
from collections.abc import Callable, Collection, Generator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path

from lbd.keeper.limits.ceilings import GROUP_MODE, Ceilings, join, usable
from lbd.keeper.limits.portions import (
    at_once,
    entries_of,
    kill_group,
    kill_lives,
    lives_in,
    lives_of,
)
from lbd.keeper.limits.process_reads import ProcessReads
from lbd.keeper.limits.user_groups import is_of_user
from lbd.load import cgroup, process_table
from lbd.load.process_table import uid_of, with_descendants
from lbd.load.procfs import read_small

CLEAR_TRIES = 100
CLEAR_PAUSE_S = 0.02
CLEAR_LOOK_S = 10.0  # to look at all leftovers; the keeper takes no orders before it is done
CLEAR_MOST_S = 15.0
CLEAR_GRACE_S = 2.0  # for those that were killed to be gone; they do nothing any more
V1_CONTROLLERS = ("pids", "freezer", "name=systemd", "cpuacct")  # any of these can hold processes
UNFIT = 100
CHILDREN_BYTES = 1 << 16  # children beyond this are seen once the next job has ended
MEMBERS_BYTES = 1 << 16  # of the members to kill; the rest is killed in the next round
ENVIRONMENT_BYTES = 8 << 20
THREADS_READ = 8  # the first ones that may still run
LINKS_OF_A_LEAF = 2  # links of a directory without subdirectories
MARK = b"LBD_KEPT"  # in every job's environment: names its keeper and the job


def preference(hierarchy: cgroup.Hierarchy) -> int:
    """Ranks version 2 first, then version 1 by V1_CONTROLLERS; UNFIT for the others."""
    if hierarchy.version == 2:
        return -1
    ranks = [V1_CONTROLLERS.index(name) for name in hierarchy.controllers & set(V1_CONTROLLERS)]
    return min(ranks, default=UNFIT)


def name_of(runtime_dir: str) -> str:
    """Returns the name of a keeper's cgroups, which also marks its jobs.

    Hosts in containers, each with a runtime directory of the same path, may share a cgroup
    hierarchy, and the host that the containers run on sees their processes. One keeper must not
    take the jobs of another for leftovers.
    """
    found = os.stat(runtime_dir)
    identity = f"{runtime_dir} {found.st_dev} {found.st_ino}"
    return f"lbd-{zlib.crc32(identity.encode()):08x}"


class Containment:
    """One keeper's way of containing jobs. `kind` is cgroup2, cgroup1 or session."""

    def __init__(self, runtime_dir: str, use_cgroups: bool, readers: int = -1) -> None:
        """`readers`: as for `usable`."""
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
        # By ending job: the search for its mark, and the lives of the processes searched.
        self._looks: dict[str, tuple[ProcessReads, dict[int, int]]] = {}
        self._rounds: dict[str, Generator[None, None, bool]] = {}  # by ending job
        self._leaders: dict[str, int] = {}  # by ending job: its leader's life; 0: reaped before
        self.others: Callable[[], Collection[int]] = tuple  # session leaders that are not strays
        self._strays: Generator[None, None, None] | None = None

    def described(self, kind: bytes, limits: bytes) -> tuple[tuple[bytes, str], ...]:
        """Returns the containment kind and the limits in words, under these keys."""
        return (kind, self.kind), (limits, self.ceilings.described())

    def clear_leftovers(self) -> None:
        """Ends what a keeper of the same runtime directory left behind when it was killed.

        A killed process may stay for as long as its user likes: one that waits for a file system of
        its user's (FUSE). Nobody waits for it longer than `CLEAR_GRACE_S`.
        """
        unread, until_s = set[int](), time.monotonic() + CLEAR_LOOK_S
        killed, killed_s = set[tuple[int, int]](), time.monotonic()  # pids, with their lives
        for _ in range(CLEAR_TRIES):
            lives = _others()
            look = ProcessReads(lives.keys() - unread, self._is_ours, uid_of, until_s)
            while (marked := look.answers()) is None:
                time.sleep(CLEAR_PAUSE_S)
            unread |= {pid for pid, is_marked in marked.items() if is_marked is None}
            left = {pid: lives[pid] for pid, is_marked in marked.items() if is_marked}
            at_once(kill_lives(left))
            members = dict[int, int]()
            for parent in self._directories():
                for group in [path for path in parent.iterdir() if path.is_dir()]:
                    members |= at_once(lives_in(partial(cgroup.members, group)))
                    jobs = filter(Path.is_dir, group.iterdir()) if is_of_user(group) else [group]
                    for empty in list(jobs):
                        _remove(str(empty))
            at_once(kill_lives(members))
            found = (left | members).items()
            if found - killed:
                killed, killed_s = killed | found, time.monotonic()
            if not found or time.monotonic() - killed_s > CLEAR_GRACE_S:
                return
            time.sleep(CLEAR_PAUSE_S)

    def _is_ours(self, pid: int) -> bool:
        """Returns whether a keeper of this runtime directory started the process."""
        return any(item.startswith(self.mark) for item in _environment(pid))

    def new_group(self) -> str:
        """Returns a new cgroup for one job, "" without cgroups. Raises OSError.

        It is made and joined before there is a job for it: moving a process takes the kernel 15 ms
        when none was moved for a while (a grace period of RCU).
        """
        if self.base is None:
            return ""
        while True:  # there may be groups of leftovers that cannot be killed
            self._groups += 1
            group = f"{self.base}/job-{self._groups}"
            with contextlib.suppress(FileExistsError):
                os.mkdir(group, GROUP_MODE)
                return group

    def enter(self, group: str) -> None:
        """Joins the cgroup; called in a child. Raises OSError."""
        if group:
            join(Path(group))

    def end_tree(self, job: str, leader: int, group: str, uid: int) -> bool:
        """Kills what is left of the job, in portions. Returns True once nothing is left; else the
        caller must call again shortly. `uid`: the job's user."""
        steps = self._rounds.get(job)
        if steps is None:
            if not (_members(group) if group else _has_children()):
                self._leaders.pop(job, None)
                return True
            steps = self._round(job, leader, group, uid)
        self._rounds[job] = steps
        try:
            next(steps)
        except StopIteration as end:
            del self._rounds[job]
            if not end.value:
                self._leaders.pop(job, None)
            return not end.value
        return False

    def removes(self, job: str, group: str) -> bool:
        """Removes a job's cgroup if nothing of it is left, and returns whether it did: for a job
        that ended well, the same as `end_tree` and `forget`, without a look at what is in there."""
        if not group or job in self._rounds:
            return False
        with contextlib.suppress(OSError):
            os.rmdir(group)
            return True
        return False

    def is_between_portions(self, job: str) -> bool:
        """Returns whether `end_tree` should be called again soon."""
        return job in self._rounds

    def _round(self, job: str, leader: int, group: str, uid: int) -> Generator[None, None, bool]:
        """Goes once over all current processes of the job. Returns True if there were or may be
        any."""
        if group:
            yield from kill_group(group, leader, has_kill=self.kind == "cgroup2")
            return True
        return (yield from self._kill_marked(job, leader, uid))

    def _kill_marked(self, job: str, leader: int, uid: int) -> Generator[None, None, bool]:
        """Without cgroups: kills the leader's session, the processes with the job's mark, and the
        children of both. Children that hide their origin could not be found once their parents are
        dead.

        Anybody can write a mark, so it counts only for the keeper's descendants, and only for
        processes of the job's user. Such a process counts as marked if its mark cannot be read.

        Once nobody is left in the job's session, which may be long before the last of the job is
        gone, another's session may have the leader's number. It has a process of that number then,
        which the job's leader is not.

        Returns True if there were or may be any: a search for marks does not know of those that
        have become the keeper's children since it began.
        """
        everybody = yield from entries_of(process_table.pids())
        ours = with_descendants([os.getpid()], everybody)
        everybody.pop(os.getpid(), None)
        others = self.others()
        alive = {pid: task for pid, task in everybody.items() if not task.has_ended}
        first = everybody[leader].life if leader in everybody else 0
        is_own = self._leaders.setdefault(job, first) == first or not first
        found = {pid for pid, task in alive.items() if task.session == leader and is_own}
        elsewhere = [pid for pid in ours & alive.keys() if alive[pid].session not in others]
        strays = {pid for pid in elsewhere if pid not in found and uid_of(pid) == uid}
        if job not in self._looks:
            mark = self.mark + job.encode()
            look = ProcessReads(strays, lambda pid: mark in _environment(pid), uid_of)
            self._looks[job] = look, {pid: alive[pid].life for pid in strays}
        look, lives = self._looks[job]
        others_yet = {pid for pid in strays if lives.get(pid) != alive[pid].life}
        unsearched = [pid for pid in others_yet if alive[pid].parent == os.getpid()]
        if (marked := look.answers()) is not None:
            del self._looks[job]
            found |= {pid for pid in strays - others_yet if marked[pid] != 0}
        tree = with_descendants(found, everybody)
        lives = {pid: everybody[pid].life for pid in tree}
        yield from kill_lives(lives, leader, partial(lives_of, leader if is_own else 0))
        return bool(found or unsearched) or marked is None

    def ended(self, job: str) -> None:
        """Forgets the job."""
        self._rounds.pop(job, None)
        self._leaders.pop(job, None)
        if (look := self._looks.pop(job, None)) is not None:
            look[0].close()

    def end_strays(self) -> None:
        """When no job is alive, kills every child that is not a spare: it was left by a process
        that hid its origin. Works in portions: call `go_on` until `has_strays` is False."""
        left = _children() - set(self.others()) if self.base is None else None
        if left and not self.has_strays:
            lives = {pid: life for pid in left if (life := process_table.life_of(pid)) is not None}
            self._strays = _kill_with_descendants(lives)

    @property
    def has_strays(self) -> bool:
        return self._strays is not None

    def go_on(self) -> None:
        """Kills the next portion of the strays."""
        if self._strays is not None and next(self._strays, True):
            self._strays = None

    def forget(self, group: str, *, beside: bool = True) -> None:
        """Removes a job's empty cgroups; `beside`: also those of its limits."""
        if not group:
            return
        _remove(group)
        if beside:
            name = os.path.basename(group)
            for parent in (*self._beside, str(self.base)):  # it may have moved from the latter
                _remove(f"{parent}/{name}")
            self.ceilings.forget(group)

    def close(self) -> None:
        if self.ceilings.users is not None:
            self.ceilings.users.close()
        for parent in self._directories():
            with contextlib.suppress(OSError):
                parent.rmdir()

    def _directories(self) -> list[Path]:
        """Returns all our own directories."""
        own = [self.base] if self.base is not None else []
        return [*own, *self.ceilings.directories(self.base)]


def clear_leftovers(containment: Containment) -> None:
    """Does so in a child, since it looks at all processes of the host, and no keeper may depend on
    what these let it see. If the child gets stuck, what is left is left."""
    if (child := os.fork()) == 0:
        with contextlib.suppress(BaseException):
            containment.clear_leftovers()
        os._exit(0)
    with open(os.pidfd_open(child), "rb") as handle:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        if not poll.poll(CLEAR_MOST_S * 1000):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, os.WNOHANG)  # else it is reaped as any child


def _kill_with_descendants(lives: Mapping[int, int]) -> Generator[None, None, None]:
    """New jobs may start meanwhile, and take over a pid."""
    everybody = yield from entries_of(process_table.pids())
    there = {pid for pid, life in lives.items() if pid in everybody and everybody[pid].life == life}
    tree = with_descendants(there, everybody)
    yield from kill_lives({pid: everybody[pid].life for pid in tree})


def _members(group: str) -> list[int]:
    """Returns some of the job's processes, if it has any; nested cgroups are included."""
    try:
        pids = map(int, read_small(f"{group}/cgroup.procs", MEMBERS_BYTES).split())
        found = [pid for pid in pids if pid > 0]  # 0 stands for a process of another PID namespace
        if not found and os.stat(group).st_nlink > LINKS_OF_A_LEAF:
            found = cgroup.members(Path(group))
    except OSError:
        return []
    return found


def _remove(group: str) -> None:
    """Removes an empty cgroup and the cgroups that the job has made in it."""
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


def _others() -> dict[int, int]:
    """Returns the lives of all other processes."""
    found = at_once(entries_of(process_table.pids()))
    return {pid: entry.life for pid, entry in found.items() if pid != os.getpid()}


def _has_children() -> bool:
    """Returns whether the keeper has children. As subreaper it adopts every orphan of its jobs, so
    without a child there is nothing to look for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children() -> set[int]:
    """Returns the children of this process, which has no threads. Not every kernel lists them."""
    try:
        return set(map(int, read_small("/proc/thread-self/children", CHILDREN_BYTES).split()))
    except OSError:
        own, everybody = os.getpid(), at_once(entries_of(process_table.pids()))
        return {pid for pid, entry in everybody.items() if entry.parent == own}


def _is_alive(pid: int) -> bool:
    status = process_table.status_of(pid)
    return status is not None and not status.has_ended


def _environment(pid: int) -> list[bytes]:
    """Returns the environment, up to the longest that exec allows. That of a process is not shown
    once its first thread has ended, but that of its other threads is."""
    if not _is_alive(pid):
        return []
    tasks = process_table.thread_directories(pid)
    for place in (f"/proc/{pid}", *islice(tasks, THREADS_READ)):
        with contextlib.suppress(OSError):
            if found := read_small(f"{place}/environ", ENVIRONMENT_BYTES):
                return found.split(b"\0")
    return []

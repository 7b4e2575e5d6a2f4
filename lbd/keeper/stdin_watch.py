"""Which processes belong to a job, and whether one of them waits for standard input, from /proc.

A process blocked in read(2) shows that call's number and its descriptor in /proc/PID/syscall. A
process that polls is not seen, and need not be: polling does not stop a background process either.
Where the file is unreadable (another user's process, another machine type) the answer is no.

To read that file the kernel takes a lock that a process holds in execve, and its user can hold up
for any time an execve from a file system of their own. So a child of the keeper reads, and is
killed where it gets stuck.
"""

import contextlib
import functools
import os
import select
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lbd.keeper.side_child import SideChild
from lbd.load import cgroup, process_table

PTS_MAJOR = 136
TASKS_MAX = 512  # threads inspected in one call
# read, readv, splice in the system call table most machines share
GENERIC = frozenset((63, 65, 76))
READING = {"x86_64": frozenset((0, 19, 275)), "aarch64": GENERIC, "riscv64": GENERIC}
IsRead = Callable[[set[tuple[int, int]]], Awaitable[bool]]  # `is_read` for one job
CALLS = READING.get(os.uname().machine, frozenset())
PATIENCE_S = 0.5  # for one job
HUNG_S = 30.0  # so long nothing more of a user is read who has held up a child
YES, NO = b"1", b"0"


def pipe_of(descriptor: int) -> tuple[int, int]:
    """Returns the device and inode that `is_read` searches for; both ends of a pipe have the
    same."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def is_read(wanted: set[tuple[int, int]], leader: int, group: str) -> bool:
    """Returns whether a process of the job is blocked reading one of them.

    A terminal may be given by its device number, as (0, st_rdev).
    """
    if not CALLS:
        return False
    tasks = 0
    for pid in members(leader, group):
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                tasks += 1
                if tasks > TASKS_MAX:
                    return False
                if _reads(f"/proc/{pid}/task/{task}", wanted):
                    return True
    return False


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a process of this job is blocked reading one of `wanted`. `uid`: the job's user."""

    leader: int
    group: str
    uid: int
    wanted: frozenset[tuple[int, int]]


class ReadLooks:
    """The keeper's answers to such questions, from one child at a time."""

    def __init__(self, poll: "select.poll", say: Callable[[str, bool], None]) -> None:
        """`say`: is given the job and the answer."""
        self._poll, self._say = poll, say
        self._asked: dict[str, Question] = {}  # by job
        self._looked_at: dict[str, Question] = {}  # by the child, those before answered
        self._hung: dict[int, float] = {}  # users, until when
        self._child: SideChild | None = None
        self._until_s = 0.0

    @property
    def pids(self) -> set[int]:
        return {self._child.pid} if self._child else set()

    def is_ours(self, descriptor: int) -> bool:
        return self._child is not None and descriptor == self._child.pipe

    def due_s(self) -> list[float]:
        return [self._until_s] if self._child else []

    def ask(self, job: str, question: Question) -> None:
        if self._hung.get(question.uid, 0.0) > time.monotonic():
            self._say(job, False)
            return
        self._asked[job] = question
        self._begin()

    def hear(self) -> None:
        """Call when the descriptor is readable, or it is due."""
        if self._child is None:
            return
        said = None
        with contextlib.suppress(BlockingIOError):
            said = os.read(self._child.pipe, TASKS_MAX)
        for one in said or b"":
            job = next(iter(self._looked_at))
            del self._looked_at[job]
            self._say(job, one == YES[0])
        if said:
            self._until_s = time.monotonic() + PATIENCE_S
        if not self._looked_at or said == b"":  # it has ended
            self._end()
        elif said is None and time.monotonic() >= self._until_s:
            self._give_up(next(iter(self._looked_at.values())).uid)

    def _give_up(self, uid: int) -> None:
        now_s = time.monotonic()
        self._hung = {one: at_s for one, at_s in self._hung.items() if at_s > now_s}
        self._hung[uid] = now_s + HUNG_S
        again = {job: one for job, one in self._looked_at.items() if one.uid != uid}
        self._looked_at = {job: one for job, one in self._looked_at.items() if one.uid == uid}
        self._asked = again | self._asked
        self._end()

    def _begin(self) -> None:
        if self._child or not self._asked:
            return
        self._looked_at, self._asked = self._asked, {}
        try:
            self._child = SideChild(functools.partial(answer, self._looked_at))
        except OSError:  # too many processes or descriptors at the moment
            self._end()
            return
        self._until_s = time.monotonic() + PATIENCE_S
        self._poll.register(self._child.pipe, select.POLLIN)

    def _end(self) -> None:
        """Ends the child. What it has not answered is answered with no."""
        if self._child:
            self._poll.unregister(self._child.pipe)
            self._child.close()
        self._child = None
        left, self._looked_at = self._looked_at, {}
        for job in left:
            self._say(job, False)
        self._begin()


def answer(questions: Mapping[str, Question], descriptor: int) -> None:
    """Runs in the child."""
    for one in questions.values():
        found = is_read(set(one.wanted), one.leader, one.group)
        os.write(descriptor, YES if found else NO)


def _reads(task: str, wanted: set[tuple[int, int]]) -> bool:
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"{task}/syscall", "rb") as file:
            words = file.read().split()
        if int(words[0]) in CALLS:
            return is_one_of(os.readlink(f"{task}/fd/{int(words[1], 16) & 0xFFFFFFFF}"), wanted)
    return False


def is_one_of(shown: str, wanted: set[tuple[int, int]]) -> bool:
    """Returns whether an entry of /proc/PID/fd is one of these pipes or terminals. It goes by the
    name alone: stat on a user's file may block for ever, for example on a dead file server. Raises
    ValueError."""
    kind, is_inode, rest = shown.partition(":[")
    if is_inode:
        return any(device and inode == int(rest.rstrip("]")) for device, inode in wanted)
    if shown == "/dev/tty":
        return (0, os.makedev(5, 0)) in wanted
    directory, _, number = kind.rpartition("/")
    return directory == "/dev/pts" and (0, os.makedev(PTS_MAJOR, int(number))) in wanted


def command_of(leader: int, group: str) -> int:
    """Returns the command below its session's leader (session_leader.py); the leader itself if it
    has no child."""
    found = ((pid, process_table.status_of(pid)) for pid in members(leader, group))
    children = (pid for pid, status in found if status is not None and status.parent == leader)
    return next(children, leader)


def parent_and_session(pid: int) -> tuple[int, int]:
    entry = process_table.entry_of(pid)
    return (entry.parent, entry.session) if entry is not None else (0, 0)


def members(leader: int, group: str) -> list[int]:
    """Returns the processes of a job: its cgroup, else its session."""
    if group:
        return cgroup.members(Path(group))
    return [pid for pid in process_table.pids() if process_table.session_of(pid) == leader]


def pack_wanted(wanted: set[tuple[int, int]]) -> bytes:
    return b" ".join(b"%d:%d" % pair for pair in sorted(wanted))


def unpack_wanted(packed: bytes) -> set[tuple[int, int]]:
    """Raises ValueError."""
    pairs = (pair.partition(b":") for pair in packed.split())
    return {(int(device), int(inode)) for device, _, inode in pairs}

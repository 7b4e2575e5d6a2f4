"""Which processes belong to a job, and whether one of them waits for standard input, from /proc.

A process blocked in read(2) shows that call's number and its descriptor in /proc/PID/syscall. A
process that polls is not seen, and need not be: polling does not stop a background process either.
Where the file is unreadable (another user's process, another machine type) the answer is no.
"""

import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from lbd.load import cgroup, process_table

PTS_MAJOR = 136
TASKS_MAX = 512  # threads inspected in one call
# read, readv, splice in the system call table most machines share
GENERIC = frozenset((63, 65, 76))
READING = {"x86_64": frozenset((0, 19, 275)), "aarch64": GENERIC, "riscv64": GENERIC}
IsRead = Callable[[set[tuple[int, int]]], Awaitable[bool]]  # `is_read` for one job
CALLS = READING.get(os.uname().machine, frozenset())


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
    tasks = ((pid, process_table.task_of(pid)) for pid in members(leader, group))
    children = (pid for pid, task in tasks if task is not None and task.parent == leader)
    return next(children, leader)


def parent_and_session(pid: int) -> tuple[int, int]:
    task = process_table.task_of(pid)
    return (task.parent, task.session) if task is not None else (0, 0)


def members(leader: int, group: str) -> list[int]:
    """Returns the processes of a job: its cgroup, else its session."""
    if group:
        return cgroup.members(Path(group))
    everybody = process_table.everybody()
    return [pid for pid, task in everybody.items() if task.session == leader]


def pack_wanted(wanted: set[tuple[int, int]]) -> bytes:
    return b" ".join(b"%d:%d" % pair for pair in sorted(wanted))


def unpack_wanted(packed: bytes) -> set[tuple[int, int]]:
    """Raises ValueError."""
    pairs = (pair.partition(b":") for pair in packed.split())
    return {(int(device), int(inode)) for device, _, inode in pairs}

"""Who is in a job, and whether somebody in it waits for its standard input, as /proc shows it.

A process that is blocked in read(2) shows the number of that call and its descriptor in
/proc/PID/syscall. Who polls is not seen, and need not be: polling stops nobody in the background
either. Where the file is not to be read (another user's process, another machine type) the answer
is no.
"""

import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from lbd.load import cgroup, process_table

PTS_MAJOR = 136
TASKS_MAX = 512  # looked at in one go
GENERIC = frozenset((63, 65, 76))  # read, readv, splice in the table most machines share
READING = {"x86_64": frozenset((0, 19, 275)), "aarch64": GENERIC, "riscv64": GENERIC}
IsRead = Callable[[set[tuple[int, int]]], Awaitable[bool]]  # `is_read` of one job
CALLS = READING.get(os.uname().machine, frozenset())


def pipe_of(descriptor: int) -> tuple[int, int]:
    """What `is_read` looks for: device and inode; both ends of a pipe have the same."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def is_read(wanted: set[tuple[int, int]], leader: int, group: str) -> bool:
    """Whether a process of the job is blocked reading one of them.

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
    """Whether what /proc/PID/fd shows is a pipe or a terminal of these. By its name alone: to look
    at a user's file may take for ever, as on a file server that is gone. Raises ValueError."""
    kind, is_inode, rest = shown.partition(":[")
    if is_inode:
        return any(device and inode == int(rest.rstrip("]")) for device, inode in wanted)
    if shown == "/dev/tty":
        return (0, os.makedev(5, 0)) in wanted
    directory, _, number = kind.rpartition("/")
    return directory == "/dev/pts" and (0, os.makedev(PTS_MAJOR, int(number))) in wanted


def command_of(leader: int, group: str) -> int:
    """The command below its session's leader (monitor.py); the leader itself if that has none."""
    tasks = ((pid, process_table.task_of(pid)) for pid in members(leader, group))
    children = (pid for pid, task in tasks if task is not None and task.parent == leader)
    return next(children, leader)


def parent_and_session(pid: int) -> tuple[int, int]:
    task = process_table.task_of(pid)
    return (task.parent, task.session) if task is not None else (0, 0)


def members(leader: int, group: str) -> list[int]:
    """The processes of a job: its cgroup, else its session."""
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

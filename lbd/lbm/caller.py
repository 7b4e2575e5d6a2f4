"""What the kernel says of the process that asks: its user, limits, nice value, and its end.

Read here rather than sent by `lbrun`, which would pay for it at every start, also when the answer
is "here" and nobody needs it.
"""

import asyncio
import functools
import os
import pwd
import resource
import socket
from pathlib import Path

from lbd.lbm.descriptor import settle
from lbd.load.procfs import read_small

SO_PEERPIDFD = 77
UNLIMITED = (1 << 64) - 1
RLIMIT_LOCKS = 10  # the module does not name it
# The names in /proc/PID/limits, in the order the kernel prints them.
NAMES = {
    "Max cpu time": resource.RLIMIT_CPU,
    "Max file size": resource.RLIMIT_FSIZE,
    "Max data size": resource.RLIMIT_DATA,
    "Max stack size": resource.RLIMIT_STACK,
    "Max core file size": resource.RLIMIT_CORE,
    "Max resident set": resource.RLIMIT_RSS,
    "Max processes": resource.RLIMIT_NPROC,
    "Max open files": resource.RLIMIT_NOFILE,
    "Max locked memory": resource.RLIMIT_MEMLOCK,
    "Max address space": resource.RLIMIT_AS,
    "Max file locks": RLIMIT_LOCKS,
    "Max pending signals": resource.RLIMIT_SIGPENDING,
    "Max msgqueue size": resource.RLIMIT_MSGQUEUE,
    "Max nice priority": resource.RLIMIT_NICE,
    "Max realtime priority": resource.RLIMIT_RTPRIO,
    "Max realtime timeout": resource.RLIMIT_RTTIME,
}
NAME_WIDTH = 26
STATUS_BYTES = 8192


def limits_of(pid: int) -> list[tuple[int, int, int]]:
    """(resource, soft, hard) of a process; none if it is out of sight (another PID namespace)."""
    if pid <= 0:
        return []
    try:
        found = [(number, *resource.prlimit(pid, number)) for number in NAMES.values()]
        return [(number, soft & UNLIMITED, hard & UNLIMITED) for number, soft, hard in found]
    except OSError:  # somebody else's process; but everybody may read this:
        pass
    try:
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    except OSError:
        return []
    found = []
    for line in lines:
        number = NAMES.get(line[:NAME_WIDTH].strip())
        if number is not None:
            soft, hard = line[NAME_WIDTH:].split()[:2]
            found.append((number, _value(soft), _value(hard)))
    return found


def _value(text: str) -> int:
    return UNLIMITED if text == "unlimited" else int(text)


def has_no_new_privileges(pid: int) -> bool:
    """Whether exec can never give it any (PR_SET_NO_NEW_PRIVS); of one out of sight, False."""
    try:
        return b"\nNoNewPrivs:\t1" in read_small(f"/proc/{pid}/status", STATUS_BYTES)
    except OSError:
        return False


def nice_of(pid: int) -> int:
    try:
        return os.getpriority(os.PRIO_PROCESS, pid) if pid > 0 else 0
    except OSError:
        return 0


@functools.lru_cache(maxsize=4096)
def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def open_process(sock: socket.socket, pid: int) -> int | None:
    """A pidfd of the client: it stays the same process when it execs. None if there is no way."""
    try:
        return sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        pass
    try:
        return os.pidfd_open(pid) if pid > 0 else None
    except OSError:
        return None


async def wait_for_process(pidfd: int) -> None:
    """Until the process of `pidfd` has ended."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    loop.add_reader(pidfd, lambda: settle(ended))
    try:
        await ended
    finally:
        loop.remove_reader(pidfd)

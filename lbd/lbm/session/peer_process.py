"""What the kernel says about the asking process: its limits, its nice value, and its end.

This is read here and not sent by `lbrun`, which would pay for it at every start, even if the answer
is "here" and nobody needs it.

A process can connect, end, and leave its socket to another; its number may be reused by then. So
nothing read by number counts unless the process that connected still exists afterwards.
"""

import asyncio
import contextlib
import os
import resource
import socket
from dataclasses import dataclass
from pathlib import Path

from lbd.errors import Unavailable
from lbd.lbm.link.nonblocking_fd import settle
from lbd.load.process_table import STATUS_BYTES, entry_of
from lbd.load.procfs import read_small
from lbd.local.caller import Caller
from lbd.local.descriptors import is_readable
from lbd.model import quick_value
from lbd.text.kernel_tables import lines_of

SO_PEERPIDFD = 77
UNLIMITED = (1 << 64) - 1
RLIMIT_LOCKS = 10  # missing from the module
# The names in /proc/PID/limits, in the order in which the kernel prints them.
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


Limit = tuple[int, int, int]  # resource, soft, hard


@quick_value
class Traits:
    """What a command inherits from the process that asks for it."""

    limits: tuple[Limit, ...] = ()
    nice: int = 0
    no_new_privileges: bool = True  # exec can never give it any (PR_SET_NO_NEW_PRIVS)


class PeerProcess:
    """The process that has connected to our socket, not another that gets its number later."""

    def __init__(self, sock: socket.socket, caller: Caller) -> None:
        self._pid = max(0, caller.pid)
        self._traits: Traits | None = None
        self._seen: tuple[str, int] | None = None
        try:
            self.pidfd: int | None = sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
        except OSError:  # an older kernel: use the process that has the number now
            self.pidfd = None
            if self._pid:
                with contextlib.suppress(OSError):
                    self.pidfd = os.pidfd_open(self._pid)
                self._seen = owner_and_life(self._pid)
                if self._seen[0] != str(caller.uid):
                    self._seen = "", 0

    @property
    def pid(self) -> int:
        """0: not visible, in a PID namespace beside ours."""
        return self._pid

    @property
    def group(self) -> int:
        """Its process group, which one line of an interactive shell has started. 0: not visible."""
        try:
            return os.getpgid(self._pid) if self._pid else 0
        except OSError:  # it has ended
            return 0

    def replace_pidfd(self, pidfd: int) -> None:
        """Replaces the pidfd with one that was opened earlier."""
        self.close()
        self.pidfd = pidfd

    def close(self) -> None:
        if self.pidfd is not None:
            os.close(self.pidfd)
        self.pidfd = None

    @property
    def is_there(self) -> bool:
        """Whether it has not ended. True for an invisible process about which nothing is known."""
        if self.pidfd is not None and is_readable(self.pidfd):
            return False
        if self._seen is not None:
            return self._seen[1] > 0 and owner_and_life(self._pid)[1] == self._seen[1]
        return self.pidfd is not None or not self._pid

    def traits(self) -> Traits:
        """The minimum for an invisible process. Raises Unavailable if it has ended."""
        if self._traits is None:
            found = traits_of(self._pid)
            self.check()
            self._traits = found
        return self._traits

    def check(self) -> None:
        """Called after something was read by its number. Raises Unavailable if it has ended."""
        if not self.is_there:
            raise Unavailable(
                "the process that connected to the LBM has ended, so its limits cannot be read; "
                "the process that runs the command must connect itself"
            )


@dataclass(frozen=True, slots=True)
class AnyProcess:
    """Any process with that number, for values that are only displayed and decide nothing."""

    pid: int

    def check(self) -> None:
        pass


def owner_and_life(pid: int) -> tuple[str, int]:
    """The effective uid of a process, and what no other process has; empty if there is none."""
    try:
        status = read_small(f"/proc/{pid}/status", STATUS_BYTES)
        uid = status.partition(b"\nUid:")[2].split(None, 2)[1].decode()
    except (OSError, IndexError):
        return "", 0
    entry = entry_of(pid)
    return ("", 0) if entry is None or entry.has_ended else (uid, entry.life)


def traits_of(pid: int) -> Traits:
    """Returns the traits that would be inherited from the process that has this number now."""
    if pid <= 0:
        return Traits()
    try:
        status = read_small(f"/proc/{pid}/status", STATUS_BYTES)
        nice = os.getpriority(os.PRIO_PROCESS, pid)
        return Traits(tuple(limits_of(pid)), nice, b"\nNoNewPrivs:\t0" not in status)
    except OSError:  # ended, or hidden from us (hidepid)
        return Traits()


def limits_of(pid: int) -> list[Limit]:
    """Raises OSError."""
    prlimit, mask = resource.prlimit, UNLIMITED
    try:
        return [
            (number, soft & mask, hard & mask)
            for number in NAMES.values()
            for soft, hard in (prlimit(pid, number),)
        ]
    except OSError:
        pass  # another user's process, but anybody may read this file
    lines = lines_of(Path(f"/proc/{pid}/limits").read_bytes())[1:]
    found = []
    for line in lines:
        number = NAMES.get(line[:NAME_WIDTH].strip())
        if number is not None:
            soft, hard = line[NAME_WIDTH:].split()[:2]
            found.append((number, _value(soft), _value(hard)))
    return found


def _value(text: str) -> int:
    return UNLIMITED if text == "unlimited" else int(text)


async def wait_for_process(pidfd: int) -> None:
    """Waits until the process of `pidfd` has ended."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    loop.add_reader(pidfd, lambda: settle(ended))
    try:
        await ended
    finally:
        loop.remove_reader(pidfd)

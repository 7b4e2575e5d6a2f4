"""The warden: a small child of the keeper that enforces leases if the keeper hangs.

The keeper knows when the lease of an attempt has expired, and ends the attempt. But it serves all
jobs, and a system call may block it in ways nobody foresaw; the LBM, without privilege, may not end
a user's processes. The dispatcher, meanwhile, starts another attempt once the lease has expired. So
the warden, which only waits for deadlines, ends those attempts that the keeper has not ended
shortly after they were due, and those of a keeper that is gone. It reads nothing that a user could
make slow: it only sends signals.

The warden is also the keeper's watchdog: it kills a keeper whose loop has not reported for
`silent_s`. Its parent then starts another keeper, which clears up (cgroups.py) before it takes
orders.

    keeper                  warden
    LEASE, pid, until, uid, group ─▶   also later: the new deadline
    ALIVE ─────────────────────────▶   the keeper's loop turns
    ENDED ─────────────────────────▶

Each message also carries the pids of ended jobs, of which nothing is left. They travel with the
next message of another kind; without a watchdog, or if there are many, in one of their own.

A message that wakes the warden costs it as much as a tenth of what a short task costs all daemons.
So after each turn it sleeps for a moment, and then reads together what has come: a message that is
in its socket is safe there, whatever becomes of the keeper. A task that has ended meanwhile costs
it no descriptors.
"""

import contextlib
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from lbd.keeper.child import Helper, Parent, leave_keeper
from lbd.keeper.limits.portions import (
    AGAIN_S,
    kill_group,
    kill_lives,
    lives_of,
    longer_s,
    side_by_side,
)
from lbd.keeper.limits.time_limits import FAR_S, GRACE_S
from lbd.load.process_table import uid_of
from lbd.process.boot_clock import clock_s
from lbd.process.urgency import Urgency

LEASE, ENDED, ALIVE = b"L", b"E", b"A"
# A tag, a pid, a deadline on the boot clock, the job's uid, how many have ended.
HEAD = struct.Struct("=cidIH")
PID = struct.Struct("=i")
ENDED_AT_ONCE = 64  # further ones get a message of their own
MESSAGE_BYTES = 8192
TOGETHER_S = 0.02  # so long it leaves messages in its socket
TOGETHER_LEASES = 64  # with more, the renewals of all at once might not fit there
LET_S = 0.001  # its rest between portions, so that others can stop on the same processor
HANGS_S = 30.0  # what is still there so long after anything new was killed hangs in the kernel
SURVIVORS_SHARE = 0.05  # of its time for that
FED_PER_TIMEOUT = 3
SUSPECTED = (
    # looks, a second apart, before a silent keeper is killed: this process may have been stopped,
    # too
    3
)
LOOK_S = 1.0


class Warden(Helper):
    """The keeper's side."""

    def __init__(self, parent: Parent, silent_s: float) -> None:
        """`silent_s`: 0 = no watchdog."""
        super().__init__(parent)
        self.silent_s = silent_s
        self._leases: dict[int, tuple[float, int, str]] = {}
        self._ended: list[int] = []  # of which the warden does not know yet

    def lease(self, pid: int, until_s: float, uid: int, group: str) -> None:
        """`uid`: as which the job runs."""
        self._leases[pid] = until_s, uid, group
        self._say(LEASE, pid, until_s, uid, group)

    def ended(self, pid: int) -> None:
        if self._leases.pop(pid, None) is None:
            return
        self._ended.append(pid)
        if not self.silent_s or len(self._ended) >= ENDED_AT_ONCE:
            self._say(ENDED)

    def stand_by(self) -> None:
        """Starts the warden ahead of need: beside a job that leaves it no processor, that would
        take longer than the job's lease."""
        if self.socket is None:
            self._begin()

    def alive(self) -> None:
        """Reports that the keeper's loop turns."""
        self._say(ALIVE)

    def _say(
        self, tag: bytes, pid: int = 0, until_s: float = 0.0, uid: int = 0, group: str = ""
    ) -> None:
        if self.socket is None and not self._begin():
            return  # retried with the next message
        assert self.socket is not None
        ended, self._ended = self._ended, []
        head = HEAD.pack(tag, pid, until_s, uid, len(ended)) + b"".join(map(PID.pack, ended))
        try:
            self.socket.send(head + os.fsencode(group))
        except OSError:  # the warden is gone or stopped
            self.end()

    def _begin(self) -> bool:
        """Starts the warden, which knows all leases from its birth. Returns whether that
        succeeded."""
        if self.pid:
            return False  # the last one has not been reaped
        try:
            self.fork().setblocking(False)
        except OSError:
            return False
        self._ended = []
        return True

    def live(self, theirs: socket.socket) -> NoReturn:
        try:
            keeper = os.getppid()
            leave_keeper(self.parent, theirs.fileno(), dies_with_it=False)
            Urgency().become(urgent=True)
            self.watch(theirs, keeper).run()
        finally:
            os._exit(0)

    def watch(self, theirs: socket.socket, keeper: int) -> "Watch":
        watch = Watch(theirs, keeper, self.silent_s)
        for pid, (until_s, uid, group) in self._leases.items():
            watch.learn(pid, until_s, uid, os.fsencode(group))
        return watch


@dataclass(slots=True)
class Lease:
    """A lease, held by descriptors, which stay valid when pids and names are reused."""

    pid: int
    until_s: float
    process: int  # a pidfd, or -1
    group: int  # the cgroup's directory, or -1
    uid: int
    again_s: float = AGAIN_S  # until the next kill
    killed: dict[int, int] = field(default_factory=dict)  # by the last one, as of `lives_of`
    new_s: float | None = None  # when a kill last met anything that was not killed before

    @property
    def has_survived(self) -> bool:
        """Whether kills have long met only what was killed before. It waits in the kernel, as long
        as a user likes (a FUSE of their own), can begin nothing, and ends when it is let. Not at
        once: of processes that begin others all the time, one look may miss the new ones."""
        return self.again_s > AGAIN_S

    def close(self) -> None:
        for descriptor in (self.process, self.group):
            if descriptor >= 0:
                os.close(descriptor)

    def kill(self) -> Generator[None, None, None]:
        killed = yield from self._kill()
        now_s = clock_s()
        if self.new_s is None or not killed.items() <= self.killed.items():
            self.new_s, self.again_s = now_s, AGAIN_S
        elif now_s - self.new_s >= HANGS_S:
            self.again_s = longer_s(self.again_s)
        self.killed = killed

    def _kill(self) -> Generator[None, None, dict[int, int]]:
        if self.group < 0:
            # also what the last kill has met: others are found by it as long as it is there
            lives = yield from self._tree(self.killed)
            return (yield from kill_lives(lives, self.pid, self._tree))
        met = yield from kill_group(f"/proc/self/fd/{self.group}")
        return dict.fromkeys(met, 0)

    def _tree(self, known: Mapping[int, int]) -> Generator[None, None, dict[int, int]]:
        """Returns what `lives_of` does. A session keeps its number when its leader is gone. Once it
        is empty, too, another's may have it: with a leader that is not ours, or of another user."""
        found = yield from lives_of(self.pid, known)
        if self._is_not_reaped():
            return found
        if self.pid in found:
            return {}
        return {pid: life for pid, life in found.items() if uid_of(pid) == self.uid}

    def _is_not_reaped(self) -> bool:
        """Returns whether the pid still belongs to the process."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.process, 0)
            return True
        return False


class Watch:
    """The warden's own loop."""

    def __init__(self, sock: socket.socket, keeper: int, silent_s: float) -> None:
        self._socket, self._keeper, self._silent_s = sock, keeper, silent_s
        self._leases: dict[int, Lease] = {}
        self._heard_s = time.monotonic()
        self._silent_looks = 0
        self._survivors_at_s = 0.0  # not before this is anything killed that has survived

    def run(self) -> None:
        """Runs until the keeper and everything under a lease are gone."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while True:
            if poll.poll(self._pause_ms()) and not self._hear_all():
                break
            self._end_overdue()
            self._look_at_keeper()
            if len(self._leases) <= TOGETHER_LEASES:
                time.sleep(TOGETHER_S)
        for _ in range(SUSPECTED):  # the keeper died: kill what it ran
            side_by_side((lease.kill() for lease in self._leases.values()), LET_S)
            time.sleep(AGAIN_S)

    def _hear_all(self) -> bool:
        """Handles the messages that have come. Returns False once the keeper is gone."""
        leased: dict[int, tuple[float, int, bytes]] = {}  # and not ended since
        is_gone = False
        with contextlib.suppress(BlockingIOError):
            while data := self._socket.recv(MESSAGE_BYTES, socket.MSG_DONTWAIT):
                self._hear(data, leased)
            is_gone = True
        for pid, lease in leased.items():
            self.learn(pid, *lease)
        return not is_gone

    def _hear(self, data: bytes, leased: dict[int, tuple[float, int, bytes]]) -> None:
        """Notes leases in `leased`."""
        self._heard_s, self._silent_looks = time.monotonic(), 0
        tag, pid, until_s, uid, count = HEAD.unpack_from(data)
        group = HEAD.size + count * PID.size
        for (ended,) in PID.iter_unpack(data[HEAD.size : group]):
            leased.pop(ended, None)
            if ended in self._leases:
                self._leases.pop(ended).close()
        if tag == LEASE:
            leased[pid] = until_s, uid, data[group:]

    def learn(self, pid: int, until_s: float, uid: int, group: bytes) -> None:
        if (known := self._leases.get(pid)) is not None:
            known.until_s, known.again_s, known.new_s = until_s, AGAIN_S, None
        else:
            self._leases[pid] = Lease(pid, until_s, *_descriptors(pid, group), uid)

    def _end_overdue(self) -> None:
        """Kills what has survived last, one session a turn, and seldom: many together would take
        much of a processor, as this process runs before all others."""
        now_s = clock_s()
        due = [lease for lease in self._leases.values() if now_s >= self._kill_at_s(lease)]
        survived = [lease for lease in due if lease.has_survived]
        side_by_side((self._end(lease) for lease in due if not lease.has_survived), LET_S)
        if survived:
            now_s = clock_s()
            side_by_side([self._end(min(survived, key=lambda lease: lease.until_s))], LET_S)
            self._survivors_at_s = clock_s() + (clock_s() - now_s) / SURVIVORS_SHARE

    def _end(self, lease: Lease) -> Generator[None, None, None]:
        now_s = clock_s()
        yield from lease.kill()
        took_s = clock_s() - now_s  # during which others may get no processor
        lease.until_s = now_s + took_s + max(lease.again_s, took_s) - GRACE_S

    def _kill_at_s(self, lease: Lease) -> float:
        at_s = lease.until_s + GRACE_S
        return max(at_s, self._survivors_at_s) if lease.has_survived else at_s

    def _look_at_keeper(self) -> None:
        if not self._silent_s or time.monotonic() - self._heard_s < self._silent_s:
            return
        self._silent_looks += 1
        if self._silent_looks > SUSPECTED and os.getppid() == self._keeper:
            os.kill(self._keeper, signal.SIGKILL)

    def _pause_ms(self) -> int:
        pauses_s = [self._kill_at_s(lease) - clock_s() for lease in self._leases.values()]
        if self._silent_s:
            silent_s = self._silent_s + self._heard_s - time.monotonic()
            pauses_s.append(LOOK_S if self._silent_looks else silent_s)
        return max(0, int(min(FAR_S, *pauses_s) * 1000)) + 1 if pauses_s else -1


def _descriptors(pid: int, group: bytes) -> tuple[int, int]:
    process = directory = -1
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)
    if group:
        with contextlib.suppress(OSError):
            directory = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return process, directory

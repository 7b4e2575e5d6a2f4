"""The keeper's children that wait for an order, forked ahead of need.

The keeper waits for none of them: an unneeded spare is killed, which also works if it is stopped,
and reaped with all other children.

Most come from the nursery, a small child of the keeper (spare.c). Forking it copies a handful of
pages where forking the interpreter copies hundreds, which the following exec tears down again. Its
spares are the keeper's own children, in their cgroup from birth. Where it is not compiled, or does
not work, the keeper forks itself (child.py).

On some hosts every child dies at birth: killed by a security module, say, or in a cgroup that was
killed as a whole. Then the keeper forks ahead less and less often, until one lives. Orders do not
wait for that: each without a spare gets a fork of its own.
"""

import contextlib
import errno
import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from typing import NoReturn

from lbd.keeper.child import Helper, Parent, Spare, fork_spare, go_before_daemons, leave_keeper
from lbd.local.descriptors import receive

SPARES = 2
SPARES_AT_ONCE = 4  # from the nursery, for one question; also in spare.c
NURSERY_SPARES = 8  # these take hardly any memory
QUIET_MS = 10  # idle for this long: time to fork ahead, which keeps a core busy
SHORT_MS = 200  # after so long another fork is tried, if the last one failed
PAUSE_S, PAUSE_S_MAX = 0.1, 5.0  # after one has died unused; doubled while they go on dying
FEW_SPARES = 2  # with fewer, fork at once, while the last command is starting
NO_CGROUP, CGROUP_DIRECTORY, CGROUP_PROCS = b"n", b"d", b"p"
ANSWER = struct.Struct("=i")
ANSWER_S = 5.0  # it answers within microseconds unless it is stopped


def nursery_program() -> bytes:
    """Returns the compiled program, or b"" if the keeper must fork itself."""
    program = os.fsencode(os.path.join(os.path.dirname(__file__), "spare"))
    if not os.access(program, os.X_OK) or os.environ.get("LBD_SPARE") == "python":
        return b""
    return program


class Nursery(Helper):
    """The keeper's side of the nursery."""

    def __init__(self, parent: Parent, program: bytes) -> None:
        super().__init__(parent)
        self._program = program

    def spares(self, count: int = 1) -> list[Spare]:
        """Returns new spares: at least one, and up to `count` of SPARES_AT_ONCE. Raises OSError; if
        the nursery is of no more use, it has been ended."""
        if self.pid and self.socket is None:
            raise ConnectionError("the nursery is ending")
        if self.socket is None:
            self.fork().settimeout(ANSWER_S)
        groups: list[str] = []
        made: list[Spare] = []
        try:
            while len(groups) < count:
                groups.append(self.parent.containment.new_group())
            made = self._ask(groups)
        finally:
            for group in groups[len(made) :]:
                self.parent.containment.forget(group)
        return made

    def live(self, theirs: socket.socket) -> NoReturn:
        with contextlib.suppress(BaseException):
            leave_keeper(self.parent, theirs.fileno())
            go_before_daemons()
            theirs.set_inheritable(True)
            os.execv(self._program, [self._program, b"%d" % theirs.fileno()])
        os._exit(127)

    def _ask(self, groups: list[str]) -> list[Spare]:
        kind = self.parent.containment.kind
        if not groups[0]:
            made = self._request(NO_CGROUP, groups)
        elif kind != "cgroup2" or not self.parent.clones_into_groups:
            made = self._request(CGROUP_PROCS, groups, "/cgroup.procs", os.O_WRONLY)
        else:
            made = self._request(CGROUP_DIRECTORY, groups, "", os.O_RDONLY | os.O_DIRECTORY)
            if not isinstance(made, list):
                # Perhaps an old kernel or a seccomp filter. Any other error shows again.
                self.parent.clones_into_groups = False
                return self._ask(groups)
        if not isinstance(made, list):
            raise OSError(made, os.strerror(made))
        return made

    def _request(
        self, how: bytes, groups: list[str], file: str = "", flags: int = 0
    ) -> list[Spare] | int:
        """Returns the spares that the nursery has made, or an errno if it made none. Raises OSError
        if it is gone."""
        assert self.socket is not None
        attached: list[int] = []
        try:
            for group in groups if how != NO_CGROUP else ():
                attached.append(os.open(group + file, flags | os.O_CLOEXEC))  # noqa: PERF401
            socket.send_fds(self.socket, [how * len(groups)], attached)
            answer, ends = receive(self.socket, ANSWER.size * len(groups), len(groups))
            pids = [pid for (pid,) in ANSWER.iter_unpack(answer)]
            if not pids:
                raise ConnectionError("the nursery is gone")
        except OSError:
            self.end()
            raise
        finally:
            for descriptor in attached:
                os.close(descriptor)
        # A spare whose socket we had no descriptor left for sees that it is closed, and ends.
        made = [
            Spare(pid, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, end), group)
            for pid, end, group in zip(pids, ends, groups, strict=False)
        ]
        return made or (-pids[0] if pids[0] < 0 else errno.EMFILE)


class Spares:
    def __init__(
        self,
        parent: Parent,
        program: bytes,
        say_killed: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """`program`: the compiled spare.c; b"" without. `say_killed`: is called when `are_killed`
        changes."""
        self._parent, self._say_killed = parent, say_killed
        self._nursery = Nursery(parent, program) if program else None
        self._wanted = NURSERY_SPARES if program else SPARES
        self._waiting: list[Spare] = []
        self._is_short = False  # of processes, which any user of the host can use up
        self._last: Spare | None = None  # the last one forked ahead
        self._pause_s, self._not_before_s = 0.0, 0.0  # until the next one
        self._dying: dict[int, str] = {}  # the cgroup of each, by pid
        # cgroups of reaped spares in which another process is still dying
        self._emptying: list[str] = []

    @property
    def pids(self) -> set[int]:
        """Includes the nursery's pid."""
        nursery = {self._nursery.pid} if self._nursery is not None else set()
        return {spare.pid for spare in self._waiting} | set(self._dying) | nursery - {0}

    @property
    def are_killed(self) -> bool:
        """Whether one after the other has died unused."""
        return self._pause_s >= PAUSE_S_MAX

    def quiet_ms(self) -> int:
        """Returns how long to be idle before forking one more; -1: there are enough."""
        if len(self._waiting) >= self._wanted:
            return -1
        if self._pause_s and (left_s := self._not_before_s - time.monotonic()) > 0:
            return int(left_s * 1e3) + 1
        if self._is_short:
            return SHORT_MS
        return QUIET_MS if len(self._waiting) >= FEW_SPARES else 0

    def fork_ahead(self) -> None:
        """Forks spares in a quiet moment, so that no order waits for one."""
        now_s = time.monotonic()
        if len(self._waiting) >= self._wanted or now_s < self._not_before_s:
            return
        if self._last in self._waiting:  # it has outlived the pause
            self.lived()
        self._not_before_s = now_s + self._pause_s
        self._is_short = True
        count = min(self._wanted - len(self._waiting), 1 if self._pause_s else SPARES_AT_ONCE)
        with contextlib.suppress(OSError):
            self._waiting += self._new(count)
            self._last = self._waiting[-1]
            self._is_short = False

    def lived(self) -> None:
        """Notes that a child has lived until it was of use."""
        was_killed = self.are_killed
        self._pause_s, self._not_before_s = 0.0, 0.0
        if was_killed:
            self._say_killed(False)

    def _died_unused(self, spare: Spare) -> None:
        if self._pause_s and spare is not self._last:
            return  # several died together
        was_killed = self.are_killed
        self._pause_s = min(2 * self._pause_s or PAUSE_S, PAUSE_S_MAX)
        self._not_before_s = time.monotonic() + self._pause_s
        if self.are_killed and not was_killed:
            self._say_killed(True)

    def _new(self, count: int) -> list[Spare]:
        """Returns spares for plain orders: at least one, and up to `count`. Raises OSError."""
        if self._nursery is not None:
            with contextlib.suppress(OSError):
                return self._nursery.spares(count)
        return [fork_spare(self._parent)]

    def take(self, *, plain: bool) -> Spare:
        """Returns a spare. One that was forked ahead is used if the order is plain. Raises
        OSError."""
        if self._waiting and (plain or self._nursery is None):
            spare = self._waiting.pop()
        else:
            spare = self._new(1)[0] if plain else fork_spare(self._parent)
        spare.socket.setblocking(False)
        return spare

    def dismiss(self, pid: int, group: str) -> None:
        """Kills a child of no more use. Its cgroup stays until it has been reaped."""
        self._dying[pid] = group
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)

    def drop(self) -> None:
        """Dismisses all waiting spares."""
        for spare in self._waiting:
            spare.socket.close()
            self.dismiss(spare.pid, spare.group)
        self._waiting = []

    def reaped(self, pid: int) -> None:
        """Cleans up if the child was one of ours."""
        for spare in [one for one in self._waiting if one.pid == pid]:
            self._waiting.remove(spare)
            spare.socket.close()
            self._parent.containment.forget(spare.group)
            self._died_unused(spare)
        if pid in self._dying:
            self._emptying.append(self._dying.pop(pid))
        for group in self._emptying:
            self._parent.containment.forget(group)
        self._emptying = [group for group in self._emptying if group and os.path.exists(group)]
        if self._nursery is not None and pid == self._nursery.pid:
            self._nursery.reaped()

    def end(self) -> None:
        self.drop()
        if self._nursery is not None:
            self._nursery.end()

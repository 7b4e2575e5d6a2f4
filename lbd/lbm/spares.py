"""The keeper's children that wait for an order, forked ahead of need.

Nobody waits for one: who is not wanted any more is killed, which also reaches one that is stopped,
and reaped with all other children.
"""

import contextlib
import os
import signal

from lbd.lbm.child import Parent, Spare, fork_spare
from lbd.lbm.nursery import SPARES as NURSERY_SPARES
from lbd.lbm.nursery import Nursery

SPARES = 2
QUIET_MS = 10  # nothing to do for this long: time to fork ahead, which keeps a core busy
FEW_SPARES = 2  # with fewer it cannot wait: at once, while the last command is on its way


class Spares:
    def __init__(self, parent: Parent, program: bytes) -> None:
        """`program`: spare.c, compiled; b"" without."""
        self._parent = parent
        self._nursery = Nursery(parent, program) if program else None
        self._wanted = NURSERY_SPARES if program else SPARES
        self._waiting: list[Spare] = []
        self._dying: dict[int, str] = {}  # their cgroups
        self._emptying: list[str] = []  # cgroups of dead ones, with a child in it that still dies

    @property
    def pids(self) -> set[int]:
        """The nursery's, too."""
        nursery = {self._nursery.pid} if self._nursery is not None else set()
        return {spare.pid for spare in self._waiting} | set(self._dying) | nursery - {0}

    def quiet_ms(self) -> int:
        """After so long without anything else to do one is to be forked; -1: enough are there."""
        if len(self._waiting) >= self._wanted:
            return -1
        return QUIET_MS if len(self._waiting) >= FEW_SPARES else 0

    def fork_ahead(self) -> None:
        """In a quiet moment, so that nobody waits for it."""
        if len(self._waiting) < self._wanted:
            with contextlib.suppress(OSError):
                self._waiting.append(self._new())

    def _new(self) -> Spare:
        """For a plain order. Raises OSError."""
        if self._nursery is not None:
            with contextlib.suppress(OSError):
                return self._nursery.spare()
        return fork_spare(self._parent)

    def take(self, *, plain: bool) -> Spare:
        """One that was forked ahead serves, if the order is plain. Raises OSError."""
        if self._waiting and (plain or self._nursery is None):
            spare = self._waiting.pop()
        else:
            spare = self._new() if plain else fork_spare(self._parent)
        spare.socket.setblocking(False)
        return spare

    def dismiss(self, pid: int, group: str) -> None:
        """A child that is of no use: its cgroup is there until it has been reaped."""
        self._dying[pid] = group
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)

    def drop(self) -> None:
        """All that wait."""
        for spare in self._waiting:
            spare.socket.close()
            self.dismiss(spare.pid, spare.group)
        self._waiting = []

    def reaped(self, pid: int) -> None:
        """If it was one of ours."""
        for spare in [one for one in self._waiting if one.pid == pid]:
            self._waiting.remove(spare)
            spare.socket.close()
            self._parent.containment.forget(spare.group)
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

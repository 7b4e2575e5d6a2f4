"""What the keeper does with a job while the owner of the host is back: nothing, nicer, or a halt.

A cgroup of version 2 freezes as a whole, and the job cannot tell. Elsewhere each process is
stopped; who waits for the job's stops is not told of these.
"""

import contextlib
import os
import signal
from dataclasses import dataclass, field

from lbd.keeper.stdin_watch import members
from lbd.load import process_table

AS_EVER, NICE_LOWEST, STAND_STILL = 0, 1, 2
LOWEST = 19
ROUNDS = 3  # a process may fork while its siblings are being stopped


@dataclass(slots=True)
class Treated:
    """How a job is treated now."""

    kind: int = AS_EVER
    # As they were: by process, when that began, and its nice value.
    nices: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_still(self) -> bool:
        return self.kind == STAND_STILL

    def become(self, kind: int, leader: int, group: str) -> None:
        before, self.kind = self.kind, kind
        if STAND_STILL in (before, kind) and before != kind:
            halt(leader, group, still=kind == STAND_STILL)
        if kind == NICE_LOWEST:
            self._lower(members(leader, group))
        else:
            self._restore(leader, group)

    def _lower(self, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(OSError):
                if (task := process_table.task_of(pid)) is not None:
                    before = task.started_ticks, os.getpriority(os.PRIO_PROCESS, pid)
                    self.nices.setdefault(pid, before)
                    os.setpriority(os.PRIO_PROCESS, pid, LOWEST)

    def _restore(self, leader: int, group: str) -> None:
        """Of what is still of the job: a number may be another process's by now."""
        before, self.nices = self.nices, {}
        for pid in members(leader, group) if before else ():
            began, nice = before.get(pid, (-1, LOWEST))
            with contextlib.suppress(OSError):
                task = process_table.task_of(pid)
                if task is not None and task.started_ticks == began:
                    os.setpriority(os.PRIO_PROCESS, pid, nice)


def halt(leader: int, group: str, *, still: bool) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(f"{group}/cgroup.freeze", os.O_WRONLY)
        try:
            os.write(descriptor, b"1" if still else b"0")
        finally:
            os.close(descriptor)
        return
    seen: set[int] = set()
    for _ in range(ROUNDS):
        for pid in set(members(leader, group)) - seen:
            seen.add(pid)
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGSTOP if still else signal.SIGCONT)

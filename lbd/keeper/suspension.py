"""What the keeper does to a job while the host's owner is back: nothing, lowest priority, or a
halt.

A cgroup of version 2 freezes as a whole, and the job cannot tell. Elsewhere each process is
stopped; these stops are not reported to the LBM. A job of thousands of processes is treated in
portions, as when it is ended (portions.py).
"""

import contextlib
import os
import signal
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lbd.keeper.limits.portions import by_portions, entries_of, lives_in
from lbd.load import cgroup, process_table

AS_EVER, NICE_LOWEST, STAND_STILL = 0, 1, 2
LOWEST = 19
ROUNDS = 3  # a process may fork while its siblings are being stopped


@dataclass(slots=True)
class Treated:
    """How a job is treated now."""

    kind: int = AS_EVER
    # Values to restore: by process, its life and nice value.
    nices: dict[int, tuple[int, int]] = field(default_factory=dict)

    steps: Generator[None, None, None] | None = None  # the remaining work

    @property
    def is_still(self) -> bool:
        return self.kind == STAND_STILL

    @property
    def is_changing(self) -> bool:
        """Returns whether work remains: call `go_on` shortly."""
        return self.steps is not None

    def become(self, kind: int, leader: int, group: str) -> None:
        self.steps = self._change(self.steps, self.kind, kind, leader, group)
        self.kind = kind
        self.go_on()

    def go_on(self) -> None:
        if self.steps is not None and next(self.steps, True):
            self.steps = None

    def _change(
        self, earlier: Generator[None, None, None] | None, before: int, kind: int,
        leader: int, group: str,
    ) -> Generator[None, None, None]:  # fmt: skip
        if earlier is not None:
            yield from earlier
        if STAND_STILL in (before, kind) and before != kind:
            yield from halt(leader, group, still=kind == STAND_STILL)
        if kind == NICE_LOWEST:
            yield from self._lower(leader, group)
        elif self.nices:
            yield from self._restore(leader, group)

    def _lower(self, leader: int, group: str) -> Generator[None, None, None]:
        def lower(pid: int, life: int) -> None:
            before = life, os.getpriority(os.PRIO_PROCESS, pid)
            self.nices.setdefault(pid, before)
            os.setpriority(os.PRIO_PROCESS, pid, LOWEST)

        yield from for_each_of((yield from lives_of_job(leader, group)), lower)

    def _restore(self, leader: int, group: str) -> Generator[None, None, None]:
        """Restores the nice values of processes still in the job."""
        before, self.nices = self.nices, {}

        def restore(pid: int, life: int) -> None:
            lowered, nice = before.get(pid, (-1, LOWEST))
            if lowered == life:
                os.setpriority(os.PRIO_PROCESS, pid, nice)

        yield from for_each_of((yield from lives_of_job(leader, group)), restore)


def halt(leader: int, group: str, *, still: bool) -> Generator[None, None, None]:
    with contextlib.suppress(OSError):
        descriptor = os.open(f"{group}/cgroup.freeze", os.O_WRONLY)
        try:
            os.write(descriptor, b"1" if still else b"0")
        finally:
            os.close(descriptor)
        return
    number = signal.SIGSTOP if still else signal.SIGCONT
    seen: set[int] = set()
    for _ in range(ROUNDS):
        lives = yield from lives_of_job(leader, group)
        unseen = {pid: life for pid, life in lives.items() if pid not in seen}
        yield from for_each_of(unseen, lambda pid, _: os.kill(pid, number))
        seen |= lives.keys()


def lives_of_job(leader: int, group: str) -> Generator[None, None, dict[int, int]]:
    """Returns the life of each process of a job: of its cgroup, else of its session."""
    if group:
        return (yield from lives_in(partial(cgroup.members, Path(group))))
    everybody = yield from entries_of(process_table.pids())
    return {pid: entry.life for pid, entry in everybody.items() if entry.session == leader}


def for_each_of(
    lives: Mapping[int, int], do: Callable[[int, int], None]
) -> Generator[None, None, None]:
    """Calls `do` for each process that still exists; skips a pid that was reused."""
    for number, portion in enumerate(by_portions(list(lives.items()))):
        if number:
            yield
        for pid, life in portion:
            entry = process_table.entry_of(pid)
            if entry is not None and entry.life == life:
                with contextlib.suppress(OSError):
                    do(pid, life)

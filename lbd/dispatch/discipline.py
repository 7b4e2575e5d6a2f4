"""What a queueing discipline is: the words that it, its `Queues`, a daemon and a simulator share.

Jobs wait in lines, first come, first served within each. A discipline says which line a job joins
on its arrival, which lines a host serves, and after how many CPU seconds a job of a line is killed:

- fcfs has one line that every host serves;
- random, round-robin, shortest-queue and least-work have a line for each host;
- tags and sita-e have a line for each tier, served by that tier's hosts.

`Queues` (beside this file) does the bookkeeping that is the same for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Protocol

from lbd.model import HostId, JobId

Line = int | str  # a tier's number, counted from 1, or a host's name
ONLY_LINE = 1


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """What a discipline may know of a job."""

    id: JobId
    slots: int = 1  # it needs, all on one host
    may_restart: bool = True  # killed at a cutoff and started again from scratch
    tier: int = 1  # it has reached
    estimate_s: float | None = None  # by its like before; only least-work and sita-e look at it
    only: HostId | None = None  # its user named this host
    barred: frozenset[HostId] = frozenset()  # excluded by its user, or it cannot begin there
    slots_most: int = 0  # it can use; 0: no more than it needs
    user: str = ""
    name: str = ""  # its user's label
    priority: int = 0  # higher goes first, if priorities count
    array: int = 0  # the submission, if that is an array
    submission: int = 0  # with which it came; no discipline looks at that
    array_index: int | None = None

    def may_go_to(self, host: HostId) -> bool:
        return host not in self.barred and self.only in (None, host)


@dataclass(frozen=True, slots=True)
class HostSlots:
    """A host that takes queued jobs."""

    name: HostId
    slots: int = 1  # it has; jobs that need more never go there
    open_slots: int | None = None  # queued jobs may hold so many just now; None: all
    load: float = 0.0  # index; the lowest takes the job, where there is a choice
    tiers: tuple[int, ...] = (1,)  # of tags and sita-e
    ahead: int = 0  # jobs it may be given beyond those slots, as they will be free at once
    closed: str = ""  # why none is open, if that is not that all are taken

    @property
    def usable(self) -> int:
        return self.slots if self.open_slots is None else min(self.slots, self.open_slots)


class Start(NamedTuple):
    """The one decision: begin an attempt of this job there, now."""

    job: QueuedJob
    host: HostId
    tier: int
    cutoff_s: float | None  # CPU seconds of its whole process tree; then kill it and say `cut_off`
    slots: int = 1


class Occupancy(Protocol):
    """What a discipline may ask of a host."""

    @property
    def slots(self) -> int: ...

    @property
    def lines(self) -> tuple[Line, ...]:
        """That it serves."""
        ...

    @property
    def jobs(self) -> int:
        """Waiting for it alone, and running on it."""
        ...

    def work_left_s(self, now_s: float) -> float:
        """The estimated seconds of both, spread over its slots."""
        ...


Hosts = Mapping[HostId, Occupancy]


class Discipline(Protocol):
    def join(self, job: QueuedJob, hosts: Hosts, now_s: float, dice: Random) -> Line | None:
        """The line for a job that arrives or moves on; None while no host can take it."""
        ...

    def serves(self, host: HostSlots, hosts: Sequence[HostSlots]) -> tuple[Line, ...]:
        """The lines that this one of `hosts` takes jobs from, the first first."""
        ...

    def cutoff_s(self, line: Line) -> float | None: ...


def able(job: QueuedJob, hosts: Hosts) -> list[HostId]:
    """The hosts that it may go to, large enough for it, in the order in which they joined."""
    return [name for name, host in hosts.items() if host.slots >= job.slots and job.may_go_to(name)]

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

from lbd.model import NO_FACTS, NO_NEEDS, Facts, HostId, JobId, Needs

HostConnection = int | str  # a tier's number, counted from 1, or a host's name
ONLY_LINE = 1


class Target(NamedTuple):
    """When an array is to end: on average at that time, or most likely by then."""

    unix_s: float
    is_deadline: bool = False


class Foretold(NamedTuple):
    """A wait as it is predicted when a job comes."""

    raw_s: float | None  # as the line is played, from which corrections are learnt
    wait_s: float | None = None  # as it is shown,
    low_s: float | None = None  # with the interval within which nine in ten begin
    high_s: float | None = None


NOT_FORETOLD = Foretold(None)


class QueuedJob(NamedTuple):
    """What a discipline may know of a job. A tuple, as one is made of every job that comes or is
    found in the ledger: a frozen dataclass of so many fields takes four times as long to make."""

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
    array: int = 0  # id of the array that it is a task of
    target: Target | None = None  # of its array
    gang: int = 0  # of its array, which begin together or not at all; 0: it begins alone
    limit_s: float = 0.0  # it is ended after so long; 0: no limit
    speedup: tuple[float, float] | None = None  # A and σ of a malleable one, if its user gave them
    work_s: float | None = None  # on one slot, likewise
    command: str = ""  # the name under which its runs are learnt from
    needs: Needs = NO_NEEDS  # of its host besides slots
    submission: int = 0  # with which it came; no discipline looks at that
    array_index: int | None = None
    origin: str = ""  # the host where it was submitted; no discipline looks at that
    at_once: int = 0  # tasks of its array that may run; 0: no limit
    command_line: int = 0  # a number that stands for all words of its command; 0: not known

    @property
    def shown(self) -> str:
        """Its id as people know it."""
        return f"{self.array}_{self.array_index}" if self.array else self.id

    @property
    def is_wide(self) -> bool:
        """Might it have to wait although there is a free slot?"""
        return self.slots > 1 or bool(self.needs)

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
    holds_gangs: bool = True  # it can hold an attempt until its whole gang is ready
    facts: Facts = NO_FACTS  # what jobs may need; used is what others than the queue have of it

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
    def lines(self) -> tuple[HostConnection, ...]:
        """The keys of the queues that the host serves."""
        ...

    @property
    def jobs(self) -> int:
        """The number of jobs that wait for this host alone or run on it."""
        ...

    def could_have(self, job: QueuedJob) -> bool:
        """Does the host have what the job needs, whoever has it now?"""
        ...

    def work_left_s(self, now_s: float) -> float:
        """The estimated seconds of those jobs, spread over the host's slots."""
        ...


Hosts = Mapping[HostId, Occupancy]


class Discipline(Protocol):
    def join(
        self, job: QueuedJob, hosts: Hosts, now_s: float, rng: Random
    ) -> HostConnection | None:
        """The line for a job that arrives or moves on; None while no host can take it."""
        ...

    def serves(self, host: HostSlots, hosts: Sequence[HostSlots]) -> tuple[HostConnection, ...]:
        """The lines that this one of `hosts` takes jobs from, the first first."""
        ...

    def cutoff_s(self, line: HostConnection) -> float | None: ...


def able(job: QueuedJob, hosts: Hosts) -> list[HostId]:
    """The hosts that it may go to, large enough for it, in the order in which they joined."""
    need = job.slots
    if job.only is None and not job.barred:  # as a rule; there may be a thousand hosts
        names = [name for name, host in hosts.items() if host.slots >= need]
    else:
        names = [name for name, host in hosts.items() if host.slots >= need and job.may_go_to(name)]
    return [name for name in names if hosts[name].could_have(job)] if job.needs else names

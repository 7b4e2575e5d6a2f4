"""What a queueing discipline is: the types that it, its `Queues`, a daemon and a simulator share.

Jobs wait in lines, first come, first served within each. A discipline decides which line a job
joins on arrival, which lines a host serves, and after how many CPU seconds a job of a line is
killed:

- fcfs has one line that every host serves;
- random, round-robin, shortest-queue and least-work have a line for each host;
- tags and sita-e have a line for each tier, served by that tier's hosts.

`Queues` (beside this file) does the bookkeeping that is common to all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Protocol

from lbd.model import NO_FACTS, NO_NEEDS, Facts, HostId, JobId, Needs

HostConnection = int | str  # a tier's number, from 1, or a host's name
ONLY_LINE = 1
OWN = ""  # in place of a user: the host that is judged


class Target(NamedTuple):
    """When an array should end: on average at that time, or most likely by then."""

    unix_s: float
    is_deadline: bool = False


class Foretold(NamedTuple):
    """A job's wait as predicted on its arrival."""

    raw_s: float | None  # the model's own, for corrections: not learnt from a rough guess
    wait_s: float | None = None  # as shown
    low_s: float | None = None  # and the interval within which nine in ten jobs start
    high_s: float | None = None

    @property
    def is_rough(self) -> bool:
        return self.raw_s is None and self.wait_s is not None


NOT_FORETOLD = Foretold(None)


class QueuedJob(NamedTuple):
    """What a discipline may know of a job. It is a tuple, since one is created for every job that
    arrives or is read from the ledger: a frozen dataclass of so many fields takes four times as
    long."""

    id: JobId
    slots: int = 1  # slots needed, all on one host
    may_restart: bool = True  # may be killed at a cutoff and started again from scratch
    tier: int = 1  # the tier it has reached
    estimate_s: float | None = None  # from similar earlier jobs; used only by least-work and sita-e
    only: HostId | None = None  # the host its user named
    barred: frozenset[HostId] = frozenset()  # hosts excluded by its user, or unable to start it
    slots_most: int = 0  # the most slots it can use; 0: no more than `slots`
    user: str = ""
    name: str = ""  # the user's label
    priority: int = 0  # higher goes first, where priorities count
    array: int = 0  # id of its array
    target: Target | None = None  # of its array
    gang: int = 0  # size of its array if all tasks start together; 0: it starts alone
    limit_s: float = 0.0  # it is ended after this time; 0: no limit
    speedup: tuple[float, float] | None = None  # A and σ of a malleable job, if its user gave them
    work_s: float | None = None  # on one slot, likewise
    needs: Needs = NO_NEEDS  # of its host, besides slots
    spooled: bool = True  # it prints to its host's disk of outputs
    takes_checkpoints: bool = True  # it may stop at one, to be continued; not used by disciplines
    submission: int = 0  # it came with; not used by disciplines
    array_index: int | None = None
    origin: str = ""  # the host where it was submitted; not used by disciplines
    at_once: int = 0  # tasks of its array that may run at once; 0: no limit
    command: int = 0  # a hash of the name its runs are learnt under; 0: unknown
    command_line: int = 0  # a hash of all words of its command; 0: unknown

    @property
    def shown(self) -> str:
        """Its id as people know it."""
        return f"{self.array}_{self.array_index}" if self.array else self.id

    @property
    def is_wide(self) -> bool:
        """Whether it may have to wait although a slot is free."""
        return self.slots > 1 or bool(self.needs)

    def user_at(self, host: HostId) -> str:
        """Returns whose job it is where what that host does to it is to be judged. A host submits
        in any user's name, so its own jobs are nobody's there."""
        return OWN if self.origin == host else self.user

    def may_go_to(self, host: HostId) -> bool:
        return host not in self.barred and self.only in (None, host)


@dataclass(frozen=True, slots=True)
class HostSlots:
    """A host that takes queued jobs."""

    name: HostId
    slots: int = 1  # total; jobs that need more never go there
    open_slots: int | None = None  # slots that queued jobs may hold now; None: all
    load: float = 0.0  # index; where there is a choice, the lowest takes the job
    tiers: tuple[int, ...] = (1,)  # for tags and sita-e
    ahead: int = 0  # jobs it may be given beyond those slots, as slots will be free soon
    closed: str = ""  # why no slot is open, unless all are simply taken
    facts: Facts = NO_FACTS  # for jobs' needs; used amounts exclude the queue's own
    hog: str = ""  # a user whose commands from elsewhere hold all slots
    beside_hog: int = 0  # slots that jobs of other users may hold nevertheless
    no_room: str = ""  # why no job begins that would print to its disk of outputs

    @property
    def usable(self) -> int:
        return self.slots if self.open_slots is None else min(self.slots, self.open_slots)


class Start(NamedTuple):
    """The one decision: start an attempt of this job on that host now."""

    job: QueuedJob
    host: HostId
    tier: int
    # CPU seconds of its whole process tree; then kill it and report `cut_off`
    cutoff_s: float | None
    slots: int = 1


class Occupancy(Protocol):
    """What a discipline may ask about a host."""

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
        """Whether the host has what the job needs, even if others hold it now."""
        ...

    def work_left_s(self, now_s: float) -> float:
        """The estimated seconds of those jobs, spread over the host's slots."""
        ...


Hosts = Mapping[HostId, Occupancy]


class Discipline(Protocol):
    def join(
        self, job: QueuedJob, hosts: Hosts, now_s: float, rng: Random
    ) -> HostConnection | None:
        """Returns the line for a job that arrives or moves on; None while no host can take it."""
        ...

    def serves(self, host: HostSlots, hosts: Sequence[HostSlots]) -> tuple[HostConnection, ...]:
        """Returns the lines that this one of `hosts` takes jobs from, in order."""
        ...

    def cutoff_s(self, line: HostConnection) -> float | None: ...


def able(job: QueuedJob, hosts: Hosts) -> list[HostId]:
    """Returns the hosts the job may go to that are large enough, in the order in which they
    joined."""
    need = job.slots
    if job.only is None and not job.barred:  # the usual case; there may be a thousand hosts
        names = [name for name, host in hosts.items() if host.slots >= need]
    else:
        names = [name for name, host in hosts.items() if host.slots >= need and job.may_go_to(name)]
    return [name for name in names if hosts[name].could_have(job)] if job.needs else names

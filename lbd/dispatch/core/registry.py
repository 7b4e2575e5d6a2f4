"""Every job that waits or runs, each in the least room that it needs. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lbd.dispatch.core.backlog import Backlog, Row
from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.model import HostId, JobId


class Placed:
    """An element of a heap, after its position."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        """Of two in one place either may be first: an array keeps the place of a job of its own
        that has stepped aside, and gives it to the next."""
        return False


@dataclass(slots=True, eq=False)
class Entry(Placed):
    """A job in the registry. It waits in `line`, or runs on `host`, or has stepped aside
    (neither)."""

    job: QueuedJob
    number: int  # its place: smaller is earlier
    work_s: float  # by its estimate, on all its slots together
    tier: int  # in which it runs, or ran last
    line: HostConnection | None = None
    host: HostId | None = None
    slots: int = 0  # it holds there
    started_s: float = 0.0  # later by all the time that it was suspended
    suspended_s: float | None = None  # since then it is
    begun: bool = False  # before: its place is its own, not its array's

    def ran_s(self, now_s: float) -> float:
        """How long it has run, without what it was suspended."""
        return (now_s if self.suspended_s is None else self.suspended_s) - self.started_s

    def goes_on(self, now_s: float) -> float:
        """It is suspended no longer; returns for how long it was."""
        for_s = max(0.0, now_s - self.suspended_s) if self.suspended_s is not None else 0.0
        self.suspended_s, self.started_s = None, self.started_s + for_s
        return for_s

    @property
    def id(self) -> JobId:
        return self.job.id

    @property
    def kind(self) -> QueuedJob:
        """Its job, but who asks for the kind does not look at what is the job's own."""
        return self.job


Registered = Entry | Row


class Registry(Mapping[JobId, Registered]):
    """As long as a job does nothing but wait it is a row of the backlog, then an entry."""

    def __init__(self) -> None:
        self.entries: dict[JobId, Entry] = {}
        self.backlog = Backlog()

    def __getitem__(self, job: JobId) -> Registered:
        """A row is good until another job leaves the backlog."""
        found = self.find(job)
        if found is None:
            raise KeyError(job)
        return found

    def find(self, job: JobId) -> Registered | None:
        return self.entries.get(job) or self.backlog.get(job)

    def __len__(self) -> int:
        return len(self.entries) + len(self.backlog)

    def __iter__(self) -> Iterator[JobId]:
        yield from self.backlog
        yield from self.entries

    def add(self, job: QueuedJob, number: int, work_s: float) -> Entry:
        entry = self.entries[job.id] = Entry(job, number, work_s, job.tier)
        return entry

    def entry(self, registered: Registered) -> Entry:
        """Returns the entry of a job that does more than wait."""
        if isinstance(registered, Entry):
            return registered
        entry = self.add(registered.job, registered.number, registered.work_s)
        entry.line = registered.line
        self.backlog.remove(registered)
        return entry

    def remove(self, registered: Registered) -> None:
        if isinstance(registered, Entry):
            del self.entries[registered.id]
        else:
            self.backlog.remove(registered)

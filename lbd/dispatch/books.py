"""Every job that waits or runs, each in the least room that it needs. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lbd.dispatch.backlog import Backlog, Row
from lbd.dispatch.discipline import Line, QueuedJob
from lbd.model import HostId, JobId


class Placed:
    """What stands in a heap, behind its place."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        """Of two in one place either may be first: an array keeps the place of a job of its own
        that has stepped aside, and gives it to the next."""
        return False


@dataclass(slots=True, eq=False)
class Entry(Placed):
    """A job on the books. It waits in `line`, or runs on `host`, or has stepped aside (neither)."""

    job: QueuedJob
    number: int  # its place: smaller is earlier
    work_s: float  # by its estimate, on all its slots together
    tier: int  # in which it runs, or ran last
    line: Line | None = None
    host: HostId | None = None
    slots: int = 0  # it holds there
    started_s: float = 0.0
    begun: bool = False  # before: its place is its own, not its array's

    @property
    def id(self) -> JobId:
        return self.job.id

    @property
    def kind(self) -> QueuedJob:
        """Its job, but who asks for the kind does not look at what is the job's own."""
        return self.job


Booked = Entry | Row


class Books(Mapping[JobId, Booked]):
    """As long as a job does nothing but wait it is a row of the backlog, then an entry."""

    def __init__(self) -> None:
        self.entries: dict[JobId, Entry] = {}
        self.backlog = Backlog()

    def __getitem__(self, job: JobId) -> Booked:
        """A row is good until another job leaves the backlog."""
        found = self.find(job)
        if found is None:
            raise KeyError(job)
        return found

    def find(self, job: JobId) -> Booked | None:
        return self.entries.get(job) or self.backlog.get(job)

    def __len__(self) -> int:
        return len(self.entries) + len(self.backlog)

    def __iter__(self) -> Iterator[JobId]:
        yield from self.backlog
        yield from self.entries

    def add(self, job: QueuedJob, number: int, work_s: float) -> Entry:
        entry = self.entries[job.id] = Entry(job, number, work_s, job.tier)
        return entry

    def entry(self, booked: Booked) -> Entry:
        """Of a job that is to do more than wait."""
        if isinstance(booked, Entry):
            return booked
        entry = self.add(booked.job, booked.number, booked.work_s)
        entry.line = booked.line
        self.backlog.remove(booked)
        return entry

    def remove(self, booked: Booked) -> None:
        if isinstance(booked, Entry):
            del self.entries[booked.id]
        else:
            self.backlog.remove(booked)

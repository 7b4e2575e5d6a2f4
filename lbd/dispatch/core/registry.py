"""Every waiting or running job, each in the least memory possible. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lbd.dispatch.core.backlog import Backlog, Row
from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.model import HostId, JobId


class Placed:
    """An element of a heap, after its position."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        """Either of two in one place may come first: an array keeps the place of one of its jobs
        that has stepped aside, and gives it to the next."""
        return False


@dataclass(slots=True, eq=False)
class Entry(Placed):
    """A job in the registry. It waits in `line`, runs on `host`, or has stepped aside (neither)."""

    job: QueuedJob
    number: int  # its place: smaller is earlier
    work_s: float  # estimated, over all its slots
    tier: int  # in which it runs, or last ran
    line: HostConnection | None = None
    host: HostId | None = None
    slots: int = 0  # held there
    started_s: float = 0.0  # moved later by all the time it was suspended
    suspended_s: float | None = None  # suspended since then
    begun: bool = False  # it has begun before: its place is its own, not its array's

    def ran_s(self, now_s: float) -> float:
        """Returns how long it has run, without suspended time."""
        return (now_s if self.suspended_s is None else self.suspended_s) - self.started_s

    def goes_on(self, now_s: float) -> float:
        """Ends a suspension; returns how long it lasted."""
        for_s = max(0.0, now_s - self.suspended_s) if self.suspended_s is not None else 0.0
        self.suspended_s, self.started_s = None, self.started_s + for_s
        return for_s

    @property
    def id(self) -> JobId:
        return self.job.id

    @property
    def kind(self) -> QueuedJob:
        """Its job; users of the kind ignore the job's own fields."""
        return self.job


Registered = Entry | Row


class Registry(Mapping[JobId, Registered]):
    """A job that has only waited is a row of the backlog, any other an entry."""

    def __init__(self) -> None:
        self.entries: dict[JobId, Entry] = {}
        self.backlog = Backlog()

    def __getitem__(self, job: JobId) -> Registered:
        """A row is valid until another job leaves the backlog."""
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
        """Returns the job's entry; moves it out of the backlog if needed."""
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

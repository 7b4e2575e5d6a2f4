"""Every waiting or running job, each in the least memory possible. Pure."""

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from lbd.dispatch.core.backlog import LEFT_MIN, Backlog, Row, shape_of
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


@dataclass(slots=True, eq=False)
class Alike:
    """The jobs of one line, or of none, that could go to the same hosts."""

    kind: QueuedJob  # of one of them
    host: HostId | None = None  # in a line: one that suits them
    count: int = 0
    # Those and some that have left.
    rows: "array[int]" = field(default_factory=lambda: array("q"))
    entries: list[Entry] = field(default_factory=list)

    @property
    def listed(self) -> int:
        return len(self.rows) + len(self.entries)

    def add(self, registered: Registered) -> None:
        if isinstance(registered, Entry):
            self.entries.append(registered)
        else:
            self.rows.append(registered.job_number)


class Shapes:
    """The jobs that wait in one line, or in none, by what they ask of a host: as hosts change, each
    shape is looked at once, however many jobs wait, and the jobs only of those that move."""

    def __init__(self, backlog: Backlog, is_here: Callable[[Registered], bool]) -> None:
        self._backlog = backlog
        self._is_here = is_here
        self._alike: dict[tuple[object, ...], Alike] = {}
        self._last: Alike | None = None  # all tasks of an array are of one kind
        self._last_kind: QueuedJob | None = None

    def __iter__(self) -> Iterator[Alike]:
        return iter(self._alike.values())

    def _of(self, kind: QueuedJob) -> Alike | None:
        if kind is not self._last_kind:
            if (found := self._alike.get(shape_of(kind))) is None:
                return None
            self._last, self._last_kind = found, kind
        return self._last

    def host_for(self, kind: QueuedJob) -> HostId | None:
        """Returns a host that suited such jobs; if there are none, those that were looked up
        last."""
        found = self._of(kind) or self._last
        return found.host if found is not None else None

    def add(self, registered: Registered, host: HostId | None = None) -> None:
        kind = registered.kind
        if (alike := self._of(kind)) is None:
            alike = self._last = self._alike[shape_of(kind)] = Alike(kind)
            self._last_kind = kind
        if host is not None:
            alike.host = host
        alike.count += 1
        alike.add(registered)
        self._sweep_at_times(alike)

    def left(self, kind: QueuedJob) -> None:
        alike = self._of(kind)
        assert alike is not None
        alike.count -= 1
        if not alike.count:
            del self._alike[shape_of(kind)]
            self._last_kind = None  # `_last` still tells a host
        else:
            self._sweep_at_times(alike)

    def _sweep_at_times(self, alike: Alike) -> None:
        if alike.listed > 2 * alike.count + LEFT_MIN:
            for one in self.take(alike, alike.listed):
                alike.add(one)

    def take(self, alike: Alike, most: int) -> list[Registered]:
        """Returns the jobs among the first that are listed, and lists these no more. One that has
        come to ask for something else is listed there, too."""
        numbers, entries = alike.rows[:most], alike.entries[:most]
        del alike.rows[:most], alike.entries[:most]
        found: list[Registered | None] = [*map(self._backlog.find, dict.fromkeys(numbers))]
        found += dict.fromkeys(entries)
        here = (one for one in found if one is not None and self._is_here(one))
        kind, shape = alike.kind, shape_of(alike.kind)
        return [one for one in here if one.kind is kind or shape_of(one.kind) == shape]

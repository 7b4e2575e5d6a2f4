"""Jobs that are not in the queue yet: they wait for other jobs to end, or for a time. Pure.

- A job names only jobs that existed before it, so no two wait for each other.
- What a job waits for is watched from the moment it is parked. Only the ledger knows how many had
  ended before: it is asked (`uncounted`) once all earlier ends are on disk, and `counted` takes its
  answer. Jobs that end meanwhile are noted, and the open ones are known here.
- A condition that can no longer be met ends the job, and so on with the jobs that wait for that.
- A job's conditions apply until it first joins the queue; that is recorded.
- A job is checked when its first unmet condition has news, or when any can no longer be met. So an
  ended job costs a short step for each job that waits for it, whatever else that job waits for. The
  number of conditions per user and per host is limited.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from lbd.dispatch.core.dependencies.conditions import Condition, How, waited_for, why_never
from lbd.dispatch.core.discipline import QueuedJob
from lbd.model import JobId

Span = tuple[int, int]  # job numbers, both ends included
BITS = {How.OK: 1, How.FAILED: 2, How.ANY: 4}
HOST_USERS = 2  # the users of one host may have as many conditions as this many users
STALE_MIN = 1000  # stale start times that are always tolerated


@dataclass(slots=True)
class Waits:
    """What one job waits for."""

    conditions: tuple[Condition, ...] = ()
    begin: float = 0.0  # earliest start: UNIX seconds
    at: int = 0  # index of the first unmet condition
    is_doubtful: bool = False  # a condition before that may no longer be met
    denied: "Span | None" = None  # the jobs of a condition that can no longer be met
    whose: tuple[str, str] = "", ""  # user, origin


@dataclass(slots=True)
class Watched:
    """Jobs that others wait for."""

    open: int | None = None  # number that have not ended; None: not counted yet
    bad: bool = False  # one did not end successfully
    on_record: bool = True  # how they all ended is known
    dependents: dict[JobId, int] = field(default_factory=dict)  # how: bits of BITS

    def meets(self, condition: Condition) -> bool | None:
        """Whether the condition is met; None if undecided."""
        is_ok = condition.how is How.OK
        if is_ok and (self.bad or not self.on_record):
            return False
        if self.open is None or self.open:
            return None
        return is_ok or condition.how is How.ANY or self.bad

    def denies(self, hows: int) -> bool:
        """Whether a condition of one of these kinds can no longer be met."""
        if hows & BITS[How.OK] and (self.bad or not self.on_record):
            return True
        return bool(hows & BITS[How.FAILED]) and self.open == 0 and not self.bad


@dataclass(slots=True)
class Looks:
    """The checks of due jobs."""

    are_under_way: bool = False
    moment_s: float = 0.0  # when jobs ended last
    count: int = 0  # since then

    def left(self, now_s: float, most: int) -> int:
        """Returns how many of `most` at one moment are left."""
        if self.moment_s != now_s:
            self.moment_s, self.count = now_s, 0
        return most - self.count


class Due:
    """The jobs to check, each once. Users are served in turn: one may have hundreds of thousands
    whose time has come."""

    def __init__(self) -> None:
        self._of_user: OrderedDict[str, OrderedDict[JobId, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._of_user)

    def __iter__(self) -> Iterator[JobId]:
        return (job for jobs in self._of_user.values() for job in jobs)

    def add(self, job: JobId, user: str) -> None:
        self._of_user.setdefault(user, OrderedDict())[job] = None

    def take(self) -> JobId:
        user, jobs = self._of_user.popitem(last=False)
        job, _ = jobs.popitem(last=False)
        if jobs:
            self._of_user[user] = jobs
        return job


class Dependents:
    """Feed it ended jobs and the time; `due` are the jobs to check."""

    def __init__(self) -> None:
        self.waits: dict[JobId, Waits] = {}
        self.due = Due()
        self.unix_s = 0.0  # the offset from our own clock to UNIX seconds
        self.looks = Looks()
        self._watched: dict[Span, Watched] = {}
        self._unasked: dict[Span, None] = {}  # of these, those to ask the ledger about
        # its answer is pending; outdated if the span must be asked about again
        self._asked: set[Span] = set()
        self._arrays: dict[int, Span] = {}  # by their ids
        self._begins: list[tuple[float, JobId]] = []
        self._of_user: Counter[str] = Counter()  # of conditions
        self._of_origin: Counter[str] = Counter()

    def why_not(self, user: str, origin: str, more: int, most: int) -> str:
        """Returns why jobs with `more` further conditions are not accepted; "" if they are."""
        for name, count, limit in (
            (user, self._of_user[user], most),
            (origin, self._of_origin[origin], HOST_USERS * most),
        ):
            if more and count + more > limit:
                return (
                    f"--after: jobs of {name} in the queue wait for {count} others (one that many"
                    f" wait for counts for each), and the limit is {limit}: let one job wait for "
                    "many, and the others for that job"
                )
        return ""

    def park(self, job: JobId, waits: Waits, user: str = "", origin: str = "") -> None:
        self.waits[job], waits.whose = waits, (user, origin)
        self._of_user[user] += len(waits.conditions)
        self._of_origin[origin] += len(waits.conditions)
        for one in waits.conditions:
            span = one.first, one.last
            if span not in self._watched:
                self._watched[span] = Watched()
                self._unasked[span] = None
                if one.last > one.first:
                    self._arrays[one.first] = span
            watched, bit = self._watched[span], BITS[one.how]
            watched.dependents[job] = watched.dependents.get(job, 0) | bit
            if watched.denies(bit):
                waits.denied = span
        if waits.begin:
            self._add_begin(job, waits.begin)
        self._is_due(job)

    def _is_due(self, job: JobId) -> None:
        self.due.add(job, self.waits[job].whose[0])

    def _add_begin(self, job: JobId, begin: float) -> None:
        if len(self._begins) > 2 * len(self.waits) + STALE_MIN:
            self._begins = [(one.begin, name) for name, one in self.waits.items() if one.begin]
            heapify(self._begins)
        heappush(self._begins, (begin, job))

    def drop(self, job: JobId) -> None:
        """The job no longer waits, for whatever reason."""
        if (waits := self.waits.pop(job, None)) is None:
            return
        for counts, whose in zip((self._of_user, self._of_origin), waits.whose, strict=True):
            counts[whose] -= len(waits.conditions)
            if not counts[whose]:
                del counts[whose]
        for one in waits.conditions:
            span = one.first, one.last
            if (watched := self._watched.get(span)) is None:
                continue
            watched.dependents.pop(job, None)
            if not watched.dependents:
                del self._watched[span]
                self._unasked.pop(span, None)
                if self._arrays.get(one.first) == span:
                    del self._arrays[one.first]

    def begins_at(self, job: JobId, begin: float) -> None:
        """Changes the start time of a waiting job."""
        self.waits[job].begin = begin
        self._add_begin(job, begin)
        self._is_due(job)

    # What happens

    def ended(self, job: QueuedJob, *, well: bool) -> None:
        for span, watched in self._of(job):
            news = not well and not watched.bad
            watched.bad = watched.bad or not well
            if watched.open:
                watched.open -= 1
            if news or watched.open == 0:
                self._news_of(span, watched)

    def came_again(self, job: QueuedJob) -> None:
        """A job that had ended starts again."""
        for span, watched in self._of(job):
            self._unasked[span] = None
            if watched.open is None and not watched.bad:
                continue  # none of its dependents, which may be very many, has gone past it
            watched.open, watched.bad = None, False
            for name in watched.dependents:
                self.waits[name].is_doubtful = True

    def passed(self, now_s: float) -> None:
        """Notes the jobs whose time has come."""
        unix_s = now_s + self.unix_s
        while self._begins and self._begins[0][0] <= unix_s:
            _, job = heappop(self._begins)
            if job in self.waits:
                self._is_due(job)

    def uncounted(self) -> list[Span]:
        """Returns the spans to ask the ledger about."""
        found = [span for span in self._unasked if span not in self._asked]
        for span in found:
            del self._unasked[span]
        self._asked.update(found)
        return found

    def not_counted(self, spans: Iterable[Span]) -> None:
        """The ledger did not answer: ask about them again."""
        for span in spans:
            self._asked.discard(span)
            if span in self._watched:
                self._unasked[span] = None

    def counted(self, span: Span, open_jobs: int, on_record: int, *, bad: bool) -> None:
        """Takes the ledger's counts. `open_jobs`: at this moment; the others are from a moment
        ago."""
        self._asked.discard(span)
        if (watched := self._watched.get(span)) is None or span in self._unasked:
            return
        watched.open, watched.bad = open_jobs, watched.bad or bad
        watched.on_record = on_record == span[1] - span[0] + 1
        if watched.bad or not (watched.open and watched.on_record):  # else nothing is decided
            self._news_of(span, watched)

    def _news_of(self, span: Span, watched: Watched) -> None:
        for job, hows in watched.dependents.items():
            waits = self.waits[job]
            if watched.denies(hows):
                waits.denied = span
                self._is_due(job)
            elif waits.at < len(waits.conditions) and span_of(waits.conditions[waits.at]) == span:
                self._is_due(job)

    # What follows

    def verdict(self, job: JobId, now_s: float) -> str | None:
        """Returns None if it still waits, "" if it may join the queue, else why it never can."""
        waits = self.waits[job]
        if waits.denied is not None:
            watched = self._watched[waits.denied]
            for one in waits.conditions:
                if span_of(one) == waits.denied and watched.meets(one) is False:
                    return why_never(one, on_record=watched.on_record or watched.bad)
            waits.denied = None  # it started again meanwhile
        if waits.is_doubtful:
            waits.at, waits.is_doubtful = 0, False
        while waits.at < len(waits.conditions):
            one = waits.conditions[waits.at]
            if not self._watched[span_of(one)].meets(one):
                return None
            waits.at += 1
        return "" if waits.begin <= now_s + self.unix_s else None

    def left(self, job: JobId) -> str:
        """Describes which jobs it waits for; "" if it waits for none."""
        conditions = self.waits[job].conditions
        return waited_for(
            [one for one in conditions if not self._watched[one.first, one.last].meets(one)]
        )

    def _of(self, job: QueuedJob) -> list[tuple[Span, Watched]]:
        if not self._watched:
            return []
        number = int(job.id)
        spans = (number, number), self._arrays.get(job.array, (0, 0))
        return [(span, self._watched[span]) for span in spans if span in self._watched]


def span_of(condition: Condition) -> Span:
    return condition.first, condition.last

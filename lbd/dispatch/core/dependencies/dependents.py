"""Jobs that are not in the queue yet: they wait for other jobs to end, or for a time. Pure.

- A job names only jobs that were there before it, so no two wait for each other.
- What a job waits for is watched from the moment it is parked. How many had ended by then only the
  ledger knows: it is asked (`uncounted`) once all that ended before is on disk, and `counted` has
  its answer. What ends meanwhile is noted, and who is open at that moment is known here.
- What can no longer be met ends the job, and so on with those that wait for it.
- The conditions of a job count until it joins the queue for the first time; that is recorded.
- A job is looked at when the first of its conditions that was not met has news, or when one can no
  longer be met: what ends costs a short step for each job that waits for it, however many others
  that waits for. How many conditions there are of one user, and of one host, has a limit.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from lbd.dispatch.core.dependencies.conditions import Condition, How, waited_for, why_never
from lbd.dispatch.core.discipline import QueuedJob
from lbd.model import JobId

Span = tuple[int, int]  # numbers of jobs, both ends included
BITS = {How.OK: 1, How.FAILED: 2, How.ANY: 4}
HOST_USERS = 2  # whose conditions the users of one host may have together
STALE_MIN = 1000  # times of jobs that wait no longer, or for another time, that are kept at least


@dataclass(slots=True)
class Waits:
    """What one job waits for."""

    conditions: tuple[Condition, ...] = ()
    begin: float = 0.0  # not before: UNIX seconds
    at: int = 0  # of the conditions, the first that was not met
    is_doubtful: bool = False  # one before that may be met no longer
    denied: "Span | None" = None  # one that can no longer be met is of these jobs
    whose: tuple[str, str] = "", ""  # user, origin


@dataclass(slots=True)
class Watched:
    """Jobs that others wait for."""

    open: int | None = None  # that have not ended; None: not counted yet
    bad: bool = False  # one has ended otherwise than well
    on_record: bool = True  # how all of them ended is known
    dependents: dict[JobId, int] = field(default_factory=dict)  # how: bits of BITS

    def meets(self, condition: Condition) -> bool | None:
        """None: that is not decided yet."""
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


class Dependents:
    """Feed it what ends and what time it is; `due` are the jobs to look at."""

    def __init__(self) -> None:
        self.waits: dict[JobId, Waits] = {}
        self.due: deque[JobId] = deque()
        self.unix_s = 0.0  # to be added to our own clock's time for UNIX seconds
        self.is_looking = False
        self._watched: dict[Span, Watched] = {}
        self._unasked: dict[Span, None] = {}  # of them, those to ask the ledger about
        self._asked: set[Span] = set()  # its answer is on its way; old, if it is to be asked again
        self._arrays: dict[int, Span] = {}  # by their ids
        self._begins: list[tuple[float, JobId]] = []
        self._of_user: Counter[str] = Counter()  # conditions
        self._of_origin: Counter[str] = Counter()

    def why_not(self, user: str, origin: str, more: int, most: int) -> str:
        """Why no jobs with so many conditions more are let in, "" if they are."""
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
        self.due.append(job)

    def _add_begin(self, job: JobId, begin: float) -> None:
        if len(self._begins) > 2 * len(self.waits) + STALE_MIN:
            self._begins = [(one.begin, name) for name, one in self.waits.items() if one.begin]
            heapify(self._begins)
        heappush(self._begins, (begin, job))

    def drop(self, job: JobId) -> None:
        """It waits no longer, for whatever reason."""
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
        """Another time for one that waits."""
        self.waits[job].begin = begin
        self._add_begin(job, begin)
        self.due.append(job)

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
        """It had ended, and begins again."""
        for span, watched in self._of(job):
            watched.open, watched.bad = None, False
            self._unasked[span] = None
            for name in watched.dependents:
                self.waits[name].is_doubtful = True

    def passed(self, now_s: float) -> None:
        """The time of some may have come."""
        unix_s = now_s + self.unix_s
        while self._begins and self._begins[0][0] <= unix_s:
            _, job = heappop(self._begins)
            if job in self.waits:
                self.due.append(job)

    def uncounted(self) -> list[Span]:
        """The ledger is to be asked about these."""
        found = [span for span in self._unasked if span not in self._asked]
        for span in found:
            del self._unasked[span]
        self._asked.update(found)
        return found

    def not_counted(self, spans: Iterable[Span]) -> None:
        """The ledger did not answer: they are to be asked about again."""
        for span in spans:
            self._asked.discard(span)
            if span in self._watched:
                self._unasked[span] = None

    def counted(self, span: Span, open_jobs: int, on_record: int, *, bad: bool) -> None:
        """`open_jobs`: at this moment; the others are what the ledger had a moment ago."""
        self._asked.discard(span)
        if (watched := self._watched.get(span)) is None or span in self._unasked:
            return
        watched.open, watched.bad = open_jobs, watched.bad or bad
        watched.on_record = on_record == span[1] - span[0] + 1
        self._news_of(span, watched)

    def _news_of(self, span: Span, watched: Watched) -> None:
        for job, hows in watched.dependents.items():
            waits = self.waits[job]
            if watched.denies(hows):
                waits.denied = span
                self.due.append(job)
            elif waits.at < len(waits.conditions) and span_of(waits.conditions[waits.at]) == span:
                self.due.append(job)

    # What follows

    def verdict(self, job: JobId, now_s: float) -> str | None:
        """None: it waits on. "": it may join the queue. Else why it never can."""
        waits = self.waits[job]
        if waits.denied is not None:
            watched = self._watched[waits.denied]
            for one in waits.conditions:
                if span_of(one) == waits.denied and watched.meets(one) is False:
                    return why_never(one, on_record=watched.on_record or watched.bad)
            waits.denied = None  # it began again meanwhile
        if waits.is_doubtful:
            waits.at, waits.is_doubtful = 0, False
        while waits.at < len(waits.conditions):
            one = waits.conditions[waits.at]
            if not self._watched[span_of(one)].meets(one):
                return None
            waits.at += 1
        return "" if waits.begin <= now_s + self.unix_s else None

    def left(self, job: JobId) -> str:
        """Which jobs it waits for, in words; "" if it waits for none."""
        conditions = self.waits[job].conditions
        return waited_for(
            [one for one in conditions if not self._watched[one.first, one.last].meets(one)]
        )

    def _of(self, job: QueuedJob) -> list[tuple[Span, Watched]]:
        number = int(job.id)
        spans = (number, number), self._arrays.get(job.array, (0, 0))
        return [(span, self._watched[span]) for span in spans if span in self._watched]


def span_of(condition: Condition) -> Span:
    return condition.first, condition.last

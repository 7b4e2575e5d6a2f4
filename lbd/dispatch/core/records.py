"""What queued jobs and their attempts are: the types of lifecycle, ledger and dispatcher."""

import contextlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from signal import SIGTERM

from lbd.dispatch.core.backlog import Backlog, JobCounts
from lbd.dispatch.core.discipline import QueuedJob, Start
from lbd.dispatch.core.hosts import Contact
from lbd.dispatch.core.named_lists import NamedLists
from lbd.errors import Inapplicable
from lbd.model import HostId, JobId, JobState, quick_value


class Fate(Enum):
    """What became of an attempt."""

    LEASED = "leased"  # given to a host, which has not reported it begun yet
    RUNNING = "running"
    SUSPENDED = "suspended"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    CUT = "cut"  # killed at its tier's cutoff
    CHECKPOINT = "checkpoint"  # stopped itself; the next attempt continues it
    REFUSED = "refused"  # nothing ran
    EVICTED = "evicted"  # its host's owner is back, and it starts again elsewhere


class Cause(Enum):
    """Why an attempt is over."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    CUT = "cut"
    CHECKPOINT = "checkpoint"  # it stopped itself, to be continued
    EVICTED = "evicted"  # its host's owner is back
    REFUSED = "refused"  # nothing ran, and there is no other host to try
    LOST = "lost"  # with its host, its keeper or its lease: how far it got is unknown


@quick_value
class Ending:
    """How an attempt ended, as reported by its host or as must be assumed."""

    cause: Cause
    exit_status: int | None = None
    signal: int = 0
    cpu_s: float | None = None
    reason: str = ""
    stop_reason: str = ""  # as its host was told, perhaps by a previous dispatcher
    ago_s: float = 0.0  # relative to its report
    wait_s: float = 0.0  # if refused at this time: then it may start there
    max_rss_bytes: int = 0  # of its largest process; 0: not known


CALLED_OFF_LEASES = 2  # within so many an attempt is called off that was to end before it began


@dataclass(slots=True)
class Lease:
    """The attempt that may be alive."""

    attempt: int
    host: HostId
    tier: int
    until_s: float  # infinite until it is sent
    begun: bool = False
    slots: int = 1
    cutoff_s: float | None = None  # with which it was started
    sent: Contact | None = None  # over which it was sent; None: not yet, or by another dispatcher
    renewed_s: float = 0.0  # when it was granted, or last renewed
    granted_s: float = -math.inf  # unless known
    told_s: float = math.inf  # when its host was told to call it off
    sent_s: float = math.inf  # when it was sent, or found by another dispatcher
    begin_by_s: float = math.inf  # its host is to report it begun by then
    brings_files: bool = False  # which take their time, as long as their user likes

    def renew(self, now_s: float, waited_s: float, left_s: float = math.inf) -> None:
        """`left_s`: what is left of an earlier lease, as far as its host says. It can only shorten
        what was granted, so that no host holds a job for longer by what it says."""
        self.until_s = max(now_s + waited_s, min(self.until_s, now_s + left_s))
        self.renewed_s = now_s

    def shift(self, by_s: float) -> None:
        """All its times are so much later: the dispatcher stood still meanwhile."""
        self.until_s += by_s
        self.renewed_s += by_s
        self.told_s += by_s
        self.sent_s += by_s
        self.begin_by_s += by_s

    def is_given_up(self, lease_s: float, now_s: float) -> bool:
        """Whether it is no longer renewed: it should have begun or been called off, and has not."""
        called_off_s = self.told_s + CALLED_OFF_LEASES * lease_s
        return not self.begun and now_s >= min(self.begin_by_s, called_off_s)

    def was_sent(self, now_s: float, begin_timeout_s: float) -> None:
        self.sent_s, self.begin_by_s = now_s, now_s + begin_timeout_s

    def held_s(self, now_s: float) -> float:
        """Returns for how long its host has held it, or may have, without beginning it."""
        return 0.0 if self.begun else max(0.0, now_s - self.sent_s)

    def why_given_up(self, now_s: float) -> str:
        """Says what its host did not do, so that it was no longer renewed."""
        if now_s < self.begin_by_s:
            return "did not say that it had called it off"
        return f"did not begin it within {self.begin_by_s - self.sent_s:g} s"


REFUSALS_KEPT = 4


@dataclass(slots=True)
class Live:
    """A job that has not ended."""

    job: QueuedJob
    attempt: int = 0  # the last one made
    crashes: int = 0
    held: str = ""
    lease: Lease | None = None
    stop_reason: str = ""  # CANCEL or REQUEUE, to apply once its attempt is over
    signal: int = 0  # that ends its attempt, or that it was sent
    signal_of: str = ""  # who requested that
    reason: str = ""  # of what last happened to it
    requeued: float | None = None  # UNIX seconds: when it was requeued after its end
    # hosts that its job is barred from only temporarily
    barred_now: frozenset[HostId] = frozenset()
    refusals: tuple[tuple[HostId, str], ...] = ()  # why the last few hosts barred it, if known
    forgot: bool = False  # other hosts may have barred it of which no refusal is kept
    ran_tier: int = 0  # tier of the last attempt; the job's own tier is where it would start
    # the last attempt that was over, not counting refused ones, and a Cause or Fate; 0: none
    over: tuple[int, str] = (0, "")
    excused: int = 0  # attempts that ended by nobody's fault, as their hosts said
    excused_last: int = 0  # the number of the last of them
    lost_on: tuple[HostId, ...] = ()  # where its `crashes` were, as far as is known

    def excuse(self, attempt: int) -> int:
        """Notes that this attempt ended by nobody's fault. Returns how many have. The attempts of
        one start of a gang have the same number, and count once."""
        self.excused += attempt > self.excused_last
        self.excused_last = attempt
        return self.excused

    @property
    def is_new(self) -> bool:
        """Whether the job's state can be derived from its row alone."""
        return not (self.attempt or self.crashes or self.held or self.lease or self.requeued)


class Jobs(Mapping[JobId, Live]):
    """All jobs that have not ended. Those in the backlog have no state but that they wait."""

    def __init__(self, backlog: Backlog) -> None:
        self._live: dict[JobId, Live] = {}
        self._backlog = backlog
        self._counts = JobCounts()  # of those in `_live`
        self.lists = NamedLists()
        self.dropped = 0  # grows with each job that ends
        self._noted: list[set[JobId]] = []  # by `ending`

    def __getitem__(self, job: JobId) -> Live:
        """Returns a copy for a job in the backlog."""
        live = self._live.get(job)
        if live is None and (row := self._backlog.get(job)) is not None:
            live = Live(row.job)
        if live is None:
            raise KeyError(job)
        return live

    def outside_backlog(self) -> Collection[Live]:
        return self._live.values()

    def __contains__(self, job: object) -> bool:
        return job in self._live or (isinstance(job, str) and job in self._backlog)

    def __len__(self) -> int:
        return len(self._live) + len(self._backlog)

    def __iter__(self) -> Iterator[JobId]:
        yield from self._backlog
        yield from self._live

    def has_only_waited(self, number: int) -> bool:
        """Whether this job is in the backlog."""
        return self._backlog.place(number) >= 0

    def among(self, numbers: Iterable[int]) -> list[int]:
        """Returns those of these jobs that have not ended."""
        live, place = self._live, self._backlog.place
        return [number for number in numbers if place(number) >= 0 or str(number) in live]

    def of_user(self, user: str) -> int:
        return sum(one.of_user.get(user, 0) for one in (self._counts, self._backlog.counts))

    def of_origin(self, host: str) -> int:
        return sum(one.of_origin.get(host, 0) for one in (self._counts, self._backlog.counts))

    def users_of(self, host: str) -> set[str]:
        """Returns the users of the jobs that this host sent."""
        return set().union(*(c.by_user.get(host, ()) for c in (self._counts, self._backlog.counts)))

    def keep(self, live: Live) -> None:
        self.drop(live.job.id)
        self._live[live.job.id] = live
        self._counts.add(live.job, 1)

    def out_of_backlog(self, job: QueuedJob) -> Live:
        """Tracks the job by itself from now on, outside the backlog."""
        live = self._live.get(job.id)
        if live is None:
            live = self._live[job.id] = Live(job)
            self._counts.add(job, 1)
        return live

    @contextlib.contextmanager
    def ending(self) -> Iterator[set[JobId]]:
        """Yields a set to which jobs are added that end in this context."""
        noted = set[JobId]()
        self._noted.append(noted)
        try:
            yield noted
        finally:
            self._noted = [one for one in self._noted if one is not noted]

    def drop(self, job: JobId) -> None:
        self.dropped += 1
        for noted in self._noted:
            noted.add(job)
        if (live := self._live.pop(job, None)) is not None:
            self._counts.add(live.job, -1)


@quick_value
class Begin:
    """Record this attempt, and once it is on disk have the host start it."""

    job: JobId
    attempt: int
    host: HostId
    tier: int
    cutoff_s: float | None
    slots: int = 1
    submission: int = 0
    array_index: int | None = None
    requeued: float | None = None  # as in `Live`
    gang_hosts: tuple[HostId, ...] = ()  # for a gang member: it is held there until released
    array: int = 0  # id of its array


@quick_value
class Release:
    """All of its gang are ready: start this one too."""

    job: JobId
    attempt: int
    host: HostId


@quick_value
class Signal:
    """Signal an attempt; `number` 0: end all of it, gently first. `stop_reason`: why; its host
    repeats it with the end."""

    job: JobId
    attempt: int
    host: HostId
    number: int
    stop_reason: str = ""


@quick_value
class Settle:
    """Once everything before is on disk, the host may forget this attempt."""

    job: JobId
    attempt: int
    host: HostId


@quick_value
class Changed:
    """Record the job's row."""

    job: JobId
    state: JobState
    tier: int
    attempt: int  # the last attempt; 0: none
    host: HostId | None
    fate: Fate | None  # of that attempt, if it has changed
    ending: Ending | None
    crashes: int
    reason: str  # "held …" if it is held
    barred: frozenset[HostId]
    requeued: float | None = None
    begun_ago_s: float = 0.0
    shown: str = ""  # its id as people know it


@quick_value
class StopAsked:
    """Record why this attempt is to end."""

    job: JobId
    attempt: int
    stop_reason: str


@quick_value
class Updated:
    """Record a change to all waiting jobs of a submission."""

    submission: int
    priority: int
    name: str
    limit_s: float
    spec: bytes | None  # with that limit; None: unchanged
    not_before: float = 0.0  # UNIX seconds; 0: at once


@quick_value
class Met:
    """Record that this job's dependencies are met; it joins the queue."""

    job: JobId


Record = Begin | Changed | StopAsked | Updated | Met
Action = Record | Signal | Settle | Release


def next_attempt(
    live: Live, start: Start, now_s: float, gang_hosts: tuple[HostId, ...] = ()
) -> Begin:
    """Creates the next attempt, already leased. Before it is sent no host can have it, and it may
    be long until it is on disk, so the time of its lease begins when it is sent."""
    job, host, tier, cutoff_s, slots = start
    number = live.attempt + 1
    live.job, live.attempt, live.ran_tier = job, number, tier
    given = number, host, tier, math.inf, False, slots, cutoff_s
    live.lease = Lease(*given, renewed_s=now_s, granted_s=now_s)
    own = job.submission, job.array_index, live.requeued
    return Begin(job.id, number, host, tier, cutoff_s, slots, *own, gang_hosts, job.array)


def asked_to_stop(live: Live, stop_reason: str, number: int) -> list[Action]:
    """Ends its attempt with signal `number`; the request is recorded, so that it survives a crash
    of the dispatcher. A TERM that follows another signal changes nothing: it is to end still."""
    assert live.lease is not None
    is_known, live.stop_reason = live.stop_reason == stop_reason, stop_reason
    if not is_known or number != SIGTERM:
        live.signal = number
    job, attempt, host = live.job.id, live.lease.attempt, live.lease.host
    order = Signal(job, attempt, host, number, stop_reason)
    return [order] if is_known else [StopAsked(job, attempt, stop_reason), order]


def check_pending(together: Iterable[Live], job: JobId, done: str) -> None:
    """`together`: the job, or its gang. `done`: what only a pending job can be. Raises
    Inapplicable."""
    if leases := [live.lease for live in together if live.lease is not None]:
        host = leases[0].host
        runs = "is already running" if leases[0].begun else f"is about to start on {host}"
        raise Inapplicable(f"job {job} {runs}; only pending jobs can be {done}")


def changed(
    live: Live,
    state: JobState,
    fate: Fate | None = None,
    ending: Ending | None = None,
    begun_ago_s: float = 0.0,
) -> Changed:
    """Returns the record of a job's current state."""
    lease = live.lease
    ran = lease is not None or (fate is not None and state is not JobState.PENDING)
    return Changed(
        live.job.id,
        state,
        (live.ran_tier if ran else 0) or live.job.tier,
        live.attempt,
        lease.host if lease else None,
        fate,
        ending,
        live.crashes,
        live.held or live.reason,
        # Usually the one set that all tasks of a submission share.
        live.job.barred - live.barred_now if live.barred_now else live.job.barred,
        live.requeued,
        begun_ago_s,
        live.job.shown,
    )

"""What an LBM knows: its slots, who waits for one, and the jobs of now and of lately. Pure.

Slots bound *foreign* jobs. A free slot goes to whoever has waited longest, of those who have least;
a command nested in a placed job never waits, since its parent may hold the very slot it would wait
for; and one that its user sent here by name (-H) does not wait for ever, since those in the slots
may be waiting for it, as the commands of a pipeline do. But nobody goes further beyond the slots
than `beyond`, and that is nothing where the owner of the host has said how many may run.

What else a command needs of the host comes and goes with its slots: it has both or neither. One
that waits for a resource stands in nobody's way who does not need the same.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lbd.errors import PeerError
from lbd.lbm.core.resources import NOTHING, Grant, ResourcePool
from lbd.model import NO_NEEDS, HostId, JobId, JobState, Needs

USER_SHARE = 0.75  # of the slots, and of the places to wait for one
CLAIMS_KEPT = 10_000
SHOWN_BYTES = 4096  # of a command line that `lbctl jobs` shows
RENAMED_KEPT = 1000


@dataclass(slots=True)
class Job:
    """One command as this host sees it. Times are UNIX seconds, for people; None = not yet."""

    id: JobId
    command: tuple[bytes, ...]
    user: str
    origin: HostId
    host: HostId
    submitted: float
    name: str = ""
    state: JobState = JobState.PENDING
    started: float | None = None
    finished: float | None = None
    cpu_s: float | None = None
    exit_status: int | None = None
    reason: str = ""
    foreign: bool = False
    uid: int = -1  # of `user` at the origin
    pinned: bool = False  # it could run nowhere else
    wrong: bool = False  # sent by the load to a host that was no less busy
    queued_at: HostId | None = None  # of an attempt of the queue's: where its job came from
    queued_as: str = ""  # and its id there, as people know it: 12, or 12_7 for a task of an array
    pid: int = 0  # where it runs; 0 = not known
    directory: bytes = b""
    killed_by: str = ""  # who had it ended

    def start(self, host: HostId, reason: str, unix_s: float) -> None:
        self.host, self.reason, self.started = host, reason, unix_s
        self.state = JobState.RUNNING

    def waits_again(self, reason: str) -> None:
        """To begin again from the start."""
        self.host, self.reason, self.started, self.pid = HostId(""), reason, None, 0
        self.state = JobState.PENDING


@dataclass(slots=True)
class Slots:
    """`total` foreign jobs at once, a bounded queue behind them.

    One user may have them all while nobody else wants any. Then whoever has more than USER_SHARE
    makes room: not by losing a job, but by others going beyond the slots, as many as are left of
    the share. So nobody starves, and the host has at most that much more to do.
    """

    total: int
    beyond: int = 1 << 16  # so many more may run at most
    max_waiting: int = 0
    holders: set[JobId] = field(default_factory=set)
    waiting: OrderedDict[JobId, None] = field(default_factory=OrderedDict)
    users: dict[JobId, str] = field(default_factory=dict)  # of both; "" = not known
    widths: dict[JobId, int] = field(default_factory=dict)  # of holders of more than one slot
    wanted: dict[JobId, int] = field(default_factory=dict)  # by who waits for more than one
    needs: dict[JobId, Needs] = field(default_factory=dict)  # of those that wait
    pool: ResourcePool = field(default_factory=ResourcePool)

    def take(
        self,
        job: JobId,
        user: str = "",
        *,
        beyond: bool = False,
        slots: tuple[int, int] = (1, 1),
        needs: Needs = NO_NEEDS,
    ) -> bool:
        """A slot now, or False; with `slots` at least and at most so many. `beyond`: nested and
        named by its user, so it may exceed."""
        least, most = slots
        is_free = self.used + least <= self.total and not self._goes_behind(needs)
        may_exceed = beyond or (least == 1 and self._makes_room(user))
        if not (is_free or (may_exceed and self._is_bearable(least))):
            return False
        if not self.pool.take(job, needs):
            return False
        self.hold(job, user, max(least, min(most, self.total - self.used)))
        return True

    def take_many(self, job: JobId, user: str, width: int, needs: Needs = NO_NEEDS) -> bool:
        """So many at once, for a job of the queue; one is taken as by anybody else."""
        if width < 2:
            return self.take(job, user, needs=needs)
        if self._goes_behind(needs) or self.used + width > self.total:
            return False
        if not self.pool.take(job, needs):
            return False
        self.hold(job, user, width)
        return True

    def hold(self, job: JobId, user: str, width: int = 1, grant: Grant = NOTHING) -> None:
        """Whatever is free: it runs. `grant`: what an LBM before us gave it."""
        self.holders.add(job)
        self.users[job] = user
        if width > 1:
            self.widths[job] = width
        self.pool.hold(job, grant)

    def _goes_behind(self, needs: Needs) -> bool:
        """Does anybody wait for what this one wants, too?"""
        if not self.needs:
            return bool(self.waiting)
        wanted = names_of(needs)
        blocked = self._blocked()
        return any(job not in blocked or wanted & names_of(self.needs[job]) for job in self.waiting)

    def _blocked(self) -> set[JobId]:
        """Who of those that wait would have no use for a slot, as resources are."""
        blocked: set[JobId] = set()
        awaited: set[str] = set()
        for job in self.waiting:
            if (needs := self.needs.get(job)) is None:
                continue
            names = names_of(needs)
            if names & awaited or self.pool.unmet(needs) is not None:
                blocked.add(job)
                awaited |= names
        return blocked

    @property
    def used(self) -> int:
        held = len(self.holders)
        return held + sum(self.widths.values()) - len(self.widths) if self.widths else held

    @property
    def places(self) -> int:
        """For those that run and those that wait."""
        return self.total + self.max_waiting

    def has_room(self, user: str, width: int = 1) -> bool:
        makes_room = width == 1 and self._makes_room(user) and self._is_bearable(width)
        return self.used + width <= self.total or makes_room

    def _is_bearable(self, width: int) -> bool:
        """So many more, though there are no free slots?"""
        return self.used + width <= self.total + self.beyond

    @property
    def is_full(self) -> bool:
        return self.used >= self.total

    def hog(self) -> str:
        """Who has more than a share of the slots, which are all taken; "" = nobody, or others have
        had the room that is made for them."""
        if not self.is_full:
            return ""
        (user, count), *_ = self._held().most_common(1) or [("", 0)]
        room = self.used - count < self.total - self._share
        return user if count > self._share and room else ""

    def _makes_room(self, user: str) -> bool:
        return bool(user) and self.hog() not in ("", user)

    @property
    def _share(self) -> int:
        """Less than all, of however few: of one slot that is none."""
        return int(self.total * USER_SHARE)

    def _held(self) -> "Counter[str]":
        held: Counter[str] = Counter()
        for job in self.holders:
            held[self.users.get(job, "")] += self.widths.get(job, 1)
        return held

    def enqueue(self, job: JobId, user: str = "", width: int = 1, needs: Needs = NO_NEEDS) -> bool:
        """Wait for a slot, or so many; False if too many do, or too many of the same user."""
        beyond = max(0, self.used - self.total)
        if len(self.waiting) + beyond >= self.max_waiting:
            return False
        theirs = sum(self.users.get(waiting) == user for waiting in self.waiting)
        theirs += max(0, self._held()[user] - self.total)
        if user and theirs >= max(1, int(self.max_waiting * USER_SHARE)):
            return False
        self.waiting[job] = None
        self.users[job] = user
        if width > 1:
            self.wanted[job] = width
        if needs.is_given:
            self.needs[job] = needs
        return True

    def exceed(self, job: JobId) -> bool:
        """Let a waiting job run beyond the slots, if it may."""
        may = self._is_bearable(self.wanted.get(job, 1))
        if may := may and self.pool.unmet(self.needs.get(job, NO_NEEDS)) is None:
            self._run(job)
        return may

    def _run(self, job: JobId) -> None:
        self.waiting.pop(job, None)
        self.pool.take(job, self.needs.pop(job, NO_NEEDS))
        self.holders.add(job)
        if width := self.wanted.pop(job, 0):
            self.widths[job] = width

    def release(self, job: JobId) -> list[JobId]:
        """The job has ended or given up waiting. Returns who has got a slot by that."""
        self.holders.discard(job)
        self.waiting.pop(job, None)
        self.users.pop(job, None)
        self.widths.pop(job, None)
        self.wanted.pop(job, None)
        self.needs.pop(job, None)
        self.pool.free(job)
        return self._promote()

    def resize(self, total: int, beyond: int) -> list[JobId]:
        """As many from now on; nobody loses theirs. Returns who has got one by that."""
        self.total, self.beyond = total, beyond
        return self._promote()

    def _promote(self) -> list[JobId]:
        """Who has waited longest, of those whose users have the fewest."""
        promoted = []
        while self.waiting:
            held, blocked = self._held(), self._blocked() if self.needs else ()
            able = [job for job in self.waiting if job not in blocked]
            if not able:
                break
            following = min(able, key=lambda job: held[self.users.get(job, "")])
            if self.used + self.wanted.get(following, 1) > self.total:
                break
            self._run(following)
            promoted.append(following)
        return promoted


def names_of(needs: Needs) -> set[str]:
    return {name for name, _ in needs.resources}


def shown(command: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """As much of a command as people read: `history` of whole ones could fill the memory."""
    left = SHOWN_BYTES
    kept: list[bytes] = []
    for word in command:
        if left <= 0:
            return (*kept, "…".encode())
        kept.append(word[:left])
        left -= len(word) + 1
    return tuple(kept)


class Jobs:
    """Jobs that run, and the last `history` that have ended. `ended` hears of each end.

    Who waits for the end of one is called once it is here, whatever its id is by then.
    """

    def __init__(self, history: int, ended: Callable[[Job], None] = lambda _: None) -> None:
        self._report_ended = ended
        self.running: dict[JobId, Job] = {}
        self.ended: deque[Job] = deque(maxlen=history)
        self.renamed: OrderedDict[JobId, JobId] = OrderedDict()  # those that began again
        self._waiting: dict[JobId, list[Callable[[], None]]] = {}

    def add(self, job: Job) -> None:
        job.command, job.directory = shown(job.command), job.directory[:SHOWN_BYTES]
        self.running[job.id] = job

    def rename(self, job: Job, new: JobId) -> None:
        """It begins again, and nothing begins twice under one id."""
        del self.running[job.id]
        self.renamed[job.id] = new
        while len(self.renamed) > RENAMED_KEPT:
            self.renamed.popitem(last=False)
        if waiting := self._waiting.pop(job.id, None):
            self._waiting[new] = waiting
        job.id = new

    def find(self, job: JobId) -> Job | None:
        """One that runs or has ended lately, also by an id that it had before."""
        while job not in self.running and job in self.renamed:
            job = self.renamed[job]
        if job in self.running:
            return self.running[job]
        return next((one for one in reversed(self.ended) if one.id == job), None)

    def once_ended(self, job: JobId, call: Callable[[], None]) -> None:
        """Of one that runs."""
        self._waiting.setdefault(job, []).append(call)

    def no_longer(self, call: Callable[[], None]) -> None:
        """Whoever gave `call` waits no more."""
        for calls in self._waiting.values():
            if call in calls:
                calls.remove(call)

    def end(
        self,
        job_id: JobId,
        state: JobState,
        unix_s: float,
        exit_status: int | None = None,
        cpu_s: float | None = None,
        reason: str = "",
    ) -> None:
        """Move a job to the ended ones; a job already ended stays as it is."""
        job = self.running.pop(job_id, None)
        if job is None:
            return
        job.state, job.finished, job.exit_status, job.cpu_s = state, unix_s, exit_status, cpu_s
        job.reason = reason or job.reason
        if job.killed_by and state is not JobState.DONE:
            job.state, job.reason = JobState.CANCELLED, f"killed by {job.killed_by}"
        self.ended.append(job)
        self._report_ended(job)
        for call in self._waiting.pop(job_id, ()):
            call()

    def count(self, *, foreign: bool) -> int:
        return sum(
            job.foreign == foreign and job.started is not None for job in self.running.values()
        )


class Claims:
    """The ids of the jobs of one stream between two hosts: none begins twice, replayed or not."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._begun: OrderedDict[JobId, None] = OrderedDict()

    def take(self, job: JobId) -> None:
        """Raises PeerError if it is here, or was."""
        if job in self._begun or job in self._jobs.running:
            raise PeerError(f"job {job} has already been sent here")
        self._begun[job] = None
        while len(self._begun) > CLAIMS_KEPT:
            self._begun.popitem(last=False)

    @property
    def ids(self) -> list[JobId]:
        return list(self._begun)

    def restore(self, ids: Iterable[JobId]) -> None:
        """Those that another LBM of this host has let in."""
        self._begun.update(dict.fromkeys(ids))

    def give_back(self, job: JobId) -> None:
        """Nothing has run: it may be sent again."""
        self._begun.pop(job, None)


@dataclass(slots=True)
class LocalCap:
    """How many commands may run here because another host failed, at each depth of nesting.

    A command of depth d waits only for commands of depth d, whose ends depend at most on deeper
    ones; so the deepest can always go on and nobody waits for ever.
    """

    total: int
    running: dict[int, set[JobId]] = field(default_factory=dict)

    def take(self, job: JobId, depth: int) -> bool:
        level = self.running.setdefault(depth, set())
        if len(level) >= self.total:
            return False
        level.add(job)
        return True

    def hold(self, job: JobId, depth: int) -> None:
        """However many there are: it runs."""
        self.running.setdefault(depth, set()).add(job)

    def release(self, job: JobId) -> None:
        for level in self.running.values():
            level.discard(job)

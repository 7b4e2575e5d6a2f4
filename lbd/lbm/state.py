"""What an LBM knows: its slots, who waits for one, and the jobs of now and of lately. Pure.

Slots bound *foreign* jobs. A free slot goes to whoever has waited longest, of those who have least;
a command nested in a placed job never waits, since its parent may hold the very slot it would wait
for; and one that its user sent here by name (-H) does not wait for ever, since those in the slots
may be waiting for it, as the commands of a pipeline do. But nobody goes further beyond the slots
than `beyond`, and that is nothing where the owner of the host has said how many may run.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lbd.errors import PeerError
from lbd.model import HostId, JobId, JobState

USER_SHARE = 0.75  # of the slots, and of the places to wait for one
CLAIMS_KEPT = 10_000
SHOWN_BYTES = 4096  # of a command line that `lbctl jobs` shows


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

    def start(self, host: HostId, reason: str, unix_s: float) -> None:
        self.host, self.reason, self.started = host, reason, unix_s
        self.state = JobState.RUNNING

    def waits_again(self, reason: str) -> None:
        """To begin anew."""
        self.host, self.reason, self.started = HostId(""), reason, None
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

    def take(
        self, job: JobId, user: str = "", *, beyond: bool = False, slots: tuple[int, int] = (1, 1)
    ) -> bool:
        """A slot now, or False; with `slots` at least and at most so many. `beyond`: nested and
        named by its user, so it may exceed."""
        least, most = slots
        is_free = self.used + least <= self.total and not self.waiting
        may_exceed = beyond or (least == 1 and self._makes_room(user))
        if is_free or (may_exceed and self._is_bearable(least)):
            self.hold(job, user, max(least, min(most, self.total - self.used)))
            return True
        return False

    def take_many(self, job: JobId, user: str, width: int) -> bool:
        """So many at once, for a job of the queue; one is taken as by anybody else."""
        if width < 2:
            return self.take(job, user)
        if self.waiting or self.used + width > self.total:
            return False
        self.hold(job, user, width)
        return True

    def hold(self, job: JobId, user: str, width: int = 1) -> None:
        """Whatever is free: it runs."""
        self.holders.add(job)
        self.users[job] = user
        if width > 1:
            self.widths[job] = width

    @property
    def used(self) -> int:
        return len(self.holders) + sum(self.widths.values()) - len(self.widths)

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
        if not user or all(self.users.get(job) == user for job in self.holders):
            return False
        hog = self.hog()
        return bool(hog) and user != hog

    @property
    def _share(self) -> int:
        """Less than all, of however few: of one slot that is none."""
        return int(self.total * USER_SHARE)

    def _held(self) -> "Counter[str]":
        held: Counter[str] = Counter()
        for job in self.holders:
            held[self.users.get(job, "")] += self.widths.get(job, 1)
        return held

    def enqueue(self, job: JobId, user: str = "", width: int = 1) -> bool:
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
        return True

    def exceed(self, job: JobId) -> bool:
        """Let a waiting job run beyond the slots, if it may."""
        may = self._is_bearable(self.wanted.get(job, 1))
        if may:
            self._run(job)
        return may

    def _run(self, job: JobId) -> None:
        self.waiting.pop(job, None)
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
        return self._promote()

    def resize(self, total: int, beyond: int) -> list[JobId]:
        """As many from now on; nobody loses theirs. Returns who has got one by that."""
        self.total, self.beyond = total, beyond
        return self._promote()

    def _promote(self) -> list[JobId]:
        """Who has waited longest, of those whose users have the fewest."""
        promoted = []
        while self.waiting and self.used < self.total:
            held = self._held()
            following = min(self.waiting, key=lambda job: held[self.users.get(job, "")])
            if self.used + self.wanted.get(following, 1) > self.total:
                break
            self._run(following)
            promoted.append(following)
        return promoted


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
    """Jobs that run, and the last `history` that have ended. `ended` hears of each end."""

    def __init__(self, history: int, ended: Callable[[Job], None] = lambda _: None) -> None:
        self._tell_ended = ended
        self.running: dict[JobId, Job] = {}
        self.ended: deque[Job] = deque(maxlen=history)

    def add(self, job: Job) -> None:
        job.command = shown(job.command)
        self.running[job.id] = job

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
        self.ended.append(job)
        self._tell_ended(job)

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
            raise PeerError(f"job {job} was sent here already")
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

    def release(self, job: JobId) -> None:
        for level in self.running.values():
            level.discard(job)

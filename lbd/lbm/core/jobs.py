"""The jobs of now and of lately, as this host knows them. Pure."""

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from lbd.errors import PeerError
from lbd.lbm.core.execution_events import Cause
from lbd.model import HostId, JobId, JobState

CLAIMS_KEPT = 10_000
SHOWN_BYTES = 4096  # of a command line that `lbctl jobs` shows
RENAMED_KEPT = 1000
NOWHERE = HostId("")


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
    slots: int = 1  # that it holds, or is to hold

    @property
    def is_continued(self) -> bool:
        """Whether this is an attempt that stopped at a checkpoint: its job has not ended."""
        return bool(self.queued_at) and self.reason == Cause.CHECKPOINT.value

    def start(self, host: HostId, reason: str, unix_s: float) -> None:
        self.host, self.reason, self.started = host, reason, unix_s
        self.state = JobState.RUNNING

    def waits_again(self, reason: str) -> None:
        """To begin again from the start."""
        self.host, self.reason, self.started, self.pid = NOWHERE, reason, None, 0
        self.state = JobState.PENDING


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

    def __init__(
        self,
        history: int,
        ended: Callable[[Job], None] = lambda _: None,
        own: HostId = NOWHERE,
        numbers: Iterator[int] | None = None,
    ) -> None:
        """`own`: this host; `numbers`: that no job of it has had."""
        self._report_ended = ended
        self._own, self._numbers = own, numbers or itertools.count(1)
        self.placed: dict[int, JobId] = {}  # by others, here: by the pid of the very command
        self.running: dict[JobId, Job] = {}
        self.ended: deque[Job] = deque(maxlen=history)
        self.renamed: OrderedDict[JobId, JobId] = OrderedDict()  # those that began again
        self._waiting: dict[JobId, list[Callable[[], None]]] = {}

    def new_id(self) -> JobId:
        """Of a job of one of this host's users."""
        return JobId(f"{self._own}-{next(self._numbers)}")

    def forget_placed(self, job: JobId) -> None:
        for pid in [pid for pid, held in self.placed.items() if held == job]:
            del self.placed[pid]

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

"""The current and recent jobs, as this host knows them. Pure."""

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from lbd.errors import PeerError
from lbd.lbm.core.execution_events import Cause
from lbd.model import HostId, JobId, JobState
from lbd.text.command_words import shown
from lbd.text.placement_phrases import PLACED

CLAIMS_KEPT = 10_000
SHOWN_BYTES = (
    4096  # of a command line in `lbctl jobs`: a history of whole ones could fill the memory
)
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
    wrong: bool = False  # transferred because of the load, to a host that was no less busy
    # for an attempt of the queue: the host where its job was submitted
    queued_at: HostId | None = None
    # and the job's id there as people know it: 12, or 12_7 for a task of an array
    queued_as: str = ""
    pid: int = 0  # on the host where it runs; 0 = not known
    cpu_before_s: float = 0.0  # that its process had used before it became the command
    directory: bytes = b""
    killed_by: str = ""  # who had it ended: ann@h1
    must_end: bool = False  # it is killed if it does not end by the signal
    slots: int = 1  # slots that it holds or will hold

    @property
    def is_continued(self) -> bool:
        """Whether this is an attempt that stopped at a checkpoint: its job has not ended."""
        return bool(self.queued_at) and self.reason == Cause.CHECKPOINT.value

    @property
    def is_placed_by_us(self) -> bool:
        """Whether its reason is why it runs where it does."""
        return self.started is not None and not (self.foreign or self.queued_at)

    def why_cancelled(self, *, succeeded: bool) -> str:
        """Returns who had it ended, in words; "" if it ended by itself."""
        if self.killed_by and (self.must_end or not succeeded):
            return f"cancelled by {self.killed_by}"
        return ""

    def start(self, host: HostId, reason: str, unix_s: float) -> None:
        self.host, self.reason, self.started = host, reason, unix_s
        self.state = JobState.RUNNING

    def take_back(self, reason: str) -> None:
        """Marks it as pending: it is to be started again from the start, or has never run."""
        self.host, self.reason, self.started, self.pid = NOWHERE, reason, None, 0
        self.state = JobState.PENDING


class Jobs:
    """The running jobs, and the last `history` ended ones. `ended` is called at each end.

    Callbacks that wait for the end of a job are called once it ends, whatever its id is by then.
    """

    def __init__(
        self,
        history: int,
        ended: Callable[[Job], None] = lambda _: None,
        own: HostId = NOWHERE,
        numbers: Iterator[int] | None = None,
    ) -> None:
        """`own`: this host; `numbers`: numbers that no job of this host has had."""
        self._report_ended = ended
        self._own, self._numbers = own, numbers or itertools.count(1)
        # jobs that other hosts placed here, by the pid of the command itself
        self.placed: dict[int, JobId] = {}
        self.running: dict[JobId, Job] = {}
        self.ended: deque[Job] = deque(maxlen=history)
        self.renamed: OrderedDict[JobId, JobId] = OrderedDict()  # ids of jobs that started again
        self._waiting: dict[JobId, list[Callable[[], None]]] = {}

    def new_id(self) -> JobId:
        """Returns an id for a job of one of this host's users."""
        return JobId(f"{self._own}-{next(self._numbers)}")

    def forget_placed(self, job: JobId) -> None:
        for pid in [pid for pid, held in self.placed.items() if held == job]:
            del self.placed[pid]

    def add(self, job: Job) -> None:
        job.command = tuple(shown(job.command, SHOWN_BYTES))
        job.directory = job.directory[:SHOWN_BYTES]
        self.running[job.id] = job

    def rename(self, job: Job, new: JobId) -> None:
        """Gives a job that starts again a new id: no id is started twice."""
        del self.running[job.id]
        self.renamed[job.id] = new
        while len(self.renamed) > RENAMED_KEPT:
            self.renamed.popitem(last=False)
        if waiting := self._waiting.pop(job.id, None):
            self._waiting[new] = waiting
        job.id = new

    def find(self, job: JobId) -> Job | None:
        """Returns a running or recently ended job, also by an id that it had before."""
        while job not in self.running and job in self.renamed:
            job = self.renamed[job]
        if job in self.running:
            return self.running[job]
        return next((one for one in reversed(self.ended) if one.id == job), None)

    def once_ended(self, job: JobId, call: Callable[[], None]) -> None:
        """Calls `call` once this running job has ended."""
        self._waiting.setdefault(job, []).append(call)

    def no_longer(self, call: Callable[[], None]) -> None:
        """Removes a callback that is no longer waited for."""
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
        ran_s: float = 0.0,
        never_ran: bool = False,
    ) -> None:
        """Moves a job to the ended ones; a job that has already ended stays as it is. `ran_s`: how
        long it has run at least, as the host says where it ran: we may have heard late of its
        begin; `never_ran`: it has not, although it was started."""
        job = self.running.pop(job_id, None)
        if job is None:
            return
        if never_ran:
            job.take_back("")
        job.state, job.finished, job.exit_status, job.cpu_s = state, unix_s, exit_status, cpu_s
        if job.started is not None:
            job.started = min(job.started, max(job.submitted, unix_s - ran_s))
        if why := job.why_cancelled(succeeded=state is JobState.DONE):
            job.state, reason = JobState.CANCELLED, why
        if reason and job.reason and job.is_placed_by_us:
            reason = f"{reason}{PLACED}{job.reason}"
        job.reason = reason or job.reason
        self.ended.append(job)
        self._report_ended(job)
        for call in self._waiting.pop(job_id, ()):
            call()

    def recall(self, latest: Iterable[Job]) -> None:
        """Adds jobs that ended under an earlier LBM, the last to end first."""
        known = {job.id for job in self.ended} | self.running.keys()
        for job in latest:
            if len(self.ended) == self.ended.maxlen:
                return
            if job.id not in known:
                self.ended.appendleft(job)

    def count(self, *, foreign: bool) -> int:
        return sum(
            job.foreign == foreign and job.started is not None for job in self.running.values()
        )


class Claims:
    """The ids of the jobs of one stream between two hosts. No job starts twice, even if it is
    replayed."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._begun: OrderedDict[JobId, None] = OrderedDict()

    def take(self, job: JobId) -> None:
        """Raises PeerError if the job is here, or has been."""
        if job in self._begun or job in self._jobs.running:
            raise PeerError(f"job {job} has already been sent here")
        self._begun[job] = None
        while len(self._begun) > CLAIMS_KEPT:
            self._begun.popitem(last=False)

    @property
    def ids(self) -> list[JobId]:
        return list(self._begun)

    def restore(self, ids: Iterable[JobId]) -> None:
        """Adds the ids that another LBM of this host has admitted."""
        self._begun.update(dict.fromkeys(ids))

    def give_back(self, job: JobId) -> None:
        """Releases the id of a job that did not run: it may be sent again."""
        self._begun.pop(job, None)


@dataclass(slots=True)
class LocalCap:
    """How many commands may run here because another host failed, at each depth of nesting.

    A command of depth d waits only for commands of depth d, whose ends depend at most on deeper
    ones. So the deepest can always continue and nobody waits for ever.
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
        """Counts a job that runs already, even beyond the limit."""
        self.running.setdefault(depth, set()).add(job)

    def release(self, job: JobId) -> None:
        for level in self.running.values():
            level.discard(job)

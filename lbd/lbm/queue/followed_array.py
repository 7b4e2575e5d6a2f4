"""What an `lbrun -q` waits for: the progress of its array, and the summary at the end.

An array may have very many tasks, and their client may read slowly or not at all. So only a few
bytes are kept for each task, and no messages.
"""

from bisect import insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.array_phrases import (
    ALL_SHOWN,
    FailedTask,
    Pace,
    ended_of,
    failed_line,
    interrupted_line,
    progress_line,
    running_of,
)
from lbd.text.index_list import Runs, count_of
from lbd.text.job_phrases import HELD, is_held

KILL = 9
FAILED = ("failed", "lost")


class AwaitedJobs:
    """The ended jobs. `first` is the main one: the first that failed, else the first that was
    cancelled, else the first of all."""

    def __init__(self, numbers: str) -> None:
        """`numbers`: `7` or `7-10`, of all jobs that may end."""
        low, _, high = numbers.partition("-")
        self._low = int(low)
        self._has_ended = bytearray(int(high or low) - self._low + 1)
        self.states = Counter[str]()
        self.signals = Counter[int]()  # of the jobs that failed
        self.never_started = 0  # of those that were cancelled
        self.failed: list[tuple[int, FailedTask]] = []  # the first few that failed, by number
        self.first = pb.JobInfo()
        self._first_rank = 3, 0

    def awaits(self, number: int) -> bool:
        at = number - self._low
        return 0 <= at < len(self._has_ended) and not self._has_ended[at]

    def add(self, job: pb.JobInfo) -> None:
        """Adds an awaited job that has ended."""
        self._has_ended[job.id - self._low] = 1
        self.states[job.state] += 1
        if job.state in FAILED:
            self.signals[job.signal] += 1
            insort(self.failed, (job.id, failed_task(job)))
            del self.failed[ALL_SHOWN:]
        self.never_started += job.state == "cancelled" and not job.started
        rank = {"done": 2, "cancelled": 1}.get(job.state, 0), job.id
        if rank < self._first_rank:
            self._first_rank = rank
            self.first.CopyFrom(job)  # a reference would keep its whole message alive

    @property
    def left(self) -> int:
        """How many have not ended."""
        return self._has_ended.count(0)

    @property
    def all_done(self) -> bool:
        return self.states.total() == self.states["done"]


@dataclass(slots=True)
class FollowedArray:
    id: str
    indexes: Runs
    shows_progress: bool
    _states: bytearray = field(init=False)  # for each task, a number in `_names`; 0: unknown
    _names: dict[str, int] = field(default_factory=dict)
    _pace: Pace = field(default_factory=Pace)

    def __post_init__(self) -> None:
        self._states = bytearray(count_of(self.indexes) if self.shows_progress else 0)

    def heard(self, jobs: Iterable[pb.JobInfo]) -> None:
        for job in jobs:
            if 0 <= (at := job.id - int(self.id)) < len(self._states):
                state = HELD if job.state == "pending" and is_held(job.reason) else job.state
                self._states[at] = self._names.setdefault(state, len(self._names) + 1)

    def progress(self, now_s: float) -> str:
        count = count_of(self.indexes)
        states = Counter({name: self._states.count(code) for name, code in self._names.items()})
        states["pending"] += count - states.total()  # nothing was heard about these
        return progress_line(
            states, self._pace.left_s(*ended_of(states), running_of(states), now_s)
        )

    def end(self, ended: AwaitedJobs, interrupted: int) -> str:
        """`interrupted`: the signal; 0: not interrupted."""
        if interrupted:
            ended_by_it = sum(ended.signals[number] for number in {interrupted, KILL})
            return interrupted_line(ended.states, ended_by_it, ended.never_started)
        tasks = [task for _, task in ended.failed]
        line = failed_line(ended.states, tasks)
        return f"{line}; lbctl logs {self.id}_{tasks[0].task}" if tasks else line


def failed_task(job: pb.JobInfo) -> FailedTask:
    status = job.exit_status if job.HasField("exit_status") else None
    return FailedTask(job.array_index, job.state, status, job.signal, job.cause)

"""An array that an `lbrun -q` waits for: how far it is, and what is said at its end."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lbd.model import ENDED_NAMES
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.array_phrases import (
    SHOWN,
    FailedTask,
    Pace,
    failed_line,
    interrupted_line,
    progress_line,
)
from lbd.text.index_list import Runs, count_of

KILL = 9


@dataclass(slots=True)
class FollowedArray:
    id: str
    indexes: Runs
    shows_progress: bool
    _states: dict[int, str] = field(default_factory=dict)  # by task, as far as they are known
    _pace: Pace = field(default_factory=Pace)

    def heard(self, jobs: Iterable[pb.JobInfo]) -> None:
        for job in jobs:
            self._states[job.id] = job.state

    def progress(self, now_s: float) -> str:
        states, count = Counter(self._states.values()), count_of(self.indexes)
        ended = sum(states[name] for name in ENDED_NAMES)
        states["pending"] += count - states.total()  # nothing was heard of these
        return progress_line(states, self._pace.left_s(ended, count, now_s))

    def end(self, jobs: Sequence[pb.JobInfo], interrupted: int) -> str:
        """`interrupted`: by this signal; 0: by none."""
        states = Counter(job.state for job in jobs)
        failed = [job for job in jobs if job.state in ("failed", "lost")]
        if interrupted:
            ended_by_it = sum(job.signal in (interrupted, KILL) for job in failed)
            return interrupted_line(states, ended_by_it)
        tasks = [failed_task(job) for job in failed[:SHOWN]]
        line = failed_line(states, tasks)
        return f"{line}; lbctl logs {self.id}_{tasks[0].task}" if tasks else line


def failed_task(job: pb.JobInfo) -> FailedTask:
    status = job.exit_status if job.HasField("exit_status") else None
    return FailedTask(job.array_index, job.state, status, job.signal, job.cause)

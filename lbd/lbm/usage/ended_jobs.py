"""What is counted of each job's end, for metrics. Pure.

Jobs of users of this host, and, of the queue's, those that ran here: where they ended is the
dispatcher's to count, how long they waited and took is known here alone.
"""

import math
from collections import Counter
from dataclasses import dataclass, field

from lbd.lbm.core.jobs import Job
from lbd.lbm.usage.measures import slowdown
from lbd.metrics.core.histogram import Histogram
from lbd.metrics.core.table import SLOWDOWNS, TIMES_S

ATTACHED, QUEUED = "attached", "queued"


@dataclass(slots=True)
class Times:
    waiting: Histogram = field(default_factory=lambda: Histogram(TIMES_S))
    response: Histogram = field(default_factory=lambda: Histogram(TIMES_S))
    slowdown: Histogram = field(default_factory=lambda: Histogram(SLOWDOWNS))
    cpu_s: float = 0.0


@dataclass(slots=True)
class EndedJobs:
    outcomes: Counter[str] = field(default_factory=Counter)  # of attached ones
    here: int = 0
    elsewhere: int = 0
    wrong: int = 0
    times: dict[str, Times] = field(default_factory=lambda: {ATTACHED: Times(), QUEUED: Times()})

    def note(self, job: Job) -> None:
        if not job.queued_at:
            self.outcomes[job.state.value] += 1
            if job.started is not None:
                self._picked(job)
        if job.started is None or job.finished is None:
            return
        times = self.times[QUEUED if job.queued_at else ATTACHED]
        response_s = max(0.0, job.finished - job.submitted)
        times.waiting.note(max(0.0, job.started - job.submitted))
        times.response.note(response_s)
        cpu_s = job.cpu_s or 0.0
        if cpu_s > 0.0 and math.isfinite(cpu_s):  # another host's word
            times.cpu_s += cpu_s
            if not math.isnan(found := slowdown(response_s, cpu_s)):
                times.slowdown.note(found)

    def _picked(self, job: Job) -> None:
        if job.host == job.origin:
            self.here += 1
        else:
            self.elsewhere += 1
            self.wrong += job.wrong

    def answer(self) -> dict[str, object]:
        return {
            "jobs_ended": [[state, ATTACHED, count] for state, count in self.outcomes.items()],
            "picks": [["here", self.here], ["elsewhere", self.elsewhere]],
            "wrong_picks": self.wrong,
            "job_waiting_seconds": [[kind, t.waiting.answer()] for kind, t in self.times.items()],
            "job_response_seconds": [[kind, t.response.answer()] for kind, t in self.times.items()],
            "job_slowdown": [[kind, t.slowdown.answer()] for kind, t in self.times.items()],
            "job_cpu_seconds": [[kind, t.cpu_s] for kind, t in self.times.items()],
        }

"""Counts of what a ledger records, for metrics."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lbd.dispatch.core.records import Begin, Changed, Fate, Record
from lbd.metrics.core.histogram import Histogram
from lbd.metrics.core.table import COMMITS_S
from lbd.model import ENDED_STATES, JobState

QUEUED = "queued"
ALIVE = (Fate.LEASED, Fate.RUNNING, Fate.SUSPENDED)
OUTCOMES = tuple(state.value for state in JobState if state in ENDED_STATES)
FATES = tuple(fate.value for fate in Fate if fate not in ALIVE)


@dataclass(slots=True)
class LedgerCounts:
    """Every change of a job is recorded once, so each end is counted once here.

    What has not happened yet is reported as 0: Prometheus sees no increase in a series that begins
    at 1, and would not warn of the first lost job.
    """

    outcomes: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(OUTCOMES, 0)))
    fates: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(FATES, 0)))
    begun: int = 0
    commits: Histogram = field(default_factory=lambda: Histogram(COMMITS_S))
    failures: int = 0

    def note(self, changes: Sequence[tuple[Record, float]]) -> None:
        """`changes`: each with its time."""
        for change, _ in changes:
            if isinstance(change, Begin):
                self.begun += 1
            elif isinstance(change, Changed):
                if change.state in ENDED_STATES:
                    self.outcomes[change.state.value] += 1
                if change.fate is not None and change.fate not in ALIVE:
                    self.fates[change.fate.value] += 1

    def answer(self) -> dict[str, object]:
        return {
            "jobs_ended": [[state, QUEUED, count] for state, count in self.outcomes.items()],
            "attempts_begun": self.begun,
            "attempts_ended": [[fate, count] for fate, count in self.fates.items()],
            "ledger_commits": sum(self.commits.counts),
            "ledger_commit_failures": self.failures,
            "ledger_commit_seconds": self.commits.answer(),
        }

"""Updates about this host's attempts that the dispatcher has not received yet, in order. Pure.

While the dispatcher is not connected, an attempt may be stopped and continued any number of times.
Of updates that replace each other only the last is kept, so an attempt has at most three pending.
"""

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

HALTS = ("stopped", "continued")


class Report(Protocol):
    """The report of an attempt, as in dispatch.proto."""

    job: str
    attempt: int
    event: str


AnyReport = TypeVar("AnyReport", bound=Report)


@dataclass(slots=True)
class PendingReports(Generic[AnyReport]):
    _reports: dict[tuple[str, int, str], AnyReport] = field(default_factory=dict)

    def add(self, report: AnyReport) -> None:
        key = report.job, report.attempt, HALTS[0] if report.event in HALTS else report.event
        self._reports.pop(key, None)
        self._reports[key] = report

    def __len__(self) -> int:
        return len(self._reports)

    def take(self) -> list[AnyReport]:
        """Returns all reports and forgets them."""
        report, self._reports = list(self._reports.values()), {}
        return report

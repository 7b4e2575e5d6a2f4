"""Estimates jobs' CPU time from earlier runs of the same command: for least-work and sita-e. Pure.

Earlier runs of exactly the same command line by that user count first, else that user's runs of the
same kind (`key_of`, as for eligibility). The estimate is the mean of the last few runs.
"""

from collections.abc import Iterable
from statistics import fmean

from lbd.dispatch.core.cutoffs import ran_whole
from lbd.dispatch.core.ledger_rows import JobRow, command_of
from lbd.dispatch.core.run_times import Key, Times, line_of

COMMANDS_KEPT = 20_000
LAST_RUNS = 8


class Estimates:
    def __init__(self, most: int = COMMANDS_KEPT) -> None:
        self._cpu_times = Times(most)

    def __len__(self) -> int:
        return len(self._cpu_times)

    def learn(self, rows: Iterable[JobRow]) -> None:
        """Learns from jobs that have ended."""
        for row in rows:
            if row.cpu_s is not None and ran_whole(row):
                for key in keys_of(row.user, row.command):
                    self._cpu_times.add(key, row.cpu_s, LAST_RUNS)

    def of(self, user: str, command: bytes) -> float | None:
        """Returns the estimated CPU seconds; None for a command never seen."""
        for key in keys_of(user, command):
            if known := self._cpu_times.of(key):
                return fmean(known)
        return None


def keys_of(user: str, command: bytes) -> tuple[Key, Key]:
    """`command`: its words, joined by NULs."""
    return (user, line_of(command)), (user, command_of(command))

"""The accounting's thread writes ended jobs, and keeps what it cannot write yet.

What cannot be kept either is counted, and the count is recorded as soon as possible.
"""

import logging
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from lbd.config.schema import StatsConfig
from lbd.lbm.core.jobs import Job
from lbd.lbm.usage.backlog import Backlog, Unrecorded
from lbd.lbm.usage.gap_file import GapFile
from lbd.lbm.usage.gaps import Gap
from lbd.lbm.usage.record import Usage, usage_of
from lbd.lbm.usage.store import UsageStore
from lbd.process.job_log import JobLog

log = logging.getLogger("lbd.lbm")
job_log = JobLog(log)

TOGETHER = 1000  # jobs in one transaction
FILE, GAP_FILE = "usage.sqlite", "usage.gap"
# SQLite cannot store such a number or such a text.
CANNOT_BE = (OverflowError, ValueError)


class UsageWriter:
    """Used by one thread, but for `lost`, `trouble` and `complain`."""

    def __init__(self, state: Path, config: StatsConfig) -> None:
        self.store = UsageStore(state / FILE, config)
        self._gap_file = GapFile(state / GAP_FILE)
        self._backlog = Backlog()
        self._lost_on_record = 0
        self.trouble = ""  # why jobs cannot be recorded now

    @property
    def lost(self) -> int:
        """Jobs that are in no record, as far back as the file goes."""
        return self._lost_on_record + (lost.commands if (lost := self._backlog.lost) else 0)

    @property
    def is_behind(self) -> bool:
        return not self._backlog.is_empty

    def begin(self, left: Unrecorded | None) -> None:
        """`left`: by the LBM before; None: it was killed, or has lost what it could not write."""
        if left is None:
            self._backlog.lose(self._gap_file.read())
        else:
            self.keep(left.usages, left.lost)
        self.write()

    def take(self, jobs: Iterable[Job], lost: Gap | None) -> None:
        """`lost`: other jobs, which nobody has kept."""
        self.keep(map(usage_of, jobs), lost)
        self.write()

    def keep(self, usages: Iterable[Usage], lost: Gap | None) -> None:
        was_complete = self._backlog.lost is None
        for usage in usages:
            self._backlog.add(usage)
        self._backlog.lose(lost)
        if was_complete and self._backlog.lost is not None:
            log.warning("too many jobs wait to be recorded; further ones are only counted")

    def write(self) -> None:
        """Writes all that is not on record yet, as far as possible."""
        try:
            self._write_backlog()
            self._lost_on_record = sum(gap.commands for gap in self.store.gaps())
            self.trouble = ""
            self.store.answered()
        except (sqlite3.Error, OSError) as problem:
            self.store.close()  # the next attempt opens the file as it is then
            self.complain(self.store.why(problem))
        self._gap_file.write(self._backlog.in_danger())

    def _write_backlog(self) -> None:
        """Raises sqlite3.Error, OSError."""
        backlog, together = self._backlog, TOGETHER
        while not backlog.is_empty:
            batch = backlog.first(together)
            try:
                self.store.add(batch, backlog.lost)
            except CANNOT_BE as problem:
                if len(batch) > 1:
                    together = 1  # so that only the faulty one is lost
                    continue
                job_log.warning(batch[0].id or "", "cannot be recorded: %s", problem)
                backlog.lose_first()
                together = TOGETHER
            else:
                backlog.written(len(batch))

    def gaps(self) -> list[Gap]:
        """What is not on record: lost, or still to be recorded. Raises sqlite3.Error, OSError."""
        found = [*self.store.gaps(), self._backlog.lost, self._backlog.kept()]
        return [gap for gap in found if gap is not None]

    def left(self) -> Unrecorded:
        """For the next LBM; to be called when the thread has ended."""
        return self._backlog.left()

    def complain(self, why: str) -> None:
        if why != self.trouble:
            log.warning("cannot record jobs in the accounting: %s", why)
        self.trouble = why

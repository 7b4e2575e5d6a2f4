"""What the ledger knows of earlier tasks like those of an array with a target, before it begins."""

import contextlib
import time
from collections.abc import Iterable

from lbd.dispatch.core.ledger_rows import (
    Accepted,
    JobRow,
    Ledger,
    LedgerTrouble,
    Submission,
    Wanted,
)
from lbd.dispatch.core.targets.arrays import Targets
from lbd.dispatch.core.targets.task_times import earlier
from lbd.process.boot_clock import clock_s

ROWS = 1000  # of the user's last ended jobs
COMMANDS_BYTES = 1 << 20  # of their commands
USERS_KEPT = 100  # while a dispatcher starts


class EarlierTasks:
    def __init__(self, ledger: Ledger, targets: Targets) -> None:
        self._ledger = ledger
        self._targets = targets
        self._known: dict[tuple[str, int | None], list[JobRow]] = {}

    async def of_new(self, accepted: Accepted, sent: Submission) -> None:
        """Learns for an array that is already in the ledger, so this must not fail."""
        if sent.target is not None or sent.deadline is not None:
            self._targets.unix_s = time.time() - clock_s()
            rows = await self._ended(sent.user, sent.uid)
            known = earlier(rows, accepted.submission, sent.name, sent.command)
            self._targets.expect(accepted.first, known)

    async def of_restored(self, rows: Iterable[JobRow]) -> None:
        """Learns for the arrays of the previous dispatcher that `rows` belong to."""
        self._targets.unix_s = time.time() - clock_s()
        arrays = {row.submission: row for row in rows if (row.target or row.deadline) is not None}
        for submission, row in arrays.items():
            if row.first not in self._targets.arrays:
                user = row.user, row.uid
                if user not in self._known:
                    if len(self._known) >= USERS_KEPT:
                        self._known.clear()
                    self._known[user] = await self._ended(*user)
                known = earlier(self._known[user], submission, row.name, row.command)
                self._targets.expect(row.first, known)

    async def _ended(self, user: str, uid: int | None) -> list[JobRow]:
        wanted = Wanted((), user, uid, ended_only=True, limit=ROWS, bytes_max=COMMANDS_BYTES)
        with contextlib.suppress(LedgerTrouble):
            return await self._ledger.find(wanted)
        return []

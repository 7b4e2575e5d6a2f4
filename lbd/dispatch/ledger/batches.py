"""The dispatcher's decisions on their way to the ledger, in the order in which they were made."""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Sequence, Set
from dataclasses import dataclass

from lbd.dispatch.core.records import Action, Begin, Changed, Fate
from lbd.model import ENDED_STATES, HostId, JobId
from lbd.text.job_limits import HELD_MAX

LATE_S = 2.0  # for the ledger to record something
UNSAVED_MAX = 2 * HELD_MAX  # of one host's reports: all its attempts may begin and end
NOT_RUN = (None, Fate.REFUSED)  # the fates of a last attempt of which nothing ran


@dataclass(slots=True)
class Batch:
    """Actions to carry out once `saved` is done, that is, on disk."""

    actions: Sequence[Action]
    saved: Awaitable[object] | None
    done: "asyncio.Future[None]"
    since_s: float
    host: HostId | None = None  # whose reports called for them
    records: int = 0  # of the actions: what must be written
    ran: Set[JobId] = frozenset()  # jobs that ran and have ended
    is_told: bool = False  # whether it is known to be late


class Batches:
    def __init__(self) -> None:
        self._queue = deque[Batch]()
        self._more = asyncio.Event()
        self._unsaved = Counter[HostId]()  # of each host's reports
        self.ran: set[JobId] = set()  # jobs that ran and have ended, which is not on disk yet

    def put(self, batch: Batch) -> None:
        changes = [one for one in batch.actions if isinstance(one, Changed)]
        batch.ran = {
            one.job for one in changes if one.state in ENDED_STATES and one.fate not in NOT_RUN
        }
        self.ran |= batch.ran
        if batch.host is not None:
            self._unsaved[batch.host] += batch.records
        self._queue.append(batch)
        self._more.set()

    async def next_saved(self) -> Batch:
        """Removes the oldest batch once it is on disk."""
        while not self._queue:
            self._more.clear()
            await self._more.wait()
        if (saved := self._queue[0].saved) is not None:
            await saved
        batch = self._queue.popleft()
        self.ran -= batch.ran
        if batch.host is not None:
            self._unsaved[batch.host] -= batch.records
            if not self._unsaved[batch.host]:
                del self._unsaved[batch.host]
        return batch

    def check_room(self, host: HostId) -> None:
        """Raises ValueError if what follows from the host's reports cannot be kept any more. It
        could report that a job is stopped, and goes on, without end."""
        if self._unsaved[host] > UNSAVED_MAX:
            raise ValueError(f"{self._unsaved[host]} reports of {host} are not on disk yet")

    def late_jobs(self, now_s: float) -> list[JobId]:
        """Returns the jobs whose changes have just become late in being written; once only."""
        found: list[JobId] = []
        for batch in reversed(self._queue):
            if batch.is_told:
                break
            if now_s >= batch.since_s + LATE_S:
                batch.is_told = True
                found += [one.job for one in batch.actions if isinstance(one, Begin | Changed)]
        return found

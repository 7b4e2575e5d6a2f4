"""The dispatcher's decisions on their way to the ledger, in the order in which they were made."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterable, Sequence, Set
from dataclasses import dataclass

from lbd.dispatch.core.records import Action, Begin, Changed, Fate
from lbd.model import ENDED_STATES, HostId, JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.job_limits import HELD_MAX
from lbd.text.one_line import one_line

LATE_S = 2.0  # for the ledger to record something
NOT_RUN = (None, Fate.REFUSED)  # the fates of a last attempt of which nothing ran
HALTS = ("stopped", "continued")
KINDS = {"stopped": "halt", "continued": "halt", "ended": "end", "refused": "end"}
# Of one host: each of its attempts is ready, begins, was last halted or goes on, and ends.
UNSAVED_MAX = 4 * HELD_MAX

Said = tuple[HostId, str, int, str]  # of an attempt: what its host said


def said_in(host: HostId, report: pb.AttemptReport) -> Said:
    return host, report.job, report.attempt, KINDS.get(report.event, report.event)


class UnsavedReports:
    """What hosts said, until all that follows from it is on disk. Until then it is no news to hear
    it again.

    A job may stop, and continue itself, without end, and its host reports that: of an attempt only
    the last such report waits. So what an honest host says has a bound, however long the disk is
    full. A host that says more has made up attempts.
    """

    def __init__(self) -> None:
        self._of: dict[HostId, dict[Said, pb.AttemptReport | None]] = {}  # with the one that waits

    def is_next(self, host: HostId, report: pb.AttemptReport) -> bool:
        """Whether this report is to be processed now. Raises ValueError if the host says too
        much."""
        unsaved, said = self._of.get(host, {}), said_in(host, report)
        if said not in unsaved:
            if len(unsaved) >= UNSAVED_MAX:
                raise ValueError(f"{len(unsaved)} reports of {host} are not on disk yet")
            return True
        if report.event in HALTS:  # without what else a host may have put into it
            unsaved[said] = pb.AttemptReport(
                job=report.job,
                attempt=report.attempt,
                event=report.event,
                reason=one_line(report.reason),
                stop_reason=one_line(report.stop_reason),
            )
        return False

    def add(self, said: Said) -> bool:
        """Returns False if it is no news, or its host says too much."""
        unsaved = self._of.setdefault(said[0], {})
        if said in unsaved or len(unsaved) >= UNSAVED_MAX:
            return False
        unsaved[said] = None
        return True

    def saved(self, said: Iterable[Said]) -> list[tuple[HostId, pb.AttemptReport]]:
        """Returns the reports that have waited for these."""
        waited = list[tuple[HostId, pb.AttemptReport]]()
        for one in said:
            unsaved = self._of[one[0]]
            if (report := unsaved.pop(one)) is not None:
                waited.append((one[0], report))
            if not unsaved:
                del self._of[one[0]]
        return waited


@dataclass(slots=True)
class Batch:
    """Actions to carry out once `saved` is done, that is, on disk."""

    actions: Sequence[Action]
    saved: Awaitable[object] | None
    done: "asyncio.Future[None]"
    since_s: float
    said: Sequence[Said] = ()  # what called for them
    ran: Set[JobId] = frozenset()  # jobs that ran and have ended
    is_told: bool = False  # whether it is known to be late


class Batches:
    def __init__(self) -> None:
        self._queue = deque[Batch]()
        self._more = asyncio.Event()
        self.unsaved = UnsavedReports()
        self.ran: set[JobId] = set()  # jobs that ran and have ended, which is not on disk yet

    def put(self, batch: Batch) -> None:
        changes = [one for one in batch.actions if isinstance(one, Changed)]
        batch.ran = {
            one.job for one in changes if one.state in ENDED_STATES and one.fate not in NOT_RUN
        }
        self.ran |= batch.ran
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
        return batch

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

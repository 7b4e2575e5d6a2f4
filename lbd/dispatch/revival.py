"""Ended jobs that start over, as `lbctl requeue` asks; those of a gang all together."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from lbd.dispatch.core.ledger_rows import JobRow, Wanted, command_of
from lbd.dispatch.core.records import Action, Live
from lbd.dispatch.core.restore import queued_job
from lbd.dispatch.core.run_times import name_hash
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.job_finder import forgiven
from lbd.dispatch.queue_quotas import QueueRoom
from lbd.errors import LbdError
from lbd.model import JobId
from lbd.process.boot_clock import clock_s

NAMES_AT_ONCE = 500  # of commands
NAMES_BYTES = 64 << 20  # of commands read together for them


@dataclass(frozen=True, slots=True)
class Revival:
    dispatcher: Dispatcher
    # Jobs that have ended since they were read: each may have had another attempt meanwhile, as
    # another order has it start over, and the next attempt must not have the same number.
    ended: set[JobId]
    # Waits until their ends are on disk, or returns what has to come about first.
    unwritten: Callable[[], Awaitable[str]]
    _names: dict[int, int] = field(default_factory=dict)  # hashes, by submission

    async def read_names(self, rows: Sequence[JobRow]) -> None:
        """Reads the command names that runs are learnt under, for ended jobs read without their
        commands. Names of commands that are too large together stay unknown."""
        jobs = self.dispatcher.life.jobs
        ended = [row for row in rows if not row.command and JobId(str(row.id)) not in jobs]
        ids = sorted({row.submission: row.id for row in ended}.values())
        for at in range(0, len(ids), NAMES_AT_ONCE):
            ranges = tuple((job, job) for job in ids[at : at + NAMES_AT_ONCE])
            wanted = Wanted(ranges, ended_too=True, limit=len(ranges), bytes_max=NAMES_BYTES)
            for row in await self.dispatcher.ledger.find(wanted):
                self._names[row.submission] = name_hash(command_of(row.command))

    async def start_over(self, row: JobRow) -> list[Action]:
        """Requeues a job, or all of its gang, if it has ended or runs. Raises LbdError."""
        job, life = JobId(str(row.id)), self.dispatcher.life
        rows = await self._gang(row) or [row]
        while job not in life.jobs and (
            again := self.ended.intersection(JobId(str(one.id)) for one in rows)
        ):
            self.ended.difference_update(again)
            if until := await self.unwritten():
                raise LbdError(f"job {row.shown} has just ended; try again once {until}")
            rows = await self._gang(row) or await self._read(row)
        return life.requeue(job) if job in life.jobs else self._of(rows)

    async def _read(self, row: JobRow) -> list[JobRow]:
        """Raises LbdError."""
        wanted = Wanted(((row.id, row.id),), ended_too=True, limit=1)
        if not (rows := await self.dispatcher.ledger.find(wanted)):
            raise LbdError(f"job {row.shown} is no longer on record")
        return await forgiven(self.dispatcher.ledger, rows)

    async def _gang(self, row: JobRow) -> list[JobRow]:
        """Returns its whole gang if the job has ended. Raises LbdError unless all of them have."""
        jobs = self.dispatcher.life.jobs
        if not row.gang or JobId(str(row.id)) in jobs:
            return []
        ids = (row.id - row.gang + 1, row.id + row.gang - 1)
        wanted = Wanted((ids,), ended_too=True, limit=2 * row.gang)
        found = await self.dispatcher.ledger.find(wanted)
        gang = [one for one in found if one.submission == row.submission]
        if len(gang) < row.gang:
            raise LbdError(f"job {row.shown}: some jobs of its gang are no longer on record")
        if open_ids := [one.shown for one in gang if JobId(str(one.id)) in jobs]:
            raise LbdError(
                f"job {row.shown}: job {open_ids[0]} of its gang has not ended; kill it, then "
                "requeue them all"
            )
        return await forgiven(self.dispatcher.ledger, gang)

    def _of(self, rows: Sequence[JobRow]) -> list[Action]:
        """Raises LbdError."""
        dispatcher, actions = self.dispatcher, list[Action]()
        if fault := QueueRoom(dispatcher).why_not_again(rows):
            raise LbdError(fault)
        dispatcher.life.queues.targets.unix_s = time.time() - clock_s()
        if once := next((row for row in rows if not row.may_restart), None):
            raise LbdError(
                f"job {once.shown} was submitted with --no-restart: submit it again instead"
            )
        for row in rows:
            estimate_s = dispatcher.estimate_s(row.user, row.command)
            queued = queued_job(row, estimate_s, from_start=True, by_uid=dispatcher.by_uid)
            if not row.command:
                queued = queued._replace(command=self._names.get(row.submission, 0))
            live = Live(queued, row.attempt, requeued=time.time(), forgot=row.attempt > 0)
            actions += dispatcher.life.revived(live, clock_s(), dispatcher.rng)
        return actions

"""`lbctl update`: changes to waiting jobs, the same for all jobs of a submission."""

import math
import time
from dataclasses import dataclass, field, replace

from lbd.dispatch.core.ledger_rows import JobRow
from lbd.dispatch.core.records import Action, Updated
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.intake import NO_PRIORITIES, TEXT_MAX
from lbd.errors import LbdError
from lbd.model import JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.submitter import request_in
from lbd.process.boot_clock import clock_s
from lbd.text.job_limits import PRIORITY_MAX, TIME_MAX
from lbd.text.one_line import one_line


@dataclass(frozen=True, slots=True)
class Updates:
    """The changes of one order."""

    dispatcher: Dispatcher
    asked: pb.Update
    is_admin: bool
    # By submission: the one being processed, perhaps with a request of megabytes, and the recorded
    # ones, without theirs.
    _current: dict[int, Updated] = field(default_factory=dict)
    _recorded: dict[int, Updated] = field(default_factory=dict)

    def check(self) -> None:
        """Raises LbdError."""
        asked = self.asked
        if asked.HasField("begin") and not 0 <= asked.begin <= TIME_MAX:  # nor NaN
            raise LbdError("--begin: not a time")
        if asked.HasField("priority"):
            if not -PRIORITY_MAX <= asked.priority <= PRIORITY_MAX:
                raise LbdError(f"--priority: must be -{PRIORITY_MAX} to {PRIORITY_MAX}")
            if not self.dispatcher.life.rules.priorities:
                raise LbdError(NO_PRIORITIES)
            if asked.priority > 0 and not self.is_admin:
                raise LbdError(
                    f"--priority {asked.priority}: only administrators can raise priorities; use 0 "
                    "or less"
                )
        if asked.HasField("timeout_s") and not 0 <= asked.timeout_s <= TIME_MAX:  # nor NaN
            raise LbdError("--timeout: not a time limit")

    async def of(self, row: JobRow) -> Updated:
        """Raises LbdError."""
        number, asked = row.submission, self.asked
        if known := self._recorded.get(number) or self._current.get(number):
            return known
        self._current.clear()
        spec = await self._with_limit(row) if asked.HasField("timeout_s") else None
        limit_s = asked.timeout_s if asked.HasField("timeout_s") else row.limit_s
        name = one_line(asked.name, TEXT_MAX) if asked.HasField("name") else row.name
        priority = asked.priority if asked.HasField("priority") else row.priority
        begin = asked.begin if asked.HasField("begin") else row.not_before
        made = self._current[number] = Updated(number, priority, name, limit_s, spec, begin)
        return made

    def carry(self, change: Updated, row: JobRow) -> list[Action]:
        """Raises LbdError if the job has begun."""
        dispatcher, job = self.dispatcher, JobId(str(row.id))
        values = change.priority, change.name, change.limit_s
        actions = dispatcher.life.update(job, *values, clock_s(), dispatcher.rng)
        if self.asked.HasField("begin") and job in dispatcher.life.jobs:
            dispatcher.life.dependents.unix_s = time.time() - clock_s()
            actions += dispatcher.life.begin_at(job, change.not_before, clock_s(), dispatcher.rng)
        if row.submission in self._recorded:
            return actions
        self._recorded[row.submission] = replace(change, spec=None)
        dispatcher.starts.forget(row.submission)  # jobs that start from now on read it again
        return [change, *actions]

    async def _with_limit(self, row: JobRow) -> bytes:
        stored = await self.dispatcher.ledger.spec(row.submission)
        return with_limit(stored.spec, self.asked.timeout_s)


def with_limit(stored: bytes, limit_s: float) -> bytes:
    """Raises LbdError."""
    spec = pb.StoredSpec.FromString(stored)
    request = request_in(spec)
    if request is None or not math.isfinite(limit_s):
        raise LbdError("--timeout: the stored request of this job cannot be read")
    request.timeout_s = limit_s
    spec.run_request = request.SerializeToString()
    return spec.SerializeToString()

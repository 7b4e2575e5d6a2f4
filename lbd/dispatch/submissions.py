"""Takes submissions in: checks them, writes them to disk, then adds them to the queue."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from itertools import islice

from lbd.dispatch.core.dependencies.conditions import conditions_of
from lbd.dispatch.core.dependencies.dependents import Waits
from lbd.dispatch.core.ledger_rows import Accepted, Stored, Submission, Wanted
from lbd.dispatch.core.ownership import Owners
from lbd.dispatch.core.why_waiting import stuck_reason
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.dependencies import DependencyCounts, DependencyLookup
from lbd.dispatch.earlier_tasks import EarlierTasks
from lbd.dispatch.intake import (
    fault_of_gang_hosts,
    fault_of_resources,
    submission_of,
    target_of,
)
from lbd.dispatch.job_lines import job_log
from lbd.dispatch.predictions import Predictions
from lbd.dispatch.queue_quotas import QueueRoom
from lbd.errors import LbdError
from lbd.model import HostId, JobId, JobState
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from lbd.text.spelling import nearest

TASKS_AT_ONCE = 1000  # of an array, queued in one turn: 15 ms


def unknown_excluded(excluded: Sequence[str], known: Mapping[HostId, object]) -> str:
    """Names the first host of -x that is not known, most likely a misspelt one; "" if all are."""
    name = next((name for name in excluded if name not in known), "")
    if not name:
        return ""
    meant = f'; did you mean "{near}"?' if (near := nearest(name, known)) else ""
    return f"-x {name}: no host of that name is known, so it excludes none{meant}"


class Submissions:
    def __init__(self, dispatcher: Dispatcher, predictions: Predictions, owners: Owners) -> None:
        self._dispatcher = dispatcher
        self._dependencies = DependencyLookup(dispatcher, owners)
        self._counts = DependencyCounts(dispatcher)
        self._ledger = dispatcher.ledger
        self._life, self._rng = dispatcher.life, dispatcher.rng
        self._predictions = predictions
        self._earlier_tasks = EarlierTasks(dispatcher.ledger, dispatcher.life.queues.targets)
        self._room = QueueRoom(dispatcher)

    async def take_in(
        self, turn: AbstractAsyncContextManager[None], asked: pb.SubmitRequest
    ) -> pb.SubmitReply:
        """Does the same in `turn`, for a submission that takes as long as an order. Raises
        LbdError."""
        async with turn:
            return await self.take(asked)

    async def take(self, asked: pb.SubmitRequest) -> pb.SubmitReply:
        """Raises LbdError."""
        own, by_uid = self._dispatcher.config.dispatch, self._dispatcher.by_uid
        sent = submission_of(asked, own, self._life.rules, by_uid=by_uid)
        if fault := fault_of_resources(sent.needs, self._dispatcher.config.cluster.resources):
            raise LbdError(fault)
        if fault := fault_of_gang_hosts(sent, self._life.hosts.known):
            raise LbdError(fault)
        target, deadline = target_of(asked, own, time.time())
        after = await self._dependencies.of(asked, sent)
        submission = sent  # `replace` copies many fields, and most submissions have none of these
        if target is not None or deadline is not None or after != sent.after:
            submission = replace(submission, target=target, deadline=deadline, after=after)
        if (foretold := self._predictions.of_submission(submission)) is not None:
            submission = replace(submission, foretold=foretold)
        known, full = None, self._room.why_not(submission)
        if full:  # it may have been accepted before
            known = await self._ledger.accepted(submission)
        if full and known is None and (full := self._room.why_not(submission)):
            raise LbdError(full)
        accepted = known or await self._queued(submission)
        cancelled = ""
        if after:
            await self._counts.look()
            cancelled = await self._why_cancelled(accepted)
        remark = self._remark(accepted, sent) if accepted.is_new else ""
        warning = stuck_reason(self._life, JobId(str(accepted.first)))
        return pb.SubmitReply(
            first=accepted.first,
            count=accepted.count,
            warning=warning,
            is_other=accepted.is_other,
            remark=remark,
            cancelled=cancelled,
        )

    async def _why_cancelled(self, accepted: Accepted) -> str:
        """Returns why the first of the new jobs has been cancelled already, because what it was to
        wait for can no longer happen; "" if it has not been."""
        if JobId(str(accepted.first)) in self._life.jobs or not accepted.is_new:
            return ""
        rows = await self._ledger.find(
            Wanted(((accepted.first, accepted.first),), ended_too=True, limit=1, commands=False)
        )
        return rows[0].reason if rows and rows[0].state == JobState.CANCELLED.value else ""

    def _remark(self, accepted: Accepted, sent: Submission) -> str:
        """Returns one line on hosts of -x that nobody knows, and on an array that will end too
        late."""
        targets, hosts, now_s = self._life.queues.targets, self._life.hosts, clock_s()
        is_sure = now_s >= hosts.more_until_s  # all that are there have been heard of
        lines = [unknown_excluded(sent.excluded, hosts.known) if is_sure else ""]
        if accepted.first in targets.arrays:
            begins = self._predictions.begins(JobId(str(accepted.first)), now_s)
            lines.append(targets.remark(accepted.first, now_s, begins))
        return "; ".join(filter(None, lines))

    async def _queued(self, sent: Submission) -> Accepted:
        """Writes the jobs to disk and queues them, if there is room. Raises LbdError."""
        with self._room.taken(sent):
            came = self._predictions.comes(sent)
            try:
                accepted = await self._ledger.submit(sent, time.time())
            finally:
                self._predictions.arrived(came)
            if accepted.is_new:
                count, first = accepted.count, str(accepted.first)
                tasks = f", {count} tasks" if count > 1 else ""
                job_log.debug(first, "accepted from %s%s", sent.origin, tasks)
                stored = Stored(sent.spec, sent.origin, sent.user, sent.uid)
                self._dispatcher.keep_start(accepted.submission, stored)
                await self._earlier_tasks.of_new(accepted, sent)
                await self._queue(sent, accepted)
        return accepted

    async def _queue(self, sent: Submission, accepted: Accepted) -> None:
        estimate_s = self._dispatcher.estimate_s(sent.user, sent.command)
        jobs, rng = sent.jobs(accepted, estimate_s, by_uid=self._dispatcher.by_uid), self._rng
        at_once = accepted.count if sent.gang else TASKS_AT_ONCE  # a gang is queued whole
        while some := list(islice(jobs, at_once)):
            if sent.after or sent.not_before:
                self._life.dependents.unix_s = time.time() - clock_s()
                early = [
                    (job, Waits(conditions_of(sent.after, job.array_index), sent.not_before))
                    for job in some
                ]
                actions = self._life.submitted_early(early, clock_s(), rng)
            else:
                actions = self._life.submitted(some, clock_s(), rng)
            self._dispatcher.carry(actions)
            if len(some) == at_once:
                await asyncio.sleep(0.0)

"""What the dispatcher is asked over the network: the hosts' lines, submissions, questions."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from lbd.dispatch.daemon import Dispatcher, Facts, Watcher, clock_s
from lbd.dispatch.jobs import Action, Live
from lbd.dispatch.ledger.rows import JobRow, Submission, Wanted
from lbd.dispatch.lines import Line
from lbd.dispatch.reasons import waiting_reason
from lbd.dispatch.restore import queued_job
from lbd.dispatch.selectors import read_selectors
from lbd.dispatch.told import add_attempts, job_told
from lbd.errors import LbdError
from lbd.model import HostId, JobId
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.transport import HOST_HEADER, Trust

if TYPE_CHECKING:  # generic in the stubs only
    Context = grpc.aio.ServicerContext[bytes, bytes]
    Handler = Callable[[bytes, "Context"], Awaitable[bytes]]

log = logging.getLogger("lbd.dispatch")

ANSWER_MAX = 100_000  # jobs in one answer
KEY_MAX = 200
GATHER_S = 0.05
Asked = TypeVar("Asked", bound=Message)
ENDED = ("done", "failed", "cancelled", "lost")


class Desk:
    def __init__(self, dispatcher: Dispatcher, trust: Trust) -> None:
        self._dispatcher = dispatcher
        self._trust = trust
        self._ledger = dispatcher.ledger
        self._life = dispatcher.life

    def handlers(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            "lbd.v1.Dispatch",
            {
                "Work": grpc.stream_stream_rpc_method_handler(self._work),
                "Submit": grpc.unary_unary_rpc_method_handler(self._submit),
                "Jobs": grpc.unary_unary_rpc_method_handler(self._jobs),
                "Watch": grpc.unary_stream_rpc_method_handler(self._watch),
                "Act": grpc.unary_unary_rpc_method_handler(self._act),
            },
        )

    async def _work(self, _requests: object, context: "Context") -> None:
        """A host's line, until it breaks or a new one of the same host takes its place."""
        headers = dict(context.invocation_metadata() or ())
        proven = await self._trust.caller(context)
        name = HostId(proven or str(headers.get(HOST_HEADER, "")))
        with self._trust.held(proven):
            await self._listen(name, Line(context.write), context)

    async def _listen(self, name: HostId, line: Line, context: "Context") -> None:
        self._dispatcher.line_opened(name, line)
        broken = asyncio.ensure_future(line.broken.wait())
        try:
            while True:
                reading = asyncio.ensure_future(context.read())
                await asyncio.wait((reading, broken), return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                    return
                message: object = reading.result()
                if not isinstance(message, bytes):
                    return
                self._dispatcher.heard(name, line, pb.WorkUp.FromString(message))
        except (DecodeError, ValueError, KeyError) as fault:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(fault))
        finally:
            broken.cancel()
            self._dispatcher.line_closed(name, line)

    async def _submit(self, data: bytes, context: "Context") -> bytes:
        asked = await self._read(pb.SubmitRequest, data, context)
        try:
            if (proven := await self._trust.caller(context)) not in ("", asked.origin):
                raise LbdError(f"{proven} submits in the name of {asked.origin}")
            return (await self._take(asked)).SerializeToString()
        except LbdError as problem:
            return pb.SubmitReply(error=str(problem)).SerializeToString()

    async def _take(self, asked: pb.SubmitRequest) -> pb.SubmitReply:
        """Raises LbdError."""
        own = self._dispatcher.config.dispatch
        if not 1 <= asked.count <= own.max_array:
            raise LbdError(f"an array of {asked.count} jobs; dispatch.max_array is {own.max_array}")
        if len(self._life.jobs) + asked.count > own.max_jobs:
            raise LbdError(f"the queue is full (dispatch.max_jobs is {own.max_jobs})")
        if len(asked.key) > KEY_MAX:
            raise LbdError(f"--idempotency-key: {KEY_MAX} characters at most")
        submission = Submission(
            user=asked.user,
            origin=asked.origin,
            name=asked.name,
            command=b"\0".join(asked.command),
            spec=asked.spec.SerializeToString(),
            slots=max(1, asked.slots),
            may_restart=asked.may_restart,
            only=asked.only,
            excluded=tuple(asked.excluded),
            key=asked.key,
            first_index=asked.first_index if asked.is_array else None,
            count=asked.count,
        )
        accepted = await self._ledger.submit(submission, time.time())
        if accepted.is_new:
            self._dispatcher.keep_spec(accepted.submission, asked.spec)
            self._queue(submission, accepted.submission, accepted.first)
        return pb.SubmitReply(first=accepted.first, count=accepted.count)

    def _queue(self, sent: Submission, number: int, first: int) -> None:
        jobs = []
        for n in range(sent.count):
            job = sent.job(first + n)
            index = None if sent.first_index is None else sent.first_index + n
            self._dispatcher.facts[job.id] = Facts(number, index)
            jobs.append(job)
        self._dispatcher.carry(self._life.submitted(jobs, clock_s(), self._dispatcher.dice))

    async def _jobs(self, data: bytes, context: "Context") -> bytes:
        asked = await self._read(pb.JobsAsked, data, context)
        try:
            rows = await self._chosen(asked.selectors, asked.user, asked.ended_too)
            told = [self._tell(row) for row in rows]
            if asked.with_attempts:
                ids = [JobId(str(row.id)) for row in rows]
                add_attempts(told, await self._ledger.attempts(ids))
            return pb.JobsTold(jobs=told).SerializeToString()
        except LbdError as problem:
            return pb.JobsTold(error=str(problem)).SerializeToString()

    def _tell(self, row: JobRow) -> pb.JobTold:
        live = self._life.jobs.get(JobId(str(row.id)))
        if live is None:
            return job_told(row, "", is_final=row.state in ENDED)
        is_final = (
            live.lease is not None and self._life.discipline.cutoff_s(live.lease.tier) is None
        )
        return job_told(row, waiting_reason(self._life, live), is_final)

    async def _chosen(self, selectors: Sequence[str], user: str, ended_too: bool) -> list[JobRow]:
        """Raises LbdError for what is not there."""
        if not selectors:
            return await self._ledger.find(Wanted(ended_too=ended_too, limit=ANSWER_MAX))
        last = None
        if "last" in selectors:
            rows = await self._ledger.find(Wanted(user=user, ended_too=True, limit=1))
            last = rows[0].id if rows else None
        rows = await self._ledger.find(read_selectors(selectors, user, last))
        found = {row.id for row in rows}
        for text in selectors:
            if text.isdecimal() and int(text) not in found:
                raise LbdError(f"no job {text} in the queue's ledger")
        if not rows and "@me" not in selectors:
            raise LbdError(f"no job {' '.join(selectors)} in the queue's ledger")
        return rows

    async def _watch(self, data: bytes, context: "Context") -> None:
        """Each of these jobs at once, and when it changes, until all have ended."""
        asked = await self._read(pb.JobsAsked, data, context)
        try:
            rows = await self._chosen(asked.selectors, asked.user, ended_too=True)
        except LbdError as problem:
            await context.write(pb.JobsTold(error=str(problem)).SerializeToString())
            return
        watcher = Watcher(changed={row.id for row in rows})
        watched = [JobId(str(row.id)) for row in rows]
        for job in watched:
            self._dispatcher.watchers.setdefault(job, set()).add(watcher)
        try:
            await self._watch_these(watcher, asked.once_ended, context)
        finally:
            for job in watched:
                self._forget_watcher(job, watcher)

    async def _watch_these(self, watcher: Watcher, once_ended: bool, context: "Context") -> None:
        open_ids = set(watcher.changed)
        while open_ids:
            changed, watcher.changed = watcher.changed & open_ids, set()
            watcher.event.clear()
            rows = await self._rows([(number, number) for number in sorted(changed)])
            told = [self._tell(row) for row in rows]
            open_ids -= {job.id for job in told if job.state in ENDED}
            if once_ended:
                told = [job for job in told if job.state in ENDED]
            if told:
                await context.write(pb.JobsTold(jobs=told).SerializeToString())
            if open_ids:
                await watcher.event.wait()
                if len(open_ids) > 1:  # changes of many come in one message
                    await asyncio.sleep(GATHER_S)

    async def _rows(self, ranges: Sequence[tuple[int, int]]) -> list[JobRow]:
        """In pieces that a statement of SQL can hold."""
        rows: list[JobRow] = []
        for at in range(0, len(ranges), 200):
            piece = tuple(ranges[at : at + 200])
            rows += await self._ledger.find(Wanted(piece, ended_too=True, limit=ANSWER_MAX))
        return rows

    def _forget_watcher(self, job: JobId, watcher: Watcher) -> None:
        events = self._dispatcher.watchers[job]
        events.discard(watcher)
        if not events:
            del self._dispatcher.watchers[job]

    async def _act(self, data: bytes, context: "Context") -> bytes:
        asked = await self._read(pb.ActRequest, data, context)
        reply = pb.ActReply()
        try:
            rows = await self._chosen(asked.selectors, asked.user, ended_too=True)
        except LbdError as problem:
            return pb.ActReply(errors=[str(problem)]).SerializeToString()
        for row in rows:
            try:
                if row.user != asked.user and not asked.is_admin:
                    raise LbdError(f"job {row.id} is {row.user}'s")
                self._dispatcher.carry(self._do(asked, row))
                reply.done.append(row.id)
            except LbdError as problem:
                if len(rows) == 1 or row.user == asked.user:
                    reply.errors.append(str(problem))
        await self._dispatcher.settled()
        return reply.SerializeToString()

    def _do(self, asked: pb.ActRequest, row: JobRow) -> list[Action]:
        """Raises LbdError."""
        life, job, now_s, dice = self._life, JobId(str(row.id)), clock_s(), self._dispatcher.dice
        if asked.verb == "kill":
            return life.kill(job, asked.signal, now_s, dice)
        if asked.verb == "hold":
            return life.hold(job, f"held by {asked.user}", now_s, dice)
        if asked.verb == "release":
            return life.release(job, now_s, dice)
        if asked.verb != "requeue":
            raise LbdError(f"{asked.verb[:40]!r} is nothing that can be done to a job")
        if job in life.jobs:
            return life.requeue(job, now_s)
        if not row.may_restart:
            raise LbdError(f"job {job} was submitted with --no-restart")
        self._dispatcher.facts[job] = Facts(row.submission, row.array_index)
        return life.revived(Live(queued_job(row, anew=True), row.attempt), now_s, dice)

    async def _read(self, kind: type[Asked], data: bytes, context: "Context") -> Asked:
        """What a host of ours asks; others do not get here."""
        await self._trust.caller(context)
        message = kind()
        try:
            message.ParseFromString(data)
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"not a {kind.__name__}")
        return message

"""What the dispatcher is asked over the network: the hosts' lines, submissions, questions."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from lbd.dispatch.daemon import Dispatcher, Watcher
from lbd.dispatch.intake import checked_signal, submission_of
from lbd.dispatch.jobs import Action, Live, Signal
from lbd.dispatch.ledger.rows import (
    Accepted,
    Deposed,
    JobRow,
    LedgerTrouble,
    Stored,
    Submission,
    Wanted,
)
from lbd.dispatch.lines import OPENING_BYTES, Line, Paces
from lbd.dispatch.owners import Asker, Owners
from lbd.dispatch.reasons import stuck_reason
from lbd.dispatch.restore import queued_job
from lbd.dispatch.selectors import check_count, in_few_lines, is_wide, read_selectors
from lbd.dispatch.teller import EXPLAINED_MAX, Teller
from lbd.dispatch.told import add_attempts, in_pieces
from lbd.errors import LbdError
from lbd.model import ENDED_NAMES, HostId, JobId
from lbd.one_line import one_line
from lbd.ranges import ranges_in
from lbd.rpc.boot_clock import clock_s
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.transport import HOST_HEADER, Trust

if TYPE_CHECKING:  # generic in the stubs only
    Context = grpc.aio.ServicerContext[bytes, bytes]
    Handler = Callable[[bytes, "Context"], Awaitable[bytes]]

log = logging.getLogger("lbd.dispatch")

ANSWER_MAX = 100_000  # jobs in one answer
GATHER_S = 0.05
ANSWER_BYTES, PIECE_BYTES = 12 << 20, 1 << 20  # less than a host takes
TOO_LONG = "these jobs do not fit into one answer; name fewer, range by range"
RETELL_S = 3.0  # why a job waits, to who watches it
RETOLD_MAX = 4  # jobs of one watcher
Answer = TypeVar("Answer")
Asked = TypeVar("Asked", bound=Message)


def unless_away(
    handler: "Callable[[bytes, Context], Awaitable[Answer]]",
) -> "Callable[[bytes, Context], Awaitable[Answer]]":
    """A question that the ledger cannot answer just now may be asked again."""

    async def guarded(data: bytes, context: "Context") -> Answer:
        try:
            return await handler(data, context)
        except LedgerTrouble as problem:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(problem))

    return guarded


class Desk:
    def __init__(
        self, dispatcher: Dispatcher, trust: Trust, tags_told: Callable[[], Awaitable[pb.TagsTold]]
    ) -> None:
        self._dispatcher = dispatcher
        self._tags_told = tags_told
        self._trust = trust
        self._ledger = dispatcher.ledger
        self._life = dispatcher.life
        self._teller = Teller(dispatcher.life, dispatcher.ledger)
        self._paces = Paces()
        self._owners = Owners(dispatcher.by_uid, dispatcher.uid_of)

    def handlers(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            "lbd.v1.Dispatch",
            {
                "Work": grpc.stream_stream_rpc_method_handler(self._work),
                "Submit": grpc.unary_unary_rpc_method_handler(self._submit),
                "Jobs": grpc.unary_unary_rpc_method_handler(unless_away(self._jobs)),
                "Watch": grpc.unary_stream_rpc_method_handler(unless_away(self._watch)),
                "Predict": grpc.unary_unary_rpc_method_handler(self._predict),
                "Act": grpc.unary_unary_rpc_method_handler(unless_away(self._act)),
                "Tags": grpc.unary_unary_rpc_method_handler(self._tags),
                "Status": grpc.unary_unary_rpc_method_handler(self._status),
            },
        )

    async def _work(self, _requests: object, context: "Context") -> None:
        """A host's line, until it breaks or a new one of the same host takes its place."""
        headers = dict(context.invocation_metadata() or ())
        proven = await self._trust.caller(context)
        name = HostId(proven or str(headers.get(HOST_HEADER, "")))
        line = Line(context.write)
        await self._paces.turn(name, OPENING_BYTES, line)
        self._dispatcher.line_opened(name, line)
        broken, fault = asyncio.ensure_future(line.broken.wait()), ""
        try:
            while not line.broken.is_set():
                reading = asyncio.ensure_future(context.read())
                await asyncio.wait((reading, broken), return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                    return
                message: object = reading.result()
                if not isinstance(message, bytes):
                    return
                if await self._paces.turn(name, len(message), line):
                    self._dispatcher.heard(name, line, pb.WorkUp.FromString(message))
        except (DecodeError, ValueError, KeyError) as problem:
            fault = str(problem)
        finally:
            broken.cancel()
            self._dispatcher.line_closed(name, line)
        if fault:  # what it has raised keeps all that it knows for long, so not the message
            del reading, message
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, fault)

    async def _submit(self, data: bytes, context: "Context") -> bytes:
        asked = await self._read(pb.SubmitRequest, data, context)
        try:
            if (proven := await self._trust.caller(context)) not in ("", asked.origin):
                raise LbdError(one_line(f"{proven} submits in the name of {asked.origin}"))
            # To its end, even if the caller is gone: what is in the ledger must be in the queue.
            taking = asyncio.ensure_future(self._take(asked))
            taking.add_done_callback(lambda done: done.cancelled() or done.exception())
            return (await asyncio.shield(taking)).SerializeToString()
        except Deposed as problem:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(problem))
        except LbdError as problem:
            return pb.SubmitReply(error=str(problem)).SerializeToString()

    async def _take(self, asked: pb.SubmitRequest) -> pb.SubmitReply:
        """Raises LbdError."""
        own, by_uid = self._dispatcher.config.dispatch, self._dispatcher.by_uid
        submission = submission_of(asked, own, self._life.rules, by_uid=by_uid)
        if len(self._life.jobs) + asked.count <= own.max_jobs:
            accepted = await self._ledger.submit(submission, time.time())
        elif known := await self._ledger.accepted(submission):
            accepted = known
        else:
            raise LbdError(f"the queue is full (dispatch.max_jobs is {own.max_jobs})")
        if accepted.is_new:
            stored = Stored(submission.spec, submission.origin, submission.user, submission.uid)
            self._dispatcher.keep_start(accepted.submission, stored)
            self._queue(submission, accepted)
        warning = stuck_reason(self._life, JobId(str(accepted.first)))
        return pb.SubmitReply(
            first=accepted.first,
            count=accepted.count,
            warning=warning,
            is_other=accepted.is_other,
        )

    def _queue(self, sent: Submission, accepted: Accepted) -> None:
        estimate_s = self._dispatcher.estimate_s(sent.user, sent.command)
        jobs = sent.jobs(accepted, estimate_s, by_uid=self._dispatcher.by_uid)
        self._dispatcher.carry(self._life.submitted(jobs, clock_s(), self._dispatcher.dice))

    async def _jobs(self, data: bytes, context: "Context") -> bytes:
        asked = await self._read(pb.JobsAsked, data, context)
        try:
            rows = await self._chosen(
                asked.selectors, self._asker(asked), asked.ended_too, bytes_max=ANSWER_BYTES
            )
            told = await self._teller.tell(rows, explained=not asked.unexplained)
            newest = in_pieces(told[::-1], ANSWER_BYTES)[0][::-1]
            if len(newest) < len(told) and asked.selectors:
                raise LbdError(TOO_LONG)
            if asked.with_attempts:
                ids = [JobId(str(job.id)) for job in newest]
                add_attempts(newest, await self._ledger.attempts(ids))
            return pb.JobsTold(jobs=newest).SerializeToString()
        except LedgerTrouble:
            raise
        except LbdError as problem:
            return pb.JobsTold(error=str(problem)).SerializeToString()

    async def _predict(self, data: bytes, context: "Context") -> bytes:
        asked = await self._read(pb.PredictAsked, data, context)
        wait_s, how = self._teller.forecast.of_another(max(1, asked.slots), clock_s())
        return pb.PredictTold(wait_s=wait_s, how=how).SerializeToString()

    async def _chosen(
        self, selectors: Sequence[str], asker: Asker, ended_too: bool, bytes_max: int = 0
    ) -> list[JobRow]:
        """Raises LbdError for what is not there."""
        if not selectors:
            wanted = Wanted(ended_too=ended_too, limit=ANSWER_MAX, bytes_max=bytes_max)
            return await self._owners.known(await self._ledger.find(wanted))
        wanted = await self._wanted(selectors, asker)
        rows = await self._found(replace(wanted, bytes_max=bytes_max))
        found = {row.id for row in rows}
        for text in selectors:
            if text.isdecimal() and int(text) not in found:
                raise LbdError(f"no job {text} in the queue's ledger")
        if not rows and "@me" not in selectors:
            raise LbdError(f"no job {' '.join(selectors)} in the queue's ledger")
        return rows

    async def _wanted(self, selectors: Sequence[str], asker: Asker) -> Wanted:
        """Raises ConfigError."""
        check_count(selectors)
        last, own = None, Wanted(user=asker.user, uid=asker.uid, ended_too=True, limit=1)
        if "last" in selectors:
            rows = await self._ledger.find(own)
            last = rows[0].id if rows else None
        wanted = read_selectors(selectors, asker.user, last)
        return replace(wanted, uid=asker.uid, limit=ANSWER_MAX + 1)

    async def _found(self, wanted: Wanted) -> list[JobRow]:
        """All of them. Raises LbdError if they are too many."""
        rows = await self._ledger.find(wanted)
        if len(rows) > ANSWER_MAX:
            raise LbdError(f"more than {ANSWER_MAX} jobs at once; name fewer, range by range")
        if wanted.bytes_max and sum(len(row.command) for row in rows) >= wanted.bytes_max:
            raise LbdError(TOO_LONG)
        return await self._owners.known(rows)

    def _asker(self, asked: pb.JobsAsked | pb.ActRequest) -> Asker:
        return self._owners.asker(asked.user, asked.uid if asked.HasField("uid") else None)

    async def _to_act_on(self, asked: pb.ActRequest) -> list[JobRow]:
        """Of a range or @me those that have not ended, however many others there are, unless they
        are to be queued anew. Raises LbdError."""
        selectors, asker = asked.selectors, self._asker(asked)
        check_count(selectors)
        if asked.verb == "requeue":
            return await self._forgiven(await self._chosen(selectors, asker, ended_too=True))
        if not is_wide(selectors):
            return await self._chosen(selectors, asker, ended_too=True)
        wanted = await self._wanted(selectors, asker)
        rows = {row.id: row for row in await self._found(replace(wanted, ended_too=False))}
        if named := [text for text in selectors if text.isdecimal()]:
            rows |= {row.id: row for row in await self._chosen(named, asker, ended_too=True)}
        if not rows:
            if "@me" not in selectors and not await self._ledger.find(replace(wanted, limit=1)):
                raise LbdError(f"no job {' '.join(selectors)} in the queue's ledger")
            raise LbdError(f"nothing to {asked.verb}: all these jobs have ended")
        return [rows[number] for number in sorted(rows)]

    async def _forgiven(self, rows: list[JobRow]) -> list[JobRow]:
        """Where an ended one could not begin it may now, unless its user excluded that host."""
        barred = [JobId(str(row.id)) for row in rows if row.barred and row.state in ENDED_NAMES]
        had = {(one.job, one.host) for one in await self._ledger.attempts(barred)}
        return [
            replace(row, barred=tuple(host for host in row.barred if (row.id, host) not in had))
            for row in rows
        ]

    async def _watch(self, data: bytes, context: "Context") -> None:
        """Each of these jobs at once, and when it changes, until all have ended."""
        asked = await self._read(pb.JobsAsked, data, context)
        try:
            rows = await self._chosen(asked.selectors, self._asker(asked), ended_too=True)
        except LedgerTrouble:
            raise
        except LbdError as problem:
            await context.write(pb.JobsTold(error=str(problem)).SerializeToString())
            return
        watcher = Watcher({row.id for row in rows}, asked.once_ended)
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
        explained = len(open_ids) <= EXPLAINED_MAX
        while open_ids:
            changed, watcher.changed = watcher.changed & open_ids, set()
            watcher.event.clear()
            rows = await self._rows(ranges_in(changed), ended_only=once_ended)
            told = await self._teller.tell(rows, explained=explained)
            open_ids -= {job.id for job in told if job.state in ENDED_NAMES}
            for piece in in_pieces(told, PIECE_BYTES) if told else ():
                await context.write(pb.JobsTold(jobs=piece).SerializeToString())
            if open_ids:
                await self._change(watcher, open_ids, told)
                if len(open_ids) > 1:  # changes of many come in one message
                    await asyncio.sleep(GATHER_S)

    async def _change(
        self, watcher: Watcher, open_ids: set[int], told: Sequence[pb.JobTold]
    ) -> None:
        """Or a while, for who waits for few jobs: why they wait changes as others begin."""
        waits = any(job.state == "pending" for job in told)
        if waits and len(open_ids) <= RETOLD_MAX:
            try:
                async with asyncio.timeout(RETELL_S):
                    await watcher.event.wait()
            except TimeoutError:
                watcher.changed |= open_ids
        else:
            await watcher.event.wait()

    async def _rows(self, ranges: Sequence[tuple[int, int]], *, ended_only: bool) -> list[JobRow]:
        """In pieces that a statement of SQL can hold."""
        rows: list[JobRow] = []
        for at in range(0, len(ranges), 200):
            piece = tuple(ranges[at : at + 200])
            rows += await self._ledger.find(
                Wanted(piece, ended_too=True, ended_only=ended_only, limit=ANSWER_MAX)
            )
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
            rows = await self._to_act_on(asked)
        except LedgerTrouble:
            raise
        except LbdError as problem:
            return pb.ActReply(errors=[str(problem)]).SerializeToString()
        asker = self._asker(asked)
        own = {row.id for row in rows if self._owners.owns(asker, row)}
        if rows and not (asked.is_admin or own):
            theirs = f"job {rows[0].id} is" if len(rows) == 1 else "all of these jobs are"
            owners = ", ".join(sorted({row.user for row in rows})[:4])
            return pb.ActReply(errors=[f"{theirs} {owners}'s"]).SerializeToString()
        problems: list[tuple[int, str]] = []
        for row in rows:
            try:
                if row.id not in own and not asked.is_admin:
                    raise LbdError(f"job {row.id} is {row.user}'s")
                self._dispatcher.carry(self._do(asked, row))
                reply.done.append(row.id)
            except LbdError as problem:
                if len(rows) == 1 or row.id in own:
                    problems.append((row.id, str(problem)))
        reply.errors.extend(in_few_lines(problems))
        await self._dispatcher.settled()
        return reply.SerializeToString()

    async def _tags(self, data: bytes, context: "Context") -> bytes:
        await self._read(pb.TagsAsked, data, context)
        return (await self._tags_told()).SerializeToString()

    async def _status(self, data: bytes, context: "Context") -> bytes:
        await self._read(pb.StatusAsked, data, context)
        return self._dispatcher.status().SerializeToString()

    def _do(self, asked: pb.ActRequest, row: JobRow) -> list[Action]:
        """Raises LbdError."""
        life, job, now_s, dice = self._life, JobId(str(row.id)), clock_s(), self._dispatcher.dice
        if asked.verb == "kill":
            actions = life.kill(job, checked_signal(asked.signal), now_s, dice)
            for order in actions:  # one with a wish is given again once its host is back
                if isinstance(order, Signal) and not order.wish:
                    self._check_line(order)
            return actions
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
        estimate_s = self._dispatcher.estimate_s(row.user, row.command)
        queued = queued_job(row, estimate_s, anew=True, by_uid=self._dispatcher.by_uid)
        return life.revived(Live(queued, row.attempt, requeued=time.time()), now_s, dice)

    def _check_line(self, order: Signal) -> None:
        """Raises LbdError."""
        if order.host not in self._dispatcher.lines:
            raise LbdError(f"job {order.job} was not signalled: {order.host} is out of contact")

    async def _read(self, kind: type[Asked], data: bytes, context: "Context") -> Asked:
        """What a host of ours asks; others do not get here."""
        await self._trust.caller(context)
        message = kind()
        try:
            message.ParseFromString(data)
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"not a {kind.__name__}")
        return message

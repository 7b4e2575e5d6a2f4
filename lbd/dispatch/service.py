"""What the dispatcher serves over the network: the hosts' connections, submissions, questions."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from lbd.dispatch.calls import Calls
from lbd.dispatch.core.job_selection import SELECTORS_MAX
from lbd.dispatch.core.ledger_rows import (
    Deposed,
    JobRow,
    LedgerTrouble,
    Tally,
)
from lbd.dispatch.core.lifecycle import KILLED_AT_ONCE
from lbd.dispatch.core.ownership import Asker, Owners
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.host_connection import HostConnection, Paces
from lbd.dispatch.intake import TEXT_MAX
from lbd.dispatch.job_finder import ANSWER_MAX, TOO_LONG, JobFinder, newest
from lbd.dispatch.job_view import JobViews, add_attempts, encoded, look_at, newest_of
from lbd.dispatch.orders import Orders
from lbd.dispatch.predictions import Predictions
from lbd.dispatch.submissions import Submissions
from lbd.dispatch.watching import TooManyWatched, Watching, is_long
from lbd.errors import LbdError
from lbd.local.long_answers import timed
from lbd.model import HostId, JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.parsing import FIELD_BYTES, parsed
from lbd.net.submitter import WATCHED_BYTES
from lbd.net.transport import Trust
from lbd.text.command_words import QUEUED_FIELDS_MAX
from lbd.text.job_limits import TIME_MAX
from lbd.text.one_line import one_line

if TYPE_CHECKING:  # generic only in the stubs
    Context = grpc.aio.ServicerContext[bytes, bytes]

log = logging.getLogger("lbd.dispatch")

SERVICE = "lbd.v1.Dispatch"
ANSWER_BYTES = 12 << 20  # less than a host accepts
ASKED_FIELDS_MAX = SELECTORS_MAX + 1000
FREE_WORDS = 1000  # that a submission may have without being charged for them
Asked = TypeVar("Asked", bound=Message)


class QueueService:
    """One class because its methods are the calls of one service, and refer to each other."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        trust: Trust,
        tags_info: Callable[[], Awaitable[pb.TagsInfo]],
        predictions: Predictions | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._tags_info = tags_info
        self._trust = trust
        self._ledger = dispatcher.ledger
        self._predictions = predictions or Predictions(
            dispatcher.life.queues, dispatcher.ledger, dispatcher.by_uid
        )
        own = dispatcher.config.host.name
        self._job_views = JobViews(
            dispatcher.life, dispatcher.ledger, self._predictions, own, dispatcher.batches.ran
        )
        rate = dispatcher.config.dispatch.host_bytes_per_s
        self._paces = Paces(rate, dispatcher.config.dispatch.host_message_bytes)
        self._calls = Calls(trust, rate)
        owners = Owners(dispatcher.by_uid)
        self._submissions = Submissions(dispatcher, self._predictions, owners)
        self._finder = JobFinder(dispatcher.ledger, owners)
        self._orders = Orders(dispatcher, owners, self._finder)
        life = dispatcher.life
        self._watching = Watching(
            dispatcher.watchers, dispatcher.ledger, self._job_views, life.jobs
        )

    def handlers(self) -> grpc.GenericRpcHandler:
        paced, one = self._calls.paced, grpc.unary_unary_rpc_method_handler
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Work": grpc.stream_stream_rpc_method_handler(self._work),
                "Submit": one(paced(self._submit)),
                "Queue": grpc.unary_stream_rpc_method_handler(paced(self._queue)),
                "Jobs": one(paced(self._jobs)),
                "Watch": grpc.unary_stream_rpc_method_handler(paced(self._watch)),
                "Predict": one(paced(self._predict)),
                "Act": one(paced(self._act)),
                "Tags": one(paced(self._tags)),
                "Status": one(paced(self._status)),
            },
        )

    async def _work(self, _requests: object, context: "Context") -> None:
        """Serves a host's connection until it breaks or a new one of the same host replaces it."""
        name = HostId(await self._calls.host(context))
        self._dispatcher.revoked.heard(name)
        line = HostConnection(context.write, self._dispatcher.config.dispatch.host_behind_bytes)
        await self._paces.opening(name, line)
        with self._paces.changing(name):
            self._dispatcher.line_opened(name, line)
        breaking, fault = asyncio.create_task(cancel_once_broken(line, asyncio.current_task())), ""
        try:
            while not line.broken.is_set():
                message: object = await context.read()
                if not isinstance(message, bytes):
                    return
                if await self._paces.turn(name, len(message), line):
                    await self._hear(name, line, message)
        except asyncio.CancelledError:
            if not line.broken.is_set():
                raise
        except (DecodeError, ValueError, KeyError) as problem:
            fault = str(problem)
        finally:
            breaking.cancel()
            with self._paces.changing(name):
                self._dispatcher.line_closed(name, line)
        await line.stop_sending()
        if fault:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, fault)

    async def _hear(self, name: HostId, line: HostConnection, message: bytes) -> None:
        """Raises DecodeError, ValueError, KeyError."""
        up = parsed(pb.WorkUp, message)
        report_bytes = len(message) // max(1, len(up.reports))
        rest: pb.WorkUp | None = up
        done = unknown = 0
        while await self._paces.reports_turn(name, done + unknown, done * report_bytes, line):
            if rest is None:
                return
            with self._paces.seconds.spending(name):
                left = self._dispatcher.heard(name, line, rest)
            self._paces.check_changes(name, line)
            done = len(rest.reports) - (len(left.reports) if left is not None else 0)
            if left is None and up.HasField("heartbeat"):
                # Each attempt not renewed is answered by an order, which takes as long as a report.
                unknown = max(0, min(len(up.heartbeat.held) - line.renewed, KILLED_AT_ONCE))
            elif left is not None:
                await asyncio.sleep(0)
            rest = left

    async def _submit(self, data: bytes, context: "Context") -> bytes:
        asked = await self._read_submission(data, context)
        return (await self._submitted(asked, len(data), context)).SerializeToString()

    async def _queue(self, data: bytes, context: "Context") -> None:
        if len(data) > WATCHED_BYTES:
            text = f"a Queue call of {len(data)} bytes; {WATCHED_BYTES} is the most, not for Submit"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        asked = await self._read_submission(data, context)
        reply = await self._submitted(asked, len(data), context)
        await context.write(pb.JobsInfo(submitted=reply).SerializeToString())
        if reply.error:
            return
        numbers = range(reply.first, reply.first + reply.count)
        jobs = f"{numbers[0]}-{numbers[-1]}"
        uid = asked.uid if asked.HasField("uid") else None
        watch = pb.JobsAsked(selectors=[jobs], user=asked.user, uid=uid, by_number=True)
        del asked  # it takes many times its bytes, and its job may last for days
        live = self._dispatcher.life.jobs
        if all(JobId(str(number)) in live for number in numbers):  # so they need not be looked up
            host = await self._calls.host(context)
            return await self._follow(numbers, (host, watch.user), context, are_new=True)
        await self._watch_these(watch, context)

    async def _submitted(
        self, asked: pb.SubmitRequest, size_bytes: int, context: "Context"
    ) -> pb.SubmitReply:
        """Returns a refusal as a reply; aborts the call if the ledger belongs to another
        dispatcher."""
        try:
            if (proven := await self._trust.caller(context)) not in ("", asked.origin):
                raise LbdError(one_line(f"{proven} submits in the name of {asked.origin}"))
            # Runs to completion even if the caller is gone: what is in the ledger must be in the
            # queue.
            host = await self._calls.host(context)
            who = host, asked.user[:TEXT_MAX]
            turn = self._calls.submitting(*who, size_bytes, as_order=bool(asked.after))
            taking = asyncio.ensure_future(self._submissions.take_in(turn, asked))
            taking.add_done_callback(lambda done: done.cancelled() or done.exception())
            reply = await asyncio.shield(taking)
            reply.ledger_token = self._dispatcher.token_of(host)
            return reply
        except Deposed as problem:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(problem))
        except LbdError as problem:
            # breaks the reference cycle between the exception, `taking` and this frame
            problem.__traceback__ = None
            return pb.SubmitReply(error=str(problem))

    async def _jobs(self, data: bytes, context: "Context") -> bytes:
        asked, host = await self._read(pb.JobsAsked, data, context), await self._calls.host(context)
        async with self._calls.listing(host, asked.user):
            found = await self._jobs_asked(asked)
        # messages of one kind, one after the other, are one message
        return found + pb.JobsInfo(ledger_token=self._dispatcher.token_of(host)).SerializeToString()

    async def _jobs_asked(self, asked: pb.JobsAsked) -> bytes:
        try:
            explained = not asked.unexplained
            how = {"explained": explained, "foretold": explained and not asked.unforetold}
            absent: list[str] | None = [] if asked.some else None
            asker, since = self._asker(asked), asked.ended_since
            if not 0.0 <= since <= TIME_MAX:  # nor NaN
                raise LbdError("ended_since is no time")
            if asked.of_user and not asked.user:
                asker = Asker(asked.of_user, None)
            given = asked.selectors, asker, asked.ended_too, ANSWER_BYTES
            lines: Sequence[tuple[JobRow, Tally | None]]
            if asked.by_array:
                lines = await self._finder.lines(*given, absent)
            else:
                named = self._finder.named(
                    *given, by_number=asked.by_number, absent=absent, ended_since=since
                )
                lines = [(row, None) for row in await named]
            jobs = await self._job_views.of_lines(lines, **how)
            found = await newest_of(jobs, ANSWER_BYTES)
            if len(found) < len(jobs) and asked.selectors:
                raise LbdError(TOO_LONG)
            if asked.with_attempts:
                await add_attempts(found, self._ledger)
                await self._job_views.add_given(found, [row for row, _ in lines])
            unlisted = 0
            if not asked.selectors and (len(found) < len(jobs) or len(jobs) >= ANSWER_MAX):
                every = newest(asker, asked.ended_too, ended_since=since)
                all_of_them = await self._ledger.count(every, by_array=asked.by_array)
                unlisted = max(0, all_of_them - len(found))
            tail = pb.JobsInfo(unlisted=unlisted)
            if since:
                found.sort(key=lambda job: job.id)
            return await encoded(found, absent or ()) + tail.SerializeToString()
        except LedgerTrouble:
            raise
        except LbdError as problem:
            return pb.JobsInfo(error=str(problem)).SerializeToString()

    async def _predict(self, data: bytes, context: "Context") -> bytes:
        asked = await self._read(pb.PredictAsked, data, context)
        try:
            host = await self._calls.host(context)
            async with self._calls.listing(host, asked.user):
                if asked.calibration:
                    found = await self._predictions.calibration(host, asked.user)
                else:
                    if asked.needs:  # what others that wait take of them counts
                        await look_at(self._predictions.forecast.places)
                    found = await self._predictions.answer(asked, host)
                return found.SerializeToString()
        except LedgerTrouble:
            raise
        except LbdError as problem:
            return pb.PredictInfo(error=str(problem)).SerializeToString()

    def _asker(self, asked: pb.JobsAsked | pb.ActRequest) -> Asker:
        return self._finder.owners.asker(asked.user, asked.uid if asked.HasField("uid") else None)

    async def _watch(self, data: bytes, context: "Context") -> None:
        asked = await self._read(pb.JobsAsked, data, context)
        token = self._dispatcher.token_of(await self._calls.host(context))
        await context.write(pb.JobsInfo(ledger_token=token).SerializeToString())
        await self._watch_these(asked, context)

    async def _watch_these(self, asked: pb.JobsAsked, context: "Context") -> None:
        who = await self._calls.host(context), asked.user
        try:
            turn = partial(self._calls.listing if is_long(asked) else self._calls.long, *who)
            if asked.all_ended:
                numbers = self._finder.numbers(asked.selectors)
                del asked  # nor are the numbers held for as long as their jobs last
                return await self._watching.until_ended(who, numbers, turn)
            async with turn():
                watched = await self._finder.ids(
                    asked.selectors, self._asker(asked), by_number=asked.by_number
                )
        except LedgerTrouble:
            raise
        except LbdError as problem:
            await context.write(pb.JobsInfo(error=str(problem)).SerializeToString())
            return
        await self._follow(watched, who, context, once_ended=asked.once_ended)

    async def _follow(
        self, watched: Sequence[int], who: tuple[str, str], context: "Context", *,
        once_ended: bool = False, are_new: bool = False,
    ) -> None:  # fmt: skip
        async def send(jobs: Sequence[pb.JobInfo]) -> None:
            await context.write(pb.JobsInfo(jobs=jobs).SerializeToString())

        try:
            with self._watching.held(who, len(watched)):
                turn = partial(self._calls.listing, *who)
                how = {"once_ended": once_ended, "are_new": are_new}
                await self._watching.follow(who, watched, send, turn, **how)
        except TooManyWatched as problem:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(problem))

    async def _act(self, data: bytes, context: "Context") -> bytes:
        asked = await self._read(pb.ActRequest, data, context)
        host = await self._calls.host(context)
        async with self._calls.ordering(host, asked.user) as own:
            done = await timed(self._orders.carry_out(asked, host), own)
        return done + pb.ActReply(ledger_token=self._dispatcher.token_of(host)).SerializeToString()

    async def _tags(self, data: bytes, context: "Context") -> bytes:
        await self._read(pb.TagsAsked, data, context)
        return (await self._tags_info()).SerializeToString()

    async def _status(self, data: bytes, context: "Context") -> bytes:
        await self._read(pb.StatusAsked, data, context)
        return self._dispatcher.status().SerializeToString()

    async def _read_submission(self, data: bytes, context: "Context") -> pb.SubmitRequest:
        asked = await self._read(pb.SubmitRequest, data, context, QUEUED_FIELDS_MAX)
        words = len(asked.command) + len(asked.after) + len(asked.excluded)
        self._calls.looked_into(await self._calls.host(context), max(0, words - FREE_WORDS))
        return asked

    async def _read(
        self, kind: type[Asked], data: bytes, context: "Context", fields_max: int = ASKED_FIELDS_MAX
    ) -> Asked:
        """Parses a message; only hosts of this cluster get here."""
        host = await self._calls.host(context)
        try:
            asked = parsed(kind, data, fields_max)
            if kind is not pb.SubmitRequest and not has_sound_names(asked):
                raise DecodeError
        except DecodeError:
            self._calls.looked_into(host, min(len(data) // FIELD_BYTES, fields_max))
            text = f"not a {kind.__name__}"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        if isinstance(asked, pb.JobsAsked | pb.ActRequest):
            self._calls.looked_into(host, len(asked.selectors))
        return asked


def has_sound_names(asked: Message) -> bool:
    """Whether the users named are no longer than one may be: turns are remembered by them."""
    names = (getattr(asked, field, "") for field in ("user", "of_user"))
    return max(map(len, names)) <= TEXT_MAX


async def cancel_once_broken(line: HostConnection, serving: "asyncio.Task[object] | None") -> None:
    """Stops reading from a broken connection."""
    await line.broken.wait()
    if serving is not None:
        serving.cancel()

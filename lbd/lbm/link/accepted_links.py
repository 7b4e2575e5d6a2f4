"""The streams on which other LBMs send us their users' commands: one task per command."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from lbd.errors import PeerError
from lbd.lbm.core.execution_events import GivenUp
from lbd.lbm.core.jobs import Claims
from lbd.lbm.inbound.attached_job import AttachedJob
from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.inbound.request import count_words, read_run_request
from lbd.lbm.link import wire as tags
from lbd.lbm.link.conversation import EARLY_BYTES, TOO_MUCH_AHEAD, Conversation, Stream
from lbd.lbm.session.request import turns_of_words
from lbd.lbm.staging.attached_workdir import serve_workdir
from lbd.local.rate_limit import TimeShares, turns_of
from lbd.net import release as wire
from lbd.net.gen import lbm_pb2

FOR_EVER_S = float("inf")
CONVERSATION_BYTES = 4096
RESTING_MAX = 16  # streams of one host; it has two to each other host at most
ANSWERS_MAX = 1 << 16  # messages that an origin has not read; no real set of commands has more
NOTHING_TO_RESUME = "its LBM was restarted and no longer has these commands"
RESTARTS = "its LBM is being restarted"  # sent with UNAVAILABLE: the origin asks again
Key = tuple[str, str]  # the caller, and the caller's name for the stream
if TYPE_CHECKING:  # generic in the stubs only
    from collections.abc import Awaitable, Callable, Coroutine

    Context = grpc.aio.ServicerContext[bytes, bytes]
    Write = Callable[[bytes], Awaitable[None]]


@dataclass(slots=True)
class Serving:
    """A conversation about a command, or about a workdir."""

    task: "asyncio.Task[None]"
    talk: Conversation
    request: bytes
    job: AttachedJob | None
    workdir: str = ""  # the id of the one that it has made

    def give_up(self, number: int = 0) -> None:
        """Ends the command: nobody waits for it any more, since that signal."""
        if self.job is not None:
            self.job.give_up(number)
        else:
            self.task.cancel()

    def call_off(self, reason: str) -> None:
        """Ends the command because its origin, which still waits for it, has broken a rule."""
        if self.job is not None and self.job.id:
            if not self.job.is_done:
                self.job.feed(GivenUp(reason))
        else:
            self.talk.put(tags.REFUSED, refusal(reason))
            self.give_up()


class AcceptedLinks:
    """The streams accepted by this host."""

    def __init__(self, host: InboundContext) -> None:
        self.host = host
        self.open: dict[Key, AcceptedLink] = {}
        self.shares = TimeShares()  # by sending host
        self._resting: dict[str | Key, list[AcceptedLink]] = {}  # likewise, the oldest first
        self._half_open = 0

    @property
    def is_leaving(self) -> bool:
        """Whether another LBM will follow. Then no stream is opened or resumed here any more."""
        return self.host.executions.leaving

    @property
    def are_settled(self) -> bool:
        """Whether each stream either rests or continues, and its origin knows which."""
        return not self._half_open

    def rests(self, link: "AcceptedLink") -> None:
        """Notes a stream that waits to be resumed. Of too many of one host the oldest is closed."""
        own = self._resting.setdefault(link.sender, [])
        own.append(link)
        if len(own) > RESTING_MAX:
            own[0].close()

    def rests_no_more(self, link: "AcceptedLink") -> None:
        own = self._resting.get(link.sender, [])
        if link in own:
            own.remove(link)
        if not own:
            self._resting.pop(link.sender, None)

    @contextmanager
    def opening(self) -> "Iterator[None]":
        """Covers the time until a stream continues here that continues for its origin already."""
        self._half_open += 1
        try:
            yield
        finally:
            self._half_open -= 1


async def serve_stream(links: AcceptedLinks, context: "Context", caller: str) -> None:
    """Serves a stream until it breaks. That ends every command on it, unless a restart was
    announced.

    `caller`: the host, "" = any.
    """
    metadata = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
    key = caller, metadata.get(tags.STREAM_HEADER, f"?{id(context)}")
    write = context.write
    incoming: AcceptedLink | None = None
    if links.is_leaving:  # the origin sends nothing before our metadata: it asks the next LBM
        await asyncio.get_running_loop().create_future()
    trouble: tuple[grpc.StatusCode, str] | None = None
    try:
        with links.opening():
            if tags.RESUME_HEADER not in metadata:
                incoming = AcceptedLink(links, Stream(write), key)
            await context.send_initial_metadata(((wire.HEADER, wire.OWN.announcement()),))
        while trouble is None and isinstance(message := await context.read(), bytes):
            if incoming is not None:
                await links.shares.turn(incoming.sender)
                with links.shares.spending(incoming.sender):
                    incoming.hear(message)
                if incoming.ahead_s:  # it sends too many commands: read on when they are due
                    await asyncio.sleep(incoming.ahead_s)
            elif links.is_leaving:
                trouble = grpc.StatusCode.UNAVAILABLE, RESTARTS
            elif (incoming := resumed(links, key, message)) is not None:
                with links.opening():
                    await write(tags.pack(0, tags.RESUME, incoming.stream.counts()))
                    incoming.go_on(write)
            else:
                trouble = grpc.StatusCode.NOT_FOUND, NOTHING_TO_RESUME
    except ValueError as fault:
        trouble = grpc.StatusCode.INVALID_ARGUMENT, str(fault)
    finally:
        if incoming is not None:
            await incoming.broken(write)
    if trouble is not None:
        await context.abort(*trouble)


def resumed(links: AcceptedLinks, key: Key, message: bytes) -> "AcceptedLink | None":
    """Returns the stream that rests here, if none of its messages is missing. Raises ValueError."""
    incoming = links.open.get(key)
    if incoming is None or not incoming.stream.rests:
        return None
    if not incoming.stream.can_resume or not incoming.stream.agrees(message[tags.HEADER_BYTES :]):
        incoming.close()
        return None
    return incoming


def refusal(reason: str, phase: str = "admission") -> bytes:
    refused = lbm_pb2.Refused(reason=reason, phase=phase, try_another=True)
    return refused.SerializeToString()


def held_bytes(request: bytes | memoryview) -> int:
    """The memory that a conversation takes before its command has begun."""
    return len(request) + CONVERSATION_BYTES


class AcceptedLink:
    """One peer's commands on this host."""

    def __init__(self, links: AcceptedLinks, stream: Stream, key: Key) -> None:
        self._links = links
        self._host = host = links.host
        self.stream = stream
        self.key = key
        # hosts whose names are not proved are told apart by their streams
        self.sender: str | Key = key[0] or key
        self.jobs: dict[int, Serving] = {}
        self.claims = Claims(host.jobs)
        self._orphaned: asyncio.TimerHandle | None = None
        self.ahead_s = 0.0
        self.last_number = 0  # conversations are numbered upwards: a higher number is a new one
        # Slots and their queue bound the jobs; this bounds the commands that have not got that far.
        self._limit = 2 * (host.config.lbm.max_waiting + host.slots.total)
        links.open[key] = self

    def hear(self, message: bytes) -> None:
        """Deals with a message. Raises ValueError if it is not valid."""
        self._deal_with(self.stream.take(message))
        if self.stream.outbox.waiting > ANSWERS_MAX:
            raise ValueError("it is not reading our answers")

    def hear_again(self, messages: Iterable[bytes]) -> None:
        """Deals with messages that an earlier LBM received but did not handle. Raises
        ValueError."""
        for message in messages:
            self._deal_with(tags.unpack(message))

    def _deal_with(self, received: list[tuple[int, bytes, memoryview]]) -> None:
        self.ahead_s = 0.0
        for number, tag, body in received:
            if tag in (tags.RUN, tags.WORKDIR) or number > self.last_number:
                self._begin(number, tag, body)
                continue
            if tag == tags.HANGUP:
                if number in self.jobs:
                    self.jobs[number].give_up(tags.read_signal(body))
            elif not self.stream.deliver(number, tag, body) and number in self.jobs:
                self.jobs[number].call_off(TOO_MUCH_AHEAD)

    def _begin(self, number: int, tag: bytes, body: memoryview) -> None:
        if number in self.jobs:
            raise ValueError(f"a second command as number {number}")
        self.last_number = max(number, self.last_number)
        turns, now_s = turns_of(len(body)), time.monotonic()
        self.ahead_s = self._host.rates.turn_s(self.sender, now_s, FOR_EVER_S, turns) or 0.0
        talk = self.stream.converse(number)
        if tag not in (tags.RUN, tags.WORKDIR):
            self._refuse(talk, f"{wire.OWN} knows no request {tag!r}")
            return
        if len(self.jobs) >= self._limit:
            self._refuse(talk, "too many commands at once")
            return
        request = None
        if tag == tags.RUN:
            limit_bytes = self._host.config.lbm.max_request_bytes
            try:
                request = read_run_request(body, limit_bytes, self.key[0])
            except PeerError as problem:
                self._refuse(talk, str(problem), "request")
                return
            turns = turns_of_words(count_words(request))
            self.ahead_s = self._host.rates.turn_s(self.sender, now_s, FOR_EVER_S, turns) or 0.0
        if not self._host.requests.take(self.sender, held_bytes(body)):
            many = "too many long requests at once (lbm.host_request_bytes, hosts_request_bytes)"
            self._refuse(talk, many)
            return
        talk.ahead_bytes = EARLY_BYTES
        if request is not None:
            job = AttachedJob(self._host, talk, self.claims)
            self._serve(job.serve(request), talk, bytes(body), job)
        else:
            made = partial(self._has_made, talk.number)
            serving = serve_workdir(self._host, talk, body, self.key[0], made)
            self._serve(serving, talk, bytes(body), None)

    def _has_made(self, number: int, workdir: str) -> None:
        self.jobs[number].workdir = workdir

    def _refuse(self, talk: Conversation, reason: str, phase: str = "admission") -> None:
        talk.put(tags.REFUSED, refusal(reason, phase))
        talk.close()

    def serve(
        self,
        living: "Coroutine[object, object, None]",
        talk: Conversation,
        request: bytes,
        job: AttachedJob | None,
        workdir: str = "",
    ) -> None:
        """Serves a command that an earlier LBM admitted, or a workdir that it has made."""
        self._host.requests.add(self.sender, held_bytes(request))
        self._serve(living, talk, request, job)
        self.jobs[talk.number].workdir = workdir

    def _serve(
        self,
        living: "Coroutine[object, object, None]",
        talk: Conversation,
        request: bytes,
        job: AttachedJob | None,
    ) -> None:
        number = talk.number
        task = asyncio.get_running_loop().create_task(living)
        self.jobs[number] = Serving(task, talk, request, job)
        task.add_done_callback(lambda done: self._over(talk, done))

    def _over(self, talk: Conversation, task: "asyncio.Task[None]") -> None:
        talk.close()
        done = self.jobs.pop(talk.number)
        self._host.requests.give_back(self.sender, held_bytes(done.request))
        if not task.cancelled() and (problem := task.exception()) is not None:
            raise problem

    async def broken(self, write: "Write") -> None:
        """Notes that the stream of `write` has broken; another may have replaced it by now."""
        if not self.stream.goes_by(write):
            return
        self.stream.confirmed.set()
        if self.stream.can_resume:
            self.await_return()
            return
        self.close()
        await self.stream.outbox.last_written()

    def await_return(self) -> None:
        """Waits for the other LBM, or our next one, to continue this stream on a new one."""
        limit_s = self._host.config.lbm.orphan_after_s
        self._orphaned = asyncio.get_running_loop().call_later(limit_s, self.close)
        self._links.rests(self)

    def go_on(self, write: "Write") -> None:
        self._rests_no_more()
        self.stream.go_on(write)

    def _rests_no_more(self) -> None:
        if self._orphaned is not None:
            self._orphaned.cancel()
            self._links.rests_no_more(self)

    def close(self) -> None:
        self._rests_no_more()
        if self._links.open.get(self.key) is self:
            del self._links.open[self.key]
        self.stream.outbox.close()
        for serving in list(self.jobs.values()):
            serving.give_up()

"""The dispatcher as seen by an LBM."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from lbd.config.schema import Config
from lbd.errors import Unavailable
from lbd.lbm.core.leases import Leases
from lbd.lbm.queue.departures import Departures
from lbd.lbm.queue.leader_search import LeaderSearch, NobodyLeads
from lbd.lbm.queue.other_spools import OtherSpools, why_of
from lbd.lbm.queue.spool import Spool
from lbd.lbm.session.cluster import Cluster, rates_of_users
from lbd.local.json_client import JsonClient
from lbd.local.rate_limit import USER_SHARE, CallRates, TimeShares
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.parsing import TooManyFields, parsed_in_turns
from lbd.net.peers import Peers
from lbd.net.question import ChannelMayClose, Unanswered, ask
from lbd.net.submitter import WATCHED_BYTES, is_ledger_token
from lbd.text.dispatcher_phrases import SAID_CHARS, silence
from lbd.text.index_list import COUNT_MAX
from lbd.text.one_line import one_line

if TYPE_CHECKING:
    Call = grpc.aio.StreamStreamCall[bytes, bytes]
    OpenStream = grpc.aio.StreamStreamMultiCallable[bytes, bytes]
    Follow = grpc.aio.UnaryStreamMultiCallable[bytes, bytes]

Reply = TypeVar("Reply", bound=Message)
Found = TypeVar("Found")
Shown = TypeVar("Shown", pb.JobsInfo, pb.ActReply)
Watching = AsyncGenerator[pb.JobsInfo, None]
SERVICE = "/lbd.v1.Dispatch/"
CHECKPOINT = "checkpoint"  # the state of an attempt that the next one continues
ASK_S = 10.0
ACT_S = 20.0  # for very many jobs; less than our own clients wait
OWN_KEY = "lbrun:"  # prefix of an idempotency key that no user chose
TERMS_WAITED = 3  # that another dispatcher gets to take over
SEEK_AGAIN_S = 0.2
# A dispatcher that was up until recently is most likely restarting, and is waited for; submissions
# wait longer. One that has been away for longer is not waited for.
RESTART_S, SUBMIT_RESTART_S = 4.0, 10.0
READ_SHARE = 0.1  # of our time, for updates of watched jobs; passing them on takes longer
TOO_LONG = "has more to say than this host reads; ask for fewer jobs, by their ids"
NO_QUEUE = "this cluster has no queue; `lbctl queue enable HOST` creates one"


class NoDispatcher(Unavailable):
    """No dispatcher is running, or it disconnected before it answered."""


class AnswerTooLong(Unavailable):
    """Nothing is wrong with the dispatcher."""


class AnotherLedger(Unavailable):
    """Who answers as the dispatcher has another ledger than the one that has these jobs."""


GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, None)  # of a lost one


class DispatcherClient:
    """Asks the dispatcher questions, and keeps the queue's spools and leases of this host.

    Each ledger numbers its own jobs. So who asks about a job says which `ledger` has it, by the
    token that the dispatcher showed when it took the job (dispatch/ledger/ledger_tokens.py), and
    another ledger's answers are not believed. Without `ledger`, those of any are.

    One class because every question goes to the leader, and shows who leads.
    """

    def __init__(self, config: Config, peers: Peers, lim: JsonClient) -> None:
        self._config = config
        self._peers = peers
        cluster = Cluster(config, lim, peers, rates_of_users())
        self._search = LeaderSearch(config, peers, cluster)
        own = config.dispatch
        self._configured = own.hosts
        self.spool = Spool(config.host.state_dir, own.max_output_bytes)
        self.spools = OtherSpools(config.host.name, peers, cluster)
        self.hosts = self._configured  # hosts that may lead
        self.has_queue = asyncio.Event()  # set while some host may lead
        self.leader = own.host  # the last known leader
        self._orders: Call | None = None  # the stream for attempts
        self.obeyed = ""  # the host that it goes to
        self.leases = Leases(lease_s=own.lease_s)  # of the attempts here, by DispatcherLine
        self.departures = Departures(self)
        self.ledger = ""  # that of the dispatcher whose orders are obeyed; "" before the first
        self.when_ledger_changes: list[Callable[[], object]] = []
        self._read_shares = TimeShares(READ_SHARE)
        self._user_rates = CallRates(USER_SHARE * own.host_bytes_per_s)
        self._doubted = ""  # a host whose dispatcher failed to answer: asked last
        # since when there is no dispatcher; it may not have started yet
        self._lost_s: float | None = time.monotonic()
        self.follow(None)

    @property
    def kept_bytes(self) -> int:
        """The most output that a host keeps of one attempt: standard output and error."""
        return 2 * self._config.dispatch.max_output_bytes

    def follow(self, hosts: Sequence[str] | None) -> None:
        """Sets the hosts that the cluster's settings name; None: those of lbd.toml. One that is no
        longer named gives no orders from then on."""
        found = self._configured if hosts is None else tuple(hosts)
        if self._orders is not None and self.obeyed not in found:
            self._orders.cancel()
        if found != self.hosts:
            self.hosts, self._doubted, self._lost_s = found, "", time.monotonic()
            self.leader = self.leader if self.leader in found else next(iter(found), "")
        if found:
            self.has_queue.set()
        else:
            self.has_queue.clear()

    async def work(self) -> "Call":
        """Opens the stream for attempts, once the cluster has a queue. Raises Unavailable."""
        await self.has_queue.wait()
        channel = await self._channel()
        opening: OpenStream = channel.stream_stream(SERVICE + "Work")
        self._orders, self.obeyed = opening(metadata=self._peers.metadata), self.leader
        return self._orders

    def obeys(self, ledger: str) -> None:
        """The dispatcher that the stream goes to has shown its ledger."""
        if ledger != self.ledger:
            self.ledger = ledger
            for tell in self.when_ledger_changes:
                tell()

    async def read(self, call: "Call", lease_s: float) -> object:
        """Reads from that stream. Raises Unavailable if it is silent for so long that another
        dispatcher should renew the leases held here."""
        silent_s = lease_s / 2 if len(self.hosts) > 1 else None
        try:
            with ChannelMayClose():
                if silent_s is None:
                    return await call.read()
                async with asyncio.timeout(silent_s):
                    return await call.read()
        except TimeoutError:
            raise Unavailable(f"the dispatcher on {self.leader} is silent") from None

    @property
    def awaited(self) -> str:
        """Whom a question waits for, in words."""
        if len(self.hosts) > 1:
            return f"a dispatcher ({', '.join(self.hosts)})"
        return f"the dispatcher on {self.leader}"

    async def submit(
        self, request: pb.SubmitRequest, sent: Callable[[], object] = lambda: None
    ) -> pb.SubmitReply:
        """Submits jobs. Raises Unavailable; if `sent` was called, they may be queued all the same.

        Waits for a dispatcher that is restarting, or for another to take over. The key ensures that
        jobs queued just before are not queued again.
        """
        give_key(request)
        most_s = ACT_S if request.is_array else ASK_S
        once = partial(self._ask_once, "Submit", request, pb.SubmitReply, most_s, sent=sent)
        return self._checked(await self._submitted(once))

    async def submit_and_watch(
        self, request: pb.SubmitRequest, sent: Callable[[], object] = lambda: None
    ) -> tuple[pb.SubmitReply, Watching | None]:
        """Like `submit`, and returns what `watch` says about these jobs, if one call does both."""
        give_key(request)
        if request.ByteSize() <= WATCHED_BYTES:
            return await self._submitted(partial(self._queue_once, request, sent))
        return await self.submit(request, sent), None

    async def _submitted(self, once: Callable[[], Awaitable[Found]]) -> Found:
        takes_over_s = TERMS_WAITED * self._config.dispatch.term_s if len(self.hosts) > 1 else 0.0
        return await self._again(once, SUBMIT_RESTART_S, takes_over_s)

    async def _queue_once(
        self, request: pb.SubmitRequest, sent: Callable[[], object]
    ) -> tuple[pb.SubmitReply, Watching]:
        await self._channel()
        data = request.SerializeToString()
        await self._turn(request.user, len(data))
        sent()
        answers = self._answers("Queue", data, restart_s=0.0)
        try:
            async with asyncio.timeout(ACT_S if request.is_array else ASK_S):
                first = await anext(answers)
        except TimeoutError:
            raise self._unavailable(Unanswered("", grpc.StatusCode.DEADLINE_EXCEEDED)) from None
        except StopAsyncIteration:
            raise self._unavailable(Unanswered("the connection was closed", None)) from None
        self.leads(self.leader)
        return self._checked(first.submitted), answers

    def _checked(self, reply: pb.SubmitReply) -> pb.SubmitReply:
        """Checks the reply, since we keep bytes for each job it names. Raises Unavailable."""
        known_by = is_ledger_token(reply.ledger_token)
        if reply.error or (reply.first > 0 and 0 < reply.count <= COUNT_MAX and known_by):
            return reply
        text = f"{reply.count} jobs from number {reply.first}" if known_by else "jobs, not where"
        raise Unavailable(f"the dispatcher on {self.leader} says that it has queued {text}")

    async def jobs(self, request: pb.JobsAsked, ledger: str | None = None) -> pb.JobsInfo:
        """Raises Unavailable."""
        return self._of(ledger, await self._ask("Jobs", request, pb.JobsInfo))

    async def predict(self, request: pb.PredictAsked) -> pb.PredictInfo:
        """Raises Unavailable."""
        return await self._ask("Predict", request, pb.PredictInfo)

    async def act(self, request: pb.ActRequest, ledger: str | None = None) -> pb.ActReply:
        """Acts on jobs. An action that may have been done is not repeated. Raises Unavailable."""
        await self._again(self._channel, RESTART_S)
        return self._of(ledger, await self._ask_once("Act", request, pb.ActReply, ACT_S))

    async def tags(self) -> pb.TagsInfo:
        """Raises Unavailable."""
        return await self._ask("Tags", pb.TagsAsked(), pb.TagsInfo)

    async def status(self) -> pb.StatusInfo:
        """The current status: waits for nobody. Raises Unavailable."""
        return await self._ask_once("Status", pb.StatusAsked(), pb.StatusInfo)

    async def watch(self, request: pb.JobsAsked, ledger: str | None = None) -> Watching:
        """Yields jobs as they change, until all have ended. Raises Unavailable when it breaks."""
        answers = self._answers("Watch", request.SerializeToString(), RESTART_S)
        async with contextlib.aclosing(answers):
            self._of(ledger, await anext(answers, pb.JobsInfo()))
            async for reply in answers:
                yield reply

    def _of(self, ledger: str | None, reply: Shown) -> Shown:
        if ledger is None or reply.ledger_token.hex() == ledger:
            return reply
        raise AnotherLedger(f"the dispatcher on {self.leader} has another queue, without this job")

    async def _answers(
        self, method: str, data: bytes, restart_s: float
    ) -> AsyncGenerator[pb.JobsInfo, None]:
        """Raises Unavailable when the stream breaks."""
        channel = await self._again(self._channel, restart_s)
        asking: Follow = channel.unary_stream(SERVICE + method)
        call = asking(data, metadata=self._peers.metadata)
        try:
            with ChannelMayClose():
                async for message in call:
                    yield await jobs_in(message, self._read_shares, self.leader)
        except (Unanswered, grpc.aio.AioRpcError, DecodeError) as problem:
            raise self._unavailable(problem) from None
        finally:
            call.cancel()

    async def _ask(self, method: str, request: Message, kind: type[Reply]) -> Reply:
        """Asks a question that may be repeated."""
        return await self._again(partial(self._ask_once, method, request, kind), RESTART_S)

    async def _again(
        self, attempt: Callable[[], Awaitable[Found]], restart_s: float, takes_over_s: float = 0.0
    ) -> Found:
        """Retries until so long after the dispatcher was lost, or after now. Raises Unavailable."""
        now_s = time.monotonic()
        while True:
            try:
                return await attempt()
            except NoDispatcher:
                lost_s = min(now_s, self._lost_s or now_s)
                if time.monotonic() > max(lost_s + restart_s, now_s + takes_over_s):
                    raise
            await asyncio.sleep(SEEK_AGAIN_S)

    async def _ask_once(
        self,
        method: str,
        request: Message,
        kind: type[Reply],
        timeout_s: float = ASK_S,
        sent: Callable[[], object] = lambda: None,
    ) -> Reply:
        """`sent` is called when the dispatcher may have the request."""
        channel, data = await self._channel(), request.SerializeToString()
        user = str(getattr(request, "user", ""))
        await self._turn(user, len(data))
        sent()
        try:
            answer = await ask(channel, SERVICE + method, data, self._peers.metadata, timeout_s)
            reply = await parsed_in_turns(kind, answer)
        except (Unanswered, DecodeError) as problem:
            raise self._unavailable(problem) from None
        self._user_rates.answered(user, len(answer), time.monotonic())
        self.leads(self.leader)
        return reply

    async def _turn(self, user: str, size_bytes: int) -> None:
        """Delays one user's requests so that others do not wait for them. Raises Unavailable."""
        wait_s = self._user_rates.wait_s(user, size_bytes, time.monotonic())
        if wait_s is None:
            raise Unavailable(f"{user} makes too many requests to the queue; try again later")
        if wait_s:
            await asyncio.sleep(wait_s)

    def _unavailable(self, problem: Exception) -> Unavailable:
        if isinstance(problem, TooManyFields):  # which says nothing about the dispatcher
            return AnswerTooLong(f"the dispatcher on {self.leader} {TOO_LONG}")
        code = getattr(problem, "code", grpc.StatusCode.UNKNOWN)
        code = problem.code() if isinstance(problem, grpc.aio.AioRpcError) else code
        self.doubt()
        # A dispatcher that hangs is replaced by another, if there are others.
        is_gone = code in GONE or len(self.hosts) > 1
        text = silence(self.leader, one_line(why_of(problem), SAID_CHARS))
        return self._away(text) if is_gone else Unavailable(text)

    # Who leads

    def leads(self, host: str) -> None:
        """Notes that the dispatcher on that host has answered."""
        self.leader, self._doubted, self._lost_s = host, "", None

    def doubt(self) -> None:
        """Notes that the last leader does not answer properly: the other hosts are tried first."""
        self._doubted = self.leader
        self._away("")

    def _away(self, text: str) -> NoDispatcher:
        """Notes since when there is no dispatcher, if it is news."""
        self._lost_s = time.monotonic() if self._lost_s is None else self._lost_s
        return NoDispatcher(text)

    async def _channel(self) -> grpc.aio.Channel:
        """Returns a ready channel to the leading dispatcher, that of `leader`. Raises
        Unavailable."""
        hosts = self.hosts
        if not hosts:
            raise Unavailable(NO_QUEUE)
        try:
            found = await self._search.find(hosts, self.leader, self._doubted)
        except NobodyLeads as problem:
            raise self._away(str(problem)) from None
        if hosts != self.hosts:  # it may have taken its time until others were named
            raise self._away("other hosts have been named for the queue")
        if found.is_news:
            self.leads(found.host)
        self.leader = found.host
        return found.channel


def give_key(request: pb.SubmitRequest) -> None:
    request.key = request.key or f"{OWN_KEY}{os.urandom(16).hex()}"


async def jobs_in(message: bytes, shares: TimeShares, host: str) -> pb.JobsInfo:
    """Raises DecodeError."""
    await shares.turn(host)
    return await parsed_in_turns(pb.JobsInfo, message, partial(shares.in_turns, host))

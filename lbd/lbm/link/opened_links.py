"""The streams to the hosts that our users' commands are sent to: opened at first use, then kept."""

import asyncio
import contextlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from lbd.errors import LbdError, LostContact, Unavailable
from lbd.lbm.link import wire as tags
from lbd.lbm.link.conversation import Conversation, Stream
from lbd.local.rate_limit import TimeShares
from lbd.net.details import in_plain_words
from lbd.net.peers import Peers
from lbd.net.question import ChannelMayClose
from lbd.net.tls import own_fault
from lbd.text.one_line import one_line

METHOD = "/lbd.v1.Lbm/Run"
# With these codes the far LBM (or gRPC before it) rejected the stream unread.
NOTHING_RAN = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
)
RETRIED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)  # the LBM may be starting
AGAIN_S = 0.1
MAX_NUMBER = (1 << 32) - 1
if TYPE_CHECKING:  # generic in the stubs only
    OpenStream = grpc.aio.StreamStreamMultiCallable[bytes, bytes]
    Call = grpc.aio.StreamStreamCall[bytes, bytes]


@dataclass(slots=True)
class Resumes:
    """The state that all streams of this LBM share in order to resume."""

    leaving: bool = False  # another LBM of ours will follow: it resumes what is left
    under_way: int = 0  # resumptions that the other LBM may have accepted, and we have not yet
    shares: TimeShares = field(default_factory=TimeShares)  # by the host at the other end

    async def heard(self, host: str, stream: Stream, message: bytes) -> None:
        """Handles a message. A host gets no more than its share of our time. Raises ValueError."""
        await self.shares.turn(host)
        with self.shares.spending(host):
            for number, tag, body in stream.take(message):
                stream.deliver(number, tag, body)

    async def next_of(self, call: "Call", stream: Stream, return_s: float) -> object:
        """Returns the next message. Raises TimeoutError if the LBM does not return from a
        restart."""
        if self.leaving or not stream.rests:
            return await call.read()
        async with asyncio.timeout(return_s):
            return await call.read()


class PeerLink:
    """A stream to one host. If one of the two LBMs is restarted, it continues where it stopped."""

    def __init__(
        self,
        peers: Peers,
        place: tuple[str, str],
        limits_s: tuple[float, float],
        resumes: Resumes,
        stream: Stream | None = None,
        token: str = "",
        last_number: int = 0,
    ) -> None:
        """`place`: host and address; `limits_s`: to connect, and to come back after a restart.
        `stream`: one that an earlier LBM left, with its `token` and `last_number`."""
        self.host, self.address = place
        self._peers = peers
        self._connect_s, self._return_s = limits_s
        self.generation = peers.trust.generation  # of our certificates, when it is opened
        token = token or os.urandom(16).hex()
        self.last_number = last_number
        self._heard = stream is not None
        self._resumes = resumes
        self.turned_away: LbdError | None = None
        if stream is None:
            self._call = self._open((tags.STREAM_HEADER, token))
            self.stream = Stream(self._call.write)
        else:
            self.stream = stream
        self.stream.token = token
        self.served = asyncio.Event()
        living = self._live(resumed=stream is not None)
        self.reading = asyncio.create_task(living, name=f"stream to {self.host}")

    def _open(self, *own: tuple[str, str]) -> "Call":
        opening: OpenStream = self._peers.channel(self.host, self.address).stream_stream(METHOD)
        return opening(metadata=(*self._peers.metadata, *own))

    @property
    def usable(self) -> bool:
        if self.stream.outbox.broken or self.stream.rests or self.last_number == MAX_NUMBER:
            return False
        return not self.reading.done()

    @property
    def returns(self) -> bool:
        """Whether its LBM is being restarted. Then the stream continues in a moment, or is lost."""
        return self.stream.rests and not self.reading.done()

    async def has_heard(self) -> bool:
        """Whether the other LBM serves it. Raises the reason for which it was rejected."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._connect_s):
                await self.served.wait()
        if self.turned_away is not None:
            raise self.turned_away
        return self.usable

    def converse(self) -> Conversation:
        self.last_number += 1
        return self.stream.converse(self.last_number)

    async def _live(self, *, resumed: bool) -> None:
        """Keeps the stream until it breaks for good: then every job on it has lost its host."""
        problem: LbdError = LostContact(f"lost contact with {self.host}: it is cut off")
        try:
            while True:
                if resumed:
                    await self._resume()
                problem = await self._read()
                if not self.stream.can_resume:
                    return
                self.stream.confirmed.set()
                resumed = True
        except LostContact as lost:
            problem = lost
        except asyncio.CancelledError:  # either our task, or the channel was closed under us
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        finally:
            self.turned_away = problem if isinstance(problem, Unavailable) else None
            self.served.set()
            self.stream.lose(problem)

    async def _read(self) -> LbdError:
        """Reads until it breaks, and returns why. Raises LostContact if it must not be resumed."""
        try:
            await self._call.initial_metadata()
            self.served.set()
            ours = self._call, self.stream, self._return_s
            while isinstance(message := await self._resumes.next_of(*ours), bytes):
                self._heard = True
                await self._resumes.heard(self.host, self.stream, message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass
        except TimeoutError:
            text = "its LBM announced a restart but did not come back"
            raise LostContact(f"lost contact with {self.host}: {text}") from None
        except ValueError as fault:
            self._call.cancel()
            return LostContact(f"protocol error from {self.host}: {fault}")
        details = await details_of(self._call)
        if not self._heard and await self._call.code() in NOTHING_RAN:
            return Unavailable(f"{self.host} refused it: {details}")
        return LostContact(f"lost contact with {self.host}: {details}")

    async def _resume(self) -> None:
        """Resumes the stream. Raises LostContact if the other LBM does not come back, or has
        nothing to resume."""
        try:
            async with asyncio.timeout(self._return_s):
                while True:
                    if await self._has_resumed():
                        return
                    await asyncio.sleep(AGAIN_S)
        except TimeoutError:
            if self._resumes.leaving:
                await asyncio.get_running_loop().create_future()
            raise LostContact(
                f"lost contact with {self.host}: "
                f"no answer within {self._return_s:g} s of a restart of its LBM or ours"
            ) from None

    async def _has_resumed(self) -> bool:
        """Raises LostContact."""
        try:
            channel = self._peers.channel(self.host, self.address)
            await until_ready(channel, self.host, self._connect_s)
            if self._resumes.leaving:
                return False
            self._call = self._open(
                (tags.STREAM_HEADER, self.stream.token), (tags.RESUME_HEADER, "1")
            )
        except (grpc.aio.AioRpcError, Unavailable):
            return False
        self._resumes.under_way += 1
        try:
            return await resume(self.stream, self._call, self.host)
        finally:
            self._resumes.under_way -= 1


async def resume(stream: Stream, call: "Call", host: str) -> bool:
    """Resumes, in the same step, if the other LBM does. Returns whether. Raises LostContact."""
    try:
        await call.write(tags.pack(0, tags.RESUME, stream.counts()))
        answer = await call.read()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return False
    if not isinstance(answer, bytes):
        if await call.code() in RETRIED:
            return False
        raise LostContact(f"lost contact with {host}: {await details_of(call)}")
    if not answer.startswith(tags.pack(0, tags.RESUME)):
        raise LostContact(f"protocol error from {host}: no answer to RESUME")
    stream.go_on(call.write)
    return True


async def details_of(call: "Call") -> str:
    """Returns how the call ended, in plain words."""
    return one_line(in_plain_words(await call.details()))


class PeerLinks:
    """At most one stream per host; a broken one is replaced when it is next needed.

    A stream opened with a certificate that has since been renewed is replaced too; the commands on
    it continue.
    """

    def __init__(self, peers: Peers, connect_timeout_s: float, orphan_after_s: float) -> None:
        self._peers = peers
        self._limits_s = connect_timeout_s, orphan_after_s
        self._streams: dict[tuple[str, str], PeerLink] = {}
        self.all: set[PeerLink] = set()  # including resting ones
        self._resumes = Resumes()

    async def converse(self, host: str, address: str) -> Conversation:
        """Opens a conversation for one command. Raises Unavailable if nothing was sent."""
        place = host, address
        until_s = asyncio.get_running_loop().time() + self._limits_s[1]
        while True:
            if self._resumes.leaving:
                await asyncio.get_running_loop().create_future()  # the next LBM sends it
            if asyncio.get_running_loop().time() > until_s:
                raise Unavailable(f"{host} ({address}) cannot be reached")
            known = self._streams.get(place)
            if known is not None and known.returns:
                await asyncio.wait((known.reading,), timeout=AGAIN_S)
                continue
            stream = self._usable(place)
            if stream is None or host in self._peers.cuts:
                stream = await self._open(place)
            # Anything sent before the other LBM answers may be lost unread if that LBM restarts.
            if stream.served.is_set() or await stream.has_heard():
                return stream.converse()
            await asyncio.sleep(AGAIN_S)

    @property
    def shares(self) -> TimeShares:
        """Processing time per host: handling a message counts like reading it."""
        return self._resumes.shares

    async def _open(self, place: tuple[str, str]) -> PeerLink:
        """Raises Unavailable."""
        channel = self._peers.channel(*place)
        try:
            await until_ready(channel, "{} ({})".format(*place), self._limits_s[0])
        except Unavailable as problem:
            raise Unavailable(own_fault(self._peers.trust) or str(problem)) from None
        if self._resumes.leaving:
            await asyncio.get_running_loop().create_future()
        stream = self._usable(place)  # another command may have opened it meanwhile
        return stream or self.add(PeerLink(self._peers, place, self._limits_s, self._resumes))

    def _usable(self, place: tuple[str, str]) -> PeerLink | None:
        stream = self._streams.get(place)
        if stream is None or not stream.usable:
            return None
        return stream if stream.generation == self._peers.trust.generation else None

    def resume(
        self, place: tuple[str, str], stream: Stream, token: str, last_number: int
    ) -> PeerLink:
        """Resumes a stream that an earlier LBM left."""
        ours = self._peers, place, self._limits_s, self._resumes
        return self.add(PeerLink(*ours, stream, token, last_number))

    def add(self, stream: PeerLink) -> PeerLink:
        self._streams[stream.host, stream.address] = stream
        self.all.add(stream)
        stream.reading.add_done_callback(lambda _: self._forget(stream))
        return stream

    def _forget(self, stream: PeerLink) -> None:
        self.all.discard(stream)
        if self._streams.get((stream.host, stream.address)) is stream:
            del self._streams[stream.host, stream.address]

    def leave(self) -> None:
        """From now on no stream is opened or resumed: another LBM of ours will follow."""
        self._resumes.leaving = True

    @property
    def are_settled(self) -> bool:
        """Whether no other LBM is being asked to resume a stream."""
        return not self._resumes.under_way

    async def close(self) -> None:
        """Closes the streams; each host ends the jobs on its stream."""
        streams = list(self.all)
        for stream in streams:
            stream.reading.cancel()
        await asyncio.gather(*(stream.reading for stream in streams), return_exceptions=True)


async def until_ready(channel: grpc.aio.Channel, what: str, limit_s: float) -> None:
    """Raises Unavailable."""
    try:
        with ChannelMayClose():
            if channel.get_state(try_to_connect=True) == grpc.ChannelConnectivity.READY:
                return
            async with asyncio.timeout(limit_s):
                await channel.channel_ready()
    except TimeoutError:
        raise Unavailable(f"{what} cannot be reached") from None

"""The streams to the hosts our users' commands are sent to: opened at the first, then kept."""

import asyncio
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from lbd import wire
from lbd.errors import LbdError, LostContact, Unavailable
from lbd.lbm.conversation import Conversation, Stream
from lbd.one_line import one_line
from lbd.rpc.job_stream import unpack
from lbd.rpc.transport import Peers

METHOD = "/lbd.v1.Lbm/Run"
# With these codes the far LBM (or gRPC before it) turned the stream away unread.
NOTHING_RAN = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
)
MAX_NUMBER = (1 << 32) - 1
if TYPE_CHECKING:  # generic in the stubs only
    OpenStream = grpc.aio.StreamStreamMultiCallable[bytes, bytes]
    Call = grpc.aio.StreamStreamCall[bytes, bytes]


class PeerStream:
    """An open stream to one host."""

    def __init__(self, host: str, call: "Call", generation: int) -> None:
        """`generation`: of our certificates, when it was opened."""
        self.generation = generation
        self._host = host
        self._call = call
        self._stream = Stream(call.write)
        self._last_number = 0
        self._heard = False
        self.announced: asyncio.Future[wire.Wire] = asyncio.get_running_loop().create_future()
        self.reading = asyncio.create_task(self._read(), name=f"stream to {host}")

    @property
    def usable(self) -> bool:
        if self._stream.outbox.broken or self._last_number == MAX_NUMBER:
            return False
        return not self.reading.done()

    def converse(self) -> Conversation:
        self._last_number += 1
        return self._stream.converse(self._last_number)

    async def _read(self) -> None:
        """Until it breaks: then every job on it has lost its host."""
        problem: LbdError = LostContact(f"lost contact with {self._host}: it is cut off")
        try:
            self._learn_release(await self._call.initial_metadata())
            while isinstance(message := await self._call.read(), bytes):
                self._heard = True
                for number, tag, body in unpack(message):
                    self._stream.deliver(number, tag, body)
            problem = await self._how_it_ended()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            problem = await self._how_it_ended()
        except ValueError as fault:
            problem = LostContact(f"{self._host} talks nonsense: {fault}")
            self._call.cancel()
        except asyncio.CancelledError:  # ours, or the channel was closed under us
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        finally:
            if not self.announced.done():
                self.announced.set_result(wire.BEFORE)
            self._stream.lose(problem)

    def _learn_release(self, metadata: "grpc.aio.Metadata | None") -> None:
        """Raises ValueError."""
        announced = metadata.get(wire.HEADER) if metadata is not None else None
        self.announced.set_result(wire.read(str(announced)) if announced else wire.BEFORE)

    async def _how_it_ended(self) -> LbdError:
        code, details = await self._call.code(), one_line(await self._call.details() or "")
        if code in NOTHING_RAN and not self._heard:
            return Unavailable(f"{self._host} turned it away: {details}")
        return LostContact(f"lost contact with {self._host}: {details}")


class PeerStreams:
    """At most one stream a host; a broken one is replaced when it is next needed.

    So is one opened with a certificate that has been renewed; the commands on it go on.
    """

    def __init__(self, peers: Peers, connect_timeout_s: float) -> None:
        self._peers = peers
        self._connect_timeout_s = connect_timeout_s
        self._streams: dict[tuple[str, str], PeerStream] = {}

    async def converse(self, host: str, address: str) -> Conversation:
        """For one command. Raises Unavailable: nothing has been sent then."""
        key = (host, address)
        stream = self._usable(key)
        if stream is not None and host not in self._peers.cuts:
            return stream.converse()
        channel = self._peers.channel(host, address)
        generation = self._peers.trust.generation
        await self._until_ready(channel, f"{host} ({address})")
        stream = self._usable(key)  # another command may have opened it meanwhile
        if stream is None:
            opening: OpenStream = channel.stream_stream(METHOD)  # bytes, as they are
            call = opening(metadata=self._peers.metadata)
            stream = self._streams[key] = PeerStream(host, call, generation)
            stream.reading.add_done_callback(lambda _: self._forget(key, stream))
        return stream.converse()

    def _usable(self, key: tuple[str, str]) -> PeerStream | None:
        stream = self._streams.get(key)
        if stream is None or not stream.usable:
            return None
        return stream if stream.generation == self._peers.trust.generation else None

    async def lacking(self, host: str, address: str, wanted: set[str]) -> str:
        """What of these features the host has not announced, as a line; "" if it has them all."""
        stream = self._streams.get((host, address)) if wanted else None
        if stream is None:
            return ""
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                return wire.lacking(await asyncio.shield(stream.announced), wanted)
        except TimeoutError:
            raise Unavailable(f"{host} does not say what release it is") from None

    def _forget(self, key: tuple[str, str], stream: PeerStream) -> None:
        if self._streams.get(key) is stream:
            del self._streams[key]

    async def _until_ready(self, channel: grpc.aio.Channel, what: str) -> None:
        if channel.get_state(try_to_connect=True) == grpc.ChannelConnectivity.READY:
            return
        try:
            await asyncio.wait_for(channel.channel_ready(), self._connect_timeout_s)
        except TimeoutError:
            raise Unavailable(f"{what} cannot be reached") from None

    async def close(self) -> None:
        """Every job on them is ended by its host."""
        streams = list(self._streams.values())
        for stream in streams:
            stream.reading.cancel()
        await asyncio.gather(*(stream.reading for stream in streams), return_exceptions=True)

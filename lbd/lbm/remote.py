"""A command of ours on another host: this side of its Run stream."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from lbd.config import LbmConfig
from lbd.errors import LostContact, Unavailable
from lbd.lbm.streams import Descriptor, Sink, Source
from lbd.rpc import job_stream as tags
from lbd.rpc.gen import lbm_pb2
from lbd.rpc.transport import Peers

RUN_METHOD = "/lbd.v1.Lbm/Run"
# With these codes the far LBM (or gRPC before it) turned the call away unread.
NOTHING_RAN = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.PERMISSION_DENIED,
)
if TYPE_CHECKING:  # generic in the stubs only
    OpenStream = grpc.aio.StreamStreamMultiCallable[bytes, bytes]
    Call = grpc.aio.StreamStreamCall[bytes, bytes]


@dataclass(frozen=True, slots=True)
class NotRun:
    """The far host did not run it. `fault`: it could not be used, rather than declined."""

    reason: str
    stage: str = ""
    errno: int = 0
    fault: bool = False


@dataclass(slots=True)
class Ends:
    """The caller's descriptors, ours to close; None where the caller has none or keeps it."""

    stdin: int | None
    stdout: int | None
    stderr: int | None


class RemoteRun:
    """One attempt on one host."""

    def __init__(self, config: LbmConfig, peers: Peers, host: str, address: str) -> None:
        self._config = config
        self._peers = peers
        self._host = host
        self._address = address
        self._sending = asyncio.Lock()
        self._call: Call | None = None
        self._sinks: dict[int, Sink] = {}
        self._stdin: Source | None = None
        self._typed: asyncio.Future[None] | None = None
        self._posts: set[asyncio.Task[None]] = set()
        self.queued = False

    async def start(self, request: lbm_pb2.RunRequest) -> lbm_pb2.Started | NotRun:
        """Ask the host to run it. Raises LostContact if it may have begun, but nobody knows."""
        try:
            channel = self._peers.channel(self._host, self._address)
            await self._until_ready(channel)
        except Unavailable as problem:
            return NotRun(str(problem), fault=True)
        open_stream: OpenStream = channel.stream_stream(RUN_METHOD)  # bytes, as they are
        self._call = open_stream(metadata=self._peers.metadata)
        try:
            await self._call.write(tags.RUN + request.SerializeToString())
            while True:
                limit_s = None if self.queued else self._config.start_timeout_s
                message = await asyncio.wait_for(self._call.read(), limit_s)
                if not isinstance(message, bytes):
                    return await self._turned_away()
                if message[:1] != tags.QUEUED:
                    return self._first_answer(message)
                self.queued = True
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return await self._turned_away()
        except TimeoutError:
            raise LostContact(
                f"{self._host} has not said within {self._config.start_timeout_s:g} s "
                "whether it started the command"
            ) from None

    async def _until_ready(self, channel: grpc.aio.Channel) -> None:
        """Raises Unavailable: nothing has been sent then."""
        if channel.get_state(try_to_connect=True) == grpc.ChannelConnectivity.READY:
            return
        try:
            await asyncio.wait_for(channel.channel_ready(), self._config.connect_timeout_s)
        except TimeoutError:
            raise Unavailable(f"{self._host} ({self._address}) cannot be reached") from None

    async def _turned_away(self) -> NotRun:
        assert self._call is not None
        code, details = await self._call.code(), await self._call.details()
        if code in NOTHING_RAN:
            return NotRun(f"{self._host} turned it away: {details}", fault=True)
        raise LostContact(f"lost contact with {self._host} before it answered ({details})")

    def _first_answer(self, message: bytes) -> lbm_pb2.Started | NotRun:
        if message[:1] == tags.REFUSED:
            refused = lbm_pb2.Refused.FromString(message[1:])
            declined = refused.stage in ("admission", "exec", "chdir", "user")
            return NotRun(
                f"{self._host}: {refused.reason}", refused.stage, refused.errno, not declined
            )
        if message[:1] == tags.STARTED:
            return lbm_pb2.Started.FromString(message[1:])
        raise LostContact(f"{self._host} answered with an unknown message")

    async def follow(self, ends: Ends, terminal_input: Callable[[], None]) -> lbm_pb2.Ended:
        """Move the bytes until the command has ended and its output is handed over.

        `terminal_input` is called when typed input has been consumed. Raises LostContact.
        """
        tasks = self._attach(ends)
        self._input_taken = terminal_input
        try:
            ended = await self._hear_out()
            await asyncio.gather(*tasks)
            return ended
        except grpc.aio.AioRpcError as problem:
            raise LostContact(f"lost contact with {self._host}: {problem.details()}") from None
        finally:
            for task in (*tasks, *self._posts):
                task.cancel()
            if self._stdin_task is not None:
                self._stdin_task.cancel()

    def _attach(self, ends: Ends) -> list[asyncio.Task[None]]:
        tasks = []
        for number, descriptor in ((1, ends.stdout), (2, ends.stderr)):
            if descriptor is not None:
                sink = self._sinks[number] = Sink(
                    Descriptor(descriptor, borrowed=True, writing=True),
                    lambda count, number=number: self._post(  # type: ignore[misc]
                        tags.delivered(number, count)
                    ),
                    lambda number=number: self._post(  # type: ignore[misc]
                        tags.OUTPUT_GONE + bytes((number,))
                    ),
                )
                tasks.append(asyncio.create_task(sink.run()))
        self._stdin_task: asyncio.Task[None] | None = None
        if ends.stdin is not None:
            self._stdin = Source(
                Descriptor(ends.stdin, borrowed=True),
                lambda data: self._send(tags.STDIN + data),
                tags.WINDOW_BYTES,
                self._config.chunk_bytes,
            )
            self._stdin_task = asyncio.create_task(self._read_input(self._stdin))
        return tasks

    async def _read_input(self, source: Source) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await source.run()

    async def _hear_out(self) -> lbm_pb2.Ended:
        assert self._call is not None
        while True:
            message = await self._call.read()
            if not isinstance(message, bytes):
                raise LostContact(f"lost contact with {self._host}: {await self._call.details()}")
            tag, body = message[:1], memoryview(message)[1:]
            if tag in (tags.STDOUT, tags.STDERR):
                sink = self._sinks.get(tag[0] - ord("0"))
                if sink is not None:
                    sink.put(body)
            elif tag == tags.DELIVERED:
                number, count = tags.read_delivered(bytes(body))
                if number == 0 and self._stdin is not None:
                    self._stdin.delivered(count)
                elif number == 0:
                    self._input_taken()
            elif tag == tags.STDIN_GONE:
                if self._stdin_task is not None:
                    self._stdin_task.cancel()
            elif tag == tags.ENDED:
                for sink in self._sinks.values():
                    sink.put(b"")
                return lbm_pb2.Ended.FromString(bytes(body))

    def typed(self, data: bytes) -> None:
        """Terminal input that the client has read; b"" is the end of file."""
        self._post(tags.STDIN + data)

    def signal(self, number: int) -> None:
        self._post(tags.SIGNAL + bytes((number,)))

    def force(self) -> None:
        self._post(tags.FORCE)

    def _post(self, message: bytes) -> None:
        task = asyncio.create_task(self._send_quietly(message))
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)

    async def _send_quietly(self, message: bytes) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._send(message)

    async def _send(self, message: bytes) -> None:
        assert self._call is not None
        async with self._sending:
            await self._call.write(message)

    def close(self) -> None:
        """Give the stream up; unless the command has ended, the far host ends it."""
        if self._call is not None:
            self._call.cancel()

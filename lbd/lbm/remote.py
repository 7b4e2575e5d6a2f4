"""A command of ours on another host: this side of its Run stream."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from lbd.config import LbmConfig
from lbd.errors import LostContact, Unavailable
from lbd.lbm.outbox import Outbox
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
        self._call: Call | None = None
        self._sinks: dict[int, Sink] = {}
        self._stdin: Source | None = None
        self._stdin_task: asyncio.Task[None] | None = None
        self._typed_bytes = 0
        self._input_taken: Callable[[], None] = lambda: None
        self._early: list[tuple[bytes, memoryview]] = []

    async def start(self, request: lbm_pb2.RunRequest) -> lbm_pb2.Started | NotRun:
        """Ask the host to run it. Raises LostContact if it may have begun, but nobody knows."""
        try:
            channel = self._peers.channel(self._host, self._address)
            await self._until_ready(channel)
        except Unavailable as problem:
            return NotRun(str(problem), fault=True)
        open_stream: OpenStream = channel.stream_stream(RUN_METHOD)  # bytes, as they are
        self._call = open_stream(metadata=self._peers.metadata)
        self._outbox = Outbox(self._call.write)
        self._outbox.put(tags.RUN + request.SerializeToString())
        try:
            return await self._first_answer(self._call)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return await self._turned_away()
        except TimeoutError:
            raise LostContact(
                f"{self._host} has not said within {self._config.start_timeout_s:g} s "
                "whether it started the command"
            ) from None

    async def _first_answer(self, call: "Call") -> lbm_pb2.Started | NotRun:
        limit_s: float | None = self._config.start_timeout_s
        while True:
            async with asyncio.timeout(limit_s):
                message = await self._read(call)
            if not isinstance(message, bytes):
                return await self._turned_away()
            (tag, body), *self._early = tags.unpack(message)
            if tag == tags.STARTED:
                return lbm_pb2.Started.FromString(bytes(body))
            if tag == tags.REFUSED:
                refused = lbm_pb2.Refused.FromString(bytes(body))
                declined = refused.stage in ("admission", "exec", "chdir", "user")
                return NotRun(
                    f"{self._host}: {refused.reason}", refused.stage, refused.errno, not declined
                )
            limit_s = None  # QUEUED: it waits for a slot, as long as that takes

    async def _read(self, call: "Call") -> object:
        """The next message. Raises LostContact if the channel was closed under it."""
        try:
            return await call.read()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise LostContact(f"lost contact with {self._host}: it is cut off") from None

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

    def ended_already(self) -> lbm_pb2.Ended | None:
        """The end, if it came with the start and nothing was printed: then no stream is needed."""
        if not self._early or any(body for _, body in self._early[:-1]):
            return None
        tag, body = self._early[-1]
        return lbm_pb2.Ended.FromString(bytes(body)) if tag == tags.ENDED else None

    async def follow(self, ends: Ends, terminal_input: Callable[[], None]) -> lbm_pb2.Ended:
        """Move the bytes until the command has ended and its output is handed over.

        `terminal_input` is called when typed input has been consumed. Raises LostContact.
        """
        tasks = self._attach(ends)
        self._input_taken = terminal_input
        terminal_input()
        try:
            ended = await self._hear_out()
            await asyncio.gather(*tasks)
            return ended
        except grpc.aio.AioRpcError as problem:
            raise LostContact(f"lost contact with {self._host}: {problem.details()}") from None
        finally:
            for task in tasks:
                task.cancel()
            if self._stdin_task is not None:
                self._stdin_task.cancel()

    def _attach(self, ends: Ends) -> list[asyncio.Task[None]]:
        tasks = []
        for number, descriptor in ((1, ends.stdout), (2, ends.stderr)):
            if descriptor is not None:
                sink = self._sinks[number] = Sink(
                    Descriptor(descriptor, borrowed=True, writing=True),
                    lambda count, number=number: self._outbox.put(  # type: ignore[misc]
                        tags.delivered(number, count)
                    ),
                    lambda number=number: self._outbox.put(  # type: ignore[misc]
                        tags.OUTPUT_GONE + bytes((number,))
                    ),
                )
                tasks.append(asyncio.create_task(sink.run()))
        if ends.stdin is not None:
            self._stdin = Source(
                Descriptor(ends.stdin, borrowed=True),
                lambda data: self._outbox.put(tags.STDIN + data),
                self._outbox.flush,
                tags.WINDOW_BYTES,
                self._config.chunk_bytes,
            )
            self._stdin_task = asyncio.create_task(self._stdin.run())
        return tasks

    async def _hear_out(self) -> lbm_pb2.Ended:
        assert self._call is not None
        received = self._early
        while True:
            for tag, body in received:
                if tag == tags.ENDED:
                    for sink in self._sinks.values():
                        sink.put(b"")
                    return lbm_pb2.Ended.FromString(bytes(body))
                self._hear(tag, body)
            message = await self._read(self._call)
            if not isinstance(message, bytes):
                raise LostContact(f"lost contact with {self._host}: {await self._call.details()}")
            received = tags.unpack(message)

    def _hear(self, tag: bytes, body: memoryview) -> None:
        if tag in (tags.STDOUT, tags.STDERR):
            sink = self._sinks.get(tag[0] - ord("0"))
            if sink is not None:
                sink.put(body)
        elif tag == tags.DELIVERED:
            number, count = tags.read_delivered(bytes(body))
            if number == 0 and self._stdin is not None:
                self._stdin.delivered(count)
            elif number == 0:
                self._typed_bytes -= count
                self._input_taken()
        elif tag == tags.STDIN_GONE and self._stdin_task is not None:
            self._stdin_task.cancel()

    def trouble(self) -> str:
        """Why not all of the caller's input or the command's output was moved; "" if it was."""
        ends = (("standard input", self._stdin), ("standard output", self._sinks.get(1)))
        troubles = [(name, end.trouble) for name, end in ends if end is not None]
        return "; ".join(f"{name}: {found.strerror}" for name, found in troubles if found)

    def typed(self, data: bytes) -> None:
        """Terminal input that the client has read; b"" is the end of file.

        Raises ValueError if more comes than was asked for.
        """
        self._typed_bytes += len(data)
        if self._typed_bytes > 2 * tags.WINDOW_BYTES:
            raise ValueError("input without waiting until it is taken")
        self._outbox.put(tags.STDIN + data)
        if self._typed_bytes < tags.WINDOW_BYTES // 2:
            self._input_taken()

    def signal(self, number: int) -> None:
        self._outbox.put(tags.SIGNAL + bytes((number,)))

    def force(self) -> None:
        self._outbox.put(tags.FORCE)

    def close(self) -> None:
        """Give the stream up; unless the command has ended, the far host ends it."""
        if self._call is not None:
            self._outbox.close()
            self._call.cancel()

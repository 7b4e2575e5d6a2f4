"""A command of ours on another host: this side of its conversation."""

import asyncio
import contextlib
import logging
import os
import signal
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError

from lbd import wire
from lbd.config import LbmConfig
from lbd.errors import LostContact, Unavailable
from lbd.lbm.bundle import Bundle, Given
from lbd.lbm.client import Ends, Listener
from lbd.lbm.conversation import Conversation, Message
from lbd.lbm.descriptor import Descriptor
from lbd.lbm.kinds import Kind, kind_of
from lbd.lbm.peer_streams import PeerStreams
from lbd.lbm.streams import Sink, Source
from lbd.lbm.user_threads import Threads
from lbd.one_line import one_line
from lbd.rpc import job_stream as tags
from lbd.rpc.gen import lbm_pb2
from lbd.rpc.gen.handover_pb2 import HeldRun

FLUSH_S = 1.0
log = logging.getLogger("lbd.lbm")

PUT_BACK_S = 2.0  # by a file server that may not answer
DRAIN_S = 1.0  # for output that nobody reads, of a command that its caller has ended
ENDING_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
SHOWN_WITHIN_S = 1.0  # what was printed before a stop, unless its reader does not read
Reply = TypeVar("Reply", lbm_pb2.Started, lbm_pb2.Refused, lbm_pb2.Ended)


@dataclass(frozen=True, slots=True)
class NotRun:
    """The far host did not run it. `fault`: it could not be used, rather than declined."""

    reason: str
    stage: str = ""
    errno: int = 0
    fault: bool = False
    full: bool = False  # all its slots were taken just now


def wanted_of(request: lbm_pb2.RunRequest | lbm_pb2.StageRequest) -> set[str]:
    """The features a host needs for it (lbd/wire.py)."""
    wanted = {wire.SLOTS} if request.slots else set()
    if isinstance(request, lbm_pb2.StageRequest):
        return wanted | {wire.STAGE}
    return wanted | {wire.TERMINAL} if request.HasField("terminal") else wanted


class RemoteRun:
    """One attempt on one host."""

    def __init__(
        self,
        config: LbmConfig,
        streams: PeerStreams,
        host: str,
        address: str,
        threads: Threads,
    ) -> None:
        """`threads`: those of the user whose descriptors it gets."""
        self._threads = threads
        self._config = config
        self._streams = streams
        self._host = host
        self._address = address
        self._talk: Conversation | None = None
        self._sinks: dict[int, Sink] = {}
        self._stdin: Source | None = None
        self._stdin_task: asyncio.Task[None] | None = None
        self._typed_bytes = 0
        self._listener: Listener | None = None
        self._early: list[Message] = []
        self._asked_to_end = False
        self._has_exited = False
        self._writing: dict[int, asyncio.Task[None]] = {}
        self._input_file: int | None = None
        self._ended = False
        self._final: lbm_pb2.Ended | None = None
        self.was_sent = False  # so it may run there
        self.is_following = False  # the caller's descriptors are in use
        self._screen = False

    async def start(
        self, request: lbm_pb2.RunRequest | lbm_pb2.StageRequest, tag: bytes = tags.RUN
    ) -> lbm_pb2.Started | NotRun:
        """Ask the host to run it. Raises LostContact if it may have begun, but nobody knows."""
        self._screen = isinstance(request, lbm_pb2.RunRequest) and request.HasField("terminal")
        try:
            self._talk = await self._streams.converse(self._host, self._address)
            if lack := await self._streams.lacking(self._host, self._address, wanted_of(request)):
                self._ended = True
                return NotRun(f"{self._host} {lack}", "feature")
        except Unavailable as problem:
            return NotRun(str(problem), fault=True)
        self._talk.put(tag, request.SerializeToString())
        self.was_sent = True
        return await self.answer()

    async def answer(self) -> lbm_pb2.Started | NotRun:
        """As `start`, to a request that was sent."""
        assert self._talk is not None
        try:
            return await self._first_answer(self._talk)
        except Unavailable as problem:
            return NotRun(str(problem), fault=True)
        except TimeoutError:
            raise LostContact(
                f"{self._host} has not said within {self._config.start_timeout_s:g} s "
                "whether it started the command"
            ) from None

    async def _first_answer(self, talk: Conversation) -> lbm_pb2.Started | NotRun:
        limit_s: float | None = self._config.start_timeout_s
        while True:
            if not self._early:
                async with asyncio.timeout(limit_s):
                    self._early = await talk.read()
            tag, body = self._early.pop(0)
            if tag == tags.STARTED:
                started = self._decoded(lbm_pb2.Started(), body)
                started.note = one_line(started.note)
                return started
            if tag == tags.REFUSED:
                self._ended = True
                refused = self._decoded(lbm_pb2.Refused(), body)
                reason = one_line(refused.reason) or "refused, and did not say why"
                declined = refused.stage in ("admission", "exec", "chdir", "directory", "user")
                told = refused.stage, refused.errno, not declined, refused.full
                return NotRun(f"{self._host}: {reason}", *told)
            if tag == tags.FAILED:
                raise self._lost(body)
            limit_s = None  # QUEUED: it waits for a slot, as long as that takes

    def _lost(self, body: memoryview) -> LostContact:
        self._ended = True
        return LostContact(
            f"lost contact with {self._host}: {one_line(bytes(body).decode(errors='replace'))}"
        )

    def _decoded(self, message: Reply, body: memoryview) -> Reply:
        """`message`, filled in. Raises LostContact if it is none."""
        try:
            message.ParseFromString(bytes(body))
        except DecodeError:
            raise LostContact(f"{self._host} talks nonsense: no {type(message).__name__}") from None
        return message

    def ended_already(self) -> lbm_pb2.Ended | None:
        """The end, if it came with the start and nothing was printed: then no stream is needed."""
        if not self._early or any(body for _, body in self._early[:-1]):
            return None
        tag, body = self._early[-1]
        return self._end(body) if tag == tags.ENDED else None

    def _end(self, body: memoryview) -> lbm_pb2.Ended:
        self._ended = True
        return self._decoded(lbm_pb2.Ended(), body)

    async def follow(self, ends: Ends, listener: Listener | None) -> lbm_pb2.Ended:
        """Move the bytes until the command has ended and its output is handed over.

        Raises LostContact.
        """
        assert self._talk is not None
        self._attach(ends, self._talk)
        self.is_following = True
        return await self.go_on(listener)

    async def go_on(self, listener: Listener | None) -> lbm_pb2.Ended:
        """As `follow`, with the caller's descriptors at hand."""
        assert self._talk is not None
        self._listener = listener
        self._writing = {number: sink.start() for number, sink in self._sinks.items()}
        if self._stdin is not None:
            self._stdin_task = self._stdin.start()
        self._tell_taken()
        try:
            if self._final is None:
                self._final = await self._hear_out(self._talk)
            ended = self._final
            self._exited(ended.signal)
            if self._writing:
                await asyncio.wait(self._writing.values())
            await self._put_back(ended)
            return ended
        finally:
            for task in self._writing.values():
                task.cancel()
            if self._stdin_task is not None:
                self._stdin_task.cancel()
            if self._input_file is not None:
                self._threads.close(self._input_file)
                self._input_file = None

    def _exited(self, number: int) -> None:
        """It has ended, by signal `number` if that is not 0; its output may still be under way."""
        self._has_exited = True
        if self._asked_to_end and number:
            self._give_up_soon()

    def _give_up_soon(self) -> None:
        """The command has ended as its caller wished: whose output is not read has had its time."""
        for number, task in self._writing.items():
            asyncio.get_running_loop().call_later(DRAIN_S, self._give_up, number, task)

    def _give_up(self, number: int, task: asyncio.Task[None]) -> None:
        if task.cancel():
            self.tell(tags.OUTPUT_GONE, bytes((number,)))

    async def _put_back(self, ended: lbm_pb2.Ended) -> None:
        """What was taken from a file and not read by the command is for its next reader."""
        if self._input_file is None or self._stdin is None:
            return
        if self._stdin_task is not None:
            self._stdin_task.cancel()
        if not ended.HasField("input_taken_bytes"):
            return
        file = self._input_file
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(PUT_BACK_S):
                if self._stdin_task is not None:
                    await asyncio.wait((self._stdin_task,))
                taken = self._stdin.read_bytes + await self._stdin.lost_bytes()
                if (left := taken - ended.input_taken_bytes) > 0:
                    await self._threads.run(lambda: os.lseek(file, -left, os.SEEK_CUR))

    def _attach(self, ends: Ends, talk: Conversation) -> None:
        for number, output in ((1, ends.stdout), (2, ends.stderr)):
            if output is not None:
                descriptor = Descriptor(output, self._threads)
                self._sinks[number] = self._sink(number, descriptor, talk)
        if ends.stdin is not None:
            if kind_of(ends.stdin) is Kind.REGULAR:
                self._input_file = os.dup(ends.stdin)
            self._stdin = self._source(Descriptor(ends.stdin, self._threads), talk)

    def _sink(self, number: int, descriptor: Descriptor, talk: Conversation) -> Sink:
        window_bytes = tags.SCREEN_BYTES if self._screen else tags.WINDOW_BYTES
        return Sink(
            descriptor,
            lambda count: talk.put(tags.DELIVERED, tags.delivered(number, count)),
            lambda: talk.put(tags.OUTPUT_GONE, bytes((number,))),
            window_bytes // tags.ACKNOWLEDGE_SHARE,
        )

    def _source(self, descriptor: Descriptor, talk: Conversation) -> Source:
        return Source(
            descriptor,
            lambda data: talk.put(tags.STDIN, data),
            talk.flush,
            tags.WINDOW_BYTES,
            self._config.chunk_bytes,
            slow_start=True,
        )

    async def _hear_out(self, talk: Conversation) -> lbm_pb2.Ended:
        received, self._early = self._early, []
        while True:
            for tag, body in received:
                if tag == tags.ENDED:
                    for sink in self._sinks.values():
                        sink.put(b"")
                    return self._end(body)
                if tag == tags.FAILED:
                    raise self._lost(body)
                try:
                    self._hear(tag, body)
                except ValueError as fault:
                    raise LostContact(f"{self._host} talks nonsense: {fault}") from None
            received = await talk.read()

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
                self._tell_taken()
        elif tag == tags.STDIN_GONE and self._stdin_task is not None:
            self._stdin_task.cancel()
        elif tag == tags.EXITED and len(body) == 1:
            self._exited(body[0])
        elif tag in (tags.WANTED, tags.SCREEN):
            self._notify(tag)
        elif tag == tags.STOPPED and 1 in self._sinks:
            self._sinks[1].then(lambda: self._notify(tag), SHOWN_WITHIN_S)
        elif tag == tags.STOPPED:
            self._notify(tag)
        elif tag == tags.UNKNOWN:
            log.warning(
                "%s does not know our message %r (another release?)", self._host, bytes(body)
            )
        elif tag not in (tags.QUEUED, tags.STDIN_GONE, tags.EXITED):
            self.tell(tags.UNKNOWN, tag)

    def _tell_taken(self) -> None:
        if self._listener is not None:
            self._listener.input_taken()

    def _notify(self, tag: bytes) -> None:
        if self._listener is not None:
            self._listener.notice(tag)

    def save(self, bundle: Bundle) -> HeldRun:
        """Between two steps of the event loop, after which there are none. Raises NotNow."""
        assert self._talk is not None
        self._talk.give_back(self._early)
        return HeldRun(
            token=self._talk.token,
            number=self._talk.number,
            host=self._host,
            address=self._address,
            screen=self._screen,
            following=self.is_following,
            input=self._stdin.save(bundle) if self._stdin is not None else None,
            outputs=[sink.save(bundle, number) for number, sink in self._sinks.items()],
            input_file=bundle.add(-1 if self._input_file is None else self._input_file),
            typed=self._typed_bytes,
            asked_to_end=self._asked_to_end,
            has_exited=self._has_exited,
            ended=self._final.SerializeToString() if self._final is not None else None,
        )

    def restore(self, held: HeldRun, talk: Conversation, given: Given) -> None:
        """Raises OSError, KeyError, ValueError."""
        self._talk, self.was_sent, self.is_following = talk, True, held.following
        self._screen, self._typed_bytes = held.screen, held.typed
        self._asked_to_end, self._has_exited = held.asked_to_end, held.has_exited
        for output in held.outputs:
            place = output.descriptor
            descriptor = Descriptor.given(given, place, self._threads)
            sink = self._sink(output.number, descriptor, talk)
            self._sinks[output.number] = sink.restore(output)
        if held.HasField("input"):
            descriptor = Descriptor.given(given, held.input.descriptor, self._threads)
            self._stdin = self._source(descriptor, talk).restore(held.input)
        self._input_file = given.take_any(held.input_file)
        if held.HasField("ended"):
            self._ended = True
            self._final = lbm_pb2.Ended.FromString(held.ended)

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
        self.tell(tags.STDIN, data)
        if self._typed_bytes < tags.WINDOW_BYTES // 2:
            self._tell_taken()

    def tell(self, tag: bytes, body: bytes = b"") -> None:
        if tag == tags.FORCE or (tag == tags.SIGNAL and body[0] in ENDING_SIGNALS):
            self._asked_to_end = True  # a reader that reads no more must not stand in the way
            if self._has_exited:
                self._give_up_soon()
        if self._talk is not None:
            self._talk.put(tag, body)

    async def flush(self) -> None:
        """Until what was told is with gRPC; not for ever, for its caller has a client to watch."""
        if self._talk is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S):
                    await self._talk.flush()

    def close(self) -> None:
        """Nobody waits for it any more; unless it has ended, the far host ends it."""
        if self._talk is None:
            return
        if not self._ended:
            self._talk.put(tags.HANGUP)
        self._talk.close()
        self._talk = None

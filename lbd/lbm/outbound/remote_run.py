"""A command of ours on another host: this side of its conversation."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from google.protobuf.message import DecodeError

from lbd.config.schema import LbmConfig
from lbd.errors import LostContact, Unavailable
from lbd.lbm.core.journey import ENDING_SIGNALS
from lbd.lbm.core.journey_events import Refused
from lbd.lbm.handover.codec import NO_FD, Fd
from lbd.lbm.handover.records import FarRun, SinkState, SourceState
from lbd.lbm.link import wire as tags
from lbd.lbm.link.conversation import FEW_BYTES, INBOX_BYTES, Conversation, Message
from lbd.lbm.link.descriptor_kinds import DescriptorKind, kind_of
from lbd.lbm.link.nonblocking_fd import Descriptor
from lbd.lbm.link.opened_links import PeerLinks
from lbd.lbm.link.pump import Sink, Source
from lbd.lbm.link.user_threads import StdFds, Threads
from lbd.lbm.outbound.reported_end import checked_end
from lbd.lbm.session.client import Follower
from lbd.net import release as wire
from lbd.net.gen import lbm_pb2
from lbd.net.parsing import parsed_answer
from lbd.text.one_line import one_line

FLUSH_S = 1.0
log = logging.getLogger("lbd.lbm")

PUT_BACK_S = 2.0  # for a file server that may not answer
DRAIN_S = 1.0  # for output that nobody reads, of a command that its caller has ended
SHOWN_BYTES = 1 << 14
SHOWN_WITHIN_S = 1.0  # for output printed before a stop, if its reader reads
NO_SLOT = "no slot is free"  # as an earlier release means without saying it
NO_NEWS = (tags.QUEUED, tags.STDIN_GONE, tags.EXITED, tags.STILL)
Reply = TypeVar("Reply", lbm_pb2.Started, lbm_pb2.Refused, lbm_pb2.Ended)


def wanted_of(request: lbm_pb2.RunRequest | lbm_pb2.WorkdirRequest) -> set[str]:
    """The features that a host needs for the request (lbd/net/release.py)."""
    wanted = {wire.SLOTS} if request.slots else set()
    if isinstance(request, lbm_pb2.WorkdirRequest):
        return wanted | {wire.FILES}
    if request.needs:
        wanted.add(wire.NEEDS)
    return wanted | {wire.TERMINAL} if request.HasField("terminal") else wanted


def shown(text: memoryview) -> str:
    """One line from a text of any length."""
    return one_line(bytes(text[:SHOWN_BYTES]).decode(errors="replace"))


class RemoteRun:
    """One attempt to run a command on one host."""

    def __init__(
        self,
        config: LbmConfig,
        streams: PeerLinks,
        host: str,
        address: str,
        threads: Threads,
    ) -> None:
        """`threads`: those of the user whose descriptors it gets."""
        self._threads = threads
        self._config = config
        self._streams = streams
        self._host = host
        self._state = FarRun(host, address)
        self._talk: Conversation | None = None
        self._sinks: dict[int, Sink] = {}
        self._stdin: Source | None = None
        self._stdin_task: asyncio.Task[None] | None = None
        self._listener: Follower | None = None
        self._early: list[Message] = []
        self._writing: dict[int, asyncio.Task[None]] = {}
        self._ended = False
        self._final: lbm_pb2.Ended | None = None

    async def start(
        self,
        request: lbm_pb2.RunRequest | lbm_pb2.WorkdirRequest,
        tag: bytes = tags.RUN,
        sent: Callable[[], None] = lambda: None,
        waits: Callable[[str], None] = lambda _: None,
    ) -> lbm_pb2.Started | Refused:
        """Asks the host to run it. `sent`: from now on it may run; `waits` is told why it does not
        begin yet. Raises LostContact if it may have begun, but that is unknown."""
        is_run, place = isinstance(request, lbm_pb2.RunRequest), (self._host, self._state.address)
        self._state.has_terminal = is_run and request.HasField("terminal")
        try:
            self._talk = await self._streams.converse(*place)
            if lack := await self._streams.lacking(*place, wanted_of(request)):
                self._ended = True
                return Refused(f"{self._host} {lack}", "feature")
        except Unavailable as problem:
            return Refused(str(problem), fault=True)
        self._talk.ahead_bytes = INBOX_BYTES if is_run else FEW_BYTES  # of a workdir
        self._talk.put(tag, request.SerializeToString())
        sent()
        return await self.answer(waits)

    async def answer(
        self, waits: Callable[[str], None] = lambda _: None
    ) -> lbm_pb2.Started | Refused:
        """Like `start`, for a request that was already sent."""
        assert self._talk is not None
        try:
            return await self._first_answer(self._talk, waits)
        except Unavailable as problem:
            return Refused(str(problem), fault=True)
        except TimeoutError:
            raise LostContact(
                f"{self._host} did not say within {self._config.start_timeout_s:g} s whether it "
                "started the command"
            ) from None

    async def _first_answer(
        self, talk: Conversation, waits: Callable[[str], None]
    ) -> lbm_pb2.Started | Refused:
        limit_s: float | None = self._config.start_timeout_s
        while True:
            if not self._early:
                async with asyncio.timeout(limit_s):
                    self._early = await talk.read()
            tag, body = self._early.pop(0)
            if tag == tags.STARTED:
                started = self._decoded(lbm_pb2.Started, body)
                started.note = one_line(started.note)
                return started
            if tag == tags.REFUSED:
                self._ended = True
                refused = self._decoded(lbm_pb2.Refused, body)
                reason = one_line(refused.reason) or "refused without a reason"
                declined = refused.phase in ("admission", "exec", "chdir", "directory", "user")
                why = refused.phase, refused.errno, not declined, refused.full
                return Refused(f"{self._host}: {reason}", *why)
            if tag == tags.FAILED:
                raise self._lost(body)
            limit_s = None  # QUEUED: it waits for a slot, as long as that takes
            waits(shown(body) or NO_SLOT)

    def _lost(self, body: memoryview) -> LostContact:
        self._ended = True
        return LostContact(f"lost contact with {self._host}: {shown(body)}")

    def _decoded(self, kind: type[Reply], body: memoryview) -> Reply:
        """Raises LostContact if it is not such a message."""
        try:
            return parsed_answer(kind, bytes(body))
        except DecodeError:
            raise LostContact(f"protocol error from {self._host}: no {kind.__name__}") from None

    def ended_already(self) -> lbm_pb2.Ended | None:
        """The end, if it came with the start and nothing was printed: then no stream is needed."""
        if not self._early or any(body for _, body in self._early[:-1]):
            return None
        tag, body = self._early[-1]
        return self._end(body) if tag == tags.ENDED else None

    def _end(self, body: memoryview) -> lbm_pb2.Ended:
        self._ended = True
        return checked_end(self._host, self._decoded(lbm_pb2.Ended, body))

    async def follow(self, listener: Follower | None) -> lbm_pb2.Ended:
        """Moves the bytes of the attached descriptors until the command has ended and its output is
        written. Raises LostContact."""
        assert self._talk is not None
        self._listener = listener
        self._writing = {number: sink.start() for number, sink in self._sinks.items()}
        if self._stdin is not None:
            self._stdin_task = self._stdin.start()
        self._acknowledge()
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
            file, self._state.input_file = self._state.input_file, NO_FD
            if file >= 0:
                self._threads.close(file)

    def _exited(self, number: int) -> None:
        """Notes the end, by signal `number` unless 0; output may still be under way."""
        self._state.has_exited = True
        if self._state.asked_to_end and number:
            self._give_up_soon()

    def _give_up_soon(self) -> None:
        """Gives up unread output soon: the command has ended as its caller wanted."""
        for number, task in self._writing.items():
            asyncio.get_running_loop().call_later(DRAIN_S, self._give_up, number, task)

    def _give_up(self, number: int, task: asyncio.Task[None]) -> None:
        if task.cancel():
            self.send(tags.OUTPUT_GONE, bytes((number,)))

    async def _put_back(self, ended: lbm_pb2.Ended) -> None:
        """Leaves what was taken from a file, and not read by the command, to its next reader."""
        file = self._state.input_file
        if file < 0 or self._stdin is None:
            return
        if self._stdin_task is not None:
            self._stdin_task.cancel()
        if not ended.HasField("input_taken_bytes"):
            return
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(PUT_BACK_S):
                if self._stdin_task is not None:
                    await asyncio.wait((self._stdin_task,))
                taken = self._stdin.read_bytes + await self._stdin.lost_bytes()
                if (left := taken - ended.input_taken_bytes) > 0:
                    await self._threads.run(lambda: os.lseek(file, -left, os.SEEK_CUR))

    def attach(self, ends: StdFds) -> None:
        """Takes the caller's descriptors."""
        assert self._talk is not None
        self._state.is_following, talk = True, self._talk
        for number, output in ((1, ends.stdout), (2, ends.stderr)):
            if output is not None:
                self._sinks[number] = self._sink(number, Descriptor(output, self._threads), talk)
        if ends.stdin is not None:
            if kind_of(ends.stdin) is DescriptorKind.REGULAR:
                self._state.input_file = Fd(os.dup(ends.stdin))
            self._stdin = self._source(Descriptor(ends.stdin, self._threads), talk)

    def _sink(
        self, number: int, descriptor: Descriptor, talk: Conversation, left: SinkState | None = None
    ) -> Sink:
        window_bytes = tags.SCREEN_BYTES if self._state.has_terminal else tags.WINDOW_BYTES
        return Sink(
            descriptor,
            lambda count: talk.put(tags.DELIVERED, tags.delivered(number, count)),
            lambda: talk.put(tags.OUTPUT_GONE, bytes((number,))),
            window_bytes // tags.ACKNOWLEDGE_SHARE,
            left=left,
        )

    def _source(
        self, descriptor: Descriptor, talk: Conversation, left: SourceState | None = None
    ) -> Source:
        return Source(
            descriptor,
            lambda data: talk.put(tags.STDIN, data),
            talk.flush,
            tags.WINDOW_BYTES,
            self._config.chunk_bytes,
            slow_start=True,
            left=left,
        )

    async def _hear_out(self, talk: Conversation) -> lbm_pb2.Ended:
        received, self._early = self._early, []
        while True:
            with self._streams.shares.spending(self._host):  # otherwise it would be read on at once
                for tag, body in received:
                    if tag == tags.ENDED:
                        for sink in self._sinks.values():
                            sink.put(b"")
                        return self._end(body)
                    if tag == tags.FAILED:
                        raise self._lost(body)
                    try:
                        self._hear(talk, tag, body)
                    except ValueError as fault:
                        raise LostContact(f"protocol error from {self._host}: {fault}") from None
            received = await talk.read()

    def _hear(self, talk: Conversation, tag: bytes, body: memoryview) -> None:
        if tag in (tags.STDOUT, tags.STDERR):
            self._state.has_printed = self._state.has_printed or bool(body)
            sink = self._sinks.get(tag[0] - ord("0"))
            if sink is not None:
                sink.put(body)
        elif tag == tags.DELIVERED:
            number, count = tags.read_delivered(bytes(body))
            if number == 0 and self._stdin is not None:
                self._stdin.delivered(count)
            elif number == 0:
                self._state.typed_bytes = max(0, self._state.typed_bytes - count)
                self._acknowledge()
        elif tag == tags.STDIN_GONE and self._stdin_task is not None:
            self._stdin_task.cancel()
        elif tag == tags.EXITED and len(body) == 1:
            self._exited(body[0])
        elif tag == tags.STOPPED and 1 in self._sinks:
            self._sinks[1].then(lambda: self._notify(tag), SHOWN_WITHIN_S)
        elif tag in (tags.STOPPED, tags.WANTED, tags.SCREEN):
            self._notify(tag)
        elif tag == tags.STILL and self._listener is not None:
            self._listener.stands_still(shown(body))
        elif tag == tags.UNKNOWN:
            if talk.is_news(tag + bytes(body[:1])):
                log.warning("%s sent unknown message %r (newer?)", self._host, bytes(body[:1]))
        elif tag not in NO_NEWS and talk.is_news(tag):
            self.send(tags.UNKNOWN, tag)

    def _acknowledge(self) -> None:
        if self._listener is not None:
            self._listener.input_taken()

    def _notify(self, tag: bytes) -> None:
        if self._listener is not None:
            self._listener.notice(tag)

    @property
    def is_following(self) -> bool:
        """Whether the caller's descriptors are in use."""
        return self._state.is_following

    def left(self) -> FarRun:
        """The state for another LBM; no further step of the event loop follows. Raises NotNow."""
        assert self._talk is not None
        self._talk.give_back(self._early)
        return replace(
            self._state,
            token=self._talk.token,
            number=self._talk.number,
            stdin=self._stdin.left() if self._stdin is not None else None,
            outputs=tuple(sink.left(number) for number, sink in self._sinks.items()),
            ended=self._final.SerializeToString() if self._final is not None else None,
        )

    def restore(self, left: FarRun, talk: Conversation) -> None:
        """Restores it, in place of `start`. Raises OSError, DecodeError, ValueError."""
        self._state, self._talk = left, talk
        if left.ended is not None:
            self._ended, self._final = True, lbm_pb2.Ended.FromString(left.ended)
        for output in left.outputs:
            descriptor = Descriptor.given(output.descriptor, self._threads)
            self._sinks[output.number] = self._sink(output.number, descriptor, talk, output)
        if left.stdin is not None:
            descriptor = Descriptor.given(left.stdin.descriptor, self._threads)
            self._stdin = self._source(descriptor, talk, left.stdin)

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was printed by it or read for it: another could take its place."""
        is_read = self._stdin is not None and self._stdin.read_bytes
        return not self._state.has_printed and not is_read

    def trouble(self) -> str:
        """Why not all of the caller's input or the command's output was moved; "" if it was."""
        ends = (("standard input", self._stdin), ("standard output", self._sinks.get(1)))
        troubles = [(name, end.trouble) for name, end in ends if end is not None]
        return "; ".join(f"{name}: {found.strerror}" for name, found in troubles if found)

    def typed(self, data: bytes) -> None:
        """Sends terminal input that the client has read; b"" is the end of file. Raises ValueError
        if more comes than was asked for."""
        self._state.typed_bytes += len(data)
        if self._state.typed_bytes > 2 * tags.WINDOW_BYTES:
            raise ValueError("input without waiting until it is taken")
        self.send(tags.STDIN, data)
        if self._state.typed_bytes < tags.WINDOW_BYTES // 2:
            self._acknowledge()

    def send(self, tag: bytes, body: bytes = b"") -> None:
        if tag == tags.FORCE or (tag == tags.SIGNAL and body[0] in ENDING_SIGNALS):
            # then a reader that has stopped reading must not delay the end
            self._state.asked_to_end = True
            if self._state.has_exited:
                self._give_up_soon()
        if self._talk is not None:
            self._talk.put(tag, body)

    async def flush(self) -> None:
        """Waits until gRPC has taken all messages; not long, because a client must be watched."""
        if self._talk is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S):
                    await self._talk.flush()

    def close(self, number: int = 0) -> None:
        """Ends the conversation. Unless the command has ended, its host ends it, by that signal."""
        if self._talk is None:
            return
        if not self._ended:
            self._talk.hang_up(number)
        self._talk.close()
        self._talk = None

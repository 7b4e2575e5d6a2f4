"""A command of ours on another host: this side of its conversation."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from google.protobuf.message import DecodeError

from lbd.config.schema import LbmConfig
from lbd.errors import LostContact, Unavailable
from lbd.lbm.core.journey import ENDING_SIGNALS
from lbd.lbm.core.journey_events import Refused
from lbd.lbm.handover.records import FarRun
from lbd.lbm.link import wire as tags
from lbd.lbm.link.conversation import FEW_BYTES, Conversation, Message
from lbd.lbm.link.opened_links import PeerLinks
from lbd.lbm.link.user_threads import StdFds
from lbd.lbm.outbound.end_limit import EndLimit
from lbd.lbm.outbound.remote_stdio import RemoteStdio
from lbd.lbm.outbound.reported_end import checked_end
from lbd.lbm.session.client import Follower
from lbd.net.gen import lbm_pb2
from lbd.net.parsing import parsed_answer
from lbd.text.one_line import one_line

FLUSH_S = 1.0
log = logging.getLogger("lbd.lbm")

SHOWN_BYTES = 1 << 14
NO_NEWS = (tags.QUEUED, tags.STDIN_GONE, tags.EXITED, tags.STILL)
Reply = TypeVar("Reply", lbm_pb2.Started, lbm_pb2.Refused, lbm_pb2.Ended)


def shown(text: memoryview) -> str:
    """One line from a text of any length."""
    return one_line(bytes(text[:SHOWN_BYTES]).decode(errors="replace"))


def decoded(host: str, kind: type[Reply], body: memoryview) -> Reply:
    """Raises LostContact if it is not such a message."""
    try:
        return parsed_answer(kind, bytes(body))
    except DecodeError:
        raise LostContact(f"protocol error from {host}: no {kind.__name__}") from None


def refusal_of(host: str, refused: lbm_pb2.Refused) -> Refused:
    reason = one_line(refused.reason) or "refused without a reason"
    declined = refused.phase in ("admission", "exec", "chdir", "directory", "user")
    why = refused.phase, refused.errno, not declined, refused.full
    return Refused(f"{host}: {reason}", *why)


class RemoteRun:
    """One attempt to run a command on one host."""

    def __init__(
        self,
        config: LbmConfig,
        streams: PeerLinks,
        host: str,
        address: str,
        move: Callable[[FarRun, Conversation], RemoteStdio],
    ) -> None:
        """`move`: moves the bytes of its user's descriptors."""
        self._move = move
        self._config = config
        self._streams = streams
        self._host = host
        self._state = FarRun(host, address)
        self._talk: Conversation | None = None
        self._stdio: RemoteStdio | None = None
        self._listener: Follower | None = None
        self._early: list[Message] = []
        self._ended = False
        self._final: lbm_pb2.Ended | None = None
        self.end_limit = EndLimit()

    async def start(
        self,
        request: lbm_pb2.RunRequest | lbm_pb2.WorkdirRequest,
        tag: bytes = tags.RUN,
        sent: Callable[[], None] = lambda: None,
        waits: Callable[[str], None] = lambda _: None,
    ) -> lbm_pb2.Started | Refused:
        """Asks the host to run it. `sent`: from now on it may run; `waits` is told why it does not
        begin yet. Raises LostContact if it may have begun, but that is unknown."""
        place = self._host, self._state.address
        if isinstance(request, lbm_pb2.RunRequest):
            self._state.has_terminal = request.HasField("terminal")
        try:
            talk = await self._streams.converse(*place)
            self._converse(talk)
        except Unavailable as problem:
            return Refused(str(problem), fault=True)
        if tag == tags.WORKDIR:
            talk.ahead_bytes = FEW_BYTES
        talk.put(tag, request.SerializeToString())
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
                self._early = await talk.read(limit_s)
            tag, body = self._early.pop(0)
            if tag == tags.STARTED:
                started = decoded(self._host, lbm_pb2.Started, body)
                started.note = one_line(started.note)
                return started
            if tag == tags.REFUSED:
                self._ended = True
                return refusal_of(self._host, decoded(self._host, lbm_pb2.Refused, body))
            if tag == tags.FAILED:
                raise self._lost(body)
            limit_s = None  # QUEUED: it waits for a slot, as long as that takes
            waits(shown(body))

    def _lost(self, body: memoryview) -> LostContact:
        self._ended = True
        return LostContact(f"lost contact with {self._host}: {shown(body)}")

    def ended_already(self) -> lbm_pb2.Ended | None:
        """The end, if it came with the start and nothing was printed: then no stream is needed."""
        if not self._early or any(body for _, body in self._early[:-1]):
            return None
        tag, body = self._early[-1]
        return self._end(body) if tag == tags.ENDED else None

    def _end(self, body: memoryview) -> lbm_pb2.Ended:
        self._ended = True
        return checked_end(self._host, decoded(self._host, lbm_pb2.Ended, body))

    async def follow(self, listener: Follower | None) -> lbm_pb2.Ended:
        """Moves the bytes of the attached descriptors until the command has ended and its output is
        written. Raises LostContact."""
        assert self._talk is not None
        assert self._stdio is not None
        self._listener, stdio = listener, self._stdio
        stdio.start()
        self._acknowledge()
        try:
            ended = self._final = self._final or await self._hear_out(self._talk, stdio)
            self._exited(ended.signal)
            await stdio.written()
            if ended.HasField("input_taken_bytes"):
                await stdio.put_back(ended.input_taken_bytes)
            return ended
        finally:
            self._listener = None  # it refers to us: cycles are collected late
            stdio.close()

    def attach(self, ends: StdFds) -> None:
        """Takes the caller's descriptors."""
        assert self._stdio is not None
        self._state.is_following = True
        self._stdio.attach(ends)

    def _exited(self, number: int) -> None:
        """Notes the end, by signal `number` unless 0; output may still be under way."""
        self._state.has_exited = True
        if self._state.asked_to_end and number and self._stdio is not None:
            self._stdio.give_up_soon()

    async def _hear_out(self, talk: Conversation, stdio: RemoteStdio) -> lbm_pb2.Ended:
        received, self._early = self._early, []
        while True:
            with self._streams.shares.spending(self._host):  # otherwise it would be read on at once
                for tag, body in received:
                    if tag == tags.ENDED:
                        stdio.end_outputs()
                        return self._end(body)
                    if tag == tags.FAILED:
                        raise self._lost(body)
                    try:
                        self._hear(talk, stdio, tag, body)
                    except ValueError as fault:
                        raise LostContact(f"protocol error from {self._host}: {fault}") from None
            received = await self.end_limit.read(talk, stdio, self._host)

    def _hear(self, talk: Conversation, stdio: RemoteStdio, tag: bytes, body: memoryview) -> None:
        if tag in (tags.STDOUT, tags.STDERR):
            stdio.printed(tag[0] - ord("0"), body)
        elif tag == tags.DELIVERED:
            if stdio.delivered(*tags.read_delivered(bytes(body))):
                self._acknowledge()
        elif tag == tags.STDIN_GONE:
            stdio.stop_input()
        elif tag == tags.EXITED and len(body) == 1:
            self._exited(body[0])
        elif tag == tags.STOPPED:
            stdio.once_shown(lambda: self._notify(tag))
        elif tag in (tags.WANTED, tags.SCREEN):
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
        assert self._stdio is not None
        self._talk.give_back(self._early)
        end_within_s, end_why = self.end_limit.left()
        return replace(
            self._stdio.left(),
            token=self._talk.token,
            number=self._talk.number,
            ended=self._final.SerializeToString() if self._final is not None else None,
            end_within_s=end_within_s,
            end_why=end_why,
        )

    def restore(self, left: FarRun, talk: Conversation) -> None:
        """Restores it, in place of `start`. Raises OSError, DecodeError, ValueError."""
        self._state = left
        if left.ended is not None:
            self._ended, self._final = True, lbm_pb2.Ended.FromString(left.ended)
        self.end_limit.restore(left.end_within_s, left.end_why)
        self._converse(talk).restore()

    def _converse(self, talk: Conversation) -> RemoteStdio:
        self._talk, self._stdio = talk, self._move(self._state, talk)
        return self._stdio

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was printed by it or read for it: another could take its place."""
        return self._stdio is None or self._stdio.is_untouched

    @property
    def movement(self) -> tuple[int, bool]:
        """As of its stdio."""
        return self._stdio.movement if self._stdio is not None else (0, True)

    def give_up(self, why: str) -> None:
        """Takes contact with its host as lost, `why` in words that follow its name."""
        if self._talk is not None:
            self._talk.lose(LostContact(f"{self._host} {why}"))

    def trouble(self) -> str:
        """Why not all of the caller's input or the command's output was moved; "" if it was."""
        return self._stdio.trouble() if self._stdio is not None else ""

    def typed(self, data: bytes) -> None:
        """Sends terminal input that the client has read; b"" is the end of file. Raises ValueError
        if more comes than was asked for."""
        if self._stdio is not None and self._stdio.typed(data):
            self._acknowledge()

    def send(self, tag: bytes, body: bytes = b"") -> None:
        if tag == tags.FORCE or (tag == tags.SIGNAL and body[0] in ENDING_SIGNALS):
            # then a reader that has stopped reading must not delay the end
            self._state.asked_to_end = True
            if self._state.has_exited and self._stdio is not None:
                self._stdio.give_up_soon()
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
        if self._stdio is not None:
            self._stdio.close()
        self._talk = None

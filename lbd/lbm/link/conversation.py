"""One job's share of the stream between two LBMs, and the stream itself seen from either end.

What is to be sent goes in order, small messages gathered into one. Each gRPC write costs a thread
switch on both sides, as much as everything else a short command needs. While one write is under way
the next messages gather; those that are small go out as one batch. Putting never waits: the windows
of lbm/link/wire.py bound what can be queued.

Before one of the two LBMs is restarted the stream comes to rest: what is put from then on is held,
and goes out on the stream that follows.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable

import grpc.aio

from lbd.errors import LbdError, LostContact
from lbd.lbm.handover.records import StreamState
from lbd.lbm.link import wire as tags
from lbd.lbm.link.wire import BATCH_MAX, PIECE_MAX_BYTES, WINDOW_BYTES, pack, pack_batch, unpack

SMALL_BYTES = 1 << 14
LAST_WRITE_S = 1.0
NOTICES_MAX = 4  # one of ours, and our answer to one; who asks again and again may read none
BROKEN = (grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError)


class Outbox:
    """`broken` is set once the stream takes no more; what is put after that is dropped."""

    def __init__(
        self, write: Callable[[bytes], Awaitable[None]], held: list[bytes] | None = None
    ) -> None:
        """`held`: what an earlier one has left, which rests."""
        self._write = write
        self._queue: deque[bytes] = deque()
        self._held = held  # put while the stream rests
        self._notices: deque[bytes] = deque()  # of the stream itself: last, never held
        self.count = 0  # of what went into the stream
        self._sender: asyncio.Task[None] | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._put = len(held or ())
        self._sent = 0
        self._flushes: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.broken = False

    def put(self, message: bytes, linger_s: float = 0.0) -> None:
        """`linger_s`: it may wait that long for another one to travel with."""
        if self.broken:
            return
        self._put += 1
        if self._held is not None:
            self._held.append(message)
            return
        self._queue.append(message)
        self.count += 1
        if not linger_s:
            self._start()
        elif self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(linger_s, self._start)

    @property
    def waiting(self) -> int:
        """Messages that are not with gRPC yet."""
        return 0 if self.broken else self._put - self._sent

    @property
    def rests(self) -> bool:
        return self._held is not None

    def rest(self, notice: bytes) -> None:
        """Hold what is put from now on; `notice` goes out after all that was put before."""
        if self._held is None:
            self._held = []
        if len(self._notices) < NOTICES_MAX:
            self._notices.append(notice)
        self._start()

    def held(self) -> list[bytes]:
        return list(self._held or ())

    def go_on(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """On another stream, with what was held."""
        self._write = write
        held, self._held = self._held or [], None
        self._queue.extend(held)
        self.count += len(held)
        self._start()

    def _start(self) -> None:
        if self._lingering is not None:  # all goes now: nothing is left to wake us for
            self._lingering.cancel()
            self._lingering = None
        if self._sender is None and (self._queue or self._notices):
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._queue:
                batch = self._next()
                await self._write(batch[0] if len(batch) == 1 else pack_batch(batch))
                self._sent += len(batch)
                self._settle()
        except BROKEN:
            self.close()
        while self._notices:
            with contextlib.suppress(*BROKEN):  # all else has gone: it may be resumed nevertheless
                await self._write(self._notices.popleft())
        self._sender = None
        self._start()  # what came while a notice was being written

    def _next(self) -> list[bytes]:
        batch = [self._queue.popleft()]
        size = len(batch[0])
        while self._queue and size + len(self._queue[0]) <= SMALL_BYTES:
            batch.append(self._queue.popleft())
            size += len(batch[-1])
        return batch

    def _settle(self) -> None:
        while self._flushes and (self.broken or self._flushes[0][0] <= self._sent):
            _, flushed = self._flushes.popleft()
            if not flushed.done():
                flushed.set_result(None)

    async def flush(self) -> None:
        """Until everything put so far is with gRPC, or the stream is broken."""
        if self.broken or self._sent == self._put:
            return
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushes.append((self._put, flushed))
        await flushed

    def close(self) -> None:
        """Drop what is queued; a write under way is left to the end of the stream."""
        self.broken = True
        self._queue.clear()
        self._notices.clear()
        self._settle()

    async def last_written(self) -> None:
        """Until no write is under way any more: gRPC takes no status beside one."""
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=LAST_WRITE_S)


Message = tuple[bytes, memoryview]  # tag, body
# Come and not yet read, of one job: two outputs, as far as their windows allow, and some control
# messages. Who sends more does not keep to the windows.
INBOX_BYTES = 2 * (WINDOW_BYTES + PIECE_MAX_BYTES) + (1 << 20)
MESSAGE_BYTES = 512  # what even an empty one takes
# At least what comes at once of a host that gathers small messages (`Outbox`), else more
# and more would wait to be read.
READ_AT_ONCE, READ_BYTES = BATCH_MAX, 1 << 20
TOO_MUCH_AHEAD = "more was sent ahead than allowed"


class Conversation:
    """Messages of one job, both ways."""

    def __init__(self, stream: "Stream", number: int) -> None:
        self._stream = stream
        self.number = number
        self._inbox: deque[Message] = deque()
        self._inbox_bytes = 0
        self._has_more = False  # than was read at once
        self.ahead_bytes = INBOX_BYTES  # so much may come before it is read
        self._waiting: asyncio.Future[None] | None = None
        self._broken: LbdError | None = None
        self._hear: Callable[[bytes, memoryview], None] | None = None  # in place of the inbox
        self._lost: Callable[[LbdError], None] | None = None
        self._not_known: set[bytes] = set()

    def put(self, tag: bytes, body: bytes = b"", linger_s: float = 0.0) -> None:
        """`linger_s`: it may wait that long for another message to travel with."""
        self._stream.outbox.put(pack(self.number, tag, body), linger_s)

    def is_news(self, what: bytes) -> bool:
        """The first time. Who says again and again what is not known here may read no answer."""
        was_known = what in self._not_known
        self._not_known.add(what)
        return not was_known

    async def flush(self) -> None:
        """Until what was put is with gRPC: a sender of much waits for it between its pieces."""
        await self._stream.outbox.flush()

    def follow(
        self, hear: Callable[[bytes, memoryview], None], lost: Callable[[LbdError], None]
    ) -> None:
        """In place of `read`: from now on each message goes to `hear` as it comes, after those that
        have come already, and `lost` is called with what broke the stream."""
        received = list(self._inbox)
        self._inbox.clear()
        self._inbox_bytes = 0
        self._hear, self._lost = hear, lost
        for tag, body in received:
            hear(tag, body)
        if self._broken is not None:
            lost(self._broken)

    def hear(self, message: Message) -> bool:
        """False if that is more than may come ahead: then it is broken, for this job alone."""
        if self._hear is not None:
            self._hear(*message)
            return True
        if self._broken is not None:
            return True
        self._inbox_bytes += MESSAGE_BYTES + len(message[1])
        if self._inbox_bytes > self.ahead_bytes:
            self._inbox.clear()
            self.lose(LostContact(f"lost contact: {TOO_MUCH_AHEAD}"))
            return False
        self._inbox.append(message)
        self._wake()
        return True

    def lose(self, problem: LbdError) -> None:
        """The stream is broken: no more messages."""
        self._broken = problem
        if self._lost is not None:
            self._lost(problem)
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def read(self) -> list[Message]:
        """What has come, at least one message, and not very many: others have their turn before the
        next. Raises what broke the stream, if it is broken."""
        if self._has_more:
            await asyncio.sleep(0)
        while not self._inbox:
            if self._broken is not None:
                raise self._broken
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        found: list[Message] = []
        size = 0
        while self._inbox and len(found) < READ_AT_ONCE and size < READ_BYTES:
            found.append(self._inbox.popleft())
            size += len(found[-1][1])
        self._inbox_bytes -= size + MESSAGE_BYTES * len(found)
        self._has_more = bool(self._inbox)
        return found

    @property
    def token(self) -> str:
        """What the stream is known by."""
        return self._stream.token

    def give_back(self, messages: list[Message]) -> None:
        """Read, but not dealt with."""
        self._inbox.extendleft(reversed(messages))
        self._inbox_bytes += sum(MESSAGE_BYTES + len(body) for _, body in messages)

    def unread(self) -> list[bytes]:
        """What has come and was not read, as it came."""
        return [pack(self.number, tag, bytes(body)) for tag, body in self._inbox]

    def close(self) -> None:
        """What still comes is of no interest."""
        self._stream.conversations.pop(self.number, None)


class Stream:
    """All conversations between this LBM, as origin or as target, and one other.

    It outlives a planned restart of either LBM. PAUSE says that nothing comes after it, PAUSED that
    all up to there has come, and nothing more comes either; what is put then waits in the outbox.
    So nothing is under way once PAUSED is there. To be sure, both count messages, and they go on
    (RESUME) only if what the one has sent is what the other has received.
    """

    def __init__(
        self, write: Callable[[bytes], Awaitable[None]], outbox: Outbox | None = None
    ) -> None:
        self.outbox = outbox or Outbox(write)
        self._write = write
        self.token = ""  # the origin's name for it
        self.conversations: dict[int, Conversation] = {}
        self.received = 0
        self.rests = False  # nothing more comes
        self.confirmed = asyncio.Event()  # and all that we sent has come, or it has broken

    def converse(self, number: int) -> Conversation:
        conversation = self.conversations[number] = Conversation(self, number)
        return conversation

    def take(self, message: bytes) -> list[tuple[int, bytes, memoryview]]:
        """Those for a conversation, in order. Raises ValueError."""
        found = []
        for number, tag, body in unpack(message):
            if number:
                found.append((number, tag, body))
            elif tag == tags.PAUSE:
                self.rests = True
                self.outbox.rest(pack(0, tags.PAUSED))
            elif tag == tags.PAUSED and self.outbox.rests:
                self.rests = True
                self.confirmed.set()
        self.received += len(found)
        return found

    @classmethod
    def restored(cls, left: StreamState) -> "Stream":
        """One that an earlier LBM has left, at rest until `go_on`; what is unread is to be
        delivered yet."""
        outbox = Outbox(nowhere, list(left.unsent))
        outbox.count = left.sent
        made = cls(nowhere, outbox)
        made.token, made.received, made.rests = left.token, left.received, True
        made.confirmed.set()
        return made

    def left(self) -> StreamState:
        unread = tuple(one for talk in self.conversations.values() for one in talk.unread())
        return StreamState(
            self.token, self.outbox.count, self.received, tuple(self.outbox.held()), unread
        )

    @property
    def can_resume(self) -> bool:
        """Now that it has ended."""
        return self.rests and not self.outbox.broken

    def rest(self) -> None:
        """Ours is the LBM to be restarted."""
        self.outbox.rest(pack(0, tags.PAUSE))

    def counts(self) -> bytes:
        return tags.counts(self.outbox.count, self.received)

    def agrees(self, body: bytes) -> bool:
        """Has all that was sent arrived, both ways? Raises ValueError."""
        sent, received = tags.read_counts(body)
        return (sent, received) == (self.received, self.outbox.count)

    def go_on(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self.rests = False
        self.confirmed.clear()
        self._write = write
        self.outbox.go_on(write)

    def goes_by(self, write: Callable[[bytes], Awaitable[None]]) -> bool:
        return self._write is write

    def deliver(self, number: int, tag: bytes, body: memoryview) -> bool:
        """To its conversation; what comes after the end of one is of no interest.

        False if that conversation is broken by it.
        """
        conversation = self.conversations.get(number)
        return conversation is None or conversation.hear((tag, body))

    def lose(self, problem: LbdError) -> None:
        """It is broken, for every conversation."""
        self.outbox.close()
        self.confirmed.set()
        for conversation in self.conversations.values():
            conversation.lose(problem)
        self.conversations.clear()


async def nowhere(_message: bytes) -> None:
    """Where a stream at rest writes, which it does not."""

"""One job's share of the stream between two LBMs, and the stream itself as seen from either end.

Before one of the two LBMs is restarted the stream comes to rest (outbox.py).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from copy import copy

from lbd.errors import LbdError, LostContact
from lbd.lbm.handover.records import StreamState
from lbd.lbm.link import wire as tags
from lbd.lbm.link.outbox import Outbox
from lbd.lbm.link.wire import BATCH_MAX, WINDOW_BYTES, pack, unpack

Message = tuple[bytes, memoryview]  # tag, body
# Limit on what has arrived for one job and is not read yet: two outputs, as far as the largest
# windows allow, and some control messages. A peer that sends more ignores the windows.
INBOX_BYTES = 4 * WINDOW_BYTES + (1 << 20)
# The limit where little is said: of a workdir, and to a command that has not begun, which gets no
# input yet
FEW_BYTES, EARLY_BYTES = 1 << 16, 1 << 14
FEW_MESSAGES = 64  # are looked through for one that a later one replaces
MESSAGE_BYTES = 512  # the cost of even an empty message
# At least what a host that gathers small messages (`Outbox`) sends at once. With less, more and
# more messages would wait to be read.
READ_AT_ONCE, READ_BYTES = BATCH_MAX, 1 << 20
TOO_MUCH_AHEAD = "more was sent ahead than allowed"


class Conversation:
    """The messages of one job, both ways."""

    def __init__(self, stream: "Stream", number: int) -> None:
        self._stream = stream
        self.number = number
        self._inbox: deque[Message] = deque()
        self._inbox_bytes = 0
        self._has_more = False  # than was read at once
        self.ahead_bytes = INBOX_BYTES  # how much may arrive before it is read
        self._waiting: asyncio.Future[None] | None = None
        self._broken: LbdError | None = None
        self._is_over = False
        # called in place of filling the inbox
        self._hear: Callable[[bytes, memoryview], None] | None = None
        self._lost: Callable[[LbdError], None] | None = None
        self._not_known: set[bytes] = set()

    def put(self, tag: bytes, body: bytes = b"", linger_s: float = 0.0) -> None:
        """Sends a message. `linger_s`: how long it may wait for another message to travel with."""
        self._stream.outbox.put(pack(self.number, tag, body), linger_s)

    def is_news(self, what: bytes) -> bool:
        """Returns True the first time. A peer that repeats an unknown tag may read no answer."""
        was_known = what in self._not_known
        self._not_known.add(what)
        return not was_known

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be sent, of all on this stream, that nothing large should be put
        before `flush`."""
        return self._stream.outbox.is_full

    async def flush(self) -> None:
        """Waits until gRPC has taken all messages put so far, as between pieces of a large
        transfer."""
        await self._stream.outbox.flush()

    def follow(
        self, hear: Callable[[bytes, memoryview], None], lost: Callable[[LbdError], None]
    ) -> None:
        """Replaces `read`: from now on each message goes to `hear` as it arrives, after those that
        have arrived already, and `lost` is called with the error that broke the stream."""
        received = list(self._inbox)
        self._inbox.clear()
        self._inbox_bytes = 0
        self._hear, self._lost = hear, lost
        for tag, body in received:
            hear(tag, body)
        if self._broken is not None:
            lost(self._broken)

    def hear(self, message: Message) -> bool:
        """Takes a message. Returns False if more has arrived than may be unread: then this
        conversation is broken, and no other. Nothing may follow the last message: who still waits
        for an output to be read, or for files, would have it kept."""
        if self._is_over:
            return True
        self._is_over = message[0] in tags.LAST
        if self._hear is not None:
            self._hear(*message)
            return True
        if self._broken is not None:
            return True
        if message[0] in tags.LATEST and len(self._inbox) < FEW_MESSAGES:
            self._drop_earlier(message[0])
        self._inbox_bytes += MESSAGE_BYTES + len(message[1])
        if self._inbox_bytes > self.ahead_bytes:
            self._inbox.clear()
            self.lose(LostContact(f"lost contact: {TOO_MUCH_AHEAD}"))
            return False
        self._inbox.append(message)
        self._wake()
        return True

    def _drop_earlier(self, tag: bytes) -> None:
        for earlier in [one for one in self._inbox if one[0] == tag]:
            self._inbox.remove(earlier)
            self._inbox_bytes -= MESSAGE_BYTES + len(earlier[1])

    def lose(self, problem: LbdError) -> None:
        """Notes that the stream is broken: no more messages will arrive."""
        self._broken = problem
        if self._lost is not None:
            self._lost(problem)
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def read(self, within_s: float | None = None) -> list[Message]:
        """Returns the messages that have arrived, at least one and not very many, so that others
        have their turn. Raises TimeoutError; the error that broke the stream, if it is broken."""
        if self._has_more:
            await asyncio.sleep(0)
        while not self._inbox:
            if self._broken is not None:
                raise copy(self._broken)  # else its traceback keeps the frames of all who read
            await self._arrival(within_s)
        found: list[Message] = []
        size = 0
        while self._inbox and len(found) < READ_AT_ONCE and size < READ_BYTES:
            found.append(self._inbox.popleft())
            size += len(found[-1][1])
        self._inbox_bytes -= size + MESSAGE_BYTES * len(found)
        self._has_more = bool(self._inbox)
        return found

    async def _arrival(self, within_s: float | None) -> None:
        """Waits for a message. Its own timer takes half as long as asyncio.timeout would. Raises
        TimeoutError."""
        loop = asyncio.get_running_loop()
        self._waiting = waiting = loop.create_future()
        timer = None if within_s is None else loop.call_later(within_s, expire, waiting)
        try:
            await waiting
        finally:
            self._waiting = None
            del waiting  # breaks the cycle of its exception, the traceback, this frame and it
            if timer is not None:
                timer.cancel()

    @property
    def token(self) -> str:
        """The name of the stream."""
        return self._stream.token

    def give_back(self, messages: list[Message]) -> None:
        """Puts back messages that were read but not handled."""
        self._inbox.extendleft(reversed(messages))
        self._inbox_bytes += sum(MESSAGE_BYTES + len(body) for _, body in messages)

    def unread(self) -> list[bytes]:
        """The unread messages, as they arrived."""
        return [pack(self.number, tag, bytes(body)) for tag, body in self._inbox]

    def hang_up(self, signal: int) -> None:
        """Has the other side end what it is about, by that signal unless 0. What waits to be sent
        is dropped: a host that reads nothing would have it kept for ever."""
        if not self._stream.outbox.drop(self.number):
            self.put(tags.HANGUP, bytes((signal,)) if signal else b"")

    def close(self) -> None:
        """Ends the conversation: later messages are ignored."""
        self._stream.conversations.pop(self.number, None)
        self._hear = self._lost = None  # who listens refers to this conversation


class Stream:
    """All conversations between this LBM, as origin or as target, and one other.

    It outlives a planned restart of either LBM. PAUSE says that nothing comes after it. PAUSED says
    that everything before PAUSE has arrived, and that nothing more comes from that side either;
    messages put after it wait in the outbox. So nothing is under way once PAUSED has arrived. As a
    check, both sides count messages, and they continue (RESUME) only if each has received as many
    as the other has sent.
    """

    def __init__(
        self, write: Callable[[bytes], Awaitable[None]], outbox: Outbox | None = None
    ) -> None:
        self.outbox = outbox or Outbox(write)
        self._write = write
        self.token = ""  # the origin's name for the stream
        self.conversations: dict[int, Conversation] = {}
        self.received = 0
        self.rests = False  # nothing more comes from the other side
        # the other side has received all that we sent, or the stream has broken
        self.confirmed = asyncio.Event()

    def converse(self, number: int) -> Conversation:
        conversation = self.conversations[number] = Conversation(self, number)
        return conversation

    def take(self, message: bytes) -> list[tuple[int, bytes, memoryview]]:
        """Returns the messages for conversations, in order. Raises ValueError."""
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
        """Returns a stream that an earlier LBM left, at rest until `go_on`; its unread messages
        must still be delivered."""
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
        """Whether the stream can be resumed, now that it has ended."""
        return self.rests and not self.outbox.broken

    def rest(self) -> None:
        """Brings the stream to rest, because our LBM is about to be restarted."""
        self.outbox.rest(pack(0, tags.PAUSE))

    def counts(self) -> bytes:
        return tags.counts(self.outbox.count, self.received)

    def agrees(self, body: bytes) -> bool:
        """Whether everything sent has arrived, both ways. Raises ValueError."""
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
        """Passes a message to its conversation; a message for one that has ended is ignored.
        Returns False if the message breaks the conversation."""
        conversation = self.conversations.get(number)
        return conversation is None or conversation.hear((tag, body))

    def lose(self, problem: LbdError) -> None:
        """Notes that the stream is broken, for every conversation."""
        self.outbox.close()
        self.confirmed.set()
        for conversation in self.conversations.values():
            conversation.lose(problem)
        self.conversations.clear()


def expire(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_exception(TimeoutError())


async def nowhere(_message: bytes) -> None:
    """The write function of a stream at rest, which writes nothing."""

"""One job's share of the stream between two LBMs, and the stream itself seen from either end."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from lbd.errors import LbdError, LostContact
from lbd.lbm.outbox import Outbox
from lbd.rpc.job_stream import PIECE_MAX_BYTES, WINDOW_BYTES, pack

Message = tuple[bytes, memoryview]  # tag, body
# Come and not yet read, of one job: two outputs, as far as their windows allow, and some control
# messages. Who sends more does not keep to the windows.
INBOX_BYTES = 2 * (WINDOW_BYTES + PIECE_MAX_BYTES) + (1 << 20)
MESSAGE_BYTES = 128  # what even an empty one takes


class Conversation:
    """Messages of one job, both ways."""

    def __init__(self, stream: "Stream", number: int) -> None:
        self._stream = stream
        self._number = number
        self._inbox: deque[Message] = deque()
        self._inbox_bytes = 0
        self._waiting: asyncio.Future[None] | None = None
        self._broken: LbdError | None = None

    def put(self, tag: bytes, body: bytes = b"", linger_s: float = 0.0) -> None:
        """`linger_s`: it may wait that long for another message to travel with."""
        self._stream.outbox.put(pack(self._number, tag, body), linger_s)

    async def flush(self) -> None:
        """Until what was put is with gRPC: a sender of much waits for it between its pieces."""
        await self._stream.outbox.flush()

    def hear(self, message: Message) -> bool:
        """False if that is more than may come ahead: then it is broken, for this job alone."""
        self._inbox_bytes += MESSAGE_BYTES + len(message[1])
        if self._inbox_bytes > INBOX_BYTES:
            self._inbox.clear()
            self.lose(LostContact("lost contact: more was sent ahead than may be"))
            return False
        self._inbox.append(message)
        self._wake()
        return True

    def lose(self, problem: LbdError) -> None:
        """The stream is broken: no more messages."""
        self._broken = problem
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def read(self) -> list[Message]:
        """What has come, at least one message. Raises what broke the stream, if it is broken."""
        while not self._inbox:
            if self._broken is not None:
                raise self._broken
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        found = list(self._inbox)
        self._inbox.clear()
        self._inbox_bytes = 0
        return found

    def close(self) -> None:
        """What still comes is of no interest."""
        self._stream.conversations.pop(self._number, None)


class Stream:
    """All conversations between this LBM, as origin or as target, and one other."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self.outbox = Outbox(write)
        self.conversations: dict[int, Conversation] = {}

    def converse(self, number: int) -> Conversation:
        conversation = self.conversations[number] = Conversation(self, number)
        return conversation

    def deliver(self, number: int, tag: bytes, body: memoryview) -> bool:
        """To its conversation; what comes after the end of one is of no interest.

        False if that conversation is broken by it.
        """
        conversation = self.conversations.get(number)
        return conversation is None or conversation.hear((tag, body))

    def lose(self, problem: LbdError) -> None:
        """It is broken, for every conversation."""
        self.outbox.close()
        for conversation in self.conversations.values():
            conversation.lose(problem)
        self.conversations.clear()

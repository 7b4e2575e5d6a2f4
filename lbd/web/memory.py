"""Bounds the memory of what is made, kept and sent, in bytes.

The answers of the daemons may have 64 MB of text, and ten times as much as objects. So:

- **Made.** Pages from short answers are made side by side, one page at a time from long ones, and
  what becomes objects is limited. A list of jobs is read one job at a time.
- **Kept.** The HTML of pages, and of those that viewers have, not the answers they were made from,
  until it is out of date or newer pages need the room.
- **Sent.** Long JSON is sent in pieces; what viewers have yet to read of it is limited.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from lbd.errors import Unavailable
from lbd.local import json_socket
from lbd.local.json_socket import ANSWER_LIMIT_BYTES, Json, Reading, Refusal

SHORT_BYTES = 512 << 10  # of all answers for a page
OBJECTS_BYTES = 16 << 20  # likewise, as text
TURN_S = 10.0
KEPT_BYTES, KEPT_SHARE = 24 << 20, 4
SENT_BYTES = 48 << 20  # each user has half of it
PIECE_BYTES = 256 << 10
TOO_LONG = "the answer is too long for a page: use filters, or lbctl"
BUSY = "other long pages are being generated; try again in a moment"
UNREAD = "too much of earlier answers has not been read yet; try again in a moment"

Value = TypeVar("Value")


class Answers:
    """The answers that one page is made from, maybe by several threads."""

    def __init__(self, turn: threading.Lock) -> None:
        self._turn, self._lock = turn, threading.Lock()
        self._bytes = self._objects_bytes = 0
        self._has_turn = False

    def admit(self, size_bytes: int) -> None:
        """Waits for the page's turn if its answers are long. Raises LbdError."""
        with self._lock:
            self._bytes += size_bytes
            if self._bytes > ANSWER_LIMIT_BYTES:
                raise Refusal(TOO_LONG)
            if self._bytes > SHORT_BYTES and not self._has_turn:
                if not self._turn.acquire(timeout=TURN_S):
                    raise Unavailable(BUSY)
                self._has_turn = True

    def decode(self, tag: bytes, body: bytes) -> Json:
        with self._lock:
            self._objects_bytes += len(body)
            if self._objects_bytes > OBJECTS_BYTES:
                raise Refusal(TOO_LONG)
        return json_socket.decode(tag, body)

    def end(self) -> None:
        if self._has_turn:
            self._turn.release()


class Turns:
    """Only one page at a time is made from long answers."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    @contextmanager
    def page(self) -> Iterator[Reading]:
        """Until the end of it, what was read is in memory."""
        answers = Answers(self._turn)
        try:
            yield Reading(answers.admit, answers.decode)
        finally:
            answers.end()


class Kept(Generic[Value]):
    def __init__(self, bytes_max: int = KEPT_BYTES) -> None:
        self._bytes_max = bytes_max
        self._known: OrderedDict[Hashable, tuple[Value, float, int]] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Hashable, now_s: float) -> Value | None:
        self.expire(now_s)
        found = self._known.get(key)
        return found[0] if found is not None else None

    def put(
        self, key: Hashable, value: Value, size_bytes: int, now_s: float, known_s: float
    ) -> None:
        """Keeps it, unless it would need the room of most others."""
        self.expire(now_s)
        self._drop(key)
        if size_bytes > self._bytes_max // KEPT_SHARE or known_s <= 0:
            return
        while self._known and self.bytes + size_bytes > self._bytes_max:
            self._drop(next(iter(self._known)))
        self._known[key] = value, now_s + known_s, size_bytes
        self.bytes += size_bytes

    def expire(self, now_s: float) -> None:
        for key in [key for key, (_, until_s, _) in self._known.items() if now_s >= until_s]:
            self._drop(key)

    def _drop(self, key: Hashable) -> None:
        if (found := self._known.pop(key, None)) is not None:
            self.bytes -= found[2]

    def clear(self) -> None:
        self._known.clear()
        self.bytes = 0


class Sending:
    """What viewers have yet to read of long answers, by uid (None: not signed in)."""

    def __init__(self) -> None:
        self._of_user: Counter[int | None] = Counter()

    def take(self, uid: int | None, size_bytes: int) -> None:
        """Raises Unavailable."""
        is_users = self._of_user[uid] + size_bytes > SENT_BYTES // 2
        if is_users or self._of_user.total() + size_bytes > SENT_BYTES:
            raise Unavailable(UNREAD)
        self._of_user[uid] += size_bytes

    def give_back(self, uid: int | None, size_bytes: int) -> None:
        self._of_user[uid] -= size_bytes
        self._of_user += Counter()  # drops zero counts


async def pieces_of(text: str) -> AsyncIterator[str]:
    for at in range(0, len(text), PIECE_BYTES):
        yield text[at : at + PIECE_BYTES]

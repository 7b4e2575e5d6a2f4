"""The dispatcher's line to one host: what is to be told it, several things in one message.

An attempt is told with all that its job needs, its standard input too: of those no more go into one
message than a host takes. What a host does not read waits here, so that is bounded, and what it
says is heard at a pace at which all other hosts are heard meanwhile.
"""

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable

import grpc.aio

from lbd.rates import TURN_BYTES, Rates
from lbd.rpc.gen import dispatch_pb2 as pb

STARTS_BYTES = 1 << 20  # of one message; a larger attempt has one for itself
ORDER_BYTES = 64  # about what a stop or a settlement takes
BEHIND_BYTES = 256 << 20  # a host that has not taken as much gets no further attempts
DEAF_BYTES = BEHIND_BYTES + (16 << 20)  # nor is it spoken to any more
# What a host says: a mebibyte a second and four at once, which takes a fifth of a core; a thousand
# messages a second, however short. That is many times what one says that runs the shortest jobs.
HEARD_BYTES_MAX = 2 << 20  # in one message
OPENING_BYTES = 1 << 14  # what it counts as to open a line
TURNS_PER_S, TURNS_AT_ONCE, TURNS_MIN = 64, 256, 1 / 16


class Paces:
    """How fast each host is heard."""

    def __init__(self) -> None:
        self._rates = Rates(TURNS_PER_S, TURNS_AT_ONCE)

    async def turn(self, host: str, size_bytes: int, line: "Line") -> bool:
        """Waits until a message of that size may be read; False: its line is broken by then. Raises
        ValueError if it is longer than any that makes sense, which counts, too."""
        turns = max(TURNS_MIN, size_bytes / TURN_BYTES)
        wait_s = self._rates.turn_s(host, time.monotonic(), math.inf, turns)
        if size_bytes > HEARD_BYTES_MAX:
            raise ValueError(f"a message of {size_bytes} bytes")
        if wait_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await line.broken.wait()
        return not line.broken.is_set()


class Line:
    """Once it is `broken` nothing more is sent."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._messages: deque[pb.WorkDown] = deque()  # in order
        self._sizes: deque[int] = deque()  # of each, about
        self._waiting_bytes = 0  # all of them
        self._starts_bytes = 0  # of the last of them
        self._sending: asyncio.Task[None] | None = None
        self.broken = asyncio.Event()
        self.beat = 0  # the last that came

    def reply(self, reply: pb.BeatReply) -> None:
        (self._messages[0] if self._messages else self._add()).reply.CopyFrom(reply)
        self._send()

    def start(self, start: pb.Start) -> None:
        start.anchor = self.beat
        size = start.ByteSize()
        message = self._last()
        if message.starts and self._starts_bytes + size > STARTS_BYTES:
            message = self._add()
        message.starts.append(start)
        self._starts_bytes += size
        self._waits(size)
        self._send()

    @property
    def is_behind(self) -> bool:
        return self._waiting_bytes > BEHIND_BYTES

    def stop(self, job: str, attempt: int, number: int, wish: str) -> None:
        """After what is to be stopped: of one message a host takes the stops first."""
        message = self._last()
        if message.starts:
            message = self._add()
        message.stops.add(job=job, attempt=attempt, signal=number, wish=wish)
        self._ordered()

    def settled(self, job: str, attempt: int) -> None:
        self._last().settled.add(job=job, attempt=attempt)
        self._ordered()

    def _ordered(self) -> None:
        self._waits(ORDER_BYTES)
        if self._waiting_bytes > DEAF_BYTES:
            self.broken.set()
        self._send()

    def _waits(self, size: int) -> None:
        self._sizes[-1] += size
        self._waiting_bytes += size

    def _last(self) -> pb.WorkDown:
        return self._messages[-1] if self._messages else self._add()

    def _add(self) -> pb.WorkDown:
        self._messages.append(pb.WorkDown())
        self._sizes.append(0)
        self._starts_bytes = 0
        return self._messages[-1]

    def _send(self) -> None:
        if self._sending is None and not self.broken.is_set():
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._messages:
                self._waiting_bytes -= self._sizes.popleft()
                await self._write(self._messages.popleft().SerializeToString())
        except (grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            self.broken.set()
        finally:
            self._sending = None

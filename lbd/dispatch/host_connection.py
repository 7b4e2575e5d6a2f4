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

from lbd.local.rate_limit import AT_ONCE_S, TURN_BYTES, TURNS_MIN, Rates, TimeShares
from lbd.net.gen import dispatch_pb2 as pb

STARTS_BYTES = 1 << 20  # of one message; a larger attempt has one for itself
ORDER_BYTES = 64  # about what a stop or a settlement takes
SETTLED_WITHIN_S = 0.05  # it waits that long for another message to travel with
# A host that has not taken dispatch.host_behind_bytes gets no further attempts; one that has not
# taken this much more is not spoken to at all.
DEAF_BYTES = 16 << 20
OPENING_BYTES = 1 << 14  # what it counts as to open a line
# What a host says: dispatch.host_bytes_per_s and four times that at once. By default that takes a
# fifth of a core; and a thousand messages a second, however short. That is many times what one says
# that runs the shortest jobs.
REPORT_BYTES = 128  # what each report in a message counts as: it may be shorter, but is recorded
REPORTS_AT_ONCE = 256  # others are heard between them


class Paces:
    """Rate limits of what each host sends."""

    def __init__(self, bytes_per_s: int, message_bytes: int) -> None:
        per_s = bytes_per_s / TURN_BYTES
        self._rates = Rates(per_s, AT_ONCE_S * per_s)
        self._message_bytes = message_bytes
        self.seconds = TimeShares()  # that heartbeats take: each may be news to all who wait

    async def turn(self, host: str, size_bytes: int, line: "HostConnection") -> bool:
        """Waits until a message of that size may be read; False: its line is broken by then. Raises
        ValueError if it is longer than any that makes sense, which counts, too."""
        turns = max(TURNS_MIN, size_bytes / TURN_BYTES)
        wait_s = self._rates.turn_s(host, time.monotonic(), math.inf, turns)
        if size_bytes > self._message_bytes:
            raise ValueError(
                f"a message of {size_bytes} bytes (dispatch.host_message_bytes is "
                f"{self._message_bytes})"
            )
        return await self._waited(wait_s or 0.0, line)

    async def reports_turn(
        self, host: str, reports: int, size_bytes: int, line: "HostConnection"
    ) -> bool:
        """Likewise, until so many reports of a message that has had its turn may be carried out."""
        turns = max(0.0, (reports * REPORT_BYTES - size_bytes) / TURN_BYTES)
        now_s = time.monotonic()
        wait_s = self._rates.turn_s(host, now_s, math.inf, turns) or 0.0
        wait_s = max(wait_s, self.seconds.turn_s(host, now_s, math.inf, 0.0) or 0.0)
        return await self._waited(wait_s, line)

    async def _waited(self, wait_s: float, line: "HostConnection") -> bool:
        """Returns whether the line is not broken by then."""
        if wait_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await line.broken.wait()
        return not line.broken.is_set()


def in_portions(up: pb.WorkUp) -> list[pb.WorkUp]:
    """A few of its reports in each, in their order, the heartbeat in the last."""
    if len(up.reports) <= REPORTS_AT_ONCE:
        return [up]
    starts = range(0, len(up.reports), REPORTS_AT_ONCE)
    found = [
        pb.WorkUp(reports=up.reports[at : at + REPORTS_AT_ONCE], sent_s=up.sent_s) for at in starts
    ]
    if up.HasField("heartbeat"):
        found[-1].heartbeat.CopyFrom(up.heartbeat)
    return found


class HostConnection:
    """The connection to a host. Nothing more is sent once it is `broken`."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]], behind_bytes: int) -> None:
        self._write = write
        self._behind_bytes = behind_bytes
        self._messages: deque[pb.WorkDown] = deque()  # in order
        self._sizes: deque[int] = deque()  # of each, about
        self._waiting_bytes = 0  # all of them
        self._starts_bytes = 0  # of the last of them
        self._sending: asyncio.Task[None] | None = None
        self._to_send: asyncio.TimerHandle | None = None
        self.broken = asyncio.Event()
        self.heartbeat = 0  # the last that came
        self.renewed = 0  # by the answer to it

    def reply(self, reply: pb.HeartbeatReply) -> None:
        self.renewed = len(reply.renewed)
        (self._messages[0] if self._messages else self._add()).reply.CopyFrom(reply)
        self._send()

    def start(self, start: pb.Start) -> None:
        start.anchor = self.heartbeat
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
        return self._waiting_bytes > self._behind_bytes

    def stop(self, job: str, attempt: int, number: int, stop_reason: str) -> None:
        """After what is to be stopped: of one message a host takes the stops first."""
        message = self._last()
        if message.starts:
            message = self._add()
        message.stops.add(job=job, attempt=attempt, signal=number, stop_reason=stop_reason)
        self._ordered()

    def settled(self, job: str, attempt: int) -> None:
        """Until it hears of it the host only remembers more."""
        self._last().settled.add(job=job, attempt=attempt)
        self._ordered(SETTLED_WITHIN_S)

    def released(self, job: str, attempt: int) -> None:
        self._last().released.add(job=job, attempt=attempt)
        self._ordered()

    def _ordered(self, within_s: float = 0.0) -> None:
        self._waits(ORDER_BYTES)
        if self._waiting_bytes > self._behind_bytes + DEAF_BYTES:
            self.broken.set()
        if not within_s:
            self._send()
        elif self._to_send is None:
            self._to_send = asyncio.get_running_loop().call_later(within_s, self._send)

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

    async def close(self) -> None:
        """Once all is sent."""
        self._send()
        if self._sending is not None:
            await asyncio.wait((self._sending,))
        self.broken.set()

    def _send(self) -> None:
        if self._to_send is not None:
            self._to_send.cancel()
            self._to_send = None
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

"""The dispatcher's connection to one host: what to send it, several items per message.

An attempt is sent with everything its job needs, including its standard input; a message carries no
more of these than a host takes. What a host does not read waits here, with a bound, and what a host
sends is read at a pace that lets all other hosts be heard.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import grpc.aio

from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.records import Action
from lbd.dispatch.intake import ending_of, how_long_ago_s
from lbd.dispatch.job_lines import job_log, shown_id
from lbd.dispatch.ledger.batches import HALTS, Said, UnsavedReports, said_in
from lbd.local.rate_limit import AT_ONCE_S, TURN_BYTES, TURNS_MIN, Rates, TimeShares
from lbd.model import HostId, JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from lbd.text.one_line import one_line

log = logging.getLogger("lbd.dispatch")

STARTS_BYTES = 1 << 20  # of one message; a larger attempt gets its own
ORDER_BYTES = 64  # about the size of a stop or a settlement
SETTLED_WITHIN_S = 0.05  # a settlement waits that long for another message to travel with
# A host more than dispatch.host_behind_bytes behind gets no further attempts; one that is this much
# further behind is disconnected.
DEAF_BYTES = 16 << 20
OPENING_BYTES = 1 << 14  # what opening a connection counts as
# What a host sends is limited to dispatch.host_bytes_per_s, with bursts of four times that. By
# default that takes a fifth of a core; and a thousand messages a second, however short. That is
# many times what a host with the shortest jobs sends.
REPORT_BYTES = 128  # least cost of each report in a message: it may be shorter, but is recorded
# So many reports, or what takes so long: then others are heard. Each may be news for all waiting
# jobs.
REPORTS_AT_ONCE, STEP_S = 256, 0.05
# Share of our CPU time for one host's coming, changing and leaving, for which waiting jobs of many
# shapes may be looked at; and how much of it at once.
CHANGES_SHARE, CHANGES_S = 0.05, 10.0
STOPPING_S = 1.0
JOB_CHARS_MAX = 40
LINES_PER_S, LINES_AT_ONCE = 1.0, 100.0  # logged about one host


class Paces:
    """Rate limits of what each host sends."""

    def __init__(self, bytes_per_s: int, message_bytes: int) -> None:
        per_s = bytes_per_s / TURN_BYTES
        self._rates = Rates(per_s, AT_ONCE_S * per_s)
        self._message_bytes = message_bytes
        self.seconds = TimeShares()  # that heartbeats take: each may be news for all waiting jobs
        self._changes = TimeShares(CHANGES_SHARE, CHANGES_S)

    async def opening(self, host: str, line: "HostConnection") -> None:
        """Waits until the host may connect."""
        await self.turn(host, OPENING_BYTES, line)
        await self._changes.turn(host)

    @contextlib.contextmanager
    def changing(self, host: str) -> Iterator[None]:
        """Charges what the host is, or is no longer, from now on. Must not await."""
        began_cpu_s = time.thread_time()
        try:
            yield
        finally:
            self._changes.charge(host, time.thread_time() - began_cpu_s)

    def check_changes(self, host: str, line: "HostConnection") -> None:
        """Charges what its heartbeats have changed. Raises ValueError if that is too much."""
        self._changes.charge(host, line.changes_cpu_s)
        line.changes_cpu_s = 0.0
        if self._changes.turn_s(host, time.monotonic(), math.inf, 0.0):
            raise ValueError(f"{host} changes more often than all waiting jobs can be looked at")

    async def turn(self, host: str, size_bytes: int, line: "HostConnection") -> bool:
        """Waits until a message of that size may be read. Returns False if the connection broke
        meanwhile. Raises ValueError, after charging it too, for a message beyond the size limit."""
        turns = max(TURNS_MIN, size_bytes / TURN_BYTES)
        wait_s = self._rates.turn_s(host, time.monotonic(), math.inf, turns)
        if size_bytes > self._message_bytes:
            raise ValueError(
                f"a message of {size_bytes} bytes (dispatch.host_message_bytes is "
                f"{self._message_bytes})"
            )
        return await self._waited(wait_s, line) if wait_s else not line.broken.is_set()

    async def reports_turn(
        self, host: str, reports: int, size_bytes: int, line: "HostConnection"
    ) -> bool:
        """Waits likewise until that many reports of a message that has had its turn may be
        processed."""
        turns = max(0.0, (reports * REPORT_BYTES - size_bytes) / TURN_BYTES)
        now_s = time.monotonic()
        wait_s = self.seconds.turn_s(host, now_s, math.inf, 0.0) or 0.0
        if turns > 0.0:  # else the turn of its message has paid for them
            wait_s = max(wait_s, self._rates.turn_s(host, now_s, math.inf, turns) or 0.0)
        return await self._waited(wait_s, line) if wait_s else not line.broken.is_set()

    async def _waited(self, wait_s: float, line: "HostConnection") -> bool:
        """Waits. Returns False if the connection broke meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await line.broken.wait()
        return not line.broken.is_set()


def rest_of(up: pb.WorkUp, number: int) -> pb.WorkUp:
    """Returns the message without its first reports."""
    rest = pb.WorkUp(reports=up.reports[number:], sent_s=up.sent_s)
    if up.HasField("heartbeat"):
        rest.heartbeat.CopyFrom(up.heartbeat)
    return rest


@dataclass(frozen=True, slots=True)
class Follows:
    """What follows from a host's reports."""

    actions: list[Action] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)  # what called for them


def report_all(
    life: Lifecycle,
    unsaved: UnsavedReports,
    name: HostId,
    reports: Sequence[pb.AttemptReport],
    sent_s: float,
    rng: Random,
    follows: Follows,
) -> int:
    """Passes some of a host's reports on, at least one, and adds to `follows`. Returns how many.
    Raises ValueError."""
    began_s = clock_s()
    for number, report in enumerate(reports):
        now_s = clock_s()
        if number >= REPORTS_AT_ONCE or (number and now_s - began_s >= STEP_S):
            return number
        if not unsaved.is_next(name, report):
            continue
        if actions := reported(life, name, report, sent_s, now_s, rng):
            unsaved.add(said := said_in(name, report))
            follows.actions.extend(actions)
            follows.said.append(said)
    return len(reports)


def reported(
    life: Lifecycle,
    name: HostId,
    report: pb.AttemptReport,
    sent_s: float,
    now_s: float,
    rng: Random,
) -> list[Action]:
    """Passes a host's report on. `sent_s`: when its message was sent. Raises ValueError."""
    event, job, attempt = report.event, job_id(report.job), report.attempt
    times = sent_s, life.leased_s(name, job, attempt, now_s)
    if event == "begun":
        return life.begun(name, job, attempt, how_long_ago_s(report, *times))
    elif event == "ready":
        return life.ready(name, job, attempt)
    elif event in HALTS:
        stands, why = event == "stopped", one_line(report.reason)
        return life.stopped(name, job, attempt, stands, now_s, why, report.stop_reason)
    elif event == "ended":
        return life.ended(name, job, attempt, ending_of(report, *times), now_s, rng)
    elif event == "refused":
        if life.holder(name, job, attempt):  # otherwise it could say anything about any job
            job_log.info(shown_id(life, job), "host %s refused it: %s", name, report.reason)
        how = report.phase, ending_of(report)
        return life.refused(name, job, attempt, *how, now_s, rng)
    raise ValueError(f"event {event[:40]!r} of job {one_line(report.job, 40)}")


def held_in(heartbeat: pb.Heartbeat) -> dict[tuple[JobId, int], float]:
    """Returns the attempts that the host holds, and for how many seconds it may run each without a
    renewal; 0: it does not say. Raises ValueError."""
    return {(job_id(one.job), one.attempt): one.left_s for one in heartbeat.held}


def stop_reasons_in(heartbeat: pb.Heartbeat) -> Iterator[tuple[JobId, int, str]]:
    """Yields why its host was told to end each attempt, as far as it knows."""
    return ((JobId(one.job), one.attempt, one.stop_reason) for one in heartbeat.held)


def job_id(name: str) -> JobId:
    """Raises ValueError for one so long that keeping it, or ordering its end, would cost much."""
    if len(name) > JOB_CHARS_MAX:
        raise ValueError(f"a job id of {len(name)} characters")
    return JobId(name)


class HostConnection:
    """The connection to a host. Nothing more is sent once it is `broken`."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]], behind_bytes: int) -> None:
        self._write = write
        self._behind_bytes = behind_bytes
        self._messages: deque[pb.WorkDown] = deque()  # in order
        self._sizes: deque[int] = deque()  # of each message, roughly
        self._waiting_bytes = 0  # of all messages
        self._starts_bytes = 0  # of the last message
        self._sending: asyncio.Task[None] | None = None
        self._to_send: asyncio.TimerHandle | None = None
        self.broken = asyncio.Event()
        self.heartbeat: int | None = None  # number of the last one received
        self.renewed = 0  # attempts renewed by the answer to it
        self.changes_cpu_s = 0.0  # taken by what its heartbeats changed, and not charged yet

    def opens(self, ledger_token: bytes) -> None:
        self._add().ledger_token = ledger_token
        self._send()

    def reply(self, reply: pb.HeartbeatReply) -> None:
        self.renewed = len(reply.renewed)
        (self._messages[0] if self._messages else self._add()).reply.CopyFrom(reply)
        self._send()

    def start(self, start: pb.Start) -> None:
        start.anchor = self.heartbeat or 0
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
        """Puts the stop behind the start it refers to: a host handles the stops of a message
        first."""
        message = self._last()
        if message.starts:
            message = self._add()
        message.stops.add(job=job, attempt=attempt, signal=number, stop_reason=stop_reason)
        self._ordered()

    def settled(self, job: str, attempt: int) -> None:
        """The host need not hear this soon: until then it only remembers more."""
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

    async def stop_sending(self) -> None:
        """Sends nothing more. Waits a moment for what is being sent: until then the call cannot be
        aborted, which would be a traceback in the log."""
        self.broken.set()
        if self._sending is not None:
            await asyncio.wait((self._sending,), timeout=STOPPING_S)

    async def close(self) -> None:
        """Closes the connection once everything is sent."""
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
            while self._messages and not self.broken.is_set():
                self._waiting_bytes -= self._sizes.popleft()
                await self._write(self._messages.popleft().SerializeToString())
        except (grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            self.broken.set()
        finally:
            self._sending = None


class HostLines:
    """Logs that hosts connect and disconnect, with a limit for each. A host that does so hundreds
    of times a second would fill the log, and lines about others would be lost."""

    def __init__(self) -> None:
        self._rates = Rates(LINES_PER_S, LINES_AT_ONCE)

    def say(self, host: HostId, what: str) -> None:
        if self._rates.turn_s(host, time.monotonic(), 0.0) is not None:
            log.info("host %s %s", host, what, extra={"action": what, "host": host})


HOST_LINES = HostLines()

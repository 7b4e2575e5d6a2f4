"""The queue's attempts on this host, and the stream to the dispatcher.

The stream is opened again whenever it breaks. Heartbeats go out several times within a lease, and
when the slots have changed; what time alone has changed of these, the next one says. They name the
attempts held here and so renew their leases. The report of an attempt's end is repeated on each new
stream until the dispatcher says that it is settled (on disk).

An attempt whose lease runs out is killed: from then on the dispatcher may start another elsewhere.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from lbd.errors import LbdError
from lbd.lbm.core import execution_events as e
from lbd.lbm.core.attempts_ahead import Ahead
from lbd.lbm.core.execution import Phase, Timer
from lbd.lbm.core.leases import Key
from lbd.lbm.core.pending_updates import PendingReports
from lbd.lbm.core.slots import OthersUse
from lbd.lbm.handover.records import QueuedAttempt
from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.inbound.submitted import fault_of_start
from lbd.lbm.keeper_link import end_holders
from lbd.lbm.queue.attempt import Attempt
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.lbm.queue.dispatcher_words import SAID_MAX, read_down, refusal
from lbd.lbm.queue.held_attempts import Held, HeldAttempts, all_reports, as_message
from lbd.lbm.queue.keeper_claim import claim
from lbd.lbm.queue.logs import output_of
from lbd.lbm.queue.spool import Spool
from lbd.lbm.queue.spool_room import SpoolCare
from lbd.local.rate_limit import TimeShares
from lbd.model import STOPPED, Closed, JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.spooled_output import NO_ROOM_CHARS
from lbd.net.submitter import is_ledger_token
from lbd.process.boot_clock import clock_s
from lbd.process.job_log import JobLog
from lbd.process.wake_ups import Alarm
from lbd.text.closed_words import WORDS
from lbd.text.needs_words import resources_text

if TYPE_CHECKING:
    from lbd.local.json_socket import Json

    Call = grpc.aio.StreamStreamCall[bytes, bytes]

log = logging.getLogger("lbd.lbm")
job_log = JobLog(log)

RECONNECT_S, LINGER_S = 0.3, 0.005
SOON_SHARE = 0.1  # of the time in which those sent ahead run
SLOTS_SETTLE_S = 0.05  # most slots taken are free again by then, so there is nothing to report
TOLD_S, TOLD_POLL_S = 1.0, 0.01
FINAL = ("ended", "refused")
SIGNALS = range(signal.NSIG)
# An LBM that is restarted leaves no attempts in these phases to the next.
UNFINISHED = (
    Phase.ADMISSION, Phase.SLOT, Phase.FILES, Phase.HELD, Phase.CALLED_OFF, Phase.COLLECTING
)  # fmt: skip
ENDING = WORDS[Closed.STOPPING]


class DispatcherLine:
    def __init__(
        self,
        host: InboundContext,
        client: DispatcherClient,
        beside: Callable[[], Coroutine[None, None, None]],
    ) -> None:
        """`beside`: runs as long as this object does."""
        self._beside = beside
        self._host, self._client = host, client
        client.spools.own_logs = partial(output_of, self, host.config.host.name)
        self._held = HeldAttempts(lambda: host.config.dispatch.lease_s)
        client.spool.files.ledger_of = self._held.ledger_of
        self._leases = client.leases
        self._ahead = Ahead(host.config.dispatch.ahead_s)
        self._pending = PendingReports[pb.AttemptReport]()
        self._wake = Alarm()
        self._heartbeat_wanted = False
        self._others = OthersUse(host.slots, self._held.names)
        self._settling: asyncio.TimerHandle | None = None
        self._load, self._is_full = 0.0, False  # `_is_full`: the spool's disk, as last told
        self._closed: Closed | None = None  # drained, or closed by the owner's rules
        self._ending = False
        self.summary: Json | None = None  # of the queue, for `lbctl status`

    @property
    def spool(self) -> Spool:
        return self._client.spool

    async def run(self) -> None:
        keep_days, link = self._host.config.dispatch.output_keep_days, self._host.link
        care = SpoolCare(self.spool, keep_days, self._held, partial(end_holders, link))
        if not self._held:  # leases that were taken over are watched whatever the LIM says
            await self._client.has_queue.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._held.watch_leases(), name="leases")
            group.create_task(care.run(), name="spool")
            group.create_task(self._beside(), name="files of queued jobs")
            while True:
                try:
                    await self._converse()
                except (LbdError, grpc.aio.AioRpcError, asyncio.InvalidStateError) as problem:
                    log.debug("no connection to the dispatcher: %s", problem)
                except (DecodeError, ValueError) as problem:
                    log.warning("protocol error from the dispatcher: %s", problem)
                except Exception:  # a fault of ours ends this connection, not the LBM
                    log.exception("the connection to the dispatcher ended")
                self._client.doubt()
                self.summary = None
                await asyncio.sleep(RECONNECT_S)

    async def _converse(self) -> None:
        """Serves one stream until it breaks. Raises LbdError, AioRpcError, DecodeError,
        ValueError."""
        call, shares = await self._client.work(), TimeShares()
        sending = None
        try:
            while isinstance(message := await self._client.read(call, self._leases.lease_s), bytes):
                await shares.turn(call)
                with shares.spending(call):
                    down = read_down(message)
                    if sending is None:
                        sending = self._connected(call, down.ledger_token)
                    self._answered(down)
                async for obey in shares.in_turns(call, self._orders_in(down)):
                    obey()
        finally:
            call.cancel()
            if sending is not None:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
                    await sending

    def _connected(self, call: "Call", ledger_token: bytes) -> asyncio.Task[None]:
        """Raises ValueError."""
        if not is_ledger_token(ledger_token):
            raise ValueError("it does not show of which ledger it is")
        self._client.obeys(ledger_token.hex())
        self._held.connected(ledger_token, clock_s())
        self._pending = all_reports(self._held.of_ledger().values())
        self._heartbeat_wanted = True
        sending = asyncio.create_task(self._send(call), name="line to the dispatcher")
        sending.add_done_callback(lambda _: call.cancel())
        return sending

    async def _send(self, call: "Call") -> None:
        while True:
            up = pb.WorkUp(reports=self._pending.take())
            if self._heartbeat_wanted or clock_s() >= self._leases.heartbeat_due_s:
                self._heartbeat_wanted = False
                up.heartbeat.CopyFrom(self._heartbeat())
            up.sent_s = clock_s() if up.reports else 0.0
            self._wake.clear()
            if message := up.SerializeToString():
                await call.write(message)
            self._wake.set_in(max(0.0, self._leases.heartbeat_due_s - clock_s()))
            await self._wake.wait()

    def _heartbeat(self) -> pb.Heartbeat:
        total, ahead, leases, now_s = self._host.slots.total, self._ahead, self._leases, clock_s()
        self._host.executions.pass_to(now_s)
        used, self._is_full = self._others.note(), self.spool.is_full()
        self._held.end_others(now_s)
        ahead.reported = ahead.depth(total)
        closed = Closed.STOPPING if self._ending else self._closed
        keeper = claim(self._host.link, self._held.names)
        return pb.Heartbeat(
            number=leases.heartbeat(now_s, is_whole=bool(keeper)),
            slots=total,
            open_slots=max(0, total - used.slots),
            load=self._load,
            closed=closed or 0,
            opens=self._host.rules.opens(),
            drain=self._host.why_drained if closed is Closed.DRAINED else "",
            held=[as_message(*item, leases, now_s) for item in self._held.of_ledger().items()],
            ahead=ahead.reported,
            features=" ".join(used.facts.features),
            resources=resources_text(used.facts),
            memory_for_jobs=used.facts.memory_total,
            memory_given=used.facts.memory_given,
            keeper=keeper,
            said_s=now_s,
            rules=self._host.rules.rules.number,
            hog=used.hog,
            beside_hog=used.beside_hog,
            no_room=self.spool.why_full[:NO_ROOM_CHARS] if self._is_full else "",
        )

    def _answered(self, down: pb.WorkDown) -> None:
        if not down.HasField("reply"):
            return
        reply, leases = down.reply, self._leases
        self._client.leads(self._client.leader)
        now_s = clock_s()
        lease_s = self._held.lease_s(reply.lease_s, now_s)
        if leases.are_now(lease_s):
            self._wake.set()  # the next heartbeat may be due sooner
        named = {(JobId(item.job), item.attempt): None for item in reply.renewed}  # each once
        ours = {key: held for key in named if (held := self._held.ordered(key)) is not None}
        for key in leases.renew(reply.number, ours, lease_s, now_s):
            ours[key].attempt.feed(e.Renewed(leases.until_s[key]))
        self.summary = {"mode": reply.mode, "leader": self._client.leader,
                        "queued": reply.queued, "running": reply.running}  # fmt: skip

    def _orders_in(self, down: pb.WorkDown) -> Iterator[Callable[[], None]]:
        """Yields what carries out each order of a message; there may be a hundred thousand."""
        yield from (partial(self._settled, item) for item in down.settled)
        for stop in down.stops:
            if stop.signal in SIGNALS:
                yield partial(self._feed, stop, e.EndWanted(stop.signal, stop.stop_reason))
        yield from (partial(self._start, start) for start in down.starts)
        yield from (partial(self._feed, item, e.Released()) for item in down.released)

    def _feed(self, about: "pb.Stop | pb.Held", event: e.Event) -> None:
        if (held := self._held.ordered((JobId(about.job), about.attempt))) is not None:
            held.attempt.feed(event)

    def _start(self, start: pb.Start) -> None:
        key = JobId(start.job), start.attempt
        if self._held.ordered(key) is not None:
            return
        if key in self._held:  # it is not that one
            return self._turn_away(
                start, "late", "an attempt of another dispatcher is in its place"
            )
        if fault := fault_of_start(start):
            return self._turn_away(start, "request", f"its order cannot be carried out: {fault}")
        if self._ending:
            return self._turn_away(start, "late", ENDING)
        if why := self._held.orders.why_not(start):  # others' jobs may well start here
            return self._turn_away(start, "no-room", why)
        lease_s = self._held.lease_s(start.lease_s, now_s := clock_s())
        until_s = self._leases.take(key, start.anchor, lease_s, now_s)
        if until_s is None:
            self._heartbeat_wanted = True  # from which the next order's lease can count
            return self._turn_away(start, "late", "the order arrived too late")
        attempt = Attempt(self._host, self._client, start, partial(self._report, key), until_s)
        self._held[key] = Held(attempt, self._held.ledger_token)
        attempt.begin()

    def _turn_away(self, start: pb.Start, phase: str, reason: str) -> None:
        if len(self._pending) >= SAID_MAX:
            raise ValueError("it is not reading what it is sent")
        self._pending.add(refusal(start, phase, reason))
        self._wake.set()

    def _report(self, key: Key, report: pb.AttemptReport) -> None:
        if (held := self._held.get(key)) is not None and report.event in FINAL:
            held.end = report
            self._leases.drop(key)
            self._ahead.learn(held.attempt.execution, report.phase)
        if self._held.ordered(key) is not None:
            self._pending.add(report)
        if report.phase in ("slot", "stage") or self._ahead.has_changed(self._host.slots.total):
            self._heartbeat_wanted = True
        # While others wait here for the slot, the report of an end may wait for more of them, but
        # not long once half of those are left. A command as short as LINGER_S is in one message.
        waiting, ahead_s = len(self._host.executions.line.turns), self._ahead.ahead_s
        if waiting:
            self._wake.set_in(
                ahead_s if 2 * waiting > self._ahead.reported else SOON_SHARE * ahead_s
            )
        elif report.event == "begun":
            self._wake.set_in(LINGER_S)
        else:
            self._wake.set()

    def _settled(self, item: pb.Held) -> None:
        key = JobId(item.job), item.attempt
        if (held := self._held.ordered(key)) and held.attempt.execution.is_reported:
            del self._held[key]

    # From one LBM to the next

    def left(self) -> list[QueuedAttempt]:
        """The attempts for another LBM; no further step of the event loop follows."""
        for held in list(self._held.values()):
            if held.attempt.execution.phase in UNFINISHED:
                held.attempt.feed(e.Resumed())
        return [
            replace(held.attempt.left(held.end), ledger_token=held.ledger_token)
            for held in self._held.values()
            if not held.attempt.is_busy
        ]

    def adopt(self, left: QueuedAttempt) -> None:
        """Adopts an attempt that an earlier LBM left. Raises DecodeError."""
        start, timers = pb.Start.FromString(left.start), left.running.execution.timers
        report = pb.AttemptReport.FromString(left.report) if left.report is not None else None
        key = JobId(start.job), start.attempt
        if until_s := timers.get(Timer.LEASE, 0.0):
            self._leases.until_s[key] = until_s
        attempt = Attempt(self._host, self._client, start, partial(self._report, key), until_s)
        self._held[key] = Held(attempt, left.ledger_token, report)
        attempt.adopt(left)

    # What the dispatcher must know about this host

    def slots_changed(self) -> None:
        """Reports changed slots: at once if queued jobs wait for a slot that is free now."""
        is_waited_for = bool(self.summary and self.summary.get("queued"))
        if (self._settling is not None and not is_waited_for) or not self._others.has_changed:
            return
        if is_waited_for and self._others.may_be_less:
            self._report_slots()
        elif self._settling is None:
            loop = asyncio.get_running_loop()
            self._settling = loop.call_later(SLOTS_SETTLE_S, self._report_slots)

    def _report_slots(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        if self._others.has_changed:
            self._heartbeat_wanted = True
            self._wake.set()

    def load_is(self, load: object, closed: Closed | None) -> None:
        ceiling = self._host.config.dispatch.load_ceiling
        before = self._load > ceiling, self._is_full, self._closed
        self._load, self._closed = float(load) if isinstance(load, int | float) else 0.0, closed
        if (self._load > ceiling, self.spool.is_full(), closed) != before:
            self._heartbeat_wanted = True
            self._wake.set()

    def alive(self, job: str, attempt: int) -> bool:
        return self._held.alive(job, attempt)

    def is_awaited_by(self, reader: str, job: str, attempt: int) -> bool:
        return self._held.is_awaited_by(reader, job, attempt)

    async def end_all(self) -> None:
        """Ends the attempts because we stop, and reports it, so that they can start elsewhere."""
        self._ending = True
        was_stopped = e.GivenUp(f"{self._host.config.host.name} {STOPPED}")
        for held in list(self._held.values()):
            held.attempt.feed(was_stopped)
        self._heartbeat_wanted = True
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._host.config.lbm.kill_grace_s + TOLD_S):
                while self._held:  # noqa: ASYNC110  # it empties as ends are settled
                    await asyncio.sleep(TOLD_POLL_S)

"""The queue's attempts on this host, and the line to the dispatcher.

One stream to it, opened again whenever it breaks. Beats go out several times within a lease and
when the slots have changed; they name what is held here and so renew it. News of an attempt's end
is repeated on each new stream until the dispatcher says that it is settled (on disk).

An attempt whose lease runs out is killed: from then on the dispatcher may start another elsewhere.
"""

import asyncio
import contextlib
import logging
import math
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from lbd.errors import LbdError
from lbd.lbm.adopted_attempt import AdoptedAttempt
from lbd.lbm.attempt import Attempt, keep
from lbd.lbm.host import Host
from lbd.lbm.leases import Key, Leases
from lbd.lbm.logs import output_of
from lbd.lbm.news import Untold
from lbd.lbm.queue_client import QueueClient
from lbd.lbm.submitted import fault_of_start
from lbd.lbm.turns import Turns
from lbd.model import JobId
from lbd.rpc.boot_clock import clock_s
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.gen.handover_pb2 import HeldAttempt

if TYPE_CHECKING:
    from lbd.rpc.local import Json

    Call = grpc.aio.StreamStreamCall[bytes, bytes]

log = logging.getLogger("lbd.lbm")

RECONNECT_S = 0.3
BEATS_PER_LEASE = 4
WATCH_S = 0.1
TRIM_EVERY_S = 1.0
SWEEP_EVERY_S = 3600.0
LINGER_S = 0.005
SLOTS_SETTLE_S = 0.05  # most slots that were taken are free again by then: nothing to tell
TOLD_S, TOLD_POLL_S = 1.0, 0.01
FINAL = ("ended", "refused")
STOPPED = "its host's LBM was stopped"


@dataclass(slots=True)
class Held:
    """An attempt that is alive, or whose end is not settled yet."""

    attempt: Attempt
    task: "asyncio.Task[None]"
    end: pb.News | None = None


class Attempts:
    def __init__(
        self, host: Host, client: QueueClient, beside: Callable[[], Coroutine[None, None, None]]
    ) -> None:
        """`beside`: to be done as long as we run."""
        self._beside = beside
        self._host = host
        self._client = client
        self.spool = client.spool
        client.own_logs = partial(output_of, self)
        self._held: dict[Key, Held] = {}
        self._leases = Leases()
        self._lease_s = host.config.dispatch.lease_s
        self._turns = Turns(host)
        self._names: set[JobId] = set()  # of what is held, as the slots know it
        self._untold = Untold[pb.News]()
        self._wake = asyncio.Event()
        self._beat_wanted = False
        self._others_told = 0
        self._waking: asyncio.TimerHandle | None = None
        self._settling: asyncio.TimerHandle | None = None
        self._load = 0.0
        self._trouble = ""  # with the spool, as it was told last
        self._ceiling = host.config.dispatch.load_ceiling
        self._drained = self._ending = False
        self.summary: Json | None = None  # of the queue, for `lbctl status`

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_leases(), name="leases")
            group.create_task(self._look_after_spool(), name="spool")
            group.create_task(self._beside(), name="files of queued jobs")
            while True:
                try:
                    await self._converse()
                except (LbdError, grpc.aio.AioRpcError, asyncio.InvalidStateError) as problem:
                    log.debug("no line to the dispatcher: %s", problem)
                except (DecodeError, ValueError) as problem:
                    log.warning("the dispatcher talks nonsense: %s", problem)
                self._client.doubt()
                self.summary = None
                await asyncio.sleep(RECONNECT_S)

    async def _converse(self) -> None:
        """One stream, until it breaks. Raises LbdError, AioRpcError, DecodeError."""
        call = await self._client.work()
        self._untold = self._all_news()
        self._beat_wanted = True
        sending = asyncio.create_task(self._send(call), name="line to the dispatcher")
        try:
            while isinstance(message := await self._client.read(call, self._lease_s), bytes):
                self._hear(pb.WorkDown.FromString(message))
        finally:
            call.cancel()
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
                await sending

    def _all_news(self) -> Untold[pb.News]:
        """The last stream may have broken before any of it was heard."""
        untold = Untold[pb.News]()
        for (job, number), held in self._held.items():
            halted = held.attempt.halted
            if held.attempt.begun:
                untold.add(pb.News(job=job, attempt=number, event="begun"))
            if halted is not None and held.end is None:
                event = "stopped" if halted else "continued"
                untold.add(pb.News(job=job, attempt=number, event=event))
            if held.end is not None:
                untold.add(held.end)
        return untold

    async def _send(self, call: "Call") -> None:
        beat_due_s = 0.0
        while True:
            up = pb.WorkUp()
            if self._beat_wanted or clock_s() >= beat_due_s:
                self._beat_wanted = False
                beat_due_s = clock_s() + self._lease_s / BEATS_PER_LEASE
                up.beat.CopyFrom(self._beat())
            up.news.extend(self._untold.take())
            self._wake.clear()
            if up.ByteSize():
                await call.write(up.SerializeToString())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, beat_due_s - clock_s())):
                    await self._wake.wait()

    def _beat(self) -> pb.Beat:
        total, self._others_told = self._host.slots.total, self._others()
        ahead = self._turns.ahead
        ahead.told = ahead.depth(total)
        return pb.Beat(
            number=self._leases.beat(clock_s()),
            slots=total,
            open_slots=max(0, total - self._others_told),
            load=self._load,
            drained=self._drained or self._ending,
            held=[
                pb.Held(job=job, attempt=number, wish=held.attempt.wish)
                for (job, number), held in self._held.items()
            ],
            ahead=ahead.told,
        )

    def _hear(self, down: pb.WorkDown) -> None:
        if down.HasField("reply"):
            reply = down.reply
            if not (math.isfinite(reply.lease_s) and reply.lease_s > 0):
                raise ValueError(f"a lease of {reply.lease_s} s")
            self._client.leads(self._client.leader)
            self._lease_s = reply.lease_s
            renewed = [(JobId(item.job), item.attempt) for item in reply.renewed]
            self._leases.renew(reply.number, renewed, reply.lease_s)
            for key in renewed:
                if (held := self._held.get(key)) is not None:
                    keep(asyncio.create_task(held.attempt.hold(self._lease_left_s(key))))
            self.summary = {
                "mode": reply.mode,
                "leader": self._client.leader,
                "queued": reply.queued,
                "running": reply.running,
            }
        for item in down.settled:
            self._settled((JobId(item.job), item.attempt))
        for stop in down.stops:
            held = self._held.get((JobId(stop.job), stop.attempt))
            if held is not None and 0 <= stop.signal < signal.NSIG:
                held.attempt.stop(stop.signal, stop.wish)
        for start in down.starts:
            self._start(start)

    def _start(self, start: pb.Start) -> None:
        key = JobId(start.job), start.attempt
        if key in self._held:
            return
        if fault := fault_of_start(start):
            return self._turn_away(start, "request", f"its order cannot be followed: {fault}")
        if self._ending:
            return self._turn_away(start, "late", STOPPED)
        if not self._leases.take(key, start.anchor, start.lease_s, clock_s()):
            return self._turn_away(start, "late", "the order came too late")
        attempt = Attempt(
            self._host,
            self._client,
            start,
            lambda news: self._tell(key, news),
            lambda: self._lease_left_s(key),
            self._turns.wait,
        )
        task = asyncio.create_task(attempt.run(), name=f"attempt {attempt.name}")
        self._held[key] = Held(attempt, task)
        self._names.add(attempt.name)
        task.add_done_callback(lambda done: self._run_over(key, done))

    def _turn_away(self, start: pb.Start, stage: str, reason: str) -> None:
        """Before it is held."""
        job, number = start.job, start.attempt
        refused = pb.News(job=job, attempt=number, event="refused", stage=stage, reason=reason)
        self._untold.add(refused)
        self._wake.set()

    def _lease_left_s(self, key: Key) -> float:
        return self._leases.until_s.get(key, 0.0) - clock_s()

    def _run_over(self, key: Key, task: "asyncio.Task[None]") -> None:
        """Its end has been told by then, unless we are at fault."""
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("attempt %s.%d: %r", *key, problem)

    def _tell(self, key: Key, news: pb.News) -> None:
        held = self._held.get(key)
        if held is not None and news.event in FINAL:
            held.end = news
            self._leases.drop(key)
            if held.attempt.ran_s:
                self._turns.ahead.ran(held.attempt.ran_s)
        self._untold.add(news)
        if news.stage == "slot" or self._turns.ahead.is_news(self._host.slots.total):
            self._beat_wanted = True
        # While others wait here to take the slot, the end of one may wait for more of them; and a
        # command as short as LINGER_S is told of in one message.
        if self._turns.are_many:
            self._wake_in(self._host.config.dispatch.ahead_s)
        elif news.event == "begun":
            self._wake_in(LINGER_S)
        else:
            self._wake.set()

    def _wake_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._waking is None or self._waking.when() > loop.time() + seconds:
            if self._waking is not None:
                self._waking.cancel()
            self._waking = loop.call_later(seconds, self._wake_up)

    def _wake_up(self) -> None:
        self._waking = None
        self._wake.set()

    def _settled(self, key: Key) -> None:
        held = self._held.get(key)
        if held is not None and held.attempt.over:
            del self._held[key]
            self._names.discard(held.attempt.name)

    # From one LBM to the next

    def save(self) -> list[HeldAttempt]:
        """Between two steps of the event loop, after which there are none."""
        for held in self._held.values():
            held.attempt.never_began("its host's LBM is started again")
        saved = []
        for key, held in self._held.items():
            item = AdoptedAttempt.save(held.attempt)
            if item is not None and (held.end is not None or not held.attempt.over):
                item.lease_until_s = self._leases.until_s.get(key, 0.0)
                if held.end is not None:
                    item.end = held.end.SerializeToString()
                saved.append(item)
        return saved

    def adopt(self, item: HeldAttempt) -> None:
        """Raises DecodeError."""
        start = pb.Start.FromString(item.start)
        key = JobId(start.job), start.attempt
        attempt = AdoptedAttempt(
            self._host,
            self._client,
            start,
            lambda news: self._tell(key, news),
            lambda: self._lease_left_s(key),
            self._turns.wait,
        )
        attempt.restore(item)
        if not attempt.over:
            self._leases.until_s[key] = item.lease_until_s
        end = pb.News.FromString(item.end) if item.HasField("end") else None
        task = asyncio.create_task(attempt.go_on(), name=f"attempt {attempt.name}")
        self._held[key] = Held(attempt, task, end)
        self._names.add(attempt.name)
        task.add_done_callback(lambda done: self._run_over(key, done))

    # What it must know of this host

    def slots_changed(self) -> None:
        """At once if commands wait in the queue for one that is free now."""
        self._turns.give()
        changed, queued = self._others() - self._others_told, (self.summary or {}).get("queued")
        if changed < 0 and queued:
            self._tell_slots()
        elif changed and self._settling is None:
            loop = asyncio.get_running_loop()
            self._settling = loop.call_later(SLOTS_SETTLE_S, self._tell_slots)

    def _tell_slots(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        if self._others() != self._others_told:
            self._beat_wanted = True
            self._wake.set()

    def _others(self) -> int:
        """Slots that commands from elsewhere hold or wait for."""
        slots = self._host.slots
        own = sum(slots.widths.get(job, 1) for job in slots.holders if job in self._names)
        return slots.used - own + len(slots.waiting)

    def load_is(self, load: object, drained: object) -> None:
        was_over, ceiling = self._load > self._ceiling, self._ceiling
        self._load = float(load) if isinstance(load, int | float) else 0.0
        if bool(drained) != self._drained or (self._load > ceiling) != was_over:
            self._drained = bool(drained)
            self._beat_wanted = True
            self._wake.set()

    def alive(self, job: str, attempt: int) -> bool:
        held = self._held.get((JobId(job), attempt))
        return held is not None and not held.attempt.over

    # Time

    async def _watch_leases(self) -> None:
        while True:
            for key in self._leases.over(clock_s()):
                held = self._held.get(key)
                if held is not None and not held.attempt.over:
                    log.warning("attempt %s.%d: its lease is over, ending it", *key)
                    held.attempt.lease_over()
                else:
                    self._leases.drop(key)
            await asyncio.sleep(WATCH_S)

    async def _look_after_spool(self) -> None:
        sweep_due_s = 0.0
        keep_days = self._host.config.dispatch.output_keep_days
        while True:
            full = bool(self._held) and self.spool.is_full()
            for job, number in [key for key, held in self._held.items() if held.attempt.begun]:
                self._trim(job, number)
                if full and self.alive(job, number):
                    self.spool.mark_cut(job, number)
            if clock_s() >= sweep_due_s:
                sweep_due_s = clock_s() + SWEEP_EVERY_S
                await asyncio.to_thread(self.spool.sweep, keep_days, {job for job, _ in self._held})
            await asyncio.sleep(TRIM_EVERY_S)

    def _trim(self, job: JobId, number: int) -> None:
        try:
            self.spool.trim(job, number)
        except OSError as problem:
            if (text := str(problem)) != self._trouble:
                log.warning("dispatch.max_output_bytes is not kept to here: %s", text)
            self._trouble = text

    async def end_all(self) -> None:
        """We are to stop: end what runs here and say so, that it may begin elsewhere at once."""
        self._ending = True
        for held in [held for held in self._held.values() if not held.attempt.over]:
            held.attempt.give_up(STOPPED)
        self._beat_wanted = True
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._host.config.lbm.kill_grace_s + TOLD_S):
                while self._held:  # noqa: ASYNC110  # it empties as ends are settled
                    await asyncio.sleep(TOLD_POLL_S)

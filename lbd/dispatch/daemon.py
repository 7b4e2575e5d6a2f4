"""The dispatcher as a process: its ledger, its connections to the hosts, its server.

It carries out what `Lifecycle` decides. Every change is recorded first; its consequences (a start,
permission for a host to forget, news for watchers) follow in the same order once it is on disk. One
task does that (`_follow_up`), while later changes are already being written.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from lbd.config.schema import Config
from lbd.dispatch.core.cutoffs import tier_order
from lbd.dispatch.core.disciplines.registry import Tiered
from lbd.dispatch.core.disciplines.tiers import spread_tiers
from lbd.dispatch.core.estimates import Estimates
from lbd.dispatch.core.ledger_room import until_written
from lbd.dispatch.core.ledger_rows import UNREADABLE, JobRow, Ledger, LedgerTrouble, Stored, Wanted
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.malleable.slot_times import KEPT
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.records import (
    Action,
    Begin,
    Cause,
    Changed,
    Ending,
    Record,
    Release,
    Settle,
    Signal,
)
from lbd.dispatch.core.restore import live_job, queued_job, restore_times, waits_of
from lbd.dispatch.core.retry import NOT_YET
from lbd.dispatch.core.revoked_origins import RevokedOrigins
from lbd.dispatch.core.run_times import kind_of
from lbd.dispatch.earlier_tasks import EarlierTasks
from lbd.dispatch.host_connection import (
    HOST_LINES,
    Follows,
    HostConnection,
    held_in,
    report_all,
    rest_of,
    stop_reasons_in,
)
from lbd.dispatch.intake import heartbeat_fault, slots_of
from lbd.dispatch.job_finder import forgiven
from lbd.dispatch.job_lines import say, say_full
from lbd.dispatch.job_view import why_closed
from lbd.dispatch.ledger.batches import Batch, Batches, Said
from lbd.dispatch.ledger.ledger_tokens import ledger_token
from lbd.dispatch.spec_cache import Specs
from lbd.dispatch.stored_start import UnreadableSpec, start_in
from lbd.dispatch.watching import Watchers
from lbd.model import ENDED_STATES, HostId, JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from lbd.process.wake_ups import next_moment
from lbd.text.closed_words import OUT_OF_CONTACT

log = logging.getLogger("lbd.dispatch")

TICK_S = 0.2  # all other periods are multiples, to save wake-ups
FIRST_BEATS_S = 5.0  # by when every host that is up has connected
LEARN_FROM = 5000  # the last jobs of the previous dispatcher
LEARN_EVERY_S = 0.4
LEARN_BYTES = 64 << 20  # of commands
PAST = Wanted(ended_only=True, limit=LEARN_FROM, bytes_max=LEARN_BYTES)
RECENT = Wanted(ended_only=True, limit=KEPT, bytes_max=LEARN_BYTES)
LEARN_AT_ONCE = 200  # more say nothing new
WHOLE = ("done", "failed")  # states of jobs that ended on their own
READ_AT_ONCE = 500  # jobs: more take memory that is never given back, and no less time


@dataclass(slots=True)
class Dispatcher:
    config: Config
    ledger: Ledger
    life: Lifecycle
    ledger_secret: bytes  # of the ledger
    rng: Random = field(default_factory=Random)
    leads: Callable[[], bool] = lambda: True  # whether no other dispatcher can lead at this moment
    lines: dict[HostId, HostConnection] = field(default_factory=dict)
    watchers: Watchers = field(default_factory=Watchers)
    estimates: Estimates | None = None  # for disciplines that use them
    starts: Specs[Stored | pb.Start] = field(default_factory=Specs)
    batches: Batches = field(default_factory=Batches)
    revoked: RevokedOrigins = field(default_factory=RevokedOrigins)
    _ended: list[int] = field(default_factory=list)  # not learnt from yet
    _full: str = ""  # why the ledger takes no jobs, as last logged

    async def run(
        self,
        stop: asyncio.Event,
        ready: Callable[[], Awaitable[None]],
        beside: Mapping[str, Coroutine[None, None, None]],
    ) -> None:
        """Serves until asked to stop; `beside` holds further tasks, by name."""
        await self._restore()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._follow_up(), name="follow up"),
                group.create_task(self._tick(), name="tick"),
            ]
            tasks += [group.create_task(work, name=name) for name, work in beside.items()]
            await ready()
            await stop.wait()
            for task in tasks:
                task.cancel()

    async def _restore(self) -> None:
        """Restores the previous dispatcher's jobs. Attempts may be alive: they keep the leases."""
        self.life.hosts.more_until_s = clock_s() + FIRST_BEATS_S
        if self.estimates is not None:
            self.estimates.learn(await self.ledger.find(PAST))
        for row in await self.ledger.find(RECENT):
            learn_from(row, self.life.queues, by_uid=self.by_uid)
        earlier = EarlierTasks(self.ledger, self.life.queues.targets)
        rows = await self.ledger.live(limit=READ_AT_ONCE)
        while rows:
            await earlier.of_restored(rows)
            await self._take_up(await forgiven(self.ledger, rows))
            rows = await self.ledger.live(rows[-1].id, READ_AT_ONCE)
        jobs, leased = len(self.life.jobs), len(self.life.leased)
        log.info("the ledger has %d jobs, of which %d may be running", jobs, leased)

    async def _take_up(self, rows: Sequence[JobRow]) -> None:
        begun = [JobId(str(row.id)) for row in rows if row.attempt]
        last = {row.job: row for row in await self.ledger.attempts(begun, 1)} if begun else {}
        now_s = clock_s()
        for row in rows:
            attempt = last.get(row.id)
            if attempt is not None and attempt.fate == UNREADABLE:
                continue  # it may be alive
            estimate_s = self.estimate_s(row.user, row.command)
            live, leased = live_job(row, attempt, estimate_s, by_uid=self.by_uid)
            self.carry(self.life.restored(live, leased, now_s, self.rng, waits_of(row)))
            restore_times(self.life.queues, live, row, attempt, now_s, time.time())

    @property
    def by_uid(self) -> bool:
        """Whether users are identified by number, not by name."""
        return self.config.users.map == "uid"

    # Carrying out

    def carry(self, actions: Sequence[Action], said: Sequence[Said] = ()) -> "asyncio.Future[None]":
        """Returns when all actions are on disk and have been passed on. `said`: by hosts, which
        called for them."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not actions:
            done.set_result(None)
            return done
        records = [action for action in actions if isinstance(action, Record)]
        say(self.life, actions)
        saved = self.ledger.record(records, time.time()) if records else None
        self.batches.put(Batch(actions, saved, done, clock_s(), said))
        return done

    async def settled(self) -> None:
        """Waits until everything queued so far has been carried out."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.batches.put(Batch((), None, done, clock_s()))
        await done

    async def _follow_up(self) -> None:
        while True:
            batch = await self.batches.next_saved()
            changed = dict[JobId, bool]()  # whether it has ended; each is notified once
            until = self.until_written()
            for action in batch.actions:
                if isinstance(action, Begin):
                    await self._start(action, until)
                    self.watchers.notify(action.job, has_ended=False, is_leased=True)
                elif isinstance(action, Changed):
                    changed[action.job] = action.state in ENDED_STATES
                else:
                    self._pass_on(action)
            for job, has_ended in changed.items():
                if has_ended and self.estimates is not None and len(self._ended) < LEARN_AT_ONCE:
                    self._ended.append(int(job))
                self.watchers.notify(job, has_ended=has_ended)
            for host, report in self.batches.unsaved.saved(batch.said):
                self._reports(host, (report,), 0.0)
            if not batch.done.done():
                batch.done.set_result(None)

    def _pass_on(self, action: Action) -> None:
        match action:
            case Settle(job, attempt, host) if line := self.lines.get(host):
                line.settled(job, attempt)
            case Signal(job, attempt, host, number, stop_reason) if line := self.lines.get(host):
                line.stop(job, attempt, number, stop_reason)
            case Release(job, attempt, host) if line := self.lines.get(host):
                line.released(job, attempt)

    async def _start(self, begin: Begin, until: str) -> None:
        """Starts an attempt that is now on disk, if it is still wanted and its host still
        connected. `until`: as `until_written` says of all that were written with it."""
        line, trouble, phase, start = self.lines.get(begin.host), "", "late", pb.Start()
        if not self.life.sending(begin.job, begin.attempt, clock_s()):
            line, trouble = None, "no longer wanted"
        elif line is None:
            trouble = OUT_OF_CONTACT
        elif line.is_behind:
            line, trouble = None, "it is not reading what it is sent"
        elif until:
            line, trouble = None, f"not begun until {until}"
        else:
            try:
                start.CopyFrom(await self.start_of(begin.submission))
            except LedgerTrouble as problem:
                line, trouble = None, str(problem)
                phase = "request" if isinstance(problem, UnreadableSpec) else phase
        if line is not None and (why := self.revoked.why_not(start.origin)):
            line, trouble, phase = None, why, NOT_YET
        if line is not None and not self.leads():  # else `anchor` could be newer than our lease
            line, trouble = None, "the dispatcher was stopped or replaced before it was told"
        if line is None:
            end = begin.host, begin.job, begin.attempt, phase, Ending(Cause.LOST, reason=trouble)
            self.carry(self.life.refused(*end, clock_s(), self.rng))
            return
        start.job, start.attempt, start.slots = begin.job, begin.attempt, begin.slots
        start.tier, start.cutoff_s = begin.tier, begin.cutoff_s or 0.0
        start.movable = self.life.may_move(begin.job)
        start.lease_s, start.requeued = self.config.dispatch.lease_s, begin.requeued or 0.0
        if begin.array_index is not None:
            start.array_index, start.array = begin.array_index, begin.array
        start.gang_hosts.extend(begin.gang_hosts)
        if start.spec.files:
            self.life.brings_files(begin.job, begin.attempt)
        line.start(start)

    async def start_of(self, submission: int) -> pb.Start:
        """Returns what all attempts of a submission share. Raises LedgerTrouble."""
        found = self.starts.get(submission) or await self.ledger.spec(submission)
        if isinstance(found, pb.Start):
            return found
        start = start_in(found)
        self.starts.keep(submission, start, len(found.spec))
        return start

    def keep_start(self, submission: int, stored: Stored) -> None:
        """Keeps the start for its first attempt, which may be far off; it is parsed then."""
        self.starts.keep(submission, stored, len(stored.spec))

    # Time

    def until_written(self) -> str:
        """Returns what has to come about before jobs begin, and orders are taken; "" if they do."""
        return until_written(self.ledger.disk(), self.ledger.trouble, self.config.host.name)

    async def _tick(self) -> None:
        while True:
            self.life.queues.begins_none = bool(self.until_written())
            last_s = clock_s()
            await next_moment(TICK_S / 4 if self.life.queues.is_moving else TICK_S)
            now_s = clock_s()
            if self.life.stood_still(now_s - last_s):
                log.warning("this host or its dispatcher was frozen for %.1f s", now_s - last_s)
            self.carry(self.life.tick(now_s, self.rng))
            for job in self.batches.late_jobs(now_s):
                self.watchers.notify(job, has_ended=job not in self.life.jobs)

    def estimate_s(self, user: str, command: bytes) -> float | None:
        return self.estimates.of(user, command) if self.estimates is not None else None

    async def learn(self) -> None:
        """Learns from ended jobs in the background, until cancelled."""
        while self.estimates is not None:
            await next_moment(LEARN_EVERY_S)
            ended, self._ended = self._ended, []
            ranges = tuple((job, job) for job in ended)
            if past := replace(PAST, ranges=ranges) if ranges else None:
                with contextlib.suppress(LedgerTrouble):
                    self.estimates.learn(await self.ledger.find(past))

    # Hosts

    def line_opened(self, name: HostId, line: HostConnection) -> None:
        if (old := self.lines.get(name)) is not None:
            old.broken.set()
            self.line_closed(name, old)  # gets no order before its heartbeat here, the next anchor
        self.lines[name] = line
        line.opens(self.token_of(name))
        HOST_LINES.say(name, "connected")

    def token_of(self, host: str) -> bytes:
        """Returns what that host knows this ledger by."""
        return ledger_token(self.ledger_secret, host)

    def line_closed(self, name: HostId, line: HostConnection) -> None:
        if self.lines.get(name) is line:
            del self.lines[name]
            HOST_LINES.say(name, "disconnected")
            self.carry(self.life.host_gone(name, clock_s(), self.rng))

    def heard(self, name: HostId, line: HostConnection, up: pb.WorkUp) -> pb.WorkUp | None:
        """Processes some of the reports, at least one, and returns the rest of the message; None
        once that has been processed. Raises ValueError if the message is invalid."""
        if (done := self._reports(name, up.reports, up.sent_s)) < len(up.reports):
            return rest_of(up, done)
        if up.HasField("heartbeat") and self.lines.get(name) is line:
            self._heartbeat(name, line, up.heartbeat)
        return None

    def _reports(self, name: HostId, reports: Sequence[pb.AttemptReport], sent_s: float) -> int:
        """Processes some of a host's reports, at least one. Returns how many. Raises ValueError."""
        unsaved, follows = self.batches.unsaved, Follows()
        try:
            return report_all(self.life, unsaved, name, reports, sent_s, self.rng, follows)
        finally:  # also what follows from those before an invalid one
            self.carry(follows.actions, follows.said)

    def _heartbeat(self, name: HostId, line: HostConnection, heartbeat: pb.Heartbeat) -> None:
        now_s, life, own = clock_s(), self.life, self.config.dispatch
        if not self.leads():
            return  # another may lead now: renewing would be a promise in its name
        if fault := heartbeat_fault(heartbeat):
            raise ValueError(f"a heartbeat of {name}: {fault}")
        is_first, line.heartbeat = line.heartbeat is None, heartbeat.number
        began_cpu_s = time.thread_time()
        if heartbeat.closed or not heartbeat.slots:
            self.carry(life.host_gone(name, now_s, self.rng, *why_closed(heartbeat)))
        else:
            slots = slots_of(name, heartbeat, own.load_ceiling, self.tiers(name))
            self.carry(life.host_is(slots, now_s, self.rng))
        line.changes_cpu_s += time.thread_time() - began_cpu_s
        life.owner_rules(name, heartbeat.rules, now_s)
        held = held_in(heartbeat)
        renewed, actions = life.heartbeat(name, held, now_s, held)
        proof = name, held, heartbeat.keeper, heartbeat.said_s, now_s, self.rng
        self.carry(life.no_longer_held(*proof, is_first=is_first))
        stops = life.stops_to_repeat(name, stop_reasons_in(heartbeat)) if is_first else []
        for what, orders in (("not ours", actions), ("stops", stops)):
            if orders and self.batches.unsaved.add(said := (name, "", 0, what)):
                self.carry(orders, (said,))
        reply = pb.HeartbeatReply(number=heartbeat.number, lease_s=own.lease_s, mode=own.mode)
        reply.renewed.extend(pb.Held(job=job, attempt=attempt) for job, attempt in renewed)
        reply.queued, reply.running = len(life.jobs) - life.running, self.running
        line.reply(reply)

    @property
    def running(self) -> int:
        """How many jobs run, or have ended and that is not on disk yet, as in a list of jobs."""
        return self.life.running + len(self.batches.ran)

    def status(self) -> pb.StatusInfo:
        life, own, ledger = self.life, self.config.dispatch, self.ledger
        reply = pb.StatusInfo(mode=own.mode, closed=own.closed, in_file=not own.in_postgres)
        reply.queued, reply.running = len(life.jobs) - life.running, self.running
        reply.full = ledger.room.why_closed(own.ledger_bytes, ledger.disk(), ledger.trouble)
        self._full = say_full(self._full, reply.full)
        reply.no_room.update(life.hosts.without_room())
        if isinstance(life.discipline, Tiered):
            for host in self.order():
                reply.tiers.add(host=host, tiers=self.tiers(HostId(host)))
        return reply

    def tiers(self, name: HostId) -> tuple[int, ...]:
        discipline = self.life.discipline
        if not isinstance(discipline, Tiered):
            return (1,)
        count = len(discipline.cutoffs_s) + 1
        return spread_tiers(name, self.order(), count, self.config.tags.tiers)

    def order(self) -> list[str]:
        """Returns the hosts in the order in which tiers are assigned to them."""
        configured = [entry.name for entry in self.config.cluster.hosts]
        return tier_order(configured, self.life.hosts.known)


def learn_from(row: JobRow, queues: Queues, *, by_uid: bool) -> None:
    """Learns from a job of the previous dispatcher."""
    queues.heads.learn_from(row, by_uid=by_uid)
    if row.run_s is not None:
        job = queued_job(row, by_uid=by_uid)
        queues.resource_times.ended(job.needs, row.run_s, kind_of(job))
        if row.state in WHOLE:
            queues.run_times.ended(job, row.run_s)

"""The dispatcher as a process: its ledger, its lines to the hosts, its server.

It carries out what `Lifecycle` says. Whatever changes is recorded first; what follows from it (a
start, a host's leave to forget, news to those who watch) is done in the same order once it is on
disk, by one task (`_follow_up`), while later changes are being written already.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from lbd.config import Config
from lbd.dispatch.discipline import HostSlots
from lbd.dispatch.disciplines.registry import Tiered
from lbd.dispatch.disciplines.tiers import spread_tiers
from lbd.dispatch.estimates import Estimates
from lbd.dispatch.hosts import Terms
from lbd.dispatch.intake import beat_fault, ending_of
from lbd.dispatch.jobs import Action, Begin, Cause, Changed, Ending, Record, Settle, Signal
from lbd.dispatch.ledger.rows import JobRow, Ledger, LedgerTrouble, Stored, Wanted
from lbd.dispatch.lifecycle import Lifecycle
from lbd.dispatch.lines import Line
from lbd.dispatch.lives import KEPT
from lbd.dispatch.restore import live_job
from lbd.dispatch.specs import Specs
from lbd.dispatch.tuning import tier_order
from lbd.model import HostId, JobId
from lbd.one_line import one_line
from lbd.rpc.boot_clock import clock_s
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.submitter import request_in

log = logging.getLogger("lbd.dispatch")

TICK_S = 0.2
LATE_S = 2.0  # for the ledger to record something
FORGET_EVERY_S = 60.0
FORGET_AT_ONCE, FORGET_PAUSE_S = 1000, 0.2
FIRST_BEATS_S = 5.0  # after which every host that is up has been heard of
LEARN_FROM = 5000  # the last jobs of the last dispatcher
LEARN_EVERY_S = 0.5
LEARN_AT_ONCE = 200  # more tell nothing new
DAY_S = 86400.0
READ_AT_ONCE = 2000  # jobs; all of a long queue would take much room for a moment


@dataclass(slots=True)
class Batch:
    """Actions to be carried out once `saved`."""

    actions: Sequence[Action]
    saved: "asyncio.Task[None] | None"
    done: "asyncio.Future[None]"


@dataclass(slots=True, eq=False)
class Watcher:
    """Somebody who wants to know of changes of some jobs."""

    changed: set[int] = field(default_factory=set)
    ends_only: bool = False
    event: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Dispatcher:
    config: Config
    ledger: Ledger
    life: Lifecycle
    dice: Random = field(default_factory=Random)
    leads: Callable[[], bool] = lambda: True  # whether nobody else can at this moment
    lines: dict[HostId, Line] = field(default_factory=dict)
    watchers: dict[JobId, set[Watcher]] = field(default_factory=dict)
    estimates: Estimates | None = None  # for disciplines that go by them
    _ended: list[int] = field(default_factory=list)  # nothing learnt from them yet
    _starts: Specs[pb.Start] = field(default_factory=Specs)
    _batches: "asyncio.Queue[Batch]" = field(default_factory=asyncio.Queue)

    async def run(
        self,
        stop: asyncio.Event,
        ready: Callable[[], Awaitable[None]],
        beside: Mapping[str, Coroutine[None, None, None]],
    ) -> None:
        """Until told to stop. `beside`: to be done as long, by name."""
        await self._restore()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._follow_up(), name="follow up"),
                group.create_task(self._tick(), name="tick"),
                group.create_task(self._forget(), name="forget"),
            ]
            tasks += [group.create_task(work, name=name) for name, work in beside.items()]
            await ready()
            await stop.wait()
            for task in tasks:
                task.cancel()

    async def _restore(self) -> None:
        """What the last dispatcher left. Its attempts may be alive: they keep their leases."""
        self.life.hosts.more_until_s = clock_s() + FIRST_BEATS_S
        if self.estimates is not None:
            self.estimates.learn(await self.ledger.find(Wanted(ended_only=True, limit=LEARN_FROM)))
        for row in await self.ledger.find(Wanted(ended_only=True, limit=KEPT)):
            if row.finished is not None and row.started is not None:
                life_s = (row.finished - row.started) * (row.slots_held or row.slots)
                self.life.queues.lives.ended(life_s)
        rows = await self.ledger.live(limit=READ_AT_ONCE)
        while rows:
            await self._take_up(rows)
            rows = await self.ledger.live(rows[-1].id, READ_AT_ONCE)
        jobs, leased = len(self.life.jobs), len(self.life.leased)
        log.info("ledger holds %d jobs, %d of them may be running", jobs, leased)

    async def _take_up(self, rows: Sequence[JobRow]) -> None:
        begun = [JobId(str(row.id)) for row in rows if row.attempt]
        last = {row.job: row for row in await self.ledger.attempts(begun)} if begun else {}
        now_s = clock_s()
        for row in rows:
            estimate_s = self.estimate_s(row.user, row.command)
            live, leased = live_job(row, last.get(row.id), estimate_s, by_uid=self.by_uid)
            self.carry(self.life.restored(live, leased, now_s, self.dice))

    @property
    def by_uid(self) -> bool:
        """Whether users are told apart by their numbers, not by their names."""
        return self.config.users.map == "uid"

    # Carrying out

    def carry(self, actions: Sequence[Action]) -> "asyncio.Future[None]":
        """Done when all of it is on disk and has been passed on."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        if not actions:
            done.set_result(None)
            return done
        records = [action for action in actions if isinstance(action, Record)]
        saved = None
        if records:
            saved = loop.create_task(self.ledger.record(records, time.time()))
        self._batches.put_nowait(Batch(actions, saved, done))
        return done

    async def settled(self) -> None:
        """Until all that was to be done so far has been."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._batches.put_nowait(Batch((), None, done))
        await done

    async def _follow_up(self) -> None:
        while True:
            batch = await self._batches.get()
            if batch.saved is not None:
                await self._until_saved(batch.saved, batch.actions)
            for action in batch.actions:
                await self._carry_out(action)
            if not batch.done.done():
                batch.done.set_result(None)

    async def _until_saved(self, saved: "asyncio.Task[None]", actions: Sequence[Action]) -> None:
        """Those who watch hear of it if that takes long."""
        if not (await asyncio.wait((saved,), timeout=LATE_S))[0]:
            for action in actions:
                if isinstance(action, Begin | Changed):
                    self._tell_watchers(action.job)
        await saved

    async def _carry_out(self, action: Action) -> None:
        match action:
            case Begin():
                await self._start(action)
                self._tell_watchers(action.job)
            case Changed(job):
                learns = self.estimates is not None and len(self._ended) < LEARN_AT_ONCE
                if learns and job not in self.life.jobs:
                    self._ended.append(int(job))
                self._tell_watchers(job)
            case Signal(job, attempt, host, number, wish):
                if line := self.lines.get(host):
                    line.stop(job, attempt, number, wish)
            case Settle(job, attempt, host):
                if line := self.lines.get(host):
                    line.settled(job, attempt)

    async def _start(self, begin: Begin) -> None:
        """It is on disk; is it still wanted, and is its host still there?"""
        line, trouble = self.lines.get(begin.host), ""
        start = pb.Start()
        if not self.life.sending(begin.job, begin.attempt, clock_s()):
            line, trouble = None, "no longer wanted"
        elif line is None:
            trouble = f"{begin.host} is out of contact"
        elif line.is_behind:
            line, trouble = None, f"{begin.host} does not take what it is sent"
        else:
            try:
                start.CopyFrom(await self.start_of(begin.submission))
            except LedgerTrouble as problem:
                line, trouble = None, str(problem)
        if line is not None and not self.leads():  # else `anchor` could be newer than our lease
            line, trouble = None, "the database was away"
        if line is None:
            ending = Ending(Cause.LOST, reason=trouble)
            self.carry(
                self.life.refused(
                    begin.host, begin.job, begin.attempt, "late", ending, clock_s(), self.dice
                )
            )
            return
        start.job, start.attempt, start.slots = begin.job, begin.attempt, begin.slots
        start.tier, start.cutoff_s = begin.tier, begin.cutoff_s or 0.0
        start.lease_s, start.requeued = self.config.dispatch.lease_s, begin.requeued or 0.0
        if begin.array_index is not None:
            start.array_index = begin.array_index
        line.start(start)

    async def start_of(self, submission: int) -> pb.Start:
        """What the attempts of a submission have in common. Raises LedgerTrouble."""
        start = self._starts.get(submission)
        return start or self.keep_start(submission, await self.ledger.spec(submission))

    async def uid_of(self, submission: int) -> int:
        """Of who submitted it. Raises LedgerTrouble."""
        return (await self.start_of(submission)).uid

    def keep_start(self, submission: int, stored: Stored) -> pb.Start:
        """Parsed from the stored bytes again: a message within another keeps all of that alive."""
        start = pb.Start(spec=pb.StoredSpec.FromString(stored.spec))
        start.origin, start.user = stored.origin, stored.user
        if stored.uid is not None:
            start.uid = stored.uid
        elif (request := request_in(start.spec)) is not None:
            start.uid = request.uid  # the host finds out whether origin and user agree
        self._starts.keep(submission, start, len(stored.spec))
        return start

    def _tell_watchers(self, job: JobId) -> None:
        for watcher in self.watchers.get(job, ()):
            if not (watcher.ends_only and job in self.life.jobs):
                watcher.changed.add(int(job))
                watcher.event.set()

    # Time

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.carry(self.life.tick(clock_s(), self.dice))

    def estimate_s(self, user: str, command: bytes) -> float | None:
        return self.estimates.of(user, command) if self.estimates is not None else None

    async def learn(self) -> None:
        """From what has ended, in the background; until cancelled."""
        while self.estimates is not None:
            await asyncio.sleep(LEARN_EVERY_S)
            ended, self._ended = self._ended, []
            ranges = tuple((job, job) for job in ended)
            if ranges:
                with contextlib.suppress(LedgerTrouble):
                    self.estimates.learn(await self.ledger.find(Wanted(ranges, ended_too=True)))

    async def _forget(self) -> None:
        """Ended jobs, after a while."""
        own = self.config.dispatch
        while True:
            before_unix_s, count = time.time() - own.jobs_keep_days * DAY_S, 0
            with contextlib.suppress(LedgerTrouble):
                count = await self.ledger.forget(before_unix_s, own.jobs_keep, FORGET_AT_ONCE)
            # Where there is more, others' changes come in between.
            await asyncio.sleep(FORGET_PAUSE_S if count == FORGET_AT_ONCE else FORGET_EVERY_S)

    # Hosts

    def line_opened(self, name: HostId, line: Line) -> None:
        if (old := self.lines.get(name)) is not None:
            old.broken.set()
        self.lines[name] = line
        log.info("%s is there", name)

    def line_closed(self, name: HostId, line: Line) -> None:
        if self.lines.get(name) is line:
            del self.lines[name]
            log.info("%s went away", name)
            self.carry(self.life.host_gone(name, clock_s(), self.dice))

    def heard(self, name: HostId, line: Line, up: pb.WorkUp) -> None:
        """Raises ValueError if it makes no sense."""
        actions = [action for news in up.news for action in self._news(name, news)]
        self.carry(actions)
        if up.HasField("beat"):
            self._beat(name, line, up.beat)

    def _beat(self, name: HostId, line: Line, beat: pb.Beat) -> None:
        now_s, life = clock_s(), self.life
        if not self.leads():
            return  # another may lead by now: to renew would be to promise in its name
        if fault := beat_fault(beat):
            raise ValueError(f"a heartbeat of {name}: {fault}")
        is_first, line.beat = not line.beat, beat.number
        ceiling = self.config.dispatch.load_ceiling
        closed = ""
        if beat.load > ceiling:
            closed = f"its load of {beat.load:.1f} is above dispatch.load_ceiling, {ceiling:g}"
        open_slots = 0 if closed else beat.open_slots
        if beat.drained or not beat.slots:
            self.carry(life.host_gone(name, now_s, self.dice))
        else:
            ahead, tiers = beat.ahead if open_slots else 0, self.tiers(name)
            slots = HostSlots(name, beat.slots, open_slots, beat.load, tiers, ahead, closed)
            self.carry(life.host_is(slots, now_s, self.dice))
        held = [(JobId(item.job), item.attempt) for item in beat.held]
        renewed, actions = life.beat(name, held, now_s)
        self.carry(actions)
        if is_first:
            wishes = [(JobId(item.job), item.attempt, item.wish) for item in beat.held]
            self.carry(life.told(name, wishes))
        line.reply(
            pb.BeatReply(
                number=beat.number,
                lease_s=self.config.dispatch.lease_s,
                renewed=[pb.Held(job=job, attempt=attempt) for job, attempt in renewed],
                mode=self.config.dispatch.mode,
                queued=len(life.jobs) - len(life.leased),
                running=len(life.leased),
            )
        )

    def status(self) -> pb.StatusTold:
        """The queue in numbers, as it is now."""
        running, told = len(self.life.leased), pb.StatusTold(mode=self.config.dispatch.mode)
        told.queued, told.running = len(self.life.jobs) - running, running
        if isinstance(self.life.discipline, Tiered):
            for host in self.order():
                told.tiers.add(host=host, tiers=self.tiers(HostId(host)))
        return told

    def tiers(self, name: HostId) -> tuple[int, ...]:
        discipline = self.life.discipline
        if not isinstance(discipline, Tiered):
            return (1,)
        count = len(discipline.cutoffs_s) + 1
        return spread_tiers(name, self.order(), count, self.config.tags.tiers)

    def order(self) -> list[str]:
        """The hosts, as tiers are spread over them."""
        configured = [entry.name for entry in self.config.cluster.hosts]
        return tier_order(configured, self.life.hosts.known)

    def _news(self, name: HostId, news: pb.News) -> list[Action]:
        life, now_s = self.life, clock_s()
        job, attempt = JobId(news.job), news.attempt
        if news.event == "begun":
            return life.begun(name, job, attempt)
        elif news.event in ("stopped", "continued"):
            return life.stopped(name, job, attempt, news.event == "stopped")
        elif news.event == "ended":
            ending = ending_of(news)
            return life.ended(name, job, attempt, ending, now_s, self.dice)
        elif news.event == "refused":
            ending = ending_of(news)
            log.info("%s refuses job %s: %s", name, one_line(job, 40), ending.reason)
            return life.refused(name, job, attempt, news.stage, ending, now_s, self.dice)
        else:
            raise ValueError(f"news {news.event[:40]!r} of job {one_line(news.job, 40)}")


def terms_of(config: Config) -> Terms:
    own = config.dispatch
    return Terms(
        own.lease_s,
        own.crash_limit,
        own.host_failures,
        own.aside_s,
        own.aside_max_s,
        own.attempts_max,
    )

"""The dispatcher as a process: its ledger, its lines to the hosts, its server.

It carries out what `Lifecycle` says. Whatever changes is recorded first; what follows from it (a
start, a host's leave to forget, news to those who watch) is done in the same order once it is on
disk, by one task (`_follow_up`), while later changes are being written already.
"""

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random

from lbd.config import Config
from lbd.dispatch.discipline import HostSlots
from lbd.dispatch.disciplines.registry import TIERED
from lbd.dispatch.disciplines.tiers import spread_tiers
from lbd.dispatch.hosts import Terms
from lbd.dispatch.jobs import Action, Begin, Cause, Changed, Ending, Settle, Signal
from lbd.dispatch.ledger.rows import Ledger, LedgerTrouble
from lbd.dispatch.lifecycle import Lifecycle
from lbd.dispatch.lines import Line
from lbd.dispatch.restore import live_job
from lbd.model import HostId, JobId
from lbd.rpc.gen import dispatch_pb2 as pb

log = logging.getLogger("lbd.dispatch")

TICK_S = 0.2
FORGET_EVERY_S = 60.0
FORGET_AT_ONCE = 5000
DAY_S = 86400.0
SPECS_KEPT = 1024
CAUSES = {cause.value: cause for cause in Cause}


def clock_s() -> float:
    """Goes on while the machine sleeps, as leases do; nobody sets it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


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
    event: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Facts:
    """What a start needs to know of a job beside what a discipline may know."""

    submission: int
    array_index: int | None


@dataclass(slots=True)
class Dispatcher:
    config: Config
    ledger: Ledger
    life: Lifecycle
    dice: Random = field(default_factory=Random)
    lines: dict[HostId, Line] = field(default_factory=dict)
    facts: dict[JobId, Facts] = field(default_factory=dict)
    watchers: dict[JobId, set[Watcher]] = field(default_factory=dict)
    _specs: OrderedDict[int, pb.StoredSpec] = field(default_factory=OrderedDict)
    _batches: "asyncio.Queue[Batch]" = field(default_factory=asyncio.Queue)

    async def run(
        self,
        stop: asyncio.Event,
        ready: Callable[[], Awaitable[None]],
        beside: Coroutine[None, None, None] | None,
    ) -> None:
        """Until told to stop. `beside`: to be done as long."""
        await self._restore()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._follow_up(), name="follow up"),
                group.create_task(self._tick(), name="tick"),
                group.create_task(self._forget(), name="forget"),
            ]
            if beside is not None:
                tasks.append(group.create_task(beside, name="follow the certificates"))
            await ready()
            await stop.wait()
            for task in tasks:
                task.cancel()

    async def _restore(self) -> None:
        """What the last dispatcher left. Its attempts may be alive: they keep their leases."""
        rows = await self.ledger.live()
        open_rows = [JobId(str(row.id)) for row in rows if row.attempt]
        last = {row.job: row for row in await self.ledger.attempts(open_rows)}
        now_s = clock_s()
        for row in rows:
            live, leased = live_job(row, last.get(row.id))
            self.facts[live.job.id] = Facts(row.submission, row.array_index)
            self.carry(self.life.restored(live, leased, now_s, self.dice))
        log.info(
            "ledger holds %d jobs, %d of them may be running", len(rows), len(self.life.leased)
        )

    # Carrying out

    def carry(self, actions: Sequence[Action]) -> "asyncio.Future[None]":
        """Done when all of it is on disk and has been passed on."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        if not actions:
            done.set_result(None)
            return done
        records = [action for action in actions if isinstance(action, Begin | Changed)]
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
                await batch.saved
            for action in batch.actions:
                await self._carry_out(action)
            if not batch.done.done():
                batch.done.set_result(None)

    async def _carry_out(self, action: Action) -> None:
        match action:
            case Begin():
                await self._start(action)
                self._tell_watchers(action.job)
            case Changed(job):
                if job not in self.life.jobs:
                    self.facts.pop(job, None)
                self._tell_watchers(job)
            case Signal(job, attempt, host, number):
                if line := self.lines.get(host):
                    line.stop(job, attempt, number)
            case Settle(job, attempt, host):
                if line := self.lines.get(host):
                    line.settled(job, attempt)

    async def _start(self, begin: Begin) -> None:
        """It is on disk; is it still wanted, and is its host still there?"""
        facts, line, trouble = self.facts.get(begin.job), self.lines.get(begin.host), ""
        spec = pb.StoredSpec()
        if facts is None or not self.life.sending(begin.job, begin.attempt, clock_s()):
            line, trouble = None, "no longer wanted"
        elif line is None:
            trouble = f"{begin.host} is out of contact"
        else:
            try:
                spec = await self._spec(facts.submission)
            except LedgerTrouble as problem:
                line, trouble = None, str(problem)
        if line is None or facts is None:
            ending = Ending(Cause.LOST, reason=trouble)
            self.carry(
                self.life.refused(
                    begin.host, begin.job, begin.attempt, "late", ending, clock_s(), self.dice
                )
            )
            return
        line.start(
            pb.Start(
                job=begin.job,
                attempt=begin.attempt,
                tier=begin.tier,
                cutoff_s=begin.cutoff_s or 0.0,
                lease_s=self.config.dispatch.lease_s,
                slots=1,
                array_index=facts.array_index,
                spec=spec,
            )
        )

    async def _spec(self, submission: int) -> pb.StoredSpec:
        spec = self._specs.get(submission)
        if spec is None:
            spec = pb.StoredSpec.FromString(await self.ledger.spec(submission))
            self.keep_spec(submission, spec)
        return spec

    def keep_spec(self, submission: int, spec: pb.StoredSpec) -> None:
        self._specs[submission] = spec
        while len(self._specs) > SPECS_KEPT:
            self._specs.popitem(last=False)

    def _tell_watchers(self, job: JobId) -> None:
        for watcher in self.watchers.get(job, ()):
            watcher.changed.add(int(job))
            watcher.event.set()

    # Time

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.carry(self.life.tick(clock_s(), self.dice))

    async def _forget(self) -> None:
        """Ended jobs, after a while."""
        while True:
            before_unix_s = time.time() - self.config.dispatch.jobs_keep_days * DAY_S
            with contextlib.suppress(LedgerTrouble):
                await self.ledger.forget(before_unix_s, FORGET_AT_ONCE)
            await asyncio.sleep(FORGET_EVERY_S)

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
        for news in up.news:
            self._news(name, news)
        if up.HasField("beat"):
            self._beat(name, line, up.beat)

    def _beat(self, name: HostId, line: Line, beat: pb.Beat) -> None:
        now_s, life = clock_s(), self.life
        line.beat = beat.number
        ceiling = self.config.dispatch.load_ceiling
        open_slots = beat.open_slots if beat.load <= ceiling else 0
        if beat.drained or not beat.slots:
            self.carry(life.host_gone(name, now_s, self.dice))
        else:
            slots = HostSlots(name, beat.slots, open_slots, beat.load, self._tiers(name))
            self.carry(life.host_is(slots, now_s, self.dice))
        held = [(JobId(item.job), item.attempt) for item in beat.held]
        renewed, actions = life.beat(name, held, now_s)
        self.carry(actions)
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

    def _tiers(self, name: HostId) -> tuple[int, ...]:
        if self.config.dispatch.mode not in TIERED:
            return (1,)
        order = [entry.name for entry in self.config.cluster.hosts]
        tags = self.config.tags
        return spread_tiers(name, order, len(tags.cutoffs_s) + 1, tags.tiers)

    def _news(self, name: HostId, news: pb.News) -> None:
        life, now_s = self.life, clock_s()
        job, attempt = JobId(news.job), news.attempt
        if news.event == "begun":
            self.carry(life.begun(name, job, attempt))
        elif news.event in ("stopped", "continued"):
            self.carry(life.stopped(name, job, attempt, news.event == "stopped"))
        elif news.event == "ended":
            ending = Ending(
                CAUSES[news.cause],
                news.exit_status if news.HasField("exit_status") else None,
                news.signal,
                news.cpu_s if news.HasField("cpu_s") else None,
                news.reason,
            )
            self.carry(life.ended(name, job, attempt, ending, now_s, self.dice))
        elif news.event == "refused":
            ending = Ending(Cause.LOST, news.errno, reason=news.reason)
            log.info("%s refuses job %s: %s", name, job, news.reason)
            self.carry(life.refused(name, job, attempt, news.stage, ending, now_s, self.dice))
        else:
            raise ValueError(f"news {news.event[:40]!r} of job {news.job[:40]}")


def terms_of(config: Config) -> Terms:
    own = config.dispatch
    return Terms(own.lease_s, own.crash_limit, own.host_failures, own.aside_s, own.aside_max_s)

"""Solves the cutoffs from the ledger's history repeatedly: the thin shell around core/cutoffs.py.

The solver runs in a thread, so that heartbeats are answered meanwhile.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Sequence
from random import Random

from lbd.config.dispatch import OBJECTIVES
from lbd.dispatch.core.cutoffs import (
    Record,
    SolverTerms,
    Verdict,
    as_spread,
    described,
    judge,
    layouts_of,
    past_jobs,
)
from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.disciplines.registry import Tiered
from lbd.dispatch.core.ledger_rows import LedgerTrouble
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.ledger.retention import DAY_S
from lbd.model import HostId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s

log = logging.getLogger("lbd.dispatch")

PAST_MAX = 5000  # jobs considered
EARLY_S = 10.0  # between two looks while there are no cutoffs
FRESH_S = 2.0  # how long a verdict is reused
LOOK_SHARE = 0.1  # of the time at most: other questions wait for those about a long past
CHANGES_KEPT = 20


class Tuner:
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._config = dispatcher.config
        discipline = dispatcher.life.discipline
        self._discipline = discipline if isinstance(discipline, Tiered) else None
        self.solves = self._discipline is not None and not self._config.tags.cutoffs_s
        self._verdict: Verdict | None = None
        self._looked = 0.0  # UNIX seconds
        self._rest_s = 0.0  # after a look
        self._changes: deque[pb.TagsChange] = deque(maxlen=CHANGES_KEPT)
        self._looking = asyncio.Lock()
        self._begun = asyncio.Event()

    async def run(self) -> None:
        """Solves periodically until cancelled."""
        every_s = self._config.tags.solve_every_s
        while True:
            guessed = not self._hosts()
            try:
                self._apply(await self._look())
            except LedgerTrouble as problem:
                log.warning("cutoffs not changed: %s", problem)
            self._begun.set()
            settled = self._discipline is not None and self._discipline.cutoffs_s and not guessed
            await asyncio.sleep(max(self._rest_s, every_s if settled else min(EARLY_S, every_s)))

    async def begun(self) -> None:
        """Waits for the first cutoffs, before any job starts: otherwise a new dispatcher's jobs
        would all start without cutoffs."""
        if self.solves:
            await self._begun.wait()

    def _hosts(self) -> list[HostSlots]:
        servers_by_host = self._dispatcher.life.queues.hosts.values()
        return [server.host for server in servers_by_host if server.host is not None]

    async def _look(self) -> Verdict:
        """Solves from the ledger's history. Raises LedgerTrouble."""
        async with self._looking:
            tags, now_unix_s, began_s = self._config.tags, time.time(), clock_s()
            since_unix_s, by_uid = now_unix_s - tags.solve_days * DAY_S, self._dispatcher.by_uid
            ledger, rng = self._dispatcher.ledger, Random(self._dispatcher.rng.random())
            sample = await ledger.sample(since_unix_s, PAST_MAX, rng, by_uid=by_uid)
            past_sizes = past_jobs(sample, since_unix_s, by_uid=by_uid)
            order = self._dispatcher.order()
            # Until any host has connected, hosts are assumed to be equal.
            hosts = self._hosts() or [HostSlots(HostId(name)) for name in order]
            layouts = layouts_of(hosts, order, tags.tiers)
            objective = next(one for one in OBJECTIVES if one == tags.objective)
            # Configured cutoffs stay in force, and get only an evaluation.
            min_gain = tags.min_gain if self.solves else 1.0
            terms = SolverTerms(objective, tags.solve_jobs, min_gain)
            in_force = self._discipline.cutoffs_s if self._discipline else ()
            mode = "sita-e" if self._config.dispatch.mode == "sita-e" else "tags"
            self._verdict = await asyncio.to_thread(
                judge, mode, past_sizes, now_unix_s, layouts, terms, in_force
            )
            self._looked, self._rest_s = now_unix_s, (clock_s() - began_s) / LOOK_SHARE
            return self._verdict

    def _apply(self, verdict: Verdict) -> None:
        if self._discipline is None or not verdict.changed:
            log.debug("%s", described(verdict))
            return
        what = described(verdict)
        log.info("%s", what, extra={"action": "cutoffs"})
        self._changes.append(pb.TagsChange(at=time.time(), what=what))
        self._discipline.cutoffs_s = verdict.cutoffs_s
        dispatcher = self._dispatcher
        dispatcher.carry(dispatcher.life.rules_changed(dispatcher.tiers, clock_s(), dispatcher.rng))

    async def info(self) -> pb.TagsInfo:
        """For `lbctl tags show` and `fit`; evaluates now what is not solved on a schedule."""
        trouble = ""
        if not self.solves and time.time() - self._looked > max(FRESH_S, self._rest_s):
            try:
                await self._look()
            except LedgerTrouble as problem:
                trouble = str(problem)
        tags, found = self._config.tags, self._discipline
        cutoffs_s = found.cutoffs_s if found else ()
        reply = pb.TagsInfo(
            mode=self._config.dispatch.mode,
            source="solved" if self.solves and cutoffs_s else "given" if cutoffs_s else "none",
            objective=tags.objective,
            cutoffs_s=cutoffs_s,
            tiers=self._tiers(cutoffs_s) if found else [],
            looked=self._looked,
            changes=self._changes,
            work_conserving=tags.work_conserving,
            reason=trouble,
        )
        if self._verdict is not None:
            add_verdict(reply, self._verdict)
        return reply

    def _tiers(self, cutoffs_s: Sequence[float]) -> list[pb.TierInfo]:
        life = self._dispatcher.life
        running = [live.lease.tier for live in life.leased.values() if live.lease]
        order = self._dispatcher.order()
        tiers = []
        for number in range(1, len(cutoffs_s) + 2):
            servers_by_host = life.queues.servers.get(number, [])
            waiting = life.queues.lines.get(number)
            tier = pb.TierInfo(
                tier=number,
                hosts=as_spread(
                    (server.host.name for server in servers_by_host if server.host), order
                ),
                slots=sum(server.slots for server in servers_by_host),
                waiting=waiting.jobs if waiting else 0,
                running=running.count(number),
            )
            # The cutoffs of sita-e kill no job, but say which tier it goes to.
            if number <= len(cutoffs_s):
                tier.cutoff_s = cutoffs_s[number - 1]
            tiers.append(tier)
        return tiers


def add_verdict(reply: pb.TagsInfo, verdict: Verdict) -> None:
    """Adds the verdict, without infinite values."""
    reply.reason = reply.reason or verdict.reason
    if verdict.record is not None:
        reply.fit.CopyFrom(fit_info(verdict.record))
    if verdict.load is not None:
        reply.load = verdict.load
    if verdict.one_queue is not None and math.isfinite(verdict.one_queue):
        reply.one_queue = verdict.one_queue
    expected = verdict.expected
    if expected is None or expected.cutoffs_s != tuple(reply.cutoffs_s):
        return
    if math.isfinite(expected.slowdown):
        reply.mean_slowdown, reply.mean_waiting_s = expected.slowdown, expected.waiting_s
    for tier, load in zip(reply.tiers, expected.tiers, strict=True):
        tier.load, tier.visit_share = load.load, load.visit_share
        if math.isfinite(load.slowdown):
            tier.wait_s, tier.slowdown = load.wait_s, load.slowdown


def fit_info(record: Record) -> pb.FitInfo:
    found = record.fit
    return pb.FitInfo(
        k=found.sizes.k,
        p=found.sizes.p,
        alpha=found.sizes.alpha,
        jobs=found.jobs,
        ks_distance=found.ks_distance,
        by=found.by,
        mean_s=found.mean_s,
        fitted_mean_s=found.sizes.mean_s,
        arrival_rate_per_s=record.rate_per_s,
        pace=record.pace,
        good=record.is_fitted,
    )

"""`lbd dispatcher`: runs the cluster's queue, in the foreground."""

import asyncio
import contextlib
import logging
import math
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from lbd.cli.daemons.aids import drop_removed, end_jobs_of_revoked, forget, kept_up
from lbd.cli.daemons.cluster_settings import ClusterSettings
from lbd.cli.daemons.queue_right import QueueRight, stand_by
from lbd.cli.daemons.waiting_queue import WaitingQueue
from lbd.cli.daemons.wiring import Ready, first_error, run_daemon
from lbd.config.dispatch import STRATEGIES
from lbd.config.fields import shown
from lbd.config.schema import Config
from lbd.dispatch.core.configured import make_discipline, rules_of, terms_of
from lbd.dispatch.core.disciplines import registry
from lbd.dispatch.core.estimates import Estimates
from lbd.dispatch.core.ledger_rows import LedgerTrouble
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.malleable.decision import Rule
from lbd.dispatch.core.revoked_origins import RevokedOrigins
from lbd.dispatch.cutoff_solver import Tuner
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.dependencies import DependencyCounts
from lbd.dispatch.ledger.database_url import ledger_file, store_url
from lbd.dispatch.ledger.leadership import Lead, OneFile, last_file
from lbd.dispatch.ledger.ledger_tokens import ledger_secret
from lbd.dispatch.ledger.longest_lease import LongestLease
from lbd.dispatch.ledger.snapshot import extent
from lbd.dispatch.ledger.sqlite import has_open_jobs, open_jobs
from lbd.dispatch.metrics import dispatcher_metrics, waiting_metrics
from lbd.dispatch.predictions import Predictions
from lbd.dispatch.service import QueueService
from lbd.dispatch.speedup_learner import fit_speedups
from lbd.errors import ConfigError, NotHere
from lbd.lbm.link.wire import MESSAGE_LIMIT_BYTES
from lbd.local import json_socket as local
from lbd.local.caller import Caller
from lbd.local.json_socket import Json, Refusal
from lbd.model import HostId
from lbd.net import transport
from lbd.net.tls import Tls
from lbd.net.transport import Trust
from lbd.net.trusted import trust_of
from lbd.process.boot_clock import clock_s
from lbd.process.job_log import RECENT
from lbd.process.own_figures import OwnFigures
from lbd.process.pid_lock import take_pid_locks
from lbd.process.written_disks import sqlite_file
from lbd.text.install_line import install_line
from lbd.text.units import counted
from lbd.theory.allocation import Rules as AllocationRules

log = logging.getLogger(__name__)

STOP_GRACE_S = 1.0
SOCKET_MODE = 0o666
Found = TypeVar("Found")


def run(config: Config) -> int:
    """Runs until TERM or INT. Raises LbdError."""
    return run_daemon("lbd dispatcher", config, lambda stop, ready: serve(config, stop, ready))


def check(config: Config) -> tuple[Trust, Lead]:
    """Raises ConfigError for what `serve` would refuse."""
    make_discipline(config)
    rules_of(config)
    trust = trust_of(config)
    if trust is None:
        raise ConfigError("the dispatcher needs certificates (lbctl init) or security.key_file")
    return trust, make_lead(config)


async def serve(config: Config, stop: asyncio.Event, ready: Ready) -> None:
    shared = ClusterSettings(config)
    if not shared.is_named() and config.host.name not in config.dispatch.hosts:
        own = shared.config.dispatch
        where = f"is {own.host}" if own.host else "names no host"
        raise NotHere(f"dispatch.host {where}; this is {config.host.name}")
    trust, lead = check(shared.config)
    locks = take_pid_locks("dispatcher", config.host.runtime_dir, config.host.state_dir)
    path = Path(config.host.runtime_dir) / "dispatcher.sock"
    right = QueueRight(shared.config, trust, ready) if isinstance(trust, Tls) else None
    service = Service(shared.config, trust, lead, ready, right)
    try:
        sock = await local.serve_json(path, service.answer, SOCKET_MODE)
        try:
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(shared.follow(stop), name="follow the settings")]
                if isinstance(trust, Tls):
                    follow = group.create_task(trust.follow(), name="follow the certificates")
                    beside.append(follow)
                await service.serve(shared, stop)
                for task in beside:
                    task.cancel()
        finally:
            sock.close()
            path.unlink(missing_ok=True)
    finally:
        await service.waiting.end()
        await service.lead.close()
        if right is not None:
            await right.close()
        for lock in locks:
            os.close(lock)


@dataclass(slots=True)
class Service:
    """Runs the queue while we lead, and reports that we stand by while another host leads."""

    config: Config
    trust: Trust
    lead: Lead
    ready: Ready
    right: QueueRight | None = None  # where hosts have certificates
    cuts: set[str] = field(default_factory=set)
    dispatcher: Dispatcher | None = None
    figures: OwnFigures = field(default_factory=OwnFigures)
    predictions: Predictions | None = None
    trouble: str = ""  # why the ledger cannot be used; "" once it can
    waiting: WaitingQueue = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = WaitingQueue(self.trust, self.cuts)
        self.trust.when_revoked(self._revoked)

    def _revoked(self, hosts: set[str]) -> None:
        if self.dispatcher is not None:
            self.dispatcher.revoked.revoked(hosts, clock_s())

    async def serve(self, shared: ClusterSettings, stop: asyncio.Event) -> None:
        """Serves until `stop` is set, under the current settings for all hosts."""
        await self.lead.first()
        while not stop.is_set():
            ended = shared.start()
            if shared.config is not self.config:
                await self._become(shared.config)
            if not shared.is_named():
                log.info("the queue is not on this host; standing by")
                self.ready("the queue is not here")
                self.trouble = ""
                await self.waiting.end()
                await ended.wait()
            elif self.right is not None:
                await self.right.given(ledger_file(self.config), ended)
            while not ended.is_set() and self._is_ours():
                await self.term(ended)
            if not self._is_ours():
                await self.waiting.end()

    def _is_ours(self) -> bool:
        return self.right is None or self.right.leads()

    def _leads(self) -> bool:
        return self.lead.leads() and self._is_ours()

    async def _become(self, config: Config) -> None:
        """Adopts new settings, but rejects impossible rules. Raises ConfigError for an impossible
        store: if we kept the old one, we might lead beside the hosts that use the new one."""
        try:
            make_discipline(config)
            rules_of(config)
        except ConfigError as problem:
            log.warning("the settings for all hosts are rejected: %s", problem)
            return
        await self.lead.close()
        self.config, self.lead = config, lead = config, make_lead(config)
        await lead.first()

    async def term(self, stop: asyncio.Event) -> None:
        """Stands by, then leads until the lead ends or `stop` is set."""
        try:
            ledger = await unless(stop, self.lead.lead(self._stands_by))
            if ledger is None:
                return
            await self.waiting.end()
            discipline = make_discipline(self.config)
            terms, rules = terms_of(self.config), rules_of(self.config)
            longest = LongestLease(ledger, terms.lease_s)
            terms = replace(terms, inherited_s=await longest.inherit())
            life = Lifecycle(discipline, terms, rules, malleable_of(self.config))
            secret = await ledger_secret(ledger)
            self.dispatcher = Dispatcher(self.config, ledger, life, secret, leads=self._leads)
            if isinstance(self.trust, Tls):
                self.dispatcher.revoked = RevokedOrigins(self.trust.revocations.lowest)
            self.trouble = ""
            lowering = longest.lower(lambda: life.has_longer_leases(clock_s()))
            await self._serve(self.dispatcher, stop, lowering)
        except* LedgerTrouble as group:
            trouble = first_error(group)
            if not (isinstance(trouble, LedgerTrouble) and trouble.passes):
                raise
            await self._is_in_trouble(str(trouble))
        finally:
            self.dispatcher = None
            await self.lead.end()

    async def _serve(
        self,
        dispatcher: Dispatcher,
        stop: asyncio.Event,
        lowering: Coroutine[None, None, None],
    ) -> None:
        own, options = self.config.dispatch, transport.options
        tuner = Tuner(dispatcher)
        queues, by_uid = dispatcher.life.queues, dispatcher.by_uid
        self.predictions = predictions = Predictions(queues, dispatcher.ledger, by_uid)
        service = QueueService(dispatcher, self.trust, tuner.info, predictions)
        handlers = [service.handlers()]
        limits = options(MESSAGE_LIMIT_BYTES, own.lease_s)
        server = transport.bind(
            self.config.host.address, own.port, self.trust, self.cuts, handlers, limits
        )

        async def begin() -> None:
            await tuner.begun()
            await server.start()
            log.info("ready host=%s mode=%s", self.config.host.name, own.mode)
            self.ready(f"queue of {self.config.cluster.name}")

        finished = asyncio.Event()
        beside = self.lead.beside()
        beside["finish"] = finish(dispatcher, stop, finished)
        beside["lower the longest lease on record"] = lowering
        lim = Path(self.config.host.runtime_dir, "lim.sock")
        aids: dict[str, Callable[[], Coroutine[None, None, None]]] = {
            "learn how predictions came true": predictions.learn,
            "count what jobs wait for": DependencyCounts(dispatcher).run,
            "drop removed hosts": partial(drop_removed, lim, dispatcher),
            "forget old jobs": partial(forget, dispatcher),
            "end jobs of revoked hosts": partial(end_jobs_of_revoked, dispatcher),
            "fit speedups": partial(fit_speedups, queues.heads.speedups),
        }
        if tuner.solves:
            aids["solve cutoffs"] = tuner.run
        if own.mode in registry.BY_ESTIMATE:
            dispatcher.estimates = Estimates()
            aids["learn estimates"] = dispatcher.learn
        beside |= {what: kept_up(what, run) for what, run in aids.items()}
        try:
            await dispatcher.run(finished, begin, beside)
        finally:
            await server.stop(STOP_GRACE_S)

    async def _is_in_trouble(self, trouble: str) -> None:
        """Tries again soon. Logs the cause once, and gives it to all who ask."""
        if trouble != self.trouble:
            stand_by(self.config, self.ready, trouble)
        self.trouble = trouble
        await self.waiting.begin(self.config, trouble)

    def _stands_by(self, leader: str) -> None:
        log.info("standing by; %s leads", leader or "nobody")
        self.trouble = ""
        self.ready(f"standby of {self.config.cluster.name}")

    async def answer(self, request: Json, caller: Caller) -> Json:
        """Answers the lab: whether we run, and which hosts to ignore."""
        if request.get("op") == "cut" and caller.is_daemon:
            hosts = request.get("hosts")
            self.cuts.clear()
            self.cuts.update(map(str, hosts if isinstance(hosts, list) else []))
            lines = self.dispatcher.lines if self.dispatcher is not None else {}
            for name in self.cuts & lines.keys():
                lines[HostId(name)].broken.set()
            return {}
        if request.get("op") == "status":
            return {"mode": self.config.dispatch.mode, **self._mode_details()}
        if request.get("op") == "metrics" and caller.is_daemon:
            errors = self.predictions.errors if self.dispatcher and self.predictions else []
            if self.dispatcher is None:
                known = waiting_metrics(self.config, self.trouble)
            else:
                known = dispatcher_metrics(self.dispatcher)
            return {**self.figures.answer(), **known, "prediction_error_seconds": errors}
        if request.get("op") == "lines" and caller.is_daemon:
            said, more = RECENT.of(str(request.get("job")), time.time())
            return {"lines": said, "more": more}
        raise Refusal(f"unknown operation {request.get('op')!r}")

    def _mode_details(self) -> Json:
        if self.dispatcher is None:
            return {"leads": False, "jobs": 0, "hosts": []}
        jobs, hosts = len(self.dispatcher.life.jobs), sorted(self.dispatcher.lines)
        return {"leads": True, "jobs": jobs, "hosts": hosts}


async def finish(dispatcher: Dispatcher, stop: asyncio.Event, finished: asyncio.Event) -> None:
    """Finishes once `stop` is set. Sends what has been started, because a job would otherwise wait
    for its lease to expire, and nothing more: what is turned back then begins on no other host.
    Closing the connections makes the hosts look for the next dispatcher at once."""
    await stop.wait()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_GRACE_S):
            await dispatcher.settled()
    dispatcher.leads = lambda: False
    for host in list(dispatcher.lines):
        dispatcher.carry(dispatcher.life.host_gone(host, clock_s(), dispatcher.rng))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_GRACE_S):
            await dispatcher.settled()  # what was turned back meanwhile
            for line in list(dispatcher.lines.values()):
                await line.close()
    for line in dispatcher.lines.values():
        line.broken.set()
    finished.set()


async def unless(stop: asyncio.Event, work: Coroutine[None, None, Found]) -> Found | None:
    """Returns the result, or None if `stop` is set first."""
    finding = asyncio.create_task(work, name="stand by")
    stopping = asyncio.create_task(stop.wait(), name="until it has to stop")
    try:
        await asyncio.wait((finding, stopping), return_when=asyncio.FIRST_COMPLETED)
        return finding.result() if finding.done() else None
    finally:
        for task in (finding, stopping):
            task.cancel()
        await asyncio.gather(finding, stopping, return_exceptions=True)


def malleable_of(config: Config) -> Rule:
    own = config.dispatch
    strategy = next(name for name in STRATEGIES if name == own.malleable)
    restraint = AllocationRules(risk=own.malleable_risk)
    return Rule(strategy, restraint, own.malleable_lock_in, own.malleable_hold_s or math.inf)


def jobs_in(ledger: Path, left: int) -> str:
    if not left:
        return f"jobs of the queue may be in {ledger}, which cannot be read"
    return f"{counted(left, 'job')} of the queue {'is' if left == 1 else 'are'} in {ledger}"


def is_older(ledger: Path, other: Path) -> bool:
    """Whether the other has jobs, or changes of jobs, that this one does not know. Raises
    ConfigError."""
    here, there = extent(ledger), extent(other)
    return here.next_job < there.next_job or here.latest_s < there.latest_s


def make_lead(config: Config) -> Lead:
    """Raises ConfigError for an unknown store."""
    own = config.dispatch
    state_dir = config.host.state_dir
    store, note = store_url(own.store, state_dir), Path(state_dir, "ledger.last")
    scheme, found, _ = store.partition("://")
    if (file := sqlite_file(store)) is not None:
        if own.standby:
            raise ConfigError(
                'dispatch.standby: other hosts can lead only with dispatch.store = "postgresql://…"'
            )
        last = last_file(note) or file
        if last != file and not file.exists() and has_open_jobs(last):
            raise ConfigError(
                f"dispatch.store: {jobs_in(last, open_jobs(last))}, and there is no {file}: copy "
                f"it there, with {last.name}-wal or -journal if there is one, or move the old one "
                "away to abandon them"
            )
        if last != file and file.exists() and last.exists() and is_older(file, last):
            raise ConfigError(
                f"dispatch.store: {file} is older than {last}, the ledger that was used last, and "
                "would run jobs again: copy that one there, or move it away to go on with the older"
            )
        return OneFile(file, note)
    if not found or scheme not in ("postgresql", "postgres"):
        known = "sqlite:///srv/lbd/ledger.sqlite (a whole path) or postgresql://user@host/database"
        raise ConfigError(f"dispatch.store {shown(own.store)}: must be {known}")
    usual = Path(state_dir, "ledger.sqlite")
    for file in {usual, last_file(note) or usual}:
        if left := open_jobs(file):
            raise ConfigError(
                f"dispatch.store: {jobs_in(file, left)}; PostgreSQL does not take them over: go "
                f'back to dispatch.store = "sqlite://{file}" and let them end (`lbctl queue '
                "disable --drain`), or abandon them and move the file away"
            )
    try:
        from lbd.dispatch.ledger.postgres_leadership import Leadership
    except ModuleNotFoundError as missing:
        install = install_line("asyncpg>=0.30,<1")
        raise ConfigError(f"dispatch.store: no module {missing.name}; {install}") from None
    return Leadership(store, config.host.name, own.term_s)

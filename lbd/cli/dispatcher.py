"""`lbd dispatcher`: the queue of the cluster, in the foreground."""

import asyncio
import logging
import os
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from lbd.cli.wiring import Ready, run_daemon, told
from lbd.config import Config, shown
from lbd.config_dispatch import MODES
from lbd.dispatch.daemon import Dispatcher, terms_of
from lbd.dispatch.desk import Desk
from lbd.dispatch.discipline import Discipline
from lbd.dispatch.disciplines import registry
from lbd.dispatch.disciplines.tiers import spread_tiers
from lbd.dispatch.estimates import Estimates
from lbd.dispatch.ledger.lead import Lead, OneFile
from lbd.dispatch.ledger.rows import LedgerTrouble
from lbd.dispatch.lifecycle import Lifecycle
from lbd.dispatch.shares import Rules, read_name_limits
from lbd.dispatch.tuner import Tuner
from lbd.dispatch.tuning import highest
from lbd.errors import ConfigError
from lbd.model import HostId
from lbd.rpc import local, transport
from lbd.rpc.job_stream import MESSAGE_LIMIT_BYTES
from lbd.rpc.local import Caller, Json, Refusal
from lbd.rpc.pid_lock import take_pid_locks
from lbd.rpc.tls import Tls
from lbd.rpc.transport import Trust
from lbd.rpc.trusted import trust_of

log = logging.getLogger(__name__)

STOP_GRACE_S = 1.0
SOCKET_MODE = 0o666
Found = TypeVar("Found")


def run(config: Config) -> int:
    """Until TERM or INT. Raises LbdError."""
    return run_daemon("lbd dispatcher", config, lambda stop, ready: serve(config, stop, ready))


def check(config: Config) -> tuple[Trust, Lead]:
    """Raises ConfigError for what `serve` would refuse."""
    own = config.dispatch
    if config.host.name not in own.hosts:
        where = f"is {own.host}" if own.host else "names no host"
        raise ConfigError(f"dispatch.host {where}; this is {config.host.name}")
    make_discipline(config)
    rules_of(config)
    trust = trust_of(config)
    if trust is None:
        raise ConfigError("the dispatcher needs certificates (lbctl init) or security.key_file")
    return trust, make_lead(config)


async def serve(config: Config, stop: asyncio.Event, ready: Ready) -> None:
    trust, lead = check(config)
    locks = take_pid_locks("dispatcher", config.host.runtime_dir, config.host.state_dir)
    path = Path(config.host.runtime_dir) / "dispatcher.sock"
    try:
        await lead.first()
        service = Service(config, trust, lead, ready)
        sock = await local.serve_json(path, service.answer, SOCKET_MODE)
        try:
            async with asyncio.TaskGroup() as group:
                follow = None
                if isinstance(trust, Tls):
                    follow = group.create_task(trust.follow(), name="follow the certificates")
                while not stop.is_set():
                    await service.term(stop)
                if follow is not None:
                    follow.cancel()
        finally:
            sock.close()
            path.unlink(missing_ok=True)
    finally:
        await lead.close()
        for lock in locks:
            os.close(lock)


@dataclass(slots=True)
class Service:
    """The queue while we lead, and our word that we stand by while another does."""

    config: Config
    trust: Trust
    lead: Lead
    ready: Ready
    cuts: set[str] = field(default_factory=set)
    dispatcher: Dispatcher | None = None

    async def term(self, stop: asyncio.Event) -> None:
        """From standing by to the end of our lead, or until told to stop."""
        try:
            ledger = await unless(stop, self.lead.lead(self._stands_by))
            if ledger is None:
                return
            discipline = make_discipline(self.config)
            life = Lifecycle(discipline, terms_of(self.config), rules_of(self.config))
            self.dispatcher = Dispatcher(self.config, ledger, life, leads=self.lead.leads)
            await self._serve(self.dispatcher, stop)
        except* LedgerTrouble as group:
            trouble = told(group)
            if not (isinstance(trouble, LedgerTrouble) and trouble.passes):
                raise
            log.warning("%s; standing by", trouble)
        finally:
            self.dispatcher = None
            await self.lead.end()

    async def _serve(self, dispatcher: Dispatcher, stop: asyncio.Event) -> None:
        own, options = self.config.dispatch, transport.options
        tuner = Tuner(dispatcher)
        handlers = [Desk(dispatcher, self.trust, tuner.told).handlers()]
        limits = options(MESSAGE_LIMIT_BYTES, own.lease_s)
        server = transport.bind(
            self.config.host.address, own.port, self.trust, self.cuts, handlers, limits
        )

        async def begin() -> None:
            await tuner.begun()
            await server.start()
            log.info("ready host=%s mode=%s", self.config.host.name, own.mode)
            self.ready(f"queue of {self.config.cluster.name}")

        beside = self.lead.beside()
        if tuner.solves:
            beside["solve cutoffs"] = tuner.run()
        if own.mode in registry.BY_ESTIMATE:
            dispatcher.estimates = Estimates()
            beside["learn estimates"] = dispatcher.learn()
        try:
            await dispatcher.run(stop, begin, beside)
        finally:
            await server.stop(STOP_GRACE_S)

    def _stands_by(self, leader: str) -> None:
        log.info("standing by; %s leads", leader or "nobody")
        self.ready(f"standby of {self.config.cluster.name}")

    async def answer(self, request: Json, caller: Caller) -> Json:
        """What the lab asks: whether we are there, and whom we are not to hear."""
        if request.get("op") == "cut" and caller.is_daemon:
            hosts = request.get("hosts")
            self.cuts.clear()
            self.cuts.update(map(str, hosts if isinstance(hosts, list) else []))
            lines = self.dispatcher.lines if self.dispatcher is not None else {}
            for name in self.cuts & lines.keys():
                lines[HostId(name)].broken.set()
            return {}
        if request.get("op") == "status":
            return {"mode": self.config.dispatch.mode, **self._told()}
        raise Refusal(f"unknown operation {request.get('op')!r}")

    def _told(self) -> Json:
        if self.dispatcher is None:
            return {"leads": False, "jobs": 0, "hosts": []}
        jobs, hosts = len(self.dispatcher.life.jobs), sorted(self.dispatcher.lines)
        return {"leads": True, "jobs": jobs, "hosts": hosts}


async def unless(stop: asyncio.Event, work: Coroutine[None, None, Found]) -> Found | None:
    """What it finds; None if we are told to stop before."""
    finding = asyncio.create_task(work, name="stand by")
    stopping = asyncio.create_task(stop.wait(), name="until told to stop")
    try:
        await asyncio.wait((finding, stopping), return_when=asyncio.FIRST_COMPLETED)
        return finding.result() if finding.done() else None
    finally:
        for task in (finding, stopping):
            task.cancel()
        await asyncio.gather(finding, stopping, return_exceptions=True)


def make_discipline(config: Config) -> Discipline:
    """Raises ConfigError."""
    mode = next(mode for mode in MODES if mode == config.dispatch.mode)
    tags = config.tags
    try:
        spread_tiers("", [], 1, tags.tiers)
        if mode not in registry.TIERED or tags.cutoffs_s:
            return registry.make(mode, tags.cutoffs_s, tags.work_conserving)
        if tags.tiers and max(map(highest, tags.tiers)) < 2:
            raise ValueError(f"{mode} needs at least two tiers; these hosts are all in the first")
        return registry.tiered(mode, (), tags.work_conserving)
    except ValueError as problem:
        raise ConfigError(f"tags.cutoffs_s, tags.tiers: {problem}") from None


def rules_of(config: Config) -> Rules:
    """Raises ConfigError."""
    own = config.dispatch
    try:
        name_jobs = read_name_limits(own.name_jobs)
    except ValueError as problem:
        raise ConfigError(f"dispatch.name_jobs: {problem}") from None
    return Rules(own.priorities, own.fair_share_s, own.user_slots, name_jobs, own.interleave_arrays)


def make_lead(config: Config) -> Lead:
    """Raises ConfigError for a store that we do not know."""
    own = config.dispatch
    store = own.store or f"sqlite://{config.host.state_dir}/ledger.sqlite"
    scheme, found, path = store.partition("://")
    if found and scheme == "sqlite" and path.startswith("/"):
        if own.standby:
            raise ConfigError(
                'dispatch.standby: only with dispatch.store = "postgresql://…" may others lead'
            )
        return OneFile(Path(path))
    if not found or scheme not in ("postgresql", "postgres"):
        known = "sqlite:///path/of/the/file or postgresql://user@host/database"
        raise ConfigError(f"dispatch.store {shown(own.store)}: write {known}")
    try:
        from lbd.dispatch.ledger.leadership import Leadership
    except ModuleNotFoundError as missing:
        install = "pip install 'asyncpg>=0.30,<1' beside lbd"
        raise ConfigError(f"dispatch.store: no module {missing.name}; {install}") from None
    return Leadership(store, config.host.name, own.term_s)

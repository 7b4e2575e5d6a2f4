"""`lbd dispatcher`: the queue of the cluster, in the foreground."""

import asyncio
import logging
import os
from pathlib import Path

from lbd.cli.wiring import Ready, run_daemon
from lbd.config import Config
from lbd.dispatch.daemon import Dispatcher, terms_of
from lbd.dispatch.desk import Desk
from lbd.dispatch.discipline import Discipline
from lbd.dispatch.disciplines import registry
from lbd.dispatch.disciplines.tiers import spread_tiers
from lbd.dispatch.ledger.sqlite import SqliteLedger
from lbd.dispatch.lifecycle import Lifecycle
from lbd.errors import ConfigError
from lbd.model import HostId
from lbd.rpc import local, transport
from lbd.rpc.job_stream import MESSAGE_LIMIT_BYTES
from lbd.rpc.local import Caller, Json, Refusal
from lbd.rpc.pid_lock import take_pid_locks
from lbd.rpc.tls import Tls
from lbd.rpc.trusted import trust_of

log = logging.getLogger(__name__)

STOP_GRACE_S = 1.0
SOCKET_MODE = 0o666


def run(config: Config) -> int:
    """Until TERM or INT. Raises LbdError."""
    return run_daemon("lbd dispatcher", config, lambda stop, ready: serve(config, stop, ready))


async def serve(config: Config, stop: asyncio.Event, ready: Ready) -> None:
    if config.dispatch.host != config.host.name:
        where = f"is {config.dispatch.host}" if config.dispatch.host else "names no host"
        raise ConfigError(f"dispatch.host {where}; this is {config.host.name}")
    discipline = make_discipline(config)
    locks = take_pid_locks("dispatcher", config.host.runtime_dir, config.host.state_dir)
    ledger = SqliteLedger(ledger_path(config))
    path = Path(config.host.runtime_dir) / "dispatcher.sock"
    try:
        dispatcher = Dispatcher(config, ledger, Lifecycle(discipline, terms_of(config)))
        trust = trust_of(config)
        if trust is None:
            raise ConfigError("the dispatcher needs certificates (lbctl init) or security.key_file")
        desk = Desk(dispatcher, trust)
        options = transport.options(MESSAGE_LIMIT_BYTES, config.dispatch.lease_s)
        cuts: set[str] = set()
        address, port = config.host.address, config.dispatch.port
        server = transport.bind(address, port, trust, cuts, [desk.handlers()], options)

        async def answer(request: Json, caller: Caller) -> Json:
            """What the lab asks: whether we are there, and whom we are not to hear."""
            if request.get("op") == "cut" and caller.is_daemon:
                hosts = request.get("hosts")
                cuts.clear()
                cuts.update(map(str, hosts if isinstance(hosts, list) else []))
                for name in cuts & dispatcher.lines.keys():
                    dispatcher.lines[HostId(name)].broken.set()
                return {}
            if request.get("op") == "status":
                return {"mode": config.dispatch.mode, "jobs": len(dispatcher.life.jobs)}
            raise Refusal(f"unknown operation {request.get('op')!r}")

        async def begin() -> None:
            await server.start()
            log.info("ready host=%s mode=%s", config.host.name, config.dispatch.mode)
            ready(f"queue of {config.cluster.name}")

        sock = await local.serve_json(path, answer, SOCKET_MODE)
        follow = trust.follow() if isinstance(trust, Tls) else None
        try:
            await dispatcher.run(stop, begin, follow)
        finally:
            sock.close()
            path.unlink(missing_ok=True)
            await server.stop(STOP_GRACE_S)
    finally:
        await ledger.close()
        for lock in locks:
            os.close(lock)


def make_discipline(config: Config) -> Discipline:
    """Raises ConfigError."""
    mode = next(mode for mode in registry.MODES if mode == config.dispatch.mode)
    try:
        spread_tiers("", [], 1, config.tags.tiers)
        return registry.make(mode, config.tags.cutoffs_s, config.tags.work_conserving)
    except ValueError as problem:
        raise ConfigError(f"tags.cutoffs_s, tags.tiers: {problem}") from None


def ledger_path(config: Config) -> Path:
    """Raises ConfigError for a store that we do not know."""
    store = config.dispatch.store
    if not store:
        return Path(config.host.state_dir) / "ledger.sqlite"
    scheme, found, path = store.partition("://")
    if scheme != "sqlite" or not found or not path.startswith("/"):
        raise ConfigError(f"dispatch.store {store!r}: write sqlite:///path/of/the/file")
    return Path(path)

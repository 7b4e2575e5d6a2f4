"""`lbd lim`: runs the load information manager in the foreground."""

import asyncio
import logging
import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from lbd.cli.daemons.queue_start import DispatcherStart
from lbd.cli.daemons.wiring import Ready, run_daemon
from lbd.config.schema import Config
from lbd.lim.core.messages import hosts_max
from lbd.lim.daemon import Lim
from lbd.lim.identity import others_met
from lbd.lim.known_hosts import KnownHosts
from lbd.lim.policy_guard import PolicyGuard
from lbd.lim.remembering import Remembering
from lbd.lim.settings_file import SettingsFile
from lbd.lim.socket import Operations
from lbd.local import json_socket as local
from lbd.local.starting import returning_mark
from lbd.model import target_of
from lbd.net.lim_network import LimNetwork, Traffic
from lbd.net.tls import Tls, has_expired, has_new_certificate
from lbd.net.transport import Plain
from lbd.net.trust_service import TrustService
from lbd.net.trusted import trust_of
from lbd.net.upkeep import Upkeep
from lbd.process.log_level import LOOK_S, LevelFile
from lbd.process.pid_lock import take_pid_locks
from lbd.process.stop import Stop
from lbd.process.wake_ups import next_moment

log = logging.getLogger(__name__)

SOCKET_MODE = 0o666  # every user may ask; SO_PEERCRED decides who may change something


def run(config: Config) -> int:
    """Runs until TERM or INT. Raises LbdError."""
    return run_daemon("lbd lim", config, lambda stop, ready: serve(config, stop, ready))


def check(config: Config) -> Tls | Plain | None:
    """Returns how others authenticate us, or None. Raises ConfigError where `serve` would."""
    return trust_of(config, admits=True)


async def serve(config: Config, stop: Stop, ready: Ready) -> None:
    runtime_dir = Path(config.host.runtime_dir)
    locks = take_pid_locks("lim", config.host.runtime_dir, config.host.state_dir)
    trust = check(config)
    level = LevelFile(config.host.runtime_dir)
    limits = (config.lim.max_message_bytes, config.lim.down_after_s, config.lim.peer_rate)
    most = hosts_max(config.lim.max_hosts)
    network = LimNetwork(trust, *limits, most) if trust is not None else None
    try:
        cluster = own_settings_only(config, trust) if isinstance(trust, Tls) else ""
        lim = Lim(config, network, cluster)
        traffic = network.traffic if network else Traffic()
        state_dir = Path(config.host.state_dir)
        remembering = Remembering(lim.state, state_dir)
        known_hosts = KnownHosts(state_dir, config.cluster.name)
        lim.kept.follow = DispatcherStart(config, stop).follow
        is_out = trust.is_out if isinstance(trust, Tls) else lambda *_: False
        operations = Operations(lim, traffic, is_out, remembering.loads)
        if isinstance(trust, Tls):
            operations.has_new_certificate = partial(has_new_certificate, trust)
            operations.has_expired = partial(has_expired, trust)
        if network is not None and isinstance(trust, Tls):
            guard = PolicyGuard(trust, config.admin, lim.state)
            network.vet, operations.sign, operations.doubt = guard.vet, guard.sign, guard.doubt
        upkeep = await open_port(config, lim, network, trust) if network and trust else None
        path = runtime_dir / "lim.sock"
        server = await local.serve_json(path, operations.handle, SOCKET_MODE, operations.closed)
        scope = lim.sampler.scope
        log.info("ready host=%s scope=%s (%s)", lim.state.me, scope.name, scope.reason)
        ready(f"host {lim.state.me}, scope {scope.name}")
        lim.kept.follow(lim.state.settings)
        try:
            async with asyncio.TaskGroup() as group:
                beside = [
                    group.create_task(remembering.run(), name="remembering"),
                    group.create_task(known_hosts.follow(lim.state), name="known hosts"),
                    group.create_task(lim.kept.keep_trying(), name="save what was not saved"),
                    group.create_task(say_level(lim, level), name="say log.level"),
                ]
                if upkeep is not None:
                    beside.append(group.create_task(upkeep.run(), name="upkeep"))
                await lim.run(stop, returns=lambda: stop.makes_way)
                for task in beside:
                    task.cancel()
        finally:
            if stop.makes_way:  # requests that come meanwhile wait for the next LIM
                mark = Path(returning_mark(str(path)))
                with suppress(OSError):
                    # a file of a previous account can be replaced, not touched
                    mark.unlink(missing_ok=True)
                    mark.touch()
            server.close()
            level.take_back()
            with suppress(FileNotFoundError):
                path.unlink()
    finally:
        if network is not None:
            await network.close()
        for lock in locks:
            os.close(lock)


def own_settings_only(config: Config, trust: Tls) -> str:
    """Returns the digest of the cluster's authority. A host that has joined it brings no settings
    of its own; the authority's host brings what it had before it created the cluster."""
    cluster = trust.files.cluster()
    if trust.files.read_home()[0] not in ("", config.host.name):
        kept = SettingsFile(Path(config.host.state_dir), cluster)
        if kept.drop_others():
            log.warning(
                "%s was not made in this cluster and is removed; the cluster's settings apply",
                kept.path,
            )
    return cluster


async def say_level(lim: Lim, file: LevelFile) -> None:
    """Passes the log level to this host's daemons, until cancelled."""
    while True:
        file.say(lim.state.in_force.log.level)
        await next_moment(LOOK_S)


async def open_port(
    config: Config, lim: Lim, network: LimNetwork, trust: Tls | Plain
) -> Upkeep | None:
    """Raises NoAddress if the port is not available."""
    address = (config.host.address, config.lim.port)
    network.peers.known = lim.state.table.entries
    if not isinstance(trust, Tls):
        await network.serve(*address, lim.answer, skewed=lim.skewed)
        return None

    def others() -> dict[str, str]:
        members = [entry.member for entry in lim.state.table.entries.values()]
        return {m.name: m.lim_target for m in members if m.name != lim.state.me}

    authority = trust.authority
    if authority is not None:
        from lbd.trust.enrol import follow_address  # only the authority's host needs it

        follow_address(authority, trust.files, config.host.name, target_of(*address))
    service = TrustService(trust).handler()
    await network.serve(*address, lim.answer, service, skewed=lim.skewed)
    check_s = config.tls.revocation_check_s
    return Upkeep(trust, network.peers, others, check_s, lambda: others_met(config))

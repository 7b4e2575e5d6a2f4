"""`lbd lim`: the load information manager in the foreground."""

import asyncio
import logging
import os
from contextlib import suppress
from pathlib import Path

from lbd.cli.wiring import Ready, run_daemon
from lbd.config import Config
from lbd.lim.daemon import Lim
from lbd.lim.ops import Operations
from lbd.rpc import local, transport
from lbd.rpc.lim_network import LimNetwork, Traffic
from lbd.rpc.pid_lock import take_pid_locks

log = logging.getLogger(__name__)

SOCKET_MODE = 0o666  # every user may ask; who may change something is told by SO_PEERCRED


def run(config: Config) -> int:
    """Until TERM or INT. Raises LbdError."""
    return run_daemon("lbd lim", config, lambda stop, ready: serve(config, stop, ready))


async def serve(config: Config, stop: asyncio.Event, ready: Ready) -> None:
    runtime_dir = Path(config.host.runtime_dir)
    locks = take_pid_locks("lim", config.host.runtime_dir, config.host.state_dir)
    network = make_network(config)
    try:
        lim = Lim(config, network)
        operations = Operations(lim, network.traffic if network else Traffic())
        if network is not None:
            await network.serve(config.host.address, config.lim.port, lim.answer)
        path = runtime_dir / "lim.sock"
        server = await local.serve_json(path, operations.handle, SOCKET_MODE, operations.closed)
        scope = lim.sampler.scope
        log.info("ready host=%s scope=%s (%s)", lim.state.me, scope.name, scope.reason)
        ready(f"host {lim.state.me}, scope {scope.name}")
        try:
            await lim.run(stop)
        finally:
            server.close()
            with suppress(FileNotFoundError):
                path.unlink()
    finally:
        if network is not None:
            await network.close()
        for lock in locks:
            os.close(lock)


def make_network(config: Config) -> LimNetwork | None:
    """None without a key: this host alone. Raises ConfigError."""
    if not config.security.key_file:
        log.info("no security.key_file: no network port, this host alone")
        return None
    transport.check_listen_address(config.host.address, config.security.plain_lab)
    key = transport.read_key(config.security.key_file)
    return LimNetwork(config.host.name, key, config.lim.max_message_bytes, config.lim.down_after_s)

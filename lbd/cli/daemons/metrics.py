"""`lbd metrics`: what this host's daemons know, for Prometheus, in the foreground."""

import os
from pathlib import Path

from lbd.cli.daemons.wiring import Ready, run_daemon
from lbd.config.schema import Config
from lbd.local import json_socket as local
from lbd.metrics.daemon import Metrics, check
from lbd.process.pid_lock import take_pid_locks
from lbd.process.stop import Stop

__all__ = ("check", "run")

SOCKET_MODE = 0o666  # whether it listens is no secret: `lbctl doctor` asks


def run(config: Config) -> int:
    """Runs until TERM or INT. Raises LbdError."""
    return run_daemon("lbd metrics", config, lambda stop, ready: serve(config, stop, ready))


async def serve(config: Config, stop: Stop, ready: Ready) -> None:
    shown = check(config)
    locks = take_pid_locks("metrics", config.host.runtime_dir, config.host.state_dir)
    path = Path(config.host.runtime_dir) / "metrics.sock"
    try:
        metrics = Metrics(config, shown)
        sock = await local.serve_json(path, metrics.answer, SOCKET_MODE)
        try:
            ready(f"metrics of {config.host.name}")
            await metrics.run(stop)
        finally:
            sock.close()
            path.unlink(missing_ok=True)
    finally:
        for lock in locks:
            os.close(lock)

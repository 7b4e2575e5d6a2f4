"""`lbd metrics`: serves what this host's daemons know to Prometheus, in the foreground."""

import os
from pathlib import Path

from lbd.cli.daemons.wiring import Ready, run_daemon
from lbd.config.cluster import queue_hosts
from lbd.config.schema import Config
from lbd.lim.saved_settings import SavedSettings
from lbd.local import json_socket as local
from lbd.metrics.core.table import DISPATCHER, LBM, LIM
from lbd.metrics.daemon import Metrics, check
from lbd.process.pid_lock import take_pid_locks
from lbd.process.stop import Stop

__all__ = ("check", "run")

SOCKET_MODE = 0o666  # it is no secret whether it listens, and `lbctl doctor` asks


class OwnDaemons:
    """Returns the daemons that should run on this host. The settings for all hosts may move the
    queue here or elsewhere at any time."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._settings = SavedSettings(Path(config.host.state_dir))
        self._stamp: object = None
        self._queue_hosts = config.dispatch.hosts

    def __call__(self) -> tuple[str, ...]:
        if (stamp := self._settings.stamp()) != self._stamp:
            self._stamp = stamp
            named = queue_hosts(self._settings.saved())
            self._queue_hosts = self._config.dispatch.hosts if named is None else named
        leads = self._config.host.name in self._queue_hosts
        return (LIM, LBM, DISPATCHER) if leads else (LIM, LBM)


def run(config: Config) -> int:
    """Runs until TERM or INT. Raises LbdError."""
    return run_daemon("lbd metrics", config, lambda stop, ready: serve(config, stop, ready))


async def serve(config: Config, stop: Stop, ready: Ready) -> None:
    shown = check(config)
    locks = take_pid_locks("metrics", config.host.runtime_dir, config.host.state_dir)
    path = Path(config.host.runtime_dir) / "metrics.sock"
    try:
        metrics = Metrics(config, shown, OwnDaemons(config))
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

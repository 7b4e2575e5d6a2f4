"""Lets a LIM start this host's dispatcher once the cluster's settings name the host.

Whatever started this host's daemons starts it: `lbd up` reads a line from its notify socket,
systemd watches a file (lbd-dispatcher.path). Where neither is there, as in a lab, the LIM starts it
itself, and it then survives the LIM. A dispatcher whose host is no longer named stands by; nothing
ends it.
"""

import contextlib
import logging
import os
import subprocess
from pathlib import Path

from lbd.config.cluster import queue_hosts
from lbd.config.schema import Config
from lbd.lim.core.messages import Settings
from lbd.local.json_socket import connected
from lbd.process import self_start
from lbd.process.service_manager import DISPATCHER_WANTED
from lbd.process.stop import Stop

log = logging.getLogger(__name__)

ANSWER_S = 1.0
WANTED = "dispatcher.wanted"  # in the runtime directory; lbd-dispatcher.path watches it
LAB_PART = "LBD_LAB_PART"  # by which a lab recognises its daemons


class DispatcherStart:
    def __init__(self, config: Config, stop: Stop) -> None:
        self._config = config
        self._stop = stop
        self._was_wanted = False
        self._started: subprocess.Popen[bytes] | None = None

    def follow(self, settings: Settings) -> None:
        """Starts the dispatcher once the saved settings come to name this host."""
        wanted = self._config.host.name in (queue_hosts(settings.saved) or ())
        was_wanted, self._was_wanted = self._was_wanted, wanted
        if wanted and not was_wanted:
            self._start()

    def _start(self) -> None:
        runtime = Path(self._config.host.runtime_dir)
        with contextlib.suppress(OSError):
            if (wanted := runtime / WANTED).exists() and not os.access(wanted, os.W_OK):
                wanted.unlink()  # made by a previous account
            wanted.write_bytes(b"")
        if self._stop.report(DISPATCHER_WANTED) or is_served(runtime / "dispatcher.sock"):
            return
        if self._started is not None:
            self._started.poll()  # reaps an earlier one that has ended
        options = [word for one in self._config.overrides for word in ("--set", one)]
        if self._config.path:
            options += ["--config", self._config.path]
        variables = self_start.environment(os.environ)
        if LAB_PART in variables:
            variables[LAB_PART] = "dispatcher"
        try:
            with (runtime / "dispatcher.log").open("ab") as output:
                self._started = subprocess.Popen(
                    self_start.command("dispatcher", *options),
                    stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=variables,
                    start_new_session=True,
                )  # fmt: skip
        except OSError as problem:
            log.warning("cannot start the dispatcher: %s", problem)
            return
        log.info("started the dispatcher, pid %d", self._started.pid)


def is_served(path: Path) -> bool:
    try:
        connected(path, ANSWER_S).close()
    except OSError:
        return False
    return True

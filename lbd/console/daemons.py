"""Requests to this host's daemons from the programs that people use: `lbctl` and the web page."""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from lbd.config.cluster import queue_hosts
from lbd.config.schema import Config
from lbd.console.picking import Pick, picking
from lbd.console.reply import Json, answer_in, table, text
from lbd.errors import ConfigError, LbdError, Unavailable
from lbd.local.json_socket import PLAIN, Connect, Reading, ask, connected
from lbd.local.own_lab import others_lab, own_lab_advice
from lbd.local.starting import Patience, has_left_traces, how_to_start, starter
from lbd.process.own_directory import why_not_believed

START = "start it with: systemctl start lbd.target, or lbd up"  # on another host


class Absent(Unavailable):
    """This host's daemon does not run, or not yet: whatever it would have told is not known."""


class NeverRan(Absent):
    """No daemon ever ran where it was looked for: waiting does not help."""


@dataclass(frozen=True, slots=True)
class Daemons:
    """The LIM and the LBM of this host, reached through their sockets in the runtime directory."""

    config: Config
    connect: Connect = connected
    patience: Patience = field(default_factory=Patience)
    reading: Reading = PLAIN

    def socket(self, daemon: str) -> Path:
        return Path(self.config.host.runtime_dir) / f"{daemon}.sock"

    def lim(self, request: Json, timeout_s: float = 5.0) -> Json:
        return self._ask("lim", request, timeout_s)

    def lbm(self, request: Json, timeout_s: float = 5.0) -> Json:
        return self._ask("lbm", request, timeout_s)

    def picking(self, key: str, pick: Pick) -> "Daemons":
        """Returns the same, where `pick` gets each object in an answer's list under `key`."""
        return replace(self, reading=picking(self.reading, key, pick))

    def saved(self) -> dict[str, str]:
        """Returns the settings for all hosts; empty if the LIM does not answer."""
        return self._settings("saved")

    def on_trial(self) -> dict[str, str]:
        """Returns the settings that are in force but not saved."""
        return self._settings("trial")

    def _settings(self, which: str) -> dict[str, str]:
        try:
            found = table(self.lim({"op": "settings"}), which)
        except LbdError:
            return {}
        return {name: str(value) for name, value in found.items()}

    def settings_signer(self) -> str:
        """Returns the host that signed the settings for all hosts; "" if they are not signed."""
        try:
            return text(self.lim({"op": "settings"}), "signed_by")
        except LbdError:
            return ""

    def queue(self) -> tuple[tuple[str, ...], str]:
        """Returns the hosts that may run the dispatcher, and where that is set."""
        if (hosts := queue_hosts(self.saved())) is not None:
            return hosts, "lbctl queue"
        return self.config.dispatch.hosts, self.config.path or "built-in"

    def _ask(self, daemon: str, request: Json, timeout_s: float) -> Json:
        directory = Path(self.config.host.runtime_dir)
        if fault := why_not_believed(directory):
            said = f"host.runtime_dir {directory}: {fault}, or set host.runtime_dir"
            raise ConfigError(others_lab(str(directory)) or said)
        while True:
            try:
                return answer_in(
                    ask(self.socket(daemon), request, timeout_s, self.connect, self.reading)
                )
            except Unavailable as problem:
                if "not running" not in str(problem):
                    raise Unavailable(f"{problem}; see `lbctl doctor`") from None
                if not (by := starter(str(directory), daemon)):
                    raise absence(str(directory), daemon, str(problem)) from None
                if not self.patience.wait():
                    raise Absent(
                        f"{daemon} is starting or stopping ({by}) and does not answer yet: try "
                        "again shortly; if that persists, read its log: journalctl -u "
                        f"lbd-{daemon}, or the output of `lbd up`"
                    ) from None


def absence(runtime_dir: str, daemon: str, problem: str) -> Absent:
    """Returns the error for a daemon that does not run and is not being started."""
    lab, start = own_lab_advice(runtime_dir), how_to_start([runtime_dir])
    if not lab:
        kind = Absent if os.path.lexists(runtime_dir) else NeverRan  # it is left after a clean end
        return kind(f"{problem}; {start}")
    if has_left_traces(runtime_dir, daemon):
        return Absent(f"{problem}; {start}; or use your lab: {lab}")
    return NeverRan(f"{problem}; {lab}")

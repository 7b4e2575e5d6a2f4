"""This host's daemons as `lbctl` reaches them: two sockets in the runtime directory."""

from dataclasses import dataclass
from pathlib import Path

from lbd.cli.reply import Json
from lbd.config import Config
from lbd.errors import ConfigError, Unavailable
from lbd.rpc.local import ask
from lbd.rpc.own_directory import why_not_believed


@dataclass(frozen=True, slots=True)
class Daemons:
    config: Config

    def socket(self, daemon: str) -> Path:
        return Path(self.config.host.runtime_dir) / f"{daemon}.sock"

    def lim(self, request: Json, timeout_s: float = 5.0) -> Json:
        return self._ask("lim", request, timeout_s)

    def lbm(self, request: Json, timeout_s: float = 5.0) -> Json:
        return self._ask("lbm", request, timeout_s)

    def _ask(self, daemon: str, request: Json, timeout_s: float) -> Json:
        directory = Path(self.config.host.runtime_dir)
        if fault := why_not_believed(directory):
            raise ConfigError(f"host.runtime_dir {directory}: {fault}, or set host.runtime_dir")
        try:
            reply = ask(self.socket(daemon), request, timeout_s)
        except Unavailable as problem:
            mend = "`lbd up` starts it" if "not running" in str(problem) else "see `lbctl doctor`"
            raise Unavailable(f"{problem}; {mend}") from None
        # What only the socket protocol needs is nobody's data.
        return {key: value for key, value in reply.items() if key not in ("ok", "id")}

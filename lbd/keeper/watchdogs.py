"""Feeds the keeper's watchdogs: the warden, and the service manager if there is one. Each ends a
keeper whose loop no longer reports."""

from lbd.keeper.limits.warden import FED_PER_TIMEOUT, Warden
from lbd.process.service_manager import ServiceManager


class Watchdogs:
    def __init__(self, warden: Warden, silent_s: float, manager: ServiceManager) -> None:
        """`silent_s`: the warden's limit; 0: none."""
        self._warden, self._manager = warden, manager
        patience_s = [one for one in (silent_s, manager.watchdog_s) if one]
        self._every_s = min(patience_s) / FED_PER_TIMEOUT if patience_s else 0.0
        self._fed_s = 0.0

    def feed(self, now_s: float) -> None:
        """Reports to the watchdogs when due."""
        if self._every_s and now_s >= self._fed_s + self._every_s:
            self._fed_s = now_s
            self._warden.alive()
            if self._manager.watchdog_s:
                self._manager.notify("WATCHDOG=1")

    def due_s(self) -> list[float]:
        """Returns when the next report is due; empty: never."""
        return [self._fed_s + self._every_s] if self._every_s else []

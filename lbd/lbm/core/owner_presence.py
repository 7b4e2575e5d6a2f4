"""Is this host's owner back, and what happens to other hosts' commands then? Pure."""

from dataclasses import dataclass

from lbd.config.access import AdmissionConfig
from lbd.lbm.core.execution_events import Treatment

CALM_S = 5.0  # how long the owner counts as here after the load has dropped
UNTIL_GONE = "waiting until the owner leaves"
TOUCHED = f"it is not moved, as it has read input or shown output: {UNTIL_GONE}"
FIXED = f"it is not moved (-H, --no-restart, or a terminal or files of its own): {UNTIL_GONE}"


@dataclass(frozen=True, slots=True)
class Seen:
    """Signs of the owner. `idle_s` None: the owner has no terminal."""

    idle_s: float | None
    terminal: str
    load: float  # cores kept busy by everything except foreign commands


def stays(is_fixed: bool) -> str:
    """Says why a suspended command is not moved: by its request, or by what it has done since."""
    return FIXED if is_fixed else TOUCHED


class Presence:
    """`tick` takes what was seen; `why` says what shows the owner, "" while the owner is away."""

    def __init__(self, config: AdmissionConfig) -> None:
        self._config = config
        self._since_s: float | None = None
        self._loaded_s = float("-inf")
        self.why = ""

    @property
    def is_watched(self) -> bool:
        return bool(self._config.owner_idle_s or self._config.owner_load)

    @property
    def asks_for_input(self) -> bool:
        return bool(self._config.owner_idle_s)

    def change(self, config: AdmissionConfig) -> None:
        self._config = config

    def tick(self, seen: Seen, now_s: float) -> None:
        self.why = self._shown_by(seen, now_s)
        if not self.why:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = now_s

    def _shown_by(self, seen: Seen, now_s: float) -> str:
        idle_s, limit_s, load = seen.idle_s, self._config.owner_idle_s, self._config.owner_load
        if limit_s and idle_s is not None and idle_s < limit_s:
            return f"{seen.terminal} was used {idle_s:.0f} s ago (admission.owner_idle_s)"
        if load and seen.load > load:
            self._loaded_s = now_s
        if load and now_s - self._loaded_s < CALM_S:
            return f"{seen.load:.1f} cores are busy (admission.owner_load)"
        return ""

    def treatment(self, now_s: float) -> Treatment:
        """The treatment of the running commands."""
        kind = self._config.owner_is_back
        if self._since_s is None or kind == "keep":
            return Treatment.NONE
        if kind == "nice":
            return Treatment.NICE
        if kind in ("suspend", "decide"):  # which of them leave is decided one by one
            return Treatment.STILL
        left = now_s - self._since_s >= self._config.evict_grace_s
        return Treatment.GO if left else Treatment.NONE

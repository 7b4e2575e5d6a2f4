"""What a LIM saves on disk: its own drain and incarnation, and settings that outlive all LIMs.

The latter are the drains of hosts that were away, the notes on current and past drains, and the
saved settings, with their author's seal. They are saved with the number of their settings. A LIM
starts with that number and no author, which makes them older than the same settings of running
hosts, and newer than any earlier ones. So they outlive a restart of all LIMs, and none returns that
has been superseded.
"""

import asyncio
import errno
import json
import logging
import math
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lbd.errors import ConfigError
from lbd.lim.core.messages import (
    BY_CHARS_MAX,
    COUNTER_MAX,
    DRAIN_NOTES_MAX,
    DRAINS_MAX,
    NO_SEAL,
    PAST_DRAINS_MAX,
    REASON_CHARS_MAX,
    TRIAL_BYTES,
    DrainNote,
    PastDrain,
    Seal,
    Settings,
    unsealed,
)  # fmt: skip
from lbd.lim.core.settings import InForce, resumed
from lbd.lim.saved_settings import SCHEMA, SavedSettings, saved_of
from lbd.model import HostId
from lbd.process.whole_file import write_whole
from lbd.text.host_name import is_host_name

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

AGAIN_S = 5.0
FIGURES_MAX = 20  # of an incarnation


class SettingsFile(SavedSettings):
    """Saves settings. Each failure is logged, and what could not be saved is tried again."""

    def __init__(self, state_dir: Path, cluster: str = "") -> None:
        """`cluster`: the digest of its authority; "" while this host is alone."""
        super().__init__(state_dir)
        self._cluster = cluster
        self._drained = state_dir / "drained"
        self._incarnation = state_dir / "incarnation"
        # Why what was saved last is not on disk, and how it is saved.
        self._faults: dict[Path, tuple[str, Callable[[], None]]] = {}
        self.follow: Callable[[Settings], None] = lambda _: None  # called with what was saved

    @property
    def unsaved(self) -> str:
        """Says what could not be saved and why; "" if everything was."""
        return "; ".join(why for why, _ in self._faults.values())

    def drained(self) -> bool:
        return self._drained.exists()

    def incarnation(self) -> int:
        """Returns the last one that was above the clock; 0: there was none, or it cannot be
        read."""
        try:
            with self._incarnation.open("rb") as file:
                return min(int(file.read(FIGURES_MAX)), COUNTER_MAX - 1)
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as problem:
            log.warning("ignored %s: %s", self._incarnation, problem)
        return 0

    def resumed(self, base: InForce, *, signs: bool) -> Settings:
        """Returns the settings to start with: the saved ones, layered over the configuration. A
        seal counts only where hosts have certificates."""
        kept = self.settings()
        found, faults = resumed(base, kept if signs else unsealed(kept))
        for fault in faults:
            log.warning("%s: %s", self.path, fault)
        return found

    def settings(self) -> Settings:
        """Returns the saved settings; none if the file is damaged."""
        return self._read(settings_of) or Settings()

    def drop_others(self) -> bool:
        """Removes settings that were made while this host was alone, or in another cluster: their
        number may be above the cluster's, whose settings they would replace on every host. Returns
        whether there were any.

        Raises ConfigError if they cannot be removed.
        """
        made_in = self._read(lambda found: found.get("cluster"))
        if made_in in (None, self._cluster):
            return False
        try:
            self.path.unlink(missing_ok=True)
        except OSError as problem:
            raise ConfigError(f"{self.path}: {problem.strerror}") from problem
        return True

    def keep_drained(self, drained: bool) -> None:
        self._try(self._drained, partial(self._write_drained, drained))

    def keep_incarnation(self, incarnation: int) -> None:
        data = str(incarnation).encode()
        write = partial(write_whole, self._incarnation, data, 0o600, is_durable=True)
        self._try(self._incarnation, write)

    def keep_settings(self, settings: Settings) -> None:
        self._try(self.path, partial(self._write_settings, settings))
        self.follow(settings)

    async def keep_trying(self) -> None:
        """Saves later what could not be saved, as on a full disk, until cancelled."""
        while True:
            await asyncio.sleep(AGAIN_S)
            self.try_again()

    def try_again(self) -> None:
        for path, (_, write) in list(self._faults.items()):
            if self._try(path, write):
                log.info("%s is saved", path)

    def _try(self, path: Path, write: "Callable[[], None]") -> bool:
        try:
            write()
        except OSError as problem:
            why = f"{path}: {problem.strerror}"
            if self._faults.get(path, ("",))[0] != why:
                log.warning("cannot be saved across restarts: %s", why)
            self._faults[path] = why, write
            return False
        self._faults.pop(path, None)
        return True

    def _write_drained(self, drained: bool) -> None:
        """Raises OSError."""
        if drained:
            self._drained.touch()
        else:
            self._drained.unlink(missing_ok=True)

    def _write_settings(self, settings: Settings) -> None:
        """Raises OSError."""
        if self.is_later:
            raise OSError(errno.EPERM, f"{self.path} is of a later release")
        data = settings_bytes(settings, self._cluster)
        write_whole(self.path, data, 0o600, is_durable=True)


def settings_bytes(settings: Settings, cluster: str) -> bytes:
    """Encodes the settings for `settings_of`."""
    kept = {
        "schema": SCHEMA,
        "cluster": cluster,
        "counter": settings.counter,
        "drains": settings.drains,
        "notes": {host: asdict(note) for host, note in settings.drain_notes.items()},
        "past": [
            {**asdict(past.note), "host": past.host, "until_by": past.until_by,
             "until": past.until}
            for past in settings.past_drains
        ],
        "saved": settings.saved,
        "seal": seal_kept(settings.seal),
    }  # fmt: skip
    return json.dumps(kept).encode()


def settings_of(found: dict[str, object]) -> Settings:
    """Raises ValueError."""
    counter, drains = found.get("counter"), found.get("drains")
    if not (isinstance(counter, int) and isinstance(drains, dict) and len(drains) <= DRAINS_MAX):
        raise ValueError("not written by a LIM")
    for host, drained in drains.items():
        if not (is_host_name(host) and isinstance(drained, bool)):
            raise ValueError("not hosts that are drained or not")
    # At the highest number no settings could follow; then they restart from 1, once all LIMs have
    # ended.
    counter = counter if 0 < counter < COUNTER_MAX else 1
    return Settings(
        counter,
        drains={HostId(host): value for host, value in drains.items()},
        drain_notes=notes_of(found.get("notes", {})),
        past_drains=past_drains_of(found.get("past", [])),
        saved=saved_of(found.get("saved", {})),
        seal=seal_of(found.get("seal", {})),
    )


def seal_kept(seal: Seal) -> dict[str, object]:
    """Encodes bytes as hexadecimal."""
    if not seal.counter:
        return {}
    return {
        name: value.hex() if isinstance(value, bytes) else value
        for name, value in asdict(seal).items()
    }


def seal_of(found: object) -> Seal:
    """Returns the saved seal; no seal if nothing was signed. Raises ValueError."""
    match found:
        case {"counter": int(counter), "author": str(author), "trial": str(trial),
              "certificate": str(certificate), "signature": str(signature)} if (
            0 < counter < COUNTER_MAX and len(trial) == 2 * TRIAL_BYTES
        ):  # fmt: skip
            made = map(bytes.fromhex, (trial, certificate, signature))
            return Seal(counter, host_of(author), *made)
    if found:
        raise ValueError("not the seal of a policy")
    return NO_SEAL


def notes_of(found: object) -> dict[HostId, DrainNote]:
    """Raises ValueError."""
    if not isinstance(found, dict) or len(found) > DRAIN_NOTES_MAX:
        raise ValueError("not the notes of drains")
    return {host_of(host): note_of(note) for host, note in found.items()}


def past_drains_of(found: object) -> tuple[PastDrain, ...]:
    """Raises ValueError."""
    if not isinstance(found, list) or len(found) > PAST_DRAINS_MAX:
        raise ValueError("not past drains")
    past = []
    for one in found:
        match one:
            case {"host": str(host), "until_by": str(by), "until": int() | float() as until}:
                end = note_of({"reason": "", "by": by, "since": until})
                past.append(PastDrain(host_of(host), note_of(one), end.by, end.since))
            case _:
                raise ValueError("not a past drain")
    return tuple(past)


def note_of(found: object) -> DrainNote:
    """Raises ValueError."""
    match found:
        case {"reason": str(reason), "by": str(by), "since": int() | float() as since}:
            short = len(reason) <= REASON_CHARS_MAX and len(by) <= BY_CHARS_MAX
            if short and math.isfinite(since) and f"{reason}{by}".isprintable():
                return DrainNote(reason, by, float(since))
    raise ValueError("not a note of a drain")


def host_of(found: str) -> HostId:
    """Raises ValueError."""
    if not is_host_name(found):
        raise ValueError("not the name of a host")
    return HostId(found)

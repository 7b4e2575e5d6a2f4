"""What a LIM keeps on disk of the settings: its own drain, and what outlives all LIMs.

That is the drains of hosts that were away then, the notes on drains and on past ones, and the
settings that were saved, with the seal of who has signed them. They are kept with the number of the
settings that they came with. A LIM begins with that number and no author, which makes them older
than the same settings of hosts that go on, and newer than any before them: so they outlive a
restart of all LIMs, and none comes back that is done.
"""

import errno
import json
import logging
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lbd.lim.core.messages import (
    BY_CHARS_MAX,
    COUNTER_MAX,
    DRAIN_NOTES_MAX,
    DRAINS_MAX,
    NO_SEAL,
    PAST_DRAINS_MAX,
    REASON_CHARS_MAX,
    SAVED_CHARS_MAX,
    SAVED_MAX,
    TRIAL_BYTES,
    DrainNote,
    PastDrain,
    Seal,
    Settings,
    unsealed,
)  # fmt: skip
from lbd.lim.core.settings import InForce, resumed
from lbd.model import HostId
from lbd.process.whole_file import write_whole
from lbd.text.host_name import is_host_name

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

FILE_BYTES_MAX = (
    DRAINS_MAX * 300 + (DRAIN_NOTES_MAX + PAST_DRAINS_MAX) * 3000 + SAVED_MAX * 2000 + 20_000
)


SCHEMA = 1  # one above where an earlier release would misread it; those before wrote none


class OfLaterRelease(ValueError):
    """Written by a release that we cannot read, and must not overwrite."""


class SettingsFile:
    """Saves settings. A failure is logged each time; the LIM goes on."""

    def __init__(self, state_dir: Path) -> None:
        self._drained = state_dir / "drained"
        self.path = state_dir / "settings.json"
        self._before = state_dir / "drains.json"  # of a release that saved drains alone
        self._is_later = False  # what is there is of a later release
        self.follow: Callable[[Settings], None] = lambda _: None  # called with what was saved

    def stamp(self) -> object:
        """Another one whenever the file is."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def drained(self) -> bool:
        return self._drained.exists()

    def resumed(self, base: InForce, *, signs: bool) -> Settings:
        """The settings to begin with: what was saved holds, laid over the configuration. A seal
        counts only where hosts have certificates."""
        kept = self.settings()
        found, faults = resumed(base, kept if signs else unsealed(kept))
        for fault in faults:
            log.warning("%s: %s", self.path, fault)
        return found

    def settings(self) -> Settings:
        """Those of a damaged file are none."""
        path = self.path if self.path.exists() else self._before
        try:
            with path.open("rb") as file:
                return read(file.read(FILE_BYTES_MAX))
        except FileNotFoundError:
            pass
        except OfLaterRelease as problem:
            self._is_later = True
            log.warning("%s %s", path, problem)
        except (OSError, ValueError, RecursionError) as problem:
            log.warning("ignored %s: %s", path, problem)
        return Settings()

    def keep_drained(self, drained: bool) -> None:
        try:
            if drained:
                self._drained.touch()
            else:
                self._drained.unlink(missing_ok=True)
        except OSError as problem:
            log.warning("cannot save the drain across a restart: %s", problem)

    def keep_settings(self, settings: Settings) -> None:
        try:
            if self._is_later:
                raise OSError(errno.EPERM, f"{self.path} is of a later release")
            write_whole(self.path, settings_bytes(settings), 0o600, is_durable=True)
            self._before.unlink(missing_ok=True)
        except OSError as problem:
            log.warning("cannot save the cluster's settings across a restart: %s", problem)
        self.follow(settings)


def settings_bytes(settings: Settings) -> bytes:
    """As `read` takes them."""
    kept = {
        "schema": SCHEMA,
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


def read(data: bytes) -> Settings:
    """Raises ValueError, RecursionError."""
    found = json.loads(data)
    schema = found.get("schema", 0) if isinstance(found, dict) else 0
    if isinstance(schema, int) and schema > SCHEMA:
        raise OfLaterRelease(
            f"was written by a later release of lbd (schema {schema}, ours is {SCHEMA}): it is "
            "left alone, and what holds is lbd.toml and what other hosts say; upgrade this host"
        )
    counter, drains = (found.get("counter"), found.get("drains")) if isinstance(found, dict) else (
        None, None)  # fmt: skip
    if not (isinstance(counter, int) and isinstance(drains, dict) and len(drains) <= DRAINS_MAX):
        raise ValueError("not what a LIM has written")
    for host, drained in drains.items():
        if not (is_host_name(host) and isinstance(drained, bool)):
            raise ValueError("not hosts that are drained or not")
    # At the highest number no settings could follow: those begin again once all LIMs have ended.
    counter = counter if 0 < counter < COUNTER_MAX else 1
    return Settings(  # an earlier release wrote no notes, or no past drains and nothing saved
        counter,
        drains={HostId(host): value for host, value in drains.items()},
        drain_notes=notes_of(found.get("notes", {})),
        past_drains=past_drains_of(found.get("past", [])),
        saved=saved_of(found.get("saved", {})),
        seal=seal_of(found.get("seal", {})),
    )


def seal_kept(seal: Seal) -> dict[str, object]:
    """Bytes as hexadecimal."""
    if not seal.counter:
        return {}
    return {
        name: value.hex() if isinstance(value, bytes) else value
        for name, value in asdict(seal).items()
    }


def seal_of(found: object) -> Seal:
    """None that an earlier release, or nobody, has written. Raises ValueError."""
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


def saved_of(found: object) -> dict[str, str]:
    """Raises ValueError."""
    if not isinstance(found, dict) or len(found) > SAVED_MAX:
        raise ValueError("not saved settings")
    for name, value in found.items():
        if not (isinstance(value, str) and len(value) <= SAVED_CHARS_MAX and value.isprintable()):
            raise ValueError(f"{str(name)[:40]!r} is no saved setting")
    return dict(found)

"""What is saved for all hosts, as the LIM keeps it on disk and other daemons here follow it.

It is apart from `settings_file.py`, which knows all that the LIM keeps: that is 0.4 MiB of each
daemon that imports it.
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lbd.config.cluster import SAVED_MAX, TEXT_CHARS_MAX

log = logging.getLogger(__name__)
Made = TypeVar("Made")

FILE_BYTES_MAX = 1_200_000  # more than a thousand drains, 192 notes on them, 128 settings
SCHEMA = 1  # one above where an earlier release would misread it; those before wrote none


class OfLaterRelease(ValueError):
    """Written by a release that we cannot read, and must not overwrite."""


class SavedSettings:
    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "settings.json"
        self._before = state_dir / "drains.json"  # of a release that saved drains alone
        self.is_later = False  # what is there is of a later release

    def stamp(self) -> object:
        """Another one whenever the file is."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def saved(self) -> dict[str, str]:
        """By name, as TOML has them. Of a damaged file there are none."""
        return self._read(lambda found: saved_of(found.get("saved", {}))) or {}

    def _read(self, made: Callable[[dict[str, object]], Made]) -> Made | None:
        """Returns None if nothing can be read; then the log says why."""
        path = self.path if self.path.exists() else self._before
        try:
            with path.open("rb") as file:
                return made(table(file.read(FILE_BYTES_MAX)))
        except FileNotFoundError:
            pass
        except OfLaterRelease as problem:
            self.is_later = True
            log.warning("%s %s", path, problem)
        except (OSError, ValueError, RecursionError) as problem:
            log.warning("ignored %s: %s", path, problem)
        return None


def table(data: bytes) -> dict[str, object]:
    """Raises ValueError, RecursionError."""
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("not written by a LIM")
    schema = found.get("schema", 0)
    if isinstance(schema, int) and schema > SCHEMA:
        raise OfLaterRelease(
            f"was written by a later release of lbd (schema {schema}, ours is {SCHEMA}) and is "
            "ignored; lbd.toml and other hosts' settings apply; upgrade this host"
        )
    return found


def saved_of(found: object) -> dict[str, str]:
    """Raises ValueError."""
    if not isinstance(found, dict) or len(found) > SAVED_MAX:
        raise ValueError("not saved settings")
    for name, value in found.items():
        if not (isinstance(value, str) and len(value) <= TEXT_CHARS_MAX and value.isprintable()):
            raise ValueError(f"{str(name)[:40]!r} is not a saved setting")
    return dict(found)

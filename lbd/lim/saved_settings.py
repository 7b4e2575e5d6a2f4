"""What is saved for all hosts, as the LIM stores it on disk and other daemons of this host read it.

It is separate from `settings_file.py`, which handles everything the LIM saves: importing that costs
each daemon 0.4 MiB.
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lbd.config.cluster import SAVED_MAX, TEXT_CHARS_MAX

log = logging.getLogger(__name__)
Made = TypeVar("Made")

FILE_BYTES_MAX = 1_200_000  # more than a thousand drains, 192 drain notes and 128 settings take
SCHEMA = 1  # raised where an earlier release would misread the file


class OfLaterRelease(ValueError):
    """Written by a release that we cannot read, and must not overwrite."""


class SavedSettings:
    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "settings.json"
        self.is_later = False  # the file was written by a later release

    def stamp(self) -> object:
        """Returns a value that changes whenever the file does."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def saved(self) -> dict[str, str]:
        """Returns the values by name, as in TOML; none if the file is damaged."""
        return self._read(lambda found: saved_of(found.get("saved", {}))) or {}

    def _read(self, made: Callable[[dict[str, object]], Made]) -> Made | None:
        """Returns None if nothing can be read; the log then says why."""
        try:
            with self.path.open("rb") as file:
                return made(table(file.read(FILE_BYTES_MAX)))
        except FileNotFoundError:
            pass
        except OfLaterRelease as problem:
            self.is_later = True
            log.warning("%s %s", self.path, problem)
        except (OSError, ValueError, RecursionError) as problem:
            log.warning("ignored %s: %s", self.path, problem)
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

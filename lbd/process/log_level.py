"""The log level of a host's daemons, changed at run time with `lbctl param log.level`.

The LIM knows the cluster's current level and writes it to a file in the runtime directory. The
daemons read that file once a second; if it is missing or invalid, they keep their level.
"""

import asyncio
import contextlib
import logging
import os
from pathlib import Path

from lbd.config.schema import LOG_LEVELS
from lbd.process.wake_ups import until_next_s
from lbd.process.whole_file import write_whole

log = logging.getLogger(__name__)

LOOK_S = 1.0
WORD_BYTES_MAX = 16
OURS = "lbd"  # the root of lbd's loggers; those of libraries stay at INFO or above


class LevelFile:
    def __init__(self, runtime_dir: str) -> None:
        self._path = Path(runtime_dir, "log.level")
        self._said = ""
        self._read = (0, 0)  # the file that was read

    def say(self, level: str) -> None:
        if level == self._said:
            return
        try:
            write_whole(self._path, level.encode(), 0o644)
            self._said = level
        except OSError as problem:
            log.debug("cannot pass log.level to the other daemons: %s", problem)

    def take_back(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def read(self) -> str:
        """Returns one of the levels; "" if the file has none, or is as at the last call."""
        try:
            found = os.stat(self._path)
            if (stamp := (found.st_ino, found.st_mtime_ns)) == self._read:
                return ""
            with self._path.open("rb") as file:
                word = file.read(WORD_BYTES_MAX).decode(errors="replace")
        except OSError:
            return ""
        self._read = stamp
        return word if word in LOG_LEVELS else ""


def follow(loop: asyncio.AbstractEventLoop, runtime_dir: str, level: str) -> None:
    """Follows the file as long as the event loop runs, starting with `level`."""
    file, now = LevelFile(runtime_dir), ""

    def look(first: str = "") -> None:
        nonlocal now
        if (wanted := file.read() or first) not in ("", now):
            change_level(wanted, is_news=bool(now))
            now = wanted
        loop.call_later(until_next_s(LOOK_S, loop.time()), look)

    look(level)


def change_level(level: str, *, is_news: bool) -> None:
    """Changes the log level of this process."""
    number = logging.getLevelNamesMapping()[level.upper()]
    ours = logging.getLogger(OURS)
    if is_news:
        ours.setLevel(logging.INFO)
        log.info("log.level = %s", level)
    ours.setLevel(number)
    logging.getLogger().setLevel(max(number, logging.INFO))

"""The file for a LIM's history: since its start only, and bounded in size."""

import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)

NAME = "history.jsonl"


class HistoryFile:
    """The LIM goes on whatever happens to the file: the first failure is logged, and ends the
    writing."""

    def __init__(self, state_dir: Path, bytes_max: int) -> None:
        self._path = state_dir / NAME
        self._left_bytes = bytes_max
        self._fd = -1
        try:
            # not truncated: the LIM that we replace may still write its last lines
            self._path.unlink(missing_ok=True)
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as problem:
            self._give_up(problem.strerror or str(problem))

    def write(self, line: str) -> None:
        if self._fd < 0:
            return
        data = line.encode() + b"\n"
        if len(data) > self._left_bytes:
            self._give_up("it has reached lim.history_bytes")
            return
        try:
            written = os.write(self._fd, data)
        except OSError as problem:
            self._give_up(problem.strerror or str(problem))
            return
        self._left_bytes -= written
        if written < len(data):
            self._give_up("the disk is full")

    def _give_up(self, why: str) -> None:
        log.warning("stopped writing the history to %s: %s", self._path, why)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

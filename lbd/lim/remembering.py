"""Remembers the loads of all hosts, also in a file, so that they outlive the LIM.

It is a convenience: whatever happens to the file, the LIM goes on and logs the failure once. The
file is written every few minutes, and at the end.
"""

import asyncio
import logging
import time
from pathlib import Path

from lbd.lim.core.past_loads import FILE_BYTES_MAX, PastLoads, read
from lbd.lim.core.state import LimState
from lbd.model import HostState
from lbd.process.whole_file import write_whole

log = logging.getLogger(__name__)

NAME = "past-loads"
REMEMBER_S, WRITE_S = 10.0, 300.0
MODE = 0o600


class Remembering:
    def __init__(self, state: LimState, state_dir: Path) -> None:
        self._state = state
        self._path = state_dir / NAME
        self._in_trouble = False
        self.loads = resumed(self._path)

    async def run(self) -> None:
        """Runs until cancelled."""
        loop = asyncio.get_running_loop()
        written_s = time.monotonic()
        try:
            while True:
                now_s = time.monotonic()
                self.remember(now_s)
                if now_s - written_s >= WRITE_S:
                    written_s = now_s
                    await loop.run_in_executor(None, self.write, self.loads.lines())
                await asyncio.sleep(REMEMBER_S)
        finally:
            self.write(self.loads.lines())

    def remember(self, now_s: float) -> None:
        self.loads.add(loads_now(self._state, now_s), time.time())

    def write(self, lines: list[str]) -> None:
        try:
            write_whole(self._path, "\n".join([*lines, ""]).encode(), MODE)
        except OSError as problem:
            if not self._in_trouble:
                log.warning("cannot save past loads in %s: %s", self._path, problem)
            self._in_trouble = True
        else:
            self._in_trouble = False


def resumed(path: Path) -> PastLoads:
    """Returns the saved loads; none if the file is damaged."""
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX).decode()
        return read(text.splitlines(), time.time())
    except FileNotFoundError:
        pass
    except (OSError, ValueError, RecursionError) as problem:
        log.warning("ignored %s: %s", path, problem)
    return PastLoads()


def loads_now(state: LimState, now_s: float) -> dict[str, float]:
    """Returns the loads of the hosts that are up."""
    table = state.table
    return {
        name: entry.sample.vector.index
        for name, entry in table.entries.items()
        if entry.sample is not None
        and table.state(name, now_s)[0] in (HostState.UP, HostState.DRAINED)
    }

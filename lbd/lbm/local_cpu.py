"""The CPU time of a command that stays: its client has become it, and we are not its parent.

The kernel says it at once and exactly of a process that has ended, until its parent has heard; a
shell mostly hears first. So one that runs for a while is looked at now and then, ever more rarely;
what it used after the last look is taken to have gone on in the same proportion.
"""

import asyncio
import os

FIRST_LOOK_S = 0.2
LOOKS_APART_MAX_S = 60.0
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


class LocalCpu:
    """From when the command begins, or an earlier LBM's watch ended: `age_s` after it began."""

    def __init__(self, pid: int, age_s: float) -> None:
        self._pid = pid
        self._loop = asyncio.get_running_loop()
        self._began_s = self._looked_s = self._loop.time() - age_s
        self._cpu_s: float | None = None
        self._pause_s = FIRST_LOOK_S
        self._timer: asyncio.TimerHandle | None = None
        if pid > 0:  # 0: in a PID namespace out of our sight
            self._timer = self._loop.call_later(FIRST_LOOK_S, self._look)

    def _look(self) -> None:
        found = cpu_time(self._pid)
        if found is not None:
            self._cpu_s, self._looked_s = found[0], self._loop.time()
        self._pause_s = min(2 * self._pause_s, LOOKS_APART_MAX_S)
        self._timer = self._loop.call_later(self._pause_s, self._look)

    def ended(self) -> float | None:
        """None: it was too short to be seen."""
        if self._timer is not None:
            self._timer.cancel()
        if self._pid <= 0:
            return None
        found = cpu_time(self._pid)
        if found is not None and found[1]:
            return found[0]
        seen_s = self._looked_s - self._began_s
        if self._cpu_s is None or seen_s <= 0:
            return None
        return self._cpu_s * (self._loop.time() - self._began_s) / seen_s


def cpu_time(pid: int) -> tuple[float, bool] | None:
    """Of a process and the children it has waited for; and whether it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return sum(map(int, words[11:15])) * TICK_S, words[0] in (b"Z", b"X")
    except (OSError, ValueError, IndexError):
        return None

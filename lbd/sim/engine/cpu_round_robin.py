"""A host's CPUs as an operating system shares them: each task in turn gets a core for a quantum.

With a quantum much shorter than the demands this is processor sharing (`cpu.py`), at the cost of an
event for each quantum; with a quantum longer than any demand it is first come, first served. The
thesis's hosts lie in between (a quantum of 0.1 s).

A task that arrives, or whose quantum has ended, goes to the end of the queue. A fraction of a core
changes the speed of whole cores: 1.5 cores are one core that is 1.5 times as fast. Messages and job
transfers go before all tasks and meanwhile stop every quantum.
"""

from collections import deque
from heapq import heappop, heappush
from typing import Generic, TypeVar

from lbd.sim.engine.cpu import NEVER, ROUNDING_S, MeteredCpu

Task = TypeVar("Task")


class RoundRobinCpu(MeteredCpu, Generic[Task]):
    """Has the interface of `SharedCpu`."""

    def __init__(self, cores: float, speed: float, quantum_s: float) -> None:
        super().__init__(cores, speed)
        self.due_s = NEVER  # when to call `finished` if nothing else arrives
        self._quantum_s = quantum_s
        self._cores = max(1, int(cores))
        self._rate = speed * cores / self._cores
        self._waiting: deque[tuple[Task, float]] = deque()  # and the work it has left
        # end of quantum, order, task, work left then
        self._running: list[tuple[float, int, Task, float]] = []
        self._order = 0
        self._stalled_until_s = 0.0
        self._at_s = 0.0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running)

    def add(self, task: Task, demand_s: float, now_s: float) -> float | None:
        """Returns when to call `finished` if that is now earlier than before, else None."""
        self._advance(now_s)
        self._waiting.append((task, demand_s))
        self._fill(now_s)
        due_s = self._running[0][0]
        if due_s >= self.due_s:
            return None
        self.due_s = due_s
        return due_s

    def finished(self, now_s: float) -> list[Task]:
        """Returns the tasks that are done at `due_s`; for others only their quantum has ended."""
        self._advance(now_s)
        done = []
        limit_s = now_s + ROUNDING_S
        while self._running and self._running[0][0] <= limit_s:
            _, _, task, left_s = heappop(self._running)
            if left_s > ROUNDING_S:
                self._waiting.append((task, left_s))
            else:
                done.append(task)
        self._fill(now_s)
        self.due_s = self._running[0][0] if self._running else NEVER
        return done

    def overhead(self, seconds: float, now_s: float) -> float:
        """Adds work that goes before the tasks, after earlier such work. Returns its end."""
        began_s = max(now_s, self._stalled_until_s)
        if seconds:
            self.overhead_s += seconds
            self._advance(now_s)
            stall_s = seconds / (self.cores * self.speed)
            self._stalled_until_s = began_s + stall_s
            self._running = [(end + stall_s, *rest) for end, *rest in self._running]  # type: ignore[misc]
            return self._stalled_until_s
        return began_s

    def _advance(self, now_s: float) -> None:
        if self.is_metered:
            self._count(len(self), now_s - self._at_s)
        self._at_s = now_s

    def _fill(self, now_s: float) -> None:
        """Gives every free core to the task that has waited longest."""
        while self._waiting and len(self._running) < self._cores:
            task, left_s = self._waiting.popleft()
            work_s = min(left_s, self._quantum_s * self._rate)
            until_s = max(now_s, self._stalled_until_s) + work_s / self._rate
            self._order += 1
            heappush(self._running, (until_s, self._order, task, left_s - work_s))

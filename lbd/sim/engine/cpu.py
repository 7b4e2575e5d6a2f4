"""A host's CPUs, shared equally by their tasks: round robin as the quantum goes to zero.

Virtual time makes every event O(log n). `served_s` is the service that a task present since the
start would have had; it grows at the speed of a core, or more slowly when tasks outnumber cores. A
task is done when `served_s` has grown by the task's demand since its arrival, whatever happens
meanwhile.

Messages and job transfers go before all tasks (Zhou 1987, section 3.2.3): while they use the CPU,
virtual time stands still. A message needs no accounting: it shifts the time from which the tasks
are still to be served by its own length, because their service until then shifts as well.
"""

from abc import ABC, abstractmethod
from heapq import heappop, heappush
from typing import Generic, TypeVar

Task = TypeVar("Task")

ROUNDING_S = 1e-9
NEVER = float("inf")


class MeteredCpu(ABC):
    """Measures how busy a host's CPUs were, however they are shared."""

    __slots__ = (
        "_busy_seconds", "_task_seconds", "cores", "is_metered", "overhead_s", "power", "speed",
    )  # fmt: skip

    def __init__(self, cores: float, speed: float) -> None:
        self.cores = cores
        self.speed = speed
        self.power = cores * speed
        self.is_metered = False  # set before the first task if `means` is used
        self.overhead_s = 0.0  # of work that went before the tasks, on a core of speed 1
        self._task_seconds = 0.0  # since the last call of `means`
        self._busy_seconds = 0.0  # core seconds since the last call of `means`

    def means(self, now_s: float, passed_s: float) -> tuple[float, float]:
        """Returns the mean number of tasks and share of busy cores since the last call."""
        assert self.is_metered
        self._advance(now_s)
        tasks, busy = self._task_seconds / passed_s, self._busy_seconds / passed_s / self.cores
        self._task_seconds = self._busy_seconds = 0.0
        return tasks, busy

    def _count(self, tasks: int, passed_s: float) -> None:
        self._task_seconds += tasks * passed_s
        self._busy_seconds += min(tasks, self.cores) * passed_s

    @abstractmethod
    def _advance(self, now_s: float) -> None:
        """Counts what has passed until now."""


class SharedCpu(MeteredCpu, Generic[Task]):
    __slots__ = (
        "_metered_s", "_order", "_queue", "_rate", "_served_s", "_stalled_until_s",
        "_unserved_since_s", "due_s",
    )  # fmt: skip

    def __init__(self, cores: float, speed: float) -> None:
        super().__init__(cores, speed)
        self.due_s = NEVER  # when the next task is done if nothing else arrives
        self._queue: list[tuple[float, int, Task]] = []
        self._rate = 0.0  # service per second of each task
        self._served_s = 0.0
        self._unserved_since_s = 0.0  # from then on the tasks are still to be served
        self._metered_s = 0.0  # time up to which tasks are counted
        self._stalled_until_s = 0.0
        self._order = 0

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, task: Task, demand_s: float, now_s: float) -> float | None:
        """Returns when to call `finished` if that is now earlier than before, else None."""
        self._advance(now_s)
        self._order += 1
        heappush(self._queue, (self._served_s + demand_s, self._order, task))
        due_s = self._first_due_s()
        if due_s >= self.due_s:
            return None  # the event that is already set finds that out
        self.due_s = due_s
        return due_s

    def finished(self, now_s: float) -> list[Task]:
        """Returns the tasks that are done at `due_s`. The call comes too early if something went
        before the tasks meanwhile; then none is done, and `due_s` is later."""
        self._advance(now_s)
        queue = self._queue
        done = []
        limit_s = self._served_s + ROUNDING_S
        while queue:
            while queue and queue[0][0] <= limit_s:
                done.append(heappop(queue)[2])
            if not queue:
                break
            self.due_s = self._first_due_s()
            if self.due_s > now_s:
                return done
            done.append(heappop(queue)[2])  # what is left is too short for the clock at this time
        self.due_s = NEVER
        self._served_s = self._rate = 0.0
        return done

    def overhead(self, seconds: float, now_s: float) -> float:
        """Adds work that goes before the tasks, after earlier such work. Returns its end."""
        stalled_s = self._stalled_until_s
        if stalled_s < now_s:
            stalled_s = now_s
        if seconds:
            self.overhead_s += seconds
            stall_s = seconds / self.power
            self._stalled_until_s = stalled_s = stalled_s + stall_s
            self._unserved_since_s += stall_s
        return stalled_s

    def _advance(self, now_s: float) -> None:
        if self.is_metered:
            self._count(len(self._queue), now_s - self._metered_s)
            self._metered_s = now_s
        until_s = self._stalled_until_s
        if until_s < now_s:
            until_s = now_s
        self._served_s += (until_s - self._unserved_since_s) * self._rate
        self._unserved_since_s = until_s

    def _first_due_s(self) -> float:
        """Must be called whenever the tasks change, because it stores their rate. Calls no
        functions, which would take most of its time: it runs at nearly every event."""
        queue = self._queue
        tasks = len(queue)
        self._rate = rate = self.speed if tasks <= self.cores else self.power / tasks
        left_s = queue[0][0] - self._served_s
        since_s = self._unserved_since_s
        return since_s + left_s / rate if left_s > 0.0 else since_s

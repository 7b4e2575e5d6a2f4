"""A host's disks: I/O that waits for other I/O, first come, first served.

Every disk is as good as any other; a job's I/Os of one burst follow one another on the same one.
The moment of an end is known when the I/O begins to wait, so that a queue costs no more events than
disks that are plenty do.
"""

from heapq import heapreplace


class Disks:
    def __init__(self, count: int) -> None:
        self._free_s = [0.0] * count
        self._inside = 0
        self._at_s = 0.0
        self._task_seconds = 0.0  # since `mean` was last asked for

    def __len__(self) -> int:
        """Jobs that wait for a disk or have one."""
        return self._inside

    def begin(self, seconds: float, now_s: float) -> float:
        """A job wants a disk for so long. Returns when it will have had it; then call `end`."""
        self._advance(now_s)
        self._inside += 1
        done_s = max(now_s, self._free_s[0]) + seconds
        heapreplace(self._free_s, done_s)
        return done_s

    def end(self, now_s: float) -> None:
        self._advance(now_s)
        self._inside -= 1

    def mean(self, now_s: float, passed_s: float) -> float:
        """Jobs inside, since this was last asked for."""
        self._advance(now_s)
        mean, self._task_seconds = self._task_seconds / passed_s, 0.0
        return mean

    def _advance(self, now_s: float) -> None:
        self._task_seconds += self._inside * (now_s - self._at_s)
        self._at_s = now_s

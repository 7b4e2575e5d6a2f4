"""A host's disks: I/O that waits for other I/O, first come, first served.

All disks are alike; the I/Os of one burst of a job go to the same disk. The end of an I/O is known
when it starts to wait, so queues cost no more events than unlimited disks.
"""

from heapq import heapreplace


class Disks:
    def __init__(self, count: int) -> None:
        self._free_s = [0.0] * count
        self._inside = 0
        self._at_s = 0.0
        self._task_seconds = 0.0  # since the last call of `mean`

    def __len__(self) -> int:
        """Returns how many jobs wait for a disk or use one."""
        return self._inside

    def begin(self, seconds: float, now_s: float) -> float:
        """Starts an I/O of that length. Returns when it ends; `end` must be called then."""
        self._advance(now_s)
        self._inside += 1
        done_s = max(now_s, self._free_s[0]) + seconds
        heapreplace(self._free_s, done_s)
        return done_s

    def end(self, now_s: float) -> None:
        self._advance(now_s)
        self._inside -= 1

    def mean(self, now_s: float, passed_s: float) -> float:
        """Returns the mean number of jobs since the last call."""
        self._advance(now_s)
        mean, self._task_seconds = self._task_seconds / passed_s, 0.0
        return mean

    def _advance(self, now_s: float) -> None:
        self._task_seconds += self._inside * (now_s - self._at_s)
        self._at_s = now_s

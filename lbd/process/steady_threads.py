"""A pool of threads that does without further ones while the host has none to spare.

Any user of a host can have all of its processes for a while. `ThreadPoolExecutor.submit` then
raises RuntimeError although the pool has threads, and what was submitted is done all the same, with
nobody to hear of it.
"""

from concurrent.futures import ThreadPoolExecutor


class SteadyThreads(ThreadPoolExecutor):
    def __init__(self, most: int | None = None, name: str = "") -> None:
        """Raises RuntimeError where not even one thread can be had."""
        super().__init__(most, name)
        self.submit(int)

    def _adjust_thread_count(self) -> None:
        """Called by `submit`, which has put the call in the line of all threads."""
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            if not self._threads:
                raise

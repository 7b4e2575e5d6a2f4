"""Simulations spread over processes that make way for everybody else, and how far they are."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

from lbd.cli.sim_progress import Progress

NICENESS = 10
WORKERS = max(1, (os.cpu_count() or 2) - 1)  # a core is left to those who work here

Given = TypeVar("Given")
Found = TypeVar("Found")


class Pool:
    """A `sim.figures.Map`; the order the runs end in changes nothing."""

    def __init__(self, what: str, workers: int) -> None:
        self._what = what
        self._workers = workers

    def __call__(self, function: Callable[[Given], Found], given: Sequence[Given]) -> list[Found]:
        progress = Progress(self._what, len(given))
        if self._workers == 1 or len(given) <= 1:
            found = []
            for item in given:
                found.append(function(item))
                progress.one_more()
            return found
        workers = min(self._workers, len(given))
        with ProcessPoolExecutor(workers, initializer=os.nice, initargs=(NICENESS,)) as pool:
            futures = [pool.submit(function, item) for item in given]
            try:
                for _ in as_completed(futures):
                    progress.one_more()
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            return [future.result() for future in futures]

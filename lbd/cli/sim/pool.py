"""Spreads simulations over low-priority processes and shows their progress."""

import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, parent_process
from typing import TypeVar

from lbd.cli.program import Parser
from lbd.cli.quantities import whole
from lbd.cli.sim.progress import Progress
from lbd.errors import LbdError

NICENESS = 10
WORKERS = max(1, (os.cpu_count() or 2) - 1)  # leaves a core to other users

Given = TypeVar("Given")
Found = TypeVar("Found")


class Pool:
    """A `sim.figures.Map`. The order in which runs end does not affect the results."""

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
        with ProcessPoolExecutor(min(self._workers, len(given)), initializer=make_way) as pool:
            try:
                futures = [pool.submit(function, item) for item in given]
                for future in as_completed(futures):
                    future.result()
                    progress.one_more()
            except BrokenProcessPool as problem:
                raise LbdError("a process of the simulation was killed (memory?)") from problem
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for child in active_children():  # otherwise we would wait for their present runs
                    child.terminate()
                raise
            return [future.result() for future in futures]


def add_workers(parser: Parser) -> None:
    parser.add_argument("--workers", type=whole(1, 1024), default=WORKERS, metavar="N",
                        help="processes (default: all cores but one)")  # fmt: skip


def make_way() -> None:
    """Prepares each process: lowers its priority, ignores ^C, which the parent handles, and ends it
    with its parent."""
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)

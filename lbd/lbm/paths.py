"""Where an LBM keeps what outlives it."""

import logging
import math
from collections.abc import Callable, Iterator
from pathlib import Path

from lbd.errors import ConfigError
from lbd.process.own_directory import FULL
from lbd.process.whole_file import write_whole

IDS_RESERVED = 10_000
NEXT_JOB = "next_job"
log = logging.getLogger("lbd.lbm")


class JobNumbers:
    """Numbers that no job of this host has had: a block of them is reserved on disk at each start,
    and another once it is used up. On a full disk, where none can be, they go on at the present
    UNIX time, far above all blocks."""

    def __init__(self, state_dir: Path, clock: Callable[[], float]) -> None:
        """Raises ConfigError if the file cannot be read or written."""
        self._path, self._clock = state_dir / NEXT_JOB, clock
        try:
            state_dir.mkdir(parents=True, exist_ok=True)
            self._next = next_number(state_dir)
            self._reserve()
        except (OSError, ValueError) as problem:
            raise ConfigError(f"host.state_dir {state_dir}: {problem}") from problem

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if self._next >= self._end:
            try:
                self._reserve()
            except OSError as problem:
                self._go_on_without_block(problem)
        self._next += 1
        return self._next - 1

    def _reserve(self) -> None:
        """Raises OSError, unless the disk is full."""
        self._end: float = self._next + IDS_RESERVED
        try:
            reserve_up_to(self._path.parent, self._next + IDS_RESERVED)
        except OSError as problem:
            if problem.errno not in FULL:
                raise
            self._go_on_without_block(problem)

    def _go_on_without_block(self, problem: OSError) -> None:
        log.warning("%s: %s; ids of jobs are large numbers until the next start that can write "
                    "there", self._path, problem.strerror)  # fmt: skip
        self._next, self._end = max(self._next, int(self._clock())), math.inf


def next_number(state_dir: Path) -> int:
    """Returns the first number that no job of this host has had. Raises OSError, ValueError."""
    path = state_dir / NEXT_JOB
    return int(path.read_text()) if path.exists() else 1


def reserve_up_to(state_dir: Path, number: int) -> None:
    """Raises OSError."""
    write_whole(state_dir / NEXT_JOB, b"%d\n" % number, 0o644)


def reserve_at_least(state_dir: Path, number: int) -> None:
    """Raises OSError. Jobs that ran since a copy of the accounting have numbers beyond those in it,
    so the numbers here never go back."""
    try:
        here = next_number(state_dir)
    except (OSError, ValueError):
        here = 1  # it is damaged, too
    reserve_up_to(state_dir, max(here, number))

"""Where an LBM keeps what outlives it."""

import itertools
import os
from pathlib import Path

from lbd.errors import ConfigError
from lbd.process.whole_file import write_whole

IDS_RESERVED = 10_000


def spool_root(state_dir: str) -> str:
    """The directory of the outputs of the queue's attempts."""
    return os.path.join(state_dir, "spool")


def job_numbers(state_dir: Path) -> "itertools.count[int]":
    """Numbers that no job of this host has had: a block is reserved on disk at each start."""
    path = state_dir / "next_job"
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        first = int(path.read_text()) if path.exists() else 1
        write_whole(path, b"%d\n" % (first + IDS_RESERVED), 0o644)
    except (OSError, ValueError) as problem:
        raise ConfigError(f"host.state_dir {state_dir}: {problem}") from problem
    return itertools.count(first)

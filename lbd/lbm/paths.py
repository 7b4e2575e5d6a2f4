"""Where an LBM keeps what outlives it."""

import itertools
import os
from pathlib import Path

from lbd.config.schema import Config
from lbd.errors import ConfigError
from lbd.keeper.run_as import ROOT_UID
from lbd.process.whole_file import write_whole

SHARED_WORKDIRS = "/var/tmp/lbd-stage"  # noqa: S108  # `stages` refuses it where it is not ours
IDS_RESERVED = 10_000


def workdir_root(config: Config) -> str:
    """Not beside the daemons' own state where it is others who could fill the disk."""
    for_others = os.geteuid() == ROOT_UID or config.daemons.keeper == "apart"
    default = SHARED_WORKDIRS if for_others else f"{config.host.state_dir}/stage"
    return config.stage.root or default


def spool_root(state_dir: str) -> str:
    """Of the outputs of the queue's attempts."""
    return os.path.join(state_dir, "spool")


def job_numbers(state_dir: Path) -> "itertools.count[int]":
    """Numbers no job of this host has had: a block is reserved on disk at each start."""
    path = state_dir / "next_job"
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        first = int(path.read_text()) if path.exists() else 1
        write_whole(path, b"%d\n" % (first + IDS_RESERVED), 0o644)
    except (OSError, ValueError) as problem:
        raise ConfigError(f"host.state_dir {state_dir}: {problem}") from problem
    return itertools.count(first)

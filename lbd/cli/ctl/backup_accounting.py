"""The accounting in a backup: whether it takes the place of what is here, and how it goes on."""

import sqlite3
from pathlib import Path

from lbd.cli.ctl.backup_content import USAGE, Manifest
from lbd.cli.ctl.backup_files import take_ledger
from lbd.config.schema import Config
from lbd.dispatch.ledger.snapshot import has_jobs, last_number
from lbd.errors import ConfigError
from lbd.lbm.paths import IDS_RESERVED, reserve_at_least
from lbd.lbm.usage.gaps import note_restored


def why_not_usage(manifest: Manifest, config: Config, directory: Path) -> str:
    """Returns why the present accounting is kept, "" if the copy replaces it. Raises ConfigError if
    the copy is damaged."""
    has_jobs(directory / USAGE)
    if manifest.host != config.host.name:
        return (
            f"{manifest.host}'s accounting was NOT restored: this host keeps its own. Keep FILE: "
            f"nothing else has {manifest.host}'s record"
        )
    present = directory / "present"
    try:
        take_ledger(Path(config.host.state_dir, USAGE), present)
        is_used = present.exists() and has_jobs(present)
    except ConfigError:  # damaged
        is_used = False
    own = f"{config.host.name} has ended jobs on record"
    return own + "; the accounting in FILE was not restored" if is_used else ""


def go_on(copy: Path, state_dir: Path, manifest: Manifest, now_s: float) -> None:
    """Notes in the copy, before it is put in place, that what ended since it was made is not on
    record, and sees to it that this host gives no id in it again. Raises ConfigError."""
    try:
        note_restored(copy, manifest.unix_s, now_s)
    except sqlite3.Error as problem:
        raise ConfigError(f"the accounting in the backup: {problem}") from problem
    reserve_at_least(state_dir, last_number(copy, manifest.host) + IDS_RESERVED)

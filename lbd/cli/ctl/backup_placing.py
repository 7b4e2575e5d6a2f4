"""How a backup's parts take their places on this host: whether they may, in which order, and how
they go on."""

import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from lbd.cli.ctl.backup_content import (
    AUTHORITY,
    CONFIG,
    HOSTS,
    LEDGER,
    SETTINGS,
    USAGE,
    Manifest,
    listed,
)
from lbd.cli.ctl.backup_files import place, take_ledger
from lbd.cli.ctl.own_address import refuse_unmounted
from lbd.cli.ctl.own_config import put_config
from lbd.cli.ctl.trust import authority_in, show_to_daemons
from lbd.config.schema import Config
from lbd.dispatch.ledger.database_url import ledger_file
from lbd.dispatch.ledger.snapshot import has_jobs, last_number
from lbd.doctor.checks import daemons_account, owner_name
from lbd.errors import ConfigError, LbdError
from lbd.lbm.paths import IDS_RESERVED, reserve_at_least
from lbd.lbm.usage.gaps import note_restored
from lbd.model import target_of
from lbd.process.sqlite_journal import BESIDE
from lbd.trust.enrol import enrol
from lbd.trust.files import host_files, make_private_dir, opened, read, write_private


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


def why_not_config(manifest: Manifest, config: Config, directory: Path) -> str:
    """Returns that the present lbd.toml is kept, maybe without the owner's rules, "" if the copy
    has no other one of this host. Raises ConfigError."""
    copy = directory / CONFIG
    if manifest.host != config.host.name or not copy.exists():
        return ""
    if copy.read_bytes() == read(Path(config.path)):
        return ""
    return f"{config.path} is left as it is; the copy's differs: `tar -xOf FILE {CONFIG}`"


def go_on(copy: Path, state_dir: Path, manifest: Manifest, now_s: float) -> None:
    """Notes in the copy, before it is put in place, that what ended since it was made is not on
    record, and sees to it that this host gives no id in it again. Raises ConfigError."""
    try:
        note_restored(copy, manifest.unix_s, now_s)
    except sqlite3.Error as problem:
        raise ConfigError(f"the accounting in the backup: {problem}") from problem
    reserve_at_least(state_dir, last_number(copy, manifest.host) + IDS_RESERVED)


def check_places(config: Config, parts: list[str]) -> Path | None:
    """Makes the directory of a ledger that is not in the state directory, if it is missing, and
    returns it then. Raises ConfigError, before anything is restored, if a disk is not mounted or
    the dispatcher could not write its ledger."""
    ledger = ledger_file(config) if LEDGER in parts else None
    refuse_unmounted(config, *([ledger] if ledger else ()))
    if ledger is None or ledger.is_relative_to(config.host.state_dir):
        return None
    directory, account = ledger.parent, daemons_account(config)
    try:
        if is_new := not directory.exists():
            make_private_dir(directory)
            if account is not None:
                with opened(directory, os.O_DIRECTORY) as made:
                    os.fchown(made, account.uid, account.gid)
        owner = directory.stat().st_uid
    except OSError as problem:
        raise ConfigError(f"{directory}: {problem.strerror}; nothing is restored") from problem
    if account is not None and owner != account.uid:
        raise ConfigError(
            f"{directory} belongs to {owner_name(owner)}, and the dispatcher runs as "
            f"{account.name}; nothing is restored: first `chown {account.name}: {directory}`"
        )
    return directory if is_new else None


def put_in_place(
    directory: Path,
    parts: list[str],
    config: Config,
    config_file: Path | None,
    manifest: Manifest,
) -> None:
    """Raises ConfigError, which says what has been restored until then."""
    done: list[str] = []
    try:
        for name in placed(directory, parts, config, config_file, manifest):
            done.append(name)  # noqa: PERF402  # kept when the next one fails
    except (LbdError, OSError) as problem:
        why = f"{problem.filename}: {problem.strerror}" if isinstance(problem, OSError) else problem
        left = [name for name in parts if name not in done]
        raise ConfigError(
            f"{why}; restored: {listed(done) or 'nothing'}; not restored: {listed(left)}; once "
            "that is fixed, run this again before the daemons start"
        ) from problem


def placed(
    directory: Path,
    parts: list[str],
    config: Config,
    config_file: Path | None,
    manifest: Manifest,
) -> Iterator[str]:
    """Yields each part once it is in place. The ledger is the last: from then on the one here is
    the newer one, and the same copy would be refused. Raises LbdError, OSError."""
    state_dir = Path(config.host.state_dir)
    if not state_dir.exists():
        make_private_dir(state_dir)
        state_dir.chmod(0o755)
    if CONFIG in parts and config_file is not None:
        put_config(config_file, (directory / CONFIG).read_text(encoding="utf-8"))
        yield CONFIG
    for name in (SETTINGS, HOSTS):
        if name in parts:
            write_private(state_dir / name, read(directory / name))
            yield name
    if USAGE in parts:
        go_on(directory / USAGE, state_dir, manifest, time.time())
        place_ledger(directory / USAGE, state_dir / USAGE)
        yield USAGE
    if AUTHORITY[1] in parts:
        place_authority(directory, config)
        yield from AUTHORITY
    if LEDGER in parts and (ledger := ledger_file(config)) is not None:
        place_ledger(directory / LEDGER, ledger)
        yield LEDGER


def place_ledger(source: Path, to: Path) -> None:
    """Raises ConfigError, OSError."""
    for beside in BESIDE:  # those of the previous ledger
        to.with_name(to.name + beside).unlink(missing_ok=True)
    place(source, to, gives=True)


def place_authority(directory: Path, config: Config) -> None:
    """Raises LbdError."""
    authority = authority_in(config)
    make_private_dir(authority.root)
    for name, to in zip(AUTHORITY, (authority.ledger_file, authority.key_file), strict=True):
        write_private(to, read(directory / name))
    files, host = host_files(config), config.host.name
    if authority.ledger().home == host and not files.exist():
        target = target_of(config.host.address, config.lim.port)
        enrol(authority, files, host, target, time.time())
        # The other hosts then refuse the lost machine, if it is started again.
        files.write_signed(authority.signed_list())
    show_to_daemons(config, authority)

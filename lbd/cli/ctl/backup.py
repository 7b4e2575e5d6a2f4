"""`lbctl backup` and `restore`: what a host has that cannot be recreated, in one file.

That is the cluster's authority, the queue's ledger, the saved settings, this host's accounting and
lbd.toml. The file holds the authority's key, so only its owner may read it.
"""

import argparse
import json
import shlex
import time
from dataclasses import asdict
from pathlib import Path

import lbd
from lbd.cli.ctl.backup_content import (
    AUTHORITY,
    CONFIG,
    HOSTS,
    LEDGER,
    SETTINGS,
    USAGE,
    Manifest,
    listed,
    manifest_in,
    pack,
    unpacked,
)
from lbd.cli.ctl.backup_files import place, scratch, take_file, take_ledger
from lbd.cli.ctl.backup_placing import check_places, put_in_place, why_not_config, why_not_usage
from lbd.cli.ctl.trust import authority_in, need_readable
from lbd.cli.ctl.verb import Verb, say
from lbd.cli.daemons.privilege import make_account
from lbd.cli.program import Parser
from lbd.config.load import SYSTEM_FILE, absent_file, load, load_new
from lbd.config.schema import Config
from lbd.console.output import print_json, put
from lbd.console.starting import UNIT, UNITS, enabled_units
from lbd.dispatch.ledger.database_url import ledger_file
from lbd.dispatch.ledger.snapshot import (
    NUMBERS_SKIPPED,
    Extent,
    Restored,
    begin_again,
    extent,
)
from lbd.doctor.unit_paths import STORE, barred
from lbd.errors import ConfigError, LbdError
from lbd.lim.settings_file import settings_of
from lbd.local.starting import how_to_start
from lbd.process.own_addresses import is_elsewhere
from lbd.process.pid_lock import pid_of_holder
from lbd.text.one_line import one_line
from lbd.text.units import are, duration_text
from lbd.trust.authority import Authority, heard
from lbd.trust.certificates import fingerprint
from lbd.trust.files import (
    authority_dir,
    host_files,
    read,
)
from lbd.trust.ledger import Ledger

PRESENT = "present.sqlite"  # a copy of this host's ledger
DAEMONS = ("up", "lim", "lbm", "dispatcher")
ENDING_S, POLL_S = 15.0, 0.1
BACKUP_EXAMPLES = ("lbctl backup /root/lbd-$(date +%F).tar        on a running host",)
RESTORE_EXAMPLES = ("lbctl restore /root/lbd-2026-11-21.tar        while no lbd daemon runs here",)


def add_options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="readable by its owner only")


def add_restore_options(parser: Parser) -> None:
    add_options(parser)
    parser.add_argument("--older", action="store_true",
                        help="also if the queue's ledger here is newer; it is kept "
                             "beside")  # fmt: skip


# Backup


def backup(options: argparse.Namespace, path: str | None) -> int:
    config = load(path)
    need_readable(Path(config.host.state_dir))
    if authority_dir(config).exists():
        need_readable(authority_dir(config))
    file = Path(options.file)
    replaced = file.stat().st_mtime if file.is_file() else 0.0
    with scratch(file.parent) as directory:
        parts = gathered(config, directory)
        if not set(parts) - {CONFIG, HOSTS}:
            raise LbdError(f"nothing to save on {config.host.name}: no authority, ledger, settings")
        known = authority_known_here(config)
        names = lbd.__version__, config.cluster.name, config.host.name
        manifest = Manifest(1, *names, time.time(), known, enabled_units())
        pack(directory, manifest, parts, file)
    if options.json:
        print_json({"file": str(file), "parts": parts})
        return 0
    put(f"{file}: {listed(parts)}")
    if replaced:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(replaced))
        put(f"it replaces the file of that name of {when}")
    if config.dispatch.in_postgres:
        say("the ledger is in PostgreSQL: copy it with pg_dump --schema=lbd")
    return 0


def gathered(config: Config, directory: Path) -> list[str]:
    """Copies each part into `directory` and returns their names. Raises LbdError."""
    (directory / "authority").mkdir()
    authority = authority_in(config)
    sources: dict[str, Path] = {}
    if authority.exists():
        sources |= {AUTHORITY[0]: authority.ledger_file, AUTHORITY[1]: authority.key_file}
    sources[CONFIG] = Path(config.path or "/nonexistent")
    for name, source in sources.items():
        if source.is_file():
            (directory / name).write_bytes(read(source))
    state_dir = Path(config.host.state_dir)
    for name in (SETTINGS, HOSTS):
        take_file(state_dir / name, directory / name)
    ledger = ledger_file(config)
    if ledger is not None:
        take_ledger(ledger, directory / LEDGER)
    try:
        take_ledger(state_dir / USAGE, directory / USAGE)
    except ConfigError as problem:  # the LBM sets a damaged file aside; all else is worth a copy
        say(f"the accounting is left out: {problem}")
        (directory / USAGE).unlink(missing_ok=True)
    order = (*AUTHORITY, SETTINGS, HOSTS, CONFIG, LEDGER, USAGE)
    return [name for name in order if (directory / name).exists()]


def authority_known_here(config: Config) -> str:
    files, authority = host_files(config), authority_in(config)
    if authority.exists():
        return fingerprint(authority.certificate).hex()
    return fingerprint(files.read_authority()).hex() if files.exist() else ""


# Restore


def restore(options: argparse.Namespace, path: str | None) -> int:
    file = Path(options.file)
    config_file = absent_file(path)
    config = load_new(()) if config_file else load(path)
    need_stopped(config, ENDING_S)
    state_dir = Path(config.host.state_dir)
    with scratch(state_dir.parent) as directory:
        parts = unpacked(file, directory)
        if CONFIG in parts and config_file is not None:
            config = load(str(directory / CONFIG))
            need_stopped(config)
        manifest = manifest_in(file, directory)
        check_is_ours(file, manifest, config)
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(manifest.unix_s))
        restored, kept = Restored(0, 0), ""
        if LEDGER in parts:
            if ledger_file(config) is None:
                raise LbdError(
                    f"{file} contains a ledger, but this host's is in {config.dispatch.store}"
                )
            present = present_ledger(config, directory)
            if present is not None and not options.older:
                refuse_if_older(file, extent(directory / LEDGER), present)
            why, next_job = f"restored from a backup of {when}", present.next_job if present else 0
            restored = begin_again(directory / LEDGER, why, time.time(), next_job)
        if AUTHORITY[1] in parts:
            kept = why_kept(checked_authority(directory / "authority", config), config)
        has = {CONFIG: config_file is None, HOSTS: Path(config.host.state_dir, HOSTS).exists()}
        own_usage = why_not_usage(manifest, config, directory) if USAGE in parts else ""
        has[USAGE] = bool(own_usage)
        own_config = why_not_config(manifest, config, directory) if has[CONFIG] else ""
        left_out = (*(AUTHORITY if kept else ()), *(name for name in has if has[name]))
        parts = [name for name in parts if name not in left_out]
        made = make_account(config) if (config_file or Path(config.path)) == SYSTEM_FILE else ""
        new_directory = check_places(config, parts)
        beside = keep_present(directory, config) if LEDGER in parts else None
        put_in_place(directory, parts, config, config_file, manifest)
    if options.json:
        print_json({"file": str(file), "parts": parts, **asdict(restored)})
        return 0
    put(f"restored from {file} ({manifest.host}, {when}): {listed(parts) or 'nothing'}")
    for why in filter(None, (kept, own_usage, own_config)):
        say(why.replace("FILE", shlex.quote(str(file))))
    if beside is not None:
        say(f"the ledger that was here is now {beside}")
    if new_directory is not None:
        say(f"made {new_directory}, which was missing; if it is to be a disk of its own, mount "
            "that before the daemons start, and restore again")  # fmt: skip
    if made:
        say(made)
    say_what_is_next(restored, parts, manifest, config)
    return 0


def present_ledger(config: Config, directory: Path) -> Extent | None:
    """Copies this host's ledger as PRESENT. Returns None if it has had no job, or is damaged."""
    ledger = ledger_file(config)
    try:
        if ledger is None or not ledger.parent.exists():
            return None
        take_ledger(ledger, directory / PRESENT)
        found = extent(directory / PRESENT) if (directory / PRESENT).exists() else None
    except ConfigError:  # damaged, which is the reason to restore
        (directory / PRESENT).unlink(missing_ok=True)
        return None
    return found if found is not None and found.next_job > 1 else None


def refuse_if_older(file: Path, copied: Extent, present: Extent) -> None:
    """Raises LbdError if this host's ledger goes further than the copy: jobs that ran since would
    be held as if they had not."""
    jobs, later_s = present.next_job - copied.next_job, present.latest_s - copied.latest_s
    if jobs <= 0 and later_s <= 0:
        return
    since = f"{'about ' if jobs >= NUMBERS_SKIPPED else ''}{max(0, jobs)} job numbers"
    raise LbdError(
        f"the queue's ledger here is newer than that in {file}, by {duration_text(later_s)} and "
        f"{since}: nothing is restored; --older replaces it, and keeps it beside the restored one"
    )


def keep_present(directory: Path, config: Config) -> Path | None:
    """Keeps the present ledger beside the one to be restored. Raises ConfigError."""
    ledger = ledger_file(config)
    if ledger is None or not (directory / PRESENT).exists():
        return None
    beside = ledger.with_name(f"{ledger.name}.{time.strftime('%Y-%m-%dT%H%M%S')}")
    place(directory / PRESENT, beside, gives=True)
    return beside


def say_what_is_next(
    restored: Restored, parts: list[str], manifest: Manifest, config: Config
) -> None:
    host = config.host
    if AUTHORITY[1] in parts:
        say("hosts that joined since then must join again, hosts revoked since then must be "
            "revoked again, and tokens made before are void; "
            f"{host.name} tells the others where to renew their certificates")  # fmt: skip
    if restored.held or restored.lost:
        said = f"{are(restored.held, 'job')} held, {are(restored.lost, 'job')} lost"
        say(f"{said}; once the dispatcher runs: `lbctl jobs`, then `lbctl release ID` or `lbctl "
            "kill ID`")  # fmt: skip
    if SETTINGS in parts and (drained := drained_in(Path(host.state_dir, SETTINGS))):
        say(f"drained in the copy: {', '.join(drained)}; where that is over, `lbctl undrain HOST` "
            "once the daemons run")  # fmt: skip
    for says, fix in barred(config, (STORE,)) if LEDGER in parts else ():
        say(f"{says}; {fix}")
    if AUTHORITY[1] in parts and issue_of(config) > 0:
        say(f"if another machine was {host.name} before, it must never start again: wipe "
            "/var/lib/lbd* there before it gets power")  # fmt: skip
    if is_elsewhere(host.address):
        say(f"{host.address} is not this machine's address: first `lbctl config set host.address "
            "ADDRESS`, one that `ip address` shows")  # fmt: skip
    if host_files(config).exist():
        pass
    elif is_authoritys_host(config):
        say(f"{host.name} has no certificate: first run `lbctl init` here")
    elif manifest.authority:
        say(f"{host.name} has no certificate: first run `lbctl token create {host.name}` on the "
            "authority's host and `lbctl join` here")  # fmt: skip
    if units := " ".join(manifest.units):
        put(f"later, start what was enabled on {manifest.host}: `systemctl enable --now {units}`")
    else:
        put(how_to_start([host.runtime_dir]))
    if (
        config.metrics.listen and UNITS[1] not in units
    ):  # `lbd up` reads the setting; in the package, metrics are a unit of their own
        put(f"metrics.listen is set; with the package: `{UNIT}`")


def drained_in(settings: Path) -> list[str]:
    try:
        found = settings_of(json.loads(read(settings)))
    except (ValueError, ConfigError):  # the LIM says so
        return []
    return sorted({*found.drain_notes, *(host for host, on in found.drains.items() if on)})


def issue_of(config: Config) -> int:
    """Returns the number of this host's certificate in the authority's records, 0 for the first."""
    known = authority_in(config).ledger().hosts.get(config.host.name)
    return known.issue if known is not None else 0


def is_authoritys_host(config: Config) -> bool:
    authority = authority_in(config)
    return authority.exists() and authority.ledger().home == config.host.name


def need_stopped(config: Config, patience_s: float = 0.0) -> None:
    """`patience_s` is for daemons that are still ending after `systemctl stop`. Raises LbdError."""
    deadline_s = time.monotonic() + patience_s
    while running := program_running(config):
        if time.monotonic() >= deadline_s:
            raise LbdError(f"{running} is running here: stop the daemons first")
        time.sleep(POLL_S)


def program_running(config: Config) -> str:
    """Returns a running daemon of this host with its pid; "" if none runs."""
    for directory in (config.host.runtime_dir, config.host.state_dir):
        for daemon in DAEMONS:
            if (pid := pid_of_holder(Path(directory, f"{daemon}.pid"))) is not None:
                return f"`lbd {daemon}` (pid {pid})"
    return ""


def check_is_ours(file: Path, manifest: Manifest, config: Config) -> None:
    """Raises LbdError if the backup belongs to another cluster than this host."""
    ours = authority_known_here(config)
    if ours and manifest.authority != ours:
        raise LbdError(
            f"{file} is from cluster {one_line(manifest.cluster, 80)}, whose authority is not "
            f"this host's; to restore it anyway, remove {host_files(config).root} and "
            f"{authority_dir(config)}"
        )
    if config.path and manifest.cluster != config.cluster.name:
        said = one_line(manifest.cluster, 80)
        raise LbdError(f"{file} is of cluster {said}, but {config.path} of {config.cluster.name}")


def checked_authority(directory: Path, config: Config) -> Ledger:
    """Checks the backup's authority, and prepares it to continue. Returns its ledger. Raises
    LbdError."""
    directory.chmod(0o700)
    authority = Authority(directory, config.tls.certificate_s)
    fingerprint(authority.certificate)
    copied = authority.ledger()
    files = host_files(config)
    is_home_new = copied.home == config.host.name and not files.exist()
    known = heard(files, authority.certificate)
    authority.change(lambda ledger: ledger.begun_again(known, is_home_new=is_home_new))
    return copied


def why_kept(copied: Ledger, config: Config) -> str:
    """Returns why the present authority is kept, "" if the copy replaces it. An older copy would
    let in revoked hosts, and there must never be two authorities. Raises LbdError."""
    here, home = authority_in(config), host_files(config).read_home()[0]
    if home not in ("", config.host.name):
        copied.check_member(config.host.name)  # otherwise only `authority take` would refuse
        return (
            f"the authority is on {home}; if {home} is lost, run `lbctl authority take` here; the "
            "one in FILE was not restored"
        )
    try:
        is_newer = here.exists() and here.ledger().number >= copied.number
    except ConfigError:  # damaged, which is the reason to restore
        is_newer = False
    own = f"the authority on {config.host.name} is kept: it is not older"
    return own + "; the one in FILE was not restored" if is_newer else ""


VERBS = {
    "backup": Verb(backup, add_options, BACKUP_EXAMPLES),
    "restore": Verb(restore, add_restore_options, RESTORE_EXAMPLES),
}

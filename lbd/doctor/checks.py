"""The single checks of `lbctl doctor` of what is on this host, and the thresholds that make a
finding a fault."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lbd.config.schema import Config
from lbd.dispatch.ledger.database_url import exposed
from lbd.errors import ConfigError, LbdError
from lbd.keeper.gate import find_account
from lbd.keeper.local_account import LocalUser
from lbd.process.accounts import DEFAULT, ROOT
from lbd.process.disk_space import Shortage, shortage_of
from lbd.process.written_disks import unmounted
from lbd.text.units import duration_text, show_size
from lbd.trust.authority import Authority, is_superseded
from lbd.trust.certificates import is_signed_by
from lbd.trust.files import HostFiles, authority_dir, host_files
from lbd.trust.root_directory import check_root_directory

OK, WARN, FAULT = "ok", "warn", "fault"
SEE_CERTIFICATE = "see the certificate's line above"
SEE_REVOKED = "see the line above that says that this host is revoked"
SEE_STATE_DIRECTORY = "see the state directory's line above"
UNSEEN = "skipped"  # could not be checked
UNSEEN_SAYS = "{} not looked at: permission denied; run this as root or the daemons' user"
JOIN_FIX = (
    "run `lbctl token create {}` on the authority's host, then here the `lbctl join` line that it "
    "prints, and `lbctl restart`"
)
REJOIN_FIX = (
    "run `lbctl token create {0}` on the authority's host, then on {0} the `lbctl join` line that "
    "it prints, and `lbctl restart`"
)
REVOKED_SAYS = "revoked: no host of the cluster talks to this one"
REVOKED_FIX = (
    "is another machine {host} now (`lbctl status` on another host)? A new token for {host} would "
    "revoke that one, so {ended}. Otherwise {joined}"
)
# only the certificates: the rest of the state directory may be the one copy of a queue's ledger
REPLACED_FIX = (
    "save what only this machine has (`lbctl stats --csv`), then end this one: `systemctl disable "
    "--now lbd.target; rm -r {paths}`; it can join again under another name"
)
ENDED_FIX = (
    "it should have been renewed: is lbd-authority running on the authority's host? Then join "
    "again: "
)
SPACE_MIN_BYTES = 16 << 20
PACKAGES_DOCS = "/usr/share/doc/lbd/docs"
DOCS = PACKAGES_DOCS if os.path.isdir(PACKAGES_DOCS) else "docs"
FIRST_HOST_LOST = f'"The first host is lost" in {DOCS}/how-to/replace-a-host.md'
FULL_FIX = "make room on that disk: `df {0}; df -i {0}` shows whether bytes or inodes are short"
MOUNT_FIX = (
    "mount {}, then systemctl start lbd.target and `lbctl restart`, since daemons that run without "
    "it go on so"
)
SPACE_FIX = (
    "free some space: `du -xh --max-depth=1 {}` shows what is large; or lower "
    "dispatch.output_keep_days"
)
KEY_FIX = (
    "(umask 077; head -c 48 /dev/urandom | base64 -w0 > FILE), with the same FILE on every host"
)


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: str
    says: str
    fix: str = ""


def local_checks(config: Config) -> Iterator[Check]:
    """Checks what needs no daemon: directories, key, the names in the configuration."""
    yield directory("runtime directory", config.host.runtime_dir)
    user = daemons_account(config)
    yield directory("state directory", config.host.state_dir, is_kept=True, user=user)
    yield from trust(config)
    yield from names(config)
    if risk := exposed(config.dispatch.store, os.environ):
        fix = (
            "remove sslmode from it, and put the server's CA certificate in ~/.postgresql/root.crt"
        )
        yield Check("dispatch.store", WARN, risk, fix)


def directory(
    name: str, path: str, *, is_kept: bool = False, user: LocalUser | None = None
) -> Check:
    """`is_kept`: it also holds files that jobs leave behind, so it grows. `user`: the daemons', if
    root asks."""
    if place := is_kept and unmounted(path):
        says = f"{place} is in /etc/fstab, but nothing is mounted there"
        return Check(name, FAULT, says, MOUNT_FIX.format(place))
    if not os.path.isdir(path):
        says = f"{path} is a file" if os.path.exists(path) else f"{path} does not exist"
        return Check(name, FAULT, says, "lbd up creates it, or set host.*_dir to one it can create")
    owner = os.stat(path).st_uid
    if os.geteuid() in (0, owner) and not os.access(path, os.W_OK):
        return Check(name, FAULT, f"{path} is not writable", f"chown or chmod {path}")
    if user is not None and not may(user, "-w", path):
        says = f"{path} is owned by {owner_name(owner)}, and {user.name}, as whom the daemons run, "
        fix = f"chown {user.name}: {path}; then systemctl start lbd.target (`lbd up` does both)"
        return Check(name, WARN, f"{says}cannot write to it", fix)
    if full := shortage(path):
        return Check(name, FAULT, full, FULL_FIX.format(path))
    if is_kept and (short := shortage_of(Path(path))):
        early = f"below {show_size(short.wanted_bytes)} outputs of ended jobs are removed early"
        return Check(name, WARN, low_space(path, short) + early, SPACE_FIX.format(path))
    if os.geteuid() not in (0, owner):
        return Check(name, OK, f"{path}, owned by {owner_name(owner)}")
    return Check(name, OK, f"{path}, writable{f' by {user.name}' if user else ''}")


def owner_name(uid: int) -> str:
    account = find_account(uid)
    return account.name if account is not None else f"user {uid}"


def daemons_account(config: Config) -> LocalUser | None:
    """Returns the account that LIM, LBM and dispatcher run as. None: root or unknown, or we are not
    root and cannot look on its behalf."""
    account = find_account(config.daemons.user or DEFAULT) if os.geteuid() == 0 else None
    return account if account is not None and account.uid != 0 else None


def may(user: LocalUser, test: str, path: str) -> bool:
    """Returns whether that user may do so. `test`: of test(1), `-r` or `-w`. Only root may ask."""
    who = {"user": user.uid, "group": user.gid, "extra_groups": list(user.groups)}
    looked = subprocess.run(["test", test, path], check=False, **who)  # type: ignore[call-overload]
    return bool(looked.returncode != 1)


def shortage(path: str) -> str:
    """Returns what the file system is short of, or "". Root's reserve does not count."""
    found = os.statvfs(path)
    left = found.f_bavail * found.f_frsize
    if left < SPACE_MIN_BYTES:
        return f"only {left >> 10} KiB left under {path}"
    if found.f_files and not found.f_favail:
        return f"no inodes left under {path}"
    return ""


def low_space(path: str, short: Shortage) -> str:
    found = os.statvfs(path)
    if short.size_bytes <= 0:
        return f"{path}: only {found.f_favail} of {found.f_files} inodes are free, "
    free, size = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    return f"{path}: only {show_size(free)} of {show_size(size)} are free, "


def trust(config: Config) -> Iterator[Check]:
    """Checks how the other hosts authenticate this one."""
    files = host_files(config)
    try:
        joined = files.exist()
    except ConfigError:
        yield Check("certificate", UNSEEN, UNSEEN_SAYS.format(files.root))
        return
    if joined and (open_to_all := files.openness()):
        fix = f"chmod 600 {files.credentials}; then `lbctl restart`"
        yield Check("certificate", FAULT, open_to_all.partition(";")[0], fix)
    elif joined:
        yield from certificate(config, files)
        yield from authority_key(config)
    elif config.security.key_file:
        yield key_file(config.security.key_file)
    elif authority_is_here(config):
        says = f"the authority is here, in {authority_dir(config)}, but this host has none"
        yield Check("certificate", FAULT, says, only_if_lost(config, "`lbctl init`"))
    elif config.cluster.hosts or config.cluster.join:
        says = f"no certificate in {files.root}: no network port is open"
        fix = only_if_lost(config, JOIN_FIX.format(config.host.name))
        yield Check("certificate", FAULT, says, fix)
    else:
        yield Check("certificate", OK, "none, and none is needed: no network port is open")


def only_if_lost(config: Config, fix: str) -> str:
    """A new certificate revokes one that is only on a disk that is not mounted."""
    place = config.host.state_dir
    if unmounted(place):
        return f"{SEE_STATE_DIRECTORY}: a new certificate would revoke that one"
    return f"if {place} is on a disk of its own, check first that it is mounted. If it is, {fix}"


def authority_is_here(config: Config) -> bool:
    """Returns whether the authority is here, as far as we may look."""
    try:
        return Authority(authority_dir(config), config.tls.certificate_s).exists()
    except ConfigError:
        return False


def certificate(config: Config, files: HostFiles) -> Iterator[Check]:
    from lbd.net.tls import Tls

    try:
        tls = Tls(config.host.name, files)
    except ConfigError as problem:
        yield Check("certificate", FAULT, str(problem), JOIN_FIX.format(config.host.name))
        return
    if not is_signed_by(tls.credentials.certificate.encode(), files.read_authority()):
        says = f"{files.credentials} is not signed by the authority in {files.authority}"
        yield Check("certificate", FAULT, says, JOIN_FIX.format(config.host.name))
        return
    begin_s, end_s = tls.credentials.valid_s
    now_s = time.time()
    left_s = end_s - now_s
    if begin_s > now_s:
        says = f"not valid for another {duration_text(begin_s - now_s)}, {clock_here(now_s)}"
        fix = check_clock(f"the authority's was wrong: {JOIN_FIX.format(config.host.name)}")
        yield Check("certificate", FAULT, says, fix)
    elif left_s <= 0:
        says = f"expired {duration_text(-left_s)} ago, {clock_here(now_s)}"
        fix = check_clock(ENDED_FIX + JOIN_FIX.format(config.host.name))
        yield Check("certificate", FAULT, says, fix)
    elif tls.is_revoked(tls.identity):
        yield revoked_here(config, files)
    elif left_s < (end_s - begin_s) / 4:
        home = files.read_home()[0] or "the authority's host"
        fix = (
            f"it should have been renewed by now: is lbd-authority (or `lbd up`) running on {home}?"
        )
        yield Check("certificate", WARN, f"expires in {duration_text(left_s)}", fix)
    else:
        yield Check("certificate", OK, f"{config.host.name}'s, {duration_text(left_s)} left")


def clock_here(now_s: float) -> str:
    """A certificate is judged by this host's clock, so the line says what that shows."""
    return f"by this host's clock: {time.strftime('%Y-%m-%d %H:%M %Z', time.localtime(now_s))}"


def check_clock(otherwise: str, where: str = "here") -> str:
    """To join again is of no use while the clock is wrong. The restart: a daemon waits until the
    time at which the wrong clock has it renew the certificate next."""
    return (
        f"first check the clock {where} with `date`: if it is wrong, set it (chrony or ntpd), then "
        f"`lbctl restart`. If it is right, {otherwise}"
    )


def revoked_here(config: Config, files: HostFiles) -> Check:
    here, own = Authority(authority_dir(config), config.tls.certificate_s), config.host.name
    try:
        replaced = files.read_home()[0] == own and is_superseded(here, files.read_signed())
    except LbdError:  # no authority here, or not readable by us
        replaced = False
    if not replaced and authority_is_here(config) and files.read_home()[0] == own:
        return Check("certificate", FAULT, REVOKED_SAYS, "`lbctl init`, then `lbctl restart`")
    if not replaced:
        ended = REPLACED_FIX.format(paths=files.root)
        fix = REVOKED_FIX.format(host=own, ended=ended, joined=JOIN_FIX.format(own))
        return Check("certificate", FAULT, REVOKED_SAYS, fix)
    says = f"revoked: a machine restored from a backup of this one is {own} now; no queued job "
    fix = REPLACED_FIX.format(paths=f"{files.root} {here.root}")
    return Check("certificate", FAULT, f"{says}starts here", fix)


def authority_key(config: Config) -> Iterator[Check]:
    """On the authority's host: checks whether only root has its key. On its former host: whether
    the key is still there."""
    authority = Authority(authority_dir(config), config.tls.certificate_s)
    try:
        if not authority.exists():
            return
        authority.ledger()
    except ConfigError:
        return  # not readable by us
    home = host_files(config).read_home()[0]
    if home not in ("", config.host.name):
        says = (
            f"{authority.root} still contains the key, with which anyone can impersonate any "
            f"host; the authority is now on {home}"
        )
        yield Check("authority", WARN, says, f"rm -r {authority.root}")
        return
    if os.geteuid() == 0 and (owner := authority.key_file.stat().st_uid):
        says = (
            f"{authority.key_file}, with which anyone can impersonate any host, is owned by "
            f"user {owner}: daemons can read it"
        )
        yield Check("authority", WARN, says, "`lbd up` as root, or lbd-authority.service, fixes it")
    if os.geteuid() == 0 and config.daemons.user != ROOT:
        try:
            check_root_directory(authority.root)
        except ConfigError as problem:
            yield Check(
                "authority", WARN, str(problem), "so a token may belong to another authority"
            )


def key_file(path: str) -> Check:
    if os.path.exists(path) and not os.access(path, os.R_OK):
        return Check("key", UNSEEN, UNSEEN_SAYS.format(path))
    from lbd.net.transport import read_key

    try:
        read_key(path)
    except ConfigError as problem:
        return Check("key", FAULT, str(problem), KEY_FIX)
    return Check("key", OK, f"{path}, private: a lab's, for hosts on loopback")


def names(config: Config) -> Iterator[Check]:
    listed = [entry.name for entry in config.cluster.hosts]
    if listed and config.host.name not in listed and not config.cluster.join:
        says = f"this host, {config.host.name}, is not in cluster.hosts ({', '.join(listed)})"
        yield Check("names", WARN, says, "add it, or set host.name to its name in that list")
    for entry in config.cluster.hosts:
        try:
            socket.getaddrinfo(entry.address, entry.lim_port)
        except OSError as problem:
            says = f"{entry.name}: address {entry.address!r} does not resolve ({problem.strerror})"
            yield Check("names", FAULT, says, "put its IP address in cluster.hosts")

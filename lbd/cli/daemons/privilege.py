"""Which accounts this host's daemons run as: root for the keeper, no privilege for the others."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lbd.config.schema import Config
from lbd.errors import ConfigError
from lbd.keeper.gate import find_account
from lbd.keeper.local_account import OF_SERVICES, LocalUser
from lbd.process.accounts import DEFAULT, ROOT, USERADD
from lbd.process.own_directory import RUNTIME, STATE, make_own
from lbd.process.self_start import PACKAGE_PARENT
from lbd.process.written_disks import SHARED_WORKDIRS

RUNTIME_MODE = 0o775
WORKDIRS_MODE = 0o711
UP = "up.pid"  # of `lbd up`, which stays root; its owner says who may stop it


def daemons_account(config: Config) -> LocalUser | None:
    """Returns the account for LIM, LBM and dispatcher. None: our own account, which is root only if
    the configuration says so. Raises ConfigError."""
    name = config.daemons.user
    if os.geteuid() != 0 or name == ROOT:
        return None
    account = find_account(name or DEFAULT)
    if account is None and name:
        raise ConfigError(f"daemons.user: no user {name!r} here")
    if account is None:
        raise ConfigError(
            f"daemons.user: no user {DEFAULT!r} here for LIM, LBM and dispatcher, which do not run "
            f'as root by default; create it: {" ".join(USERADD)} (or set daemons.user = "root")'
        )
    if account.uid == 0:
        raise ConfigError(f'daemons.user: {account.name} is root; use "root" if that is intended')
    return account


def refuse_root(config: Config, daemon: str) -> None:
    """Refuses to run as root when a daemon is started directly. Raises ConfigError."""
    account = daemons_account(config)
    if account is not None:
        raise ConfigError(
            f"daemons.user: must run as {account.name}, not as root; start it with `lbd up` or "
            f'runuser -u {account.name} -- lbd {daemon}, or set daemons.user = "root"'
        )


def make_account(config: Config) -> str:
    """Creates the default account for the daemons if it is missing and we are root. Returns a line
    on what was done, or on what somebody must do, or "" for neither."""
    if os.geteuid() != 0 or config.daemons.user or find_account(DEFAULT) is not None:
        return ""
    import subprocess

    try:
        done = subprocess.run(USERADD, capture_output=True, text=True, check=False)
        fault = done.stderr.strip().partition("\n")[0] if done.returncode else ""
    except OSError as problem:
        fault = problem.strerror or str(problem)
    if fault or find_account(DEFAULT) is None:
        return f"no user {DEFAULT!r} for the daemons ({fault}); create it: {' '.join(USERADD)}"
    return f"created user {DEFAULT}: LIM, LBM and dispatcher run as it, not as root"


def hand_over(config: Config, account: LocalUser) -> None:
    """Gives the directories of daemons that may have run as root until now to the account. Raises
    ConfigError.

    The runtime directory stays root's, because clients trust no other user's; the daemons' group
    may write there. The state directory is given to the daemons while root owns it: later, entries
    in it may be links that another user made.
    """
    runtime, state = Path(config.host.runtime_dir), Path(config.host.state_dir)
    owners = {0, account.uid}
    make_own(runtime, RUNTIME, owners)
    make_own(state, STATE, owners)
    try:
        with opened(runtime, flags=0) as directory:
            for entry in os.scandir(directory):
                if is_roots(entry) and entry.is_file(follow_symlinks=False) and entry.name != UP:
                    give_file(directory, entry.name, account)
            os.fchown(directory, 0, account.gid)
            os.fchmod(directory, RUNTIME_MODE)
        if not same(runtime, state):
            with opened(state, flags=0) as directory:
                if os.fstat(directory).st_uid == 0:
                    give_all(directory, account)
    except OSError as problem:
        name = problem.filename or f"{runtime}, {state}"
        raise ConfigError(
            f"{name}: cannot be given to {account.name}: {problem.strerror}"
        ) from problem
    check_key(config.security.key_file, account)


def make_workdir_root(config: Config, account: LocalUser | None) -> str:
    """Creates the directory for workdirs before another user makes one of that name in /var/tmp.
    Returns a line to show, or "" if there is none. Raises ConfigError.

    `account` becomes its owner; None means our own account. A directory of an ordinary user is
    moved out of the way.
    """
    path, said = Path(config.stage.root or SHARED_WORKDIRS), ""
    try:
        if path == Path(SHARED_WORKDIRS):
            said = put_aside(path, config.users.min_uid)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700, parents=True)
            with opened(path) as directory:
                os.fchmod(directory, WORKDIRS_MODE)
                if account is not None:
                    os.fchown(directory, account.uid, account.gid)
    except OSError as problem:
        raise ConfigError(f"stage.root {path}: {problem.strerror}") from problem
    return said


def put_aside(path: Path, min_uid: int) -> str:
    """Moves an ordinary user's entry out of the way. Returns a line on that, "" if there was none.
    What cannot be moved, like a mount point, stays: the LBM then uses another directory."""
    try:
        owner = path.lstat().st_uid
        if owner < min_uid or owner in OF_SERVICES:
            return ""
        aside = path.with_name(f"{path.name}.of-user-{owner}.{os.urandom(4).hex()}")
        path.rename(aside)  # renames a link itself, not its target
    except FileNotFoundError:
        return ""
    except OSError as problem:
        return f"{path} cannot be moved out of the way: {problem.strerror}"
    return f"{path} belonged to user {owner}; it is now {aside}"


def check_program(account: LocalUser) -> None:
    """Raises ConfigError if the daemons' user cannot read our program, for example below /root."""
    pid = os.fork()
    if pid == 0:
        try:
            become(account)
            can = os.access(sys.executable, os.X_OK) and os.access(PACKAGE_PARENT, os.R_OK)
            os._exit(0 if can else 1)
        finally:
            os._exit(1)
    if os.waitpid(pid, 0)[1] != 0:
        raise ConfigError(
            f"daemons.user: {account.name} may not run {os.path.realpath(sys.executable)} or read "
            f"{PACKAGE_PARENT}; install lbd where it may (with PYTHON=/usr/bin/python3 "
            'deploy/setup, or deploy/deb), or set daemons.user = "root"'
        )


def check_key(key_file: str, account: LocalUser) -> None:
    """Raises ConfigError."""
    if key_file and os.path.exists(key_file) and os.stat(key_file).st_uid != account.uid:
        raise ConfigError(
            f"security.key_file {key_file} must be readable by {account.name}; chown "
            f"{account.name} it"
        )


def is_roots(entry: "os.DirEntry[str]") -> bool:
    return entry.stat(follow_symlinks=False).st_uid == 0


def same(one: Path, other: Path) -> bool:
    return os.path.samestat(one.stat(), other.stat())


@contextmanager
def opened(
    path: str | Path, directory: int | None = None, flags: int = os.O_NOFOLLOW
) -> Iterator[int]:
    """Opens a directory by its path, or by its name in `directory`."""
    flags |= os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
    descriptor = os.open(path, flags, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def give_file(directory: int, name: str, account: LocalUser) -> None:
    """Gives the account a file of root's that has no other hard link. Of a file with several, the
    account itself might have made this one. Skips sockets, which are bound again anyway, and links.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError:
        return
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_uid == 0 and found.st_nlink == 1:
            os.fchown(descriptor, account.uid, account.gid)
    finally:
        os.close(descriptor)


def give_all(directory: int, account: LocalUser) -> None:
    """Gives the account root's entries in the directory, then the directory itself."""
    for entry in os.scandir(directory):
        if is_roots(entry) and entry.is_dir(follow_symlinks=False):
            with opened(entry.name, directory) as below:
                give_all(below, account)
        elif is_roots(entry):
            give_file(directory, entry.name, account)
    os.fchown(directory, account.uid, account.gid)


def become(account: LocalUser) -> None:
    """Changes identity permanently, between fork and exec. Raises OSError."""
    os.setgroups(account.groups)
    os.setgid(account.gid)
    os.setuid(account.uid)

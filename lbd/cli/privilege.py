"""Whose processes this host's daemons are: the keeper's root, the others without privilege."""

import os
import sys
from pathlib import Path

from lbd.config import Config
from lbd.errors import ConfigError
from lbd.lbm.accounts import find_account
from lbd.lbm.users import LocalUser
from lbd.self_start import PACKAGE_PARENT

DEFAULT = "lbd"
NEVER = ("root",)
RUNTIME_MODE = 0o775


def daemons_account(config: Config) -> LocalUser | None:
    """Whom LIM and LBM run as; None: whoever we are. Raises ConfigError."""
    name = config.daemons.user
    if os.geteuid() != 0 or name in NEVER:
        return None
    account = find_account(name or DEFAULT)
    if name and account is None:
        raise ConfigError(f"daemons.user: no user {name!r} here")
    return account


def hand_over(config: Config, account: LocalUser) -> None:
    """The directories of daemons that may have been root until now. Raises ConfigError.

    The runtime directory stays root's, for clients believe no other user's; the daemons' group may
    write there. The state directory becomes the daemons', as long as it is root's: later what is
    in it may be a link that another user has made.
    """
    runtime, state = Path(config.host.runtime_dir), Path(config.host.state_dir)
    try:
        for directory in (runtime, state):
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        for entry in os.scandir(runtime):
            if is_roots(entry) and not entry.is_dir(follow_symlinks=False):
                give(entry.path, account)
        os.chown(runtime, 0, account.gid)
        runtime.chmod(RUNTIME_MODE)
        if state != runtime and state.stat().st_uid == 0:
            give_all(state, account)
        if (stages := config.stage.root) and not os.path.exists(stages):
            os.makedirs(stages)
            give(stages, account)
    except OSError as problem:
        name = problem.filename or f"{runtime}, {state}"
        raise ConfigError(
            f"{name}: cannot be given to {account.name}: {problem.strerror}"
        ) from problem
    check_key(config.security.key_file, account)


def check_program(account: LocalUser) -> None:
    """Raises ConfigError if the daemons' user cannot get at what runs here, as below /root."""
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
            f"security.key_file {key_file} is for {account.name} to read; chown {account.name} it"
        )


def is_roots(entry: "os.DirEntry[str]") -> bool:
    return entry.stat(follow_symlinks=False).st_uid == 0


def give(path: str, account: LocalUser) -> None:
    os.chown(path, account.uid, account.gid, follow_symlinks=False)


def give_all(directory: Path, account: LocalUser) -> None:
    """What is root's in it, and at last itself."""
    for entry in os.scandir(directory):
        if is_roots(entry) and entry.is_dir(follow_symlinks=False):
            give_all(Path(entry.path), account)
        elif is_roots(entry):
            give(entry.path, account)
    give(str(directory), account)


def become(account: LocalUser) -> None:
    """For good; between fork and exec. Raises OSError."""
    os.setgroups(account.groups)
    os.setgid(account.gid)
    os.setuid(account.uid)

"""Checks the directories in which daemons keep their sockets and files.

A user with write access to such a directory decides what is found there: their own keeper in place
of ours, another pid file. So each directory is checked before anything in it is locked, bound or
trusted: it must be ours or root's, and nobody else may write in it. Below /tmp anybody can create
one first, under the name that ours would have.
"""

import errno
import os
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from lbd.errors import ConfigError, LbdError
from lbd.launch.own_places import may_be_anybodys_mount
from lbd.process.units import why_not_written

RUNTIME, STATE = "host.runtime_dir", "host.state_dir"
FULL = (errno.ENOSPC, errno.EDQUOT)


def make_own(path: Path, key: str, owners: Collection[int] | None = None) -> None:
    """Creates the directory if it is missing. Other users may not list it, since a reader of a
    directory can keep others from creating files in it. `key`: the setting that names it.

    Raises ConfigError if we must not use it, see `fault_of`; LbdError if its disk is full.
    """
    try:
        if not os.path.lexists(path):
            path.mkdir(mode=0o711, parents=True, exist_ok=True)
        fault = fault_of(path, owners)
    except OSError as problem:
        raise not_writable(key, path, problem) from problem
    if fault:
        raise ConfigError(f"{key} {path}: {fault}, or set {key}")


def not_writable(key: str, path: Path, problem: OSError) -> LbdError:
    """Returns a ConfigError, unless the disk is full: after a ConfigError a daemon is not started
    again, but space may be freed."""
    why = why_not_written(problem, path)
    if problem.errno in FULL:
        return LbdError(f"{key} {path}: {why}; free some space")
    return ConfigError(f"{key} {path}: {why}; it must be a directory this user can write to")


def fault_of(path: Path, owners: Collection[int] | None = None) -> str:
    """Returns why this directory must not be used, with advice; "" if it may.

    `owners`: allowed owners, by default root and ourselves. Only root may let a group write there:
    its daemons' account is in that group. Raises OSError.
    """
    allowed = {0, os.geteuid()} if owners is None else set(owners)
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        if found.st_uid not in allowed:
            return f"it is a link owned by user {found.st_uid}; remove it"
        found = os.stat(path)
    if not stat.S_ISDIR(found.st_mode):
        return "Not a directory; it must be a directory this user can write to"
    if may_be_anybodys_mount(str(path)):
        return "it is a file system of its own where anybody may mount one; unmount it"
    if found.st_uid not in allowed:
        return f"it is owned by user {found.st_uid}; have it removed"
    closed = stat.S_IWOTH if found.st_uid == 0 else stat.S_IWOTH | stat.S_IWGRP
    if found.st_mode & closed:
        return "it is writable by others; chmod go-w it"
    return ""


def why_not_believed(path: Path) -> str:
    """Returns why a client must not talk to the sockets there; "" if it may, or if the directory
    does not exist.

    A directory below /run that only root can create may belong to any service.
    """
    with suppress(OSError):
        allowed = {0, os.geteuid()}
        if path.is_relative_to("/run") and not fault_of(path.parent, {0}):
            allowed.add(os.lstat(path).st_uid)
        return fault_of(path, allowed)
    return ""

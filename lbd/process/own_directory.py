"""The directories that daemons keep their sockets and files in.

Whoever can write such a directory decides what is found there: another user's keeper in place of
ours, another pid file. So each is looked at before anything in it is locked, bound or believed:
it must be ours or root's, and nobody else may write in it. Below /tmp anybody can make one first,
under the name that ours would have.
"""

import os
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from lbd.errors import ConfigError

RUNTIME, STATE = "host.runtime_dir", "host.state_dir"


def make_own(path: Path, key: str, owners: Collection[int] | None = None) -> None:
    """Makes it where it is missing; nobody else lists it, for who reads a directory can keep others
    from making files in it. `key`: what names it in the configuration.

    Raises ConfigError if it is not for us to use; see `fault_of`.
    """
    try:
        if not os.path.lexists(path):
            path.mkdir(mode=0o711, parents=True, exist_ok=True)
        fault = fault_of(path, owners)
    except OSError as problem:
        raise ConfigError(
            f"{key} {path}: {problem.strerror}; it must be a directory this user can write to"
        ) from problem
    if fault:
        raise ConfigError(f"{key} {path}: {fault}, or set {key}")


def fault_of(path: Path, owners: Collection[int] | None = None) -> str:
    """Why this directory is not to be used, with what to do; "" if it may be.

    `owners`: who may own it, root and ourselves by default. Only root may let a group write there:
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
    if found.st_uid not in allowed:
        return f"it is owned by user {found.st_uid}; have it removed"
    closed = stat.S_IWOTH if found.st_uid == 0 else stat.S_IWOTH | stat.S_IWGRP
    if found.st_mode & closed:
        return "it is writable by others; chmod go-w it"
    return ""


def why_not_believed(path: Path) -> str:
    """Why a client is not to talk to the sockets there; "" if it may, or if there is no such place.

    What root alone can make below /run may be any service's.
    """
    with suppress(OSError):
        allowed = {0, os.geteuid()}
        if path.is_relative_to("/run") and not fault_of(path.parent, {0}):
            allowed.add(os.lstat(path).st_uid)
        return fault_of(path, allowed)
    return ""

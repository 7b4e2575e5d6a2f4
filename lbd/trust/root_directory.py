"""Where root keeps the authority: a directory that nobody else can change or replace. An authority
that an earlier release kept in the daemons' own directory is moved there.
"""

import contextlib
import os
import stat
from pathlib import Path

from lbd.config.schema import Config
from lbd.errors import ConfigError
from lbd.launch.own_places import first_of_others
from lbd.trust.authority import Authority, opened_file
from lbd.trust.files import authority_dir, make_private_dir, opened, read, write_private

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def check_root_directory(path: Path) -> None:
    """Raises ConfigError unless root alone decides what is found at that path: the directory and
    every directory and link on the way belong to root."""
    try:
        place = first_of_others(f"{path}", (0,))
        found = os.lstat(place) if place else os.stat(path)
    except OSError as problem:
        raise ConfigError(f"{path}: {problem.strerror}") from problem
    if place or found.st_mode & OTHERS_WRITE or not stat.S_ISDIR(found.st_mode):
        raise ConfigError(
            f"{place or path} can be changed by others than root (owner {found.st_uid}, mode "
            f"{stat.S_IMODE(found.st_mode):o}), so the cluster's authority could be replaced; "
            "chown root and chmod go-w it, or set tls.authority_dir"
        )


def move_authority(config: Config, *, need_root: bool) -> str:
    """Moves an authority that is still in the daemons' directory. Returns what was done, or "".

    `need_root`: the daemons run as another user, who could have put any directory there, so only
    what that user cannot have made is trusted. Raises ConfigError.
    """
    root, old = authority_dir(config), Path(config.host.state_dir, "authority")
    is_here = bool(config.tls.authority_dir) or Authority(root, 0.0).exists()
    if is_here or not Authority(old, 0.0).exists():
        return ""
    try:
        with opened(old) as directory:
            if need_root and not is_roots(directory):
                raise ConfigError(
                    f"others than root could have changed {old}; if it is your cluster's "
                    f"authority, run as root: cp -rT {old} {root} && rm -r {old}"
                )
            here = Path(f"/proc/self/fd/{directory}")
            files = {name: taken(here / name) for name in ("ledger.json", "authority.pem")}
            make_private_dir(root)
            for name, data in files.items():  # the key last: its presence makes the authority exist
                write_private(root / name, data)
            for name in files:
                os.unlink(name, dir_fd=directory)
        with contextlib.suppress(OSError):
            old.rmdir()
    except OSError as problem:
        raise ConfigError(f"{old} cannot be moved to {root}: {problem.strerror}") from problem
    return f"the authority has moved from {old} to {root}"


def is_roots(directory: int) -> bool:
    found = os.fstat(directory)
    return found.st_uid == 0 and not found.st_mode & OTHERS_WRITE


def taken(path: Path) -> bytes:
    with opened_file(path):  # not a link, and without another name
        return read(path)

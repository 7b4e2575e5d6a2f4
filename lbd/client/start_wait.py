"""Waits a short time for an LBM that is being started, for commands that need one."""

import posix
from typing import TYPE_CHECKING

from lbd.client.lbm_socket import connect, may_be_at
from lbd.local.starting import Patience, how_to_start, starter

if TYPE_CHECKING:
    from _socket import socket

NONE_FOUND = {"lbm": "no lbm is running here", "lim": "no lim is running here"}


def connect_once_started(directories: list[str]) -> "tuple[socket | None, str]":
    """Returns the connection, or None and the reason."""
    believed, patience = list(filter(is_believed, directories)), Patience()
    while by := next(filter(None, (starter(one, "lbm") for one in believed)), ""):
        if (sock := connect(directories)) is not None:
            return sock, ""
        if not patience.wait():
            return None, (
                f"this host's LBM is starting or stopping ({by}) and does not answer yet; try "
                "again shortly"
            )
    return connect(directories), none_found(directories)


def none_found(directories: list[str], daemon: str = "lbm") -> str:
    """Returns why no LBM, or other daemon, could be connected to."""
    from lbd.local.own_lab import others_lab

    where = " or ".join(directories)
    return others_lab(directories[0]) or f"{NONE_FOUND[daemon]} (looked in {where})"


def remedy(what: str, runtime_dirs: list[str]) -> str:
    """Returns the advice to append to `what`, the reason why no LBM or LIM answered."""
    if not what.startswith(tuple(NONE_FOUND.values())):
        return ""
    return lab_remedy(what, runtime_dirs) or f"; {how_to_start(runtime_dirs)}"


def lab_remedy(what: str, runtime_dirs: list[str]) -> str:
    """Returns the advice for a user whose lab runs, to append to `what`; "" for others."""
    if not what.startswith(tuple(NONE_FOUND.values())):
        return ""
    from lbd.local.own_lab import own_lab_advice

    lab = own_lab_advice(runtime_dirs[0])
    return f"; {lab}" if lab else ""


def is_believed(directory: str) -> bool:
    try:
        return may_be_at(directory, posix.lstat(directory).st_uid)
    except OSError:
        return False

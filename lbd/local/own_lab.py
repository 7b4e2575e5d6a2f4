"""The lab that `lbd lab up` makes without --dir, found by programs that act from no lab's host.

In a second terminal the user has not typed the `eval` line: daemons are missing at the
usual place, though a lab of theirs runs.
"""

import os
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, socket
from collections.abc import Iterator
from shlex import quote

from lbd.config.load import default_runtime_dir

MADE_BY = "# made by `lbd lab`"  # first line of files that a lab may remove
LAB = "lab"  # its directory in the user's runtime directory
HOSTS_MAX = 300


def own_lab_advice(runtime_dir: str) -> str:
    """Returns how to act from the caller's lab, if one runs; "" if not, or if `runtime_dir`, where
    no daemon answered, is of a host of that lab."""
    root = f"{default_runtime_dir()}/{LAB}"
    if f"{os.path.realpath(runtime_dir)}/".startswith(f"{os.path.realpath(root)}/"):
        return ""
    host = next(filter(None, answering_hosts(root)), "")
    return f'a lab of yours is running; type: eval "$(lbd lab env {host})"' if host else ""


def start_in_lab(runtime_dir: str) -> str:
    """Returns the command that starts the daemons of a lab's host, whose runtime directory this is;
    "" for other hosts."""
    if not is_of_lab(runtime_dir):
        return ""
    root, host = os.path.split(os.path.dirname(runtime_dir))
    where = "" if root == f"{default_runtime_dir()}/{LAB}" else f" --dir {quote(root)}"
    return f"lbd lab start {host}{where}"


def is_of_lab(runtime_dir: str) -> bool:
    """Returns whether this is the runtime directory of a lab's host."""
    place, last = os.path.split(runtime_dir)
    try:
        with open(f"{place}/lbd.toml", encoding="utf-8", errors="replace") as file:
            is_labs = file.read(len(MADE_BY)) == MADE_BY
    except OSError:
        return False
    return last == "run" and is_host(os.path.basename(place)) and is_labs


def others_lab(runtime_dir: str) -> str:
    """Returns whose lab it is of, if another user started that; "" if it is of none."""
    file = f"{os.path.dirname(runtime_dir)}/lbd.toml"
    return belongs_to_another(file) if is_of_lab(runtime_dir) else ""


def belongs_to_another(path: str) -> str:
    """Returns whose lab has this file, or the part of its path that we may look at; "" if the lab
    is ours or root's."""
    try:
        uid = os.lstat(path).st_uid
    except PermissionError:
        return belongs_to_another(os.path.dirname(path))
    except OSError:
        return ""
    if uid in (0, os.geteuid()):
        return ""
    from pwd import getpwuid  # only then, since clients import this file

    try:
        owner = getpwuid(uid).pw_name
    except KeyError:
        owner = f"user {uid}"
    return f"this lab belongs to {owner}, and only a lab that root starts is for all users"


def answering_hosts(root: str) -> Iterator[str]:
    """Yields the lab's hosts whose LBM listens, h1 first; none if another user may have made the
    directory."""
    try:
        above = os.lstat(os.path.dirname(root))
        if {above.st_uid, os.lstat(root).st_uid} != {os.geteuid()} or above.st_mode & 0o022:
            return
        numbers = [int(name[1:]) for name in os.listdir(root) if is_host(name)]
    except OSError:
        return
    for number in sorted(numbers)[:HOSTS_MAX]:
        if listens(f"{root}/h{number}/run/lbm.sock"):
            yield f"h{number}"


def is_host(name: str) -> bool:
    return name[:1] == "h" and name[1:].isascii() and name[1:].isdecimal()


def listens(path: str) -> bool:
    sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK)
    try:
        sock.connect(path)
    except BlockingIOError:  # too many clients wait to be accepted
        return True
    except OSError:
        return False
    finally:
        sock.close()
    return True

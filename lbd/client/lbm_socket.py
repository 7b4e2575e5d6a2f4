"""Finds this host's LBM and connects to it if root or the caller has started it."""

import posix
import sys

from lbd.client.complaints import Trouble, encode
from lbd.launch.own_places import (
    FILE_TYPE,
    SHARED,
    is_kept,
    is_ours_alone,
    may_be_anybodys_mount,
)

TYPE_CHECKING = False  # importing typing would cost a millisecond
if TYPE_CHECKING:
    from _socket import socket

SOL_SOCKET, SO_PEERCRED = 1, 17
RESTART_S = 30.0  # the next LBM must answer within this time after one has left
REGULAR, DIRECTORY = 0o100000, 0o040000  # of `st_mode`

GONE = (
    # config/load.py has the same text
    "; if it belonged to a lab that no longer exists, `unset LBD_CONFIG`"
)
CONFIG_BYTES_MAX, PATH_SHOWN = 1 << 24, 400


def find_runtime_dirs(config: str | None) -> list[str]:
    """Returns where lbm.sock may be. Reads only `runtime_dir` from lbd.toml, without a TOML
    parser."""
    environment: dict[bytes, bytes] = posix.environ
    home = environment.get(b"HOME", b"")
    given = encode(config) if config is not None else environment.get(b"LBD_CONFIG", b"")
    for path in [given] if given else [home + b"/.config/lbd/lbd.toml", b"/etc/lbd/lbd.toml"]:
        try:
            text = b"\n" + read_config(path, of_root=not given and posix.geteuid() == 0)
        except OSError as problem:
            if given:
                shown = path[:PATH_SHOWN].decode(errors="replace")
                gone = problem.errno in (2, 20) and config is None
                named = f"$LBD_CONFIG {shown}" if config is None else shown
                raise Trouble(f"{named}: {problem.strerror}{GONE if gone else ''}") from None
            continue
        _, found, rest = text.partition(b'\nruntime_dir = "')
        if found and b"\\" not in rest.partition(b'"')[0]:
            return [rest.partition(b'"')[0].decode(errors="surrogateescape")]
        if b"runtime_dir" in text:
            from lbd.client.unusual_config import runtime_dir_of

            return [runtime_dir_of(path)]
        if 0 < text.count(b"\n[") == text.count(b"\n[eligibility]"):
            continue  # as in `config.load`: it has no settings of hosts
        break
    uid = posix.geteuid()
    if uid == 0:
        return ["/run/lbd"]
    base = environment.get(b"XDG_RUNTIME_DIR", b"").decode(errors="surrogateescape")
    own = f"{base}/lbd" if base else f"/tmp/lbd-{uid}"  # noqa: S108  # `may_be_at` checks it
    return [own, "/run/lbd"]


def is_kept_here(config: str | None, command: list[bytes]) -> bool:
    """Returns whether `eligibility.never` of the user's own lbd.toml, which the LBM does not read,
    names the command. Raises Trouble if the file cannot be understood."""
    environment: dict[bytes, bytes] = posix.environ
    given = encode(config) if config is not None else environment.get(b"LBD_CONFIG", b"")
    path = given or environment.get(b"HOME", b"") + b"/.config/lbd/lbd.toml"
    try:
        text = read_config(path, of_root=not given and posix.geteuid() == 0)
    except OSError:
        return False
    if b"never" not in text:
        return False
    from lbd.client.unusual_config import never_leaves

    return never_leaves(path, command)


def read_config(path: bytes, *, of_root: bool) -> bytes:
    """Raises OSError also if it is not a regular file, since a FIFO may block and a device may
    be endless. With `of_root` root alone may decide what is there: after `sudo -E`, root has
    another user's HOME."""
    file = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
    try:
        status = posix.fstat(file)
        if status.st_mode & FILE_TYPE != REGULAR or status.st_size > CONFIG_BYTES_MAX:
            raise OSError(0, "not a regular file")
        if of_root and not is_ours_alone(path.decode(errors="surrogateescape")):
            raise OSError(0, "another user's")
        return posix.read(file, CONFIG_BYTES_MAX)
    finally:
        posix.close(file)


def connect(runtime_dirs: list[str], daemon: str = "lbm") -> "socket | None":
    """Returns a connection to this host's LBM, or its LIM, or None.

    Objects of other users are not trusted: neither a directory (checked before we wait for a
    process there) nor the listening process.
    """
    from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socket

    for directory in runtime_dirs:
        sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
        try:
            owner = posix.lstat(directory).st_uid
            if may_be_at(directory, owner):
                sock.connect(f"{directory}/{daemon}.sock")
                listener = listener_of(sock)
                if listener == owner or may_be_at(directory, listener):
                    return sock
        except OSError:
            pass
        sock.close()
    return None


def is_restarting(sock: "socket") -> bool:
    """Returns whether the LBM has made way for another, which will handle our request."""
    from time import time

    path: str = sock.getpeername()
    try:
        left_s = posix.stat(path.removesuffix("sock") + "restarting").st_mtime
    except OSError:
        return False
    return time() - left_s < RESTART_S


def listener_of(sock: "socket") -> int:
    """Returns the uid of the listening process."""
    credentials: bytes = sock.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def may_be_at(path: str, user: int) -> bool:
    """Returns whether an object of `user` at `path` is there by root's or our will: the directories
    above it are root's or ours, and nobody else can replace anything in them.

    So the daemons' account may own /run/lbd, which only root can create. Another user may own
    neither /run/user/UID/lbd, which lies in a directory of theirs, nor /run/lock/lbd, which anybody
    can create. Raises OSError.
    """
    if may_be_anybodys_mount(path):
        return False
    ours = (0, posix.geteuid())
    if user in ours:
        return True
    above = path.rstrip("/").rpartition("/")[0] or "/"
    if not (path.startswith("/") and is_ours_alone(above)):
        return False
    around, status = posix.stat(above), posix.stat(path)
    if around.st_mode & SHARED and not is_kept(around, posix.lstat(path), ours):
        return False  # in a directory like /tmp anybody can create missing entries
    is_closed = status.st_mode & FILE_TYPE == DIRECTORY and not status.st_mode & 0o002
    return is_closed and status.st_uid in (user, 0)

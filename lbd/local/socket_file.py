"""Creates Unix sockets in the file system so that only the intended user can ever connect."""

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from lbd.errors import ConfigError

BACKLOG = 1024


def bind_at(sock: socket.socket, path: str, mode: int, owner: int | None = None) -> None:
    """Binds at `path`, replacing what is there. `owner`: another owner, which root may set. Raises
    OSError.

    Neither chmod nor chown uses the path: another user with write access to the directory may have
    put a different file there by then.
    """
    with suppress(FileNotFoundError):
        os.unlink(path)
    mask = os.umask(0o777 & ~mode)
    try:
        sock.bind(path)
    finally:
        os.umask(mask)
    if owner is not None and owner != os.geteuid():
        give(path, owner)


def give(path: str, owner: int) -> None:
    """Gives one of our sockets to another owner. Raises OSError."""
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink > 1:
            raise PermissionError(1, "it is not the socket created here", path)
        os.chown(f"/proc/self/fd/{descriptor}", owner, -1)
    finally:
        os.close(descriptor)


def bind_unix(path: Path, mode: int, owner: int | None = None) -> socket.socket:
    """Returns a listening socket at `path` and replaces a stale one. The daemon's pid lock ensures
    that it is stale.

    `owner`: another owner than ourselves.

    Raises ConfigError if the directory cannot be written.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        bind_at(sock, str(path), mode, owner)
        sock.listen(BACKLOG)
    except OSError as problem:
        sock.close()
        raise ConfigError(f"cannot listen on {path}: {problem.strerror or problem}") from problem
    sock.setblocking(False)
    return sock

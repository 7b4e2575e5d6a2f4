"""Writes files atomically, in any directory.

Others may write in that directory, too (/tmp, a group's). So the file is first created under a name
that nobody can guess, and only if that name is free: through a link left there, our data would have
gone into another file.
"""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

NAME_BYTES_MAX = 200  # of the file's own name, with which the temporary one begins
UNFINISHED = ".new"


def write_whole(
    path: str | Path,
    data: bytes,
    mode: int | None = None,
    is_durable: bool = False,
    prepare: Callable[[int], None] = lambda _: None,
    at: int | None = None,
) -> None:
    """Replaces the file in one step. Raises OSError, also if the present one is no file but, say, a
    device.

    `mode`: applied as it is; without it the umask applies to 0666. `is_durable`: both data and name
    are on disk when this returns. `prepare` is called with the descriptor before the file is put in
    place. `at`: an open directory that `path` is a name in.
    """
    above, name = os.path.split(os.fsencode(path))
    fresh = name[:NAME_BYTES_MAX] + f".{os.urandom(8).hex()}{UNFINISHED}".encode()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    directory = os.open(above or b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
    try:
        need_file(name, directory)
        descriptor = os.open(fresh, flags, 0o666 if mode is None else mode, dir_fd=directory)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if mode is not None:
                    os.fchmod(descriptor, mode)
                prepare(descriptor)
                if is_durable:
                    os.fsync(descriptor)
            os.replace(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.unlink(fresh, dir_fd=directory)
            raise
        if is_durable:
            os.fsync(directory)
    finally:
        os.close(directory)


def need_file(name: bytes, directory: int) -> None:
    """Refuses to replace what is not a file: root's /dev/null would become one. Raises OSError."""
    try:
        kind = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
        number = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
        text = os.strerror(number) if stat.S_ISDIR(kind) else "Not a regular file"
        raise OSError(number, text)

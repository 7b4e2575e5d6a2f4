"""Blobs that the workers of one executor share on one host, in a directory of memory.

A worker that is alone on its host holds blobs in private memory until it is asked to share them.

Each worker holds a shared lock on the directory. The last worker to leave removes it. If all were
killed, the next worker of this user on the host removes it.
"""

import contextlib
import errno
import fcntl
import itertools
import mmap
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lbd.launch.own_places import may_be_anybodys_mount
from lbd.python.pipes import PIECE_BYTES, move, read_exactly, skip

NAME = re.compile(r"[0-9A-Za-z._-]{1,200}")
LOOKED_AT_MAX = 4096  # entries examined, in a directory that all users share
NAME_CHARS = 180  # of the name, in a directory that is one worker's own
MEMORY = "/dev/shm"  # noqa: S108  # directories in it are created with mode 0700 and checked


class HostCache:
    def __init__(self, place: Path, name: str) -> None:
        """Raises OSError, ValueError."""
        if not NAME.fullmatch(name):
            raise ValueError(f"no name of a cache: {name!r}")
        self._own: dict[bytes, bytes] = {}
        prefix = f"lbd-python-{os.getuid()}-"
        for swept in {place, temporary()}:
            with contextlib.suppress(OSError):
                sweep(swept, prefix)
        own = f"{prefix}{name[:NAME_CHARS]}-{secrets.token_hex(8)}"
        self._directory, self._lock = lock_first(
            place / f"{prefix}{name}",
            place / own,  # another user took the name after the last worker left
            temporary() / own,  # another user has taken all of the memory file system
        )

    def path(self, digest: bytes) -> Path:
        return self._directory / digest.hex()

    def store(self, digest: bytes, size: int, source: int) -> None:
        """Moves a blob from a descriptor into the cache. Raises OSError, EOFError."""
        left = size
        try:
            with self._new(digest) as file:
                while left:
                    count, fault = move(source, file.fileno(), min(left, PIECE_BYTES))
                    left -= count
                    if fault is not None:
                        raise fault
                    if not count:
                        raise EOFError
        except OSError:  # no memory left, or no more files
            skip(source, left)  # so that the next frame can still be read
            raise

    @contextlib.contextmanager
    def _new(self, digest: bytes) -> Iterator[BinaryIO]:
        """Yields a file that becomes the blob once it has been written."""
        new = self._directory / f"{digest.hex()}.{os.getpid()}"
        try:
            with new.open("wb") as file:
                yield file
        except OSError:
            new.unlink(missing_ok=True)
            raise
        new.rename(self.path(digest))

    def store_own(self, digest: bytes, size: int, source: int) -> None:
        """Like `store`, but in this worker's private memory. Raises OSError, EOFError."""
        try:
            self._own[digest] = read_exactly(source, size)
        except MemoryError:
            skip(source, size)
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from None

    def share(self, digest: bytes) -> None:
        """Shares a private blob with the other workers. It stays private if this raises OSError."""
        if digest in self._own:
            with self._new(digest) as file:
                file.write(self._own[digest])
            del self._own[digest]

    def drop(self, digest: bytes) -> None:
        self._own.pop(digest, None)
        with contextlib.suppress(FileNotFoundError):
            self.path(digest).unlink()

    def open(self, digest: bytes) -> memoryview:
        """Returns the bytes as writable memory for one task. Raises OSError."""
        if (own := self._own.get(digest)) is not None:
            copy = mmap.mmap(-1, len(own), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with contextlib.suppress(OSError):  # not every kernel supports it
                copy.madvise(mmap.MADV_HUGEPAGE)
            copy.write(own)
            return memoryview(copy)
        with self.path(digest).open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))

    def read(self, digest: bytes) -> bytes:
        """Returns the bytes: a copy if they are shared, as mapping is slower. Raises OSError."""
        return self._own.get(digest) or self.path(digest).read_bytes()

    def close(self) -> None:
        """Closes the lock without cleaning up, as if the worker had been killed."""
        os.close(self._lock)

    def leave(self) -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(self._directory, ignore_errors=True)


def place(cache_bytes: int) -> Path:
    """Returns the memory file system if large enough, else the directory for temporary files."""
    with contextlib.suppress(OSError):
        found = os.statvfs(MEMORY)
        if found.f_blocks * found.f_frsize >= cache_bytes and os.access(MEMORY, os.W_OK | os.X_OK):
            return Path(MEMORY)
    return temporary()


def temporary() -> Path:
    """Returns TMPDIR, unless others could rename what is ours there."""
    named = os.environ.get("TMPDIR") or ""
    with contextlib.suppress(OSError):
        mode = os.stat(named).st_mode
        if mode & stat.S_ISVTX or not mode & (stat.S_IWOTH | stat.S_IWGRP):
            return Path(named)
    return Path("/tmp")  # noqa: S108  # as above


def lock_first(*directories: Path) -> tuple[Path, int]:
    """Locks the first of these directories that it can, as `lock` does. Raises OSError."""
    for directory in directories[:-1]:
        with contextlib.suppress(OSError):
            return directory, lock(directory)
    return directories[-1], lock(directories[-1])


def lock(directory: Path) -> int:
    """Returns a shared lock on the directory, which is created if missing. Raises OSError."""
    while True:
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        try:
            handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:  # the last worker has just left
            continue
        found = os.fstat(handle)
        is_ours = found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
        if not is_ours or may_be_anybodys_mount(str(directory)):
            os.close(handle)
            raise PermissionError(f"{directory} is somebody else's, or open to others")
        fcntl.flock(handle, fcntl.LOCK_SH)
        with contextlib.suppress(FileNotFoundError):
            if os.stat(directory, follow_symlinks=False).st_ino == found.st_ino:
                return handle
        os.close(handle)


def sweep(place: Path, prefix: str) -> None:
    """Removes what killed workers left behind. Looks only at the first `LOOKED_AT_MAX` entries,
    because any user can create a million. Raises OSError."""
    with os.scandir(place) as found:
        names = [entry.name for entry in itertools.islice(found, LOOKED_AT_MAX)]
    for path in [place / name for name in names if name.startswith(prefix)]:
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.getuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)

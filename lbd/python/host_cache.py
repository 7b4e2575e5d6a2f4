"""Blobs in a directory of memory that the workers of one executor on one host share.

Each worker holds a shared lock on it; who finds itself the last one removes it, and so does the
next worker of this user on the host if all were killed.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import re
import secrets
import shutil
import stat
from pathlib import Path

NAME = re.compile(r"[0-9A-Za-z._-]{1,200}")
NAME_CHARS = 180  # of it, where a worker has to have a place of its own
MEMORY = "/dev/shm"  # noqa: S108  # each directory in it is made with our own rights, and checked
PIECE_BYTES = 1 << 20


class HostCache:
    def __init__(self, place: Path, name: str) -> None:
        """Raises OSError, ValueError."""
        if not NAME.fullmatch(name):
            raise ValueError(f"no name of a cache: {name!r}")
        prefix = f"lbd-python-{os.getuid()}-"
        sweep(place, prefix)
        self._directory = place / f"{prefix}{name}"
        try:
            self._lock = lock(self._directory)
        except OSError:  # another user has made something there, when the last worker had left
            self._directory = place / f"{prefix}{name[:NAME_CHARS]}-{secrets.token_hex(8)}"
            self._lock = lock(self._directory)

    def path(self, digest: bytes) -> Path:
        return self._directory / digest.hex()

    def store(self, digest: bytes, size: int, source: int) -> None:
        """Moves a blob here from a descriptor. Raises OSError, EOFError."""
        new = self._directory / f"{digest.hex()}.{os.getpid()}"
        left, fault = size, None
        with new.open("wb", buffering=0) as file:
            while left:
                most = min(left, PIECE_BYTES)
                if fault is None:
                    count, fault = move(source, file.fileno(), most)
                    is_end = not count and fault is None
                else:  # what comes after it is to be understood
                    count = len(os.read(source, most))
                    is_end = not count
                if is_end:
                    raise EOFError
                left -= count
        if fault is not None:  # the memory is full
            new.unlink()
            raise fault
        new.rename(self.path(digest))

    def drop(self, digest: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.path(digest).unlink()

    def open(self, digest: bytes) -> memoryview:
        """Its bytes, a page of which is copied when it is written to. Raises OSError."""
        with self.path(digest).open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))

    def read(self, digest: bytes) -> bytes:
        """A copy of its bytes, sooner had than by way of a map. Raises OSError."""
        return self.path(digest).read_bytes()

    def close(self) -> None:
        """As if the worker were killed."""
        os.close(self._lock)

    def leave(self) -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(self._directory, ignore_errors=True)


def move(source: int, target: int, limit_bytes: int) -> tuple[int, OSError | None]:
    """Moves some bytes, within the kernel where it can do that. How many have left the source, and
    why they are not in the target. Raises OSError if the source cannot be read."""
    try:
        return os.splice(source, target, limit_bytes), None
    except OSError as problem:
        if problem.errno != errno.EINVAL:
            return 0, problem
    data = os.read(source, limit_bytes)  # no pipe, or a file system that does not take part
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(target, view) :]
    except OSError as problem:
        return len(data), problem
    return len(data), None


def place(cache_bytes: int) -> Path:
    """Memory where it is large enough, else the directory for temporary files."""
    with contextlib.suppress(OSError):
        found = os.statvfs(MEMORY)
        if found.f_blocks * found.f_frsize >= cache_bytes and os.access(MEMORY, os.W_OK | os.X_OK):
            return Path(MEMORY)
    return Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108  # as above


def lock(directory: Path) -> int:
    """A shared lock on the directory, which is made if need be. Raises OSError."""
    while True:
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        try:
            handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:  # the last one has just left
            continue
        found = os.fstat(handle)
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
            os.close(handle)
            raise PermissionError(f"{directory} is somebody else's, or open to others")
        fcntl.flock(handle, fcntl.LOCK_SH)
        with contextlib.suppress(FileNotFoundError):
            if os.stat(directory, follow_symlinks=False).st_ino == found.st_ino:
                return handle
        os.close(handle)


def sweep(place: Path, prefix: str) -> None:
    """Removes what workers that were killed have left."""
    for path in place.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.getuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)

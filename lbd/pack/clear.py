"""Clearing trees away, of whatever depth.

`shutil.rmtree` holds a descriptor for each level, and ends at a thousand. Here the directories of a
directory are moved up into the tree's own before it is removed, so that each is one level deep by
its turn. No symbolic link is followed.
"""

import os
from contextlib import suppress

from lbd.pack.pack import OPEN_DIRECTORY

ROUNDS = 3  # more may have come into it meanwhile


def clear_away(path: bytes) -> None:
    """Whatever is called so, a whole tree if it is one; quietly, as far as our rights go."""
    with suppress(OSError):
        os.unlink(path)
        return
    with suppress(OSError):
        allow_all(path, None)
        top = os.open(path, OPEN_DIRECTORY)
        try:
            for _ in range(ROUNDS):
                empty(top)
        finally:
            os.close(top)
    with suppress(OSError):
        os.rmdir(path)


def empty(top: int) -> None:
    """`top`: an open directory. Raises OSError if it cannot be read."""
    mark, moved = os.urandom(8).hex(), 0  # a name that nobody in it can have
    left = remove_in(top)
    while left:
        name = left.pop()
        with suppress(OSError):
            directory = os.open(name, OPEN_DIRECTORY, dir_fd=top)
            try:
                for below in remove_in(directory):
                    moved += 1
                    with suppress(OSError):
                        fresh = f".lbd-{mark}-{moved}".encode()
                        os.rename(below, fresh, src_dir_fd=directory, dst_dir_fd=top)
                        left.append(fresh)
            finally:
                os.close(directory)
            os.rmdir(name, dir_fd=top)


def remove_in(directory: int) -> list[bytes]:
    """Removes what is in a directory, but for directories that are not empty: returns those."""
    left: list[bytes] = []
    for name in map(os.fsencode, os.listdir(directory)):
        try:
            os.unlink(name, dir_fd=directory)
        except OSError:
            with suppress(OSError):
                allow_all(name, directory)
                left.append(name)
    return left


def allow_all(path: bytes, above: int | None) -> None:
    """Its owner may do all with a directory: with that one, even if there is a link in its place a
    moment later. Root may as it is. Raises OSError, also if it is no directory."""
    directory = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        if os.geteuid() != 0:
            with suppress(PermissionError):  # another's; what is in it may be ours to remove
                os.chmod(f"/proc/self/fd/{directory}", 0o700)
    finally:
        os.close(directory)

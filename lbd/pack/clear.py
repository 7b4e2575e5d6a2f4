"""Removes trees of any depth.

`shutil.rmtree` holds a descriptor for each level, so it fails at a thousand. Here the
subdirectories of a directory are moved up into the tree's root before it is removed, so that each
is one level deep when its turn comes. No symbolic link is followed.
"""

import os
from contextlib import suppress

from lbd.pack.pack import OPEN_DIRECTORY

ROUNDS = 3  # more may be added meanwhile


def clear_away(path: bytes, above: int | None = None) -> None:
    """Removes a file or a whole tree, named from the open directory `above` if given; quietly, as
    far as our rights go."""
    with suppress(OSError):
        os.unlink(path, dir_fd=above)
        return
    with suppress(OSError):
        allow_all(path, above)
        top = os.open(path, OPEN_DIRECTORY, dir_fd=above)
        try:
            for _ in range(ROUNDS):
                empty(top)
        finally:
            os.close(top)
    with suppress(OSError):
        os.rmdir(path, dir_fd=above)


def empty(top: int) -> None:
    """Empties the open directory `top`. Raises OSError if it cannot be read."""
    mark, moved = os.urandom(8).hex(), 0  # a name that nothing in it can have
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
    """Removes what is in a directory; returns the subdirectories that are not empty."""
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
    """Gives the owner all rights to a directory; opened first, so that it is that one even if a
    link replaces it. Root needs no rights. Raises OSError, also if it is no directory."""
    directory = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        if os.geteuid() != 0:
            with suppress(PermissionError):  # another user's; its contents may be ours to remove
                os.chmod(f"/proc/self/fd/{directory}", 0o700)
    finally:
        os.close(directory)

"""Directories that are to be the same when files come back as when they were sent.

Others may be able to write into a directory on the way, and then they can rename everything in it,
also what is not theirs. So a symbolic link there is not followed, and a directory counts only if it
is known by more than its name.
"""

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from ctypes import CDLL
from functools import cache
from typing import NamedTuple

from lbd.launch.directory_look import file_system, look
from lbd.launch.directory_stamp import ANY_BOOT, Stamp, comparison, is_same, on_its_host, read_stamp
from lbd.launch.own_places import LINKS_MAX, is_kept

STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ITSELF = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
BY_NAME = b"*"  # of a file system that keeps no inode numbers
LIBC = CDLL(None)
file_system_of = cache(file_system)


class Noted(NamedTuple):
    """What is to have a path's names later, too: packed stamps, b"" where there was nothing."""

    above: bytes = b""  # the directory that it is in
    itself: bytes = b""  # if it is a directory


UNKNOWN = Noted()


def note(paths: Sequence[bytes], start: bytes = b".") -> list[Noted]:
    """Notes what is at these paths, relative to the directory `start`. Each directory is looked at
    once, so that it is the same one for all of them. Raises NotOurs, with the path, for a link that
    is not followed.
    """
    seen = dict[bytes, bytes]()

    def stamp(path: bytes, *, follow: bool) -> bytes:
        if path in seen:
            return seen[path]
        try:
            parent, _ = open_way(os.path.join(path, b".") if follow else path, start=start)
            try:
                found = os.open(b"." if follow else os.path.basename(path), STEP, dir_fd=parent)
                try:
                    seen[path] = _stamp(found)
                finally:
                    os.close(found)
            finally:
                os.close(parent)
        except NotOurs:
            raise
        except OSError:  # there is none
            return b""
        return seen[path]

    noted = []
    for path in paths:
        try:
            above = stamp(os.path.dirname(path), follow=True)
            noted.append(Noted(above, stamp(path, follow=False)))
        except NotOurs as problem:
            problem.filename = path
            raise
    return noted


def pack_notes(notes: Sequence[Noted]) -> bytes:
    return b"\n".join(b",".join(one) for one in notes)


def read_notes(data: bytes) -> list[Noted]:
    """Raises ValueError if malformed."""
    found = []
    for line in data.splitlines():
        above, itself = line.split(b",")
        found.append(Noted(above, itself))
    return found


def _stamp(directory: int) -> bytes:
    """Raises OSError."""
    found = on_its_host(_look(directory))
    if found is None:
        return BY_NAME
    _, inode, _, born_ns, *_ = comparison(found, "")
    return Stamp(ANY_BOOT, 0, inode, born_ns).pack()


def has(stamp: bytes, directory: int) -> bool:
    """Whether that open directory is the noted one. Raises OSError, ValueError if the stamp is
    malformed."""
    if stamp in (b"", BY_NAME):
        return stamp == BY_NAME
    return is_same(_look(directory), read_stamp(stamp))


def _look(directory: int) -> Stamp:
    return look(b"/proc/self/fd/%d" % directory, "", LIBC, file_system_of)


class NotOurs(PermissionError):
    """A link on the way that is not followed."""


def open_parent(path: bytes, *, make: bool = False) -> int:
    """Opens the directory that contains a relative path's last name, through no link. Raises
    OSError.

    `make`: create missing directories on the way.
    """
    return _open(path, b".", make=make, follow=False)[0]


def open_way(path: bytes, *, make: bool = False, start: bytes = b".") -> tuple[int, bool]:
    """Like `open_parent`, but follows links that nobody but root and the caller can have put there,
    which are their own business. Returns also whether nobody else can have put anything on the way.
    """
    return _open(path, start, make=make, follow=True)


def _open(path: bytes, start: bytes, *, make: bool, follow: bool) -> tuple[int, bool]:
    parent, is_kept_way = os.open(os.path.join(start, b"."), STEP), True
    names, links = path.split(b"/")[-2::-1], 0
    given = len(names)  # so many are not from a link's target
    try:
        while names:
            name = names.pop()
            is_given, given = len(names) < given, min(given, len(names))
            if make and is_given:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=parent)
            if name in (b"", b"."):
                continue
            try:
                below = os.open(name, STEP, dir_fd=parent)
            except NotADirectoryError:
                target = _target(parent, name) if follow else b""
                if not target:
                    raise
                if (links := links + 1) > LINKS_MAX:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
                names += target.split(b"/")[::-1]
                if not target.startswith(b"/"):
                    continue
                below = os.open(b"/", STEP)
            else:
                around = (below, parent) if name == b".." else (parent, below)
                is_kept_way = is_kept_way and is_ours(*around)
            os.close(parent)
            parent = below
    except BaseException:
        os.close(parent)
        raise
    return parent, is_kept_way


def _target(parent: int, name: bytes) -> bytes:
    """Returns the target of a link; b"" if it is none. Raises OSError."""
    link = os.open(name, ITSELF, dir_fd=parent)
    try:
        if not stat.S_ISLNK(os.fstat(link).st_mode):
            return b""
        if not is_ours(parent, link):
            shown = name.decode(errors="replace")
            raise NotOurs(
                errno.EPERM,
                f"{shown} is a symbolic link in a directory where others may write, and is not "
                "followed; start from where it leads (-C)",
            )
        return os.readlink(b"", dir_fd=link)
    finally:
        os.close(link)


def is_ours(above: int, found: int) -> bool:
    """Whether nobody but root and the caller can have put there what is found in a directory."""
    return is_kept(os.fstat(above), os.fstat(found), (0, os.geteuid()))

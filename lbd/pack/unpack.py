"""Puts the files that come back from a workdir into the directory they were requested from.

It runs as the user, at the pace of a pipe or file. Each listed path is created beside its place and
moved there in one step once all of it has arrived, so nothing partly fetched is ever seen under its
name, whatever is killed on the way.

Others may be able to write into that directory, and then they can rename everything in it, also
what is not theirs. So what arrives is created within a directory that only its user may enter: one
for all listed paths of a directory, since each takes two descriptors until everything has arrived.
"""

import ctypes
import errno
import os
import stat
from contextlib import suppress
from itertools import dropwhile
from typing import BinaryIO

from lbd.pack.clear import clear_away
from lbd.pack.pack import (
    OPEN_DIRECTORY,
    Allowance,
    BadPack,
    Unpacked,
    Unpacker,
    naming,
    open_parent,
    shown,
)

RENAME_EXCHANGE = 2
FRESH, OLD, PROBE = HELD = b".lbd-new", b".lbd-old", b".lbd-probe"  # what their names begin with


class Fetching:
    """Unpacks listed paths below the current directory."""

    def __init__(self, send: list[bytes], fetch: list[bytes], mark: int) -> None:
        """`send`: paths that were sent and so may be replaced. `mark`: part of the names beside
        ours, the same for each try."""
        self._send = send
        self._fetch = fetch
        self._mark = mark

    def check(self, directory: bytes = b".") -> None:
        """Checks that no directory would be lost: each is replaced as a whole, so only one that was
        sent may be. Raises BadPack.
        """
        for path in self._fetch:
            if any(path == s or path.startswith(s + b"/") or s == b"." for s in self._send):
                continue
            place = os.path.join(directory, path)
            try:
                occupied = bool(os.listdir(place)) and not os.path.islink(place)
            except OSError:
                continue
            if occupied:
                raise BadPack(
                    f"{shown(path)}: directory is not empty; --send it too, since it is replaced "
                    "as a whole"
                )

    def unpack(self, source: BinaryIO, allowance: Allowance, *, all_there: bool) -> None:
        """`all_there`: no path may be missing. Raises BadPack, OSError."""
        self.clear()  # leftovers of a killed transfer with the same mark
        parents, holders = dict[bytes, int](), dict[bytes, int]()
        beside = dict[bytes, bytes]()

        def place(number: int) -> tuple[int, bytes]:
            if number >= len(self._fetch):
                raise BadPack("received more than requested")
            path = self._fetch[number]
            above = os.path.dirname(path)
            if above not in parents:
                parents[above] = open_parent(path, follow=True, make=True)
                beside[above] = self._beside(number)
                holders[above] = hold(parents[above], beside[above])
            return holders[above], FRESH + b"-%d" % number

        def allows_link(path: bytes, target: bytes) -> bool:
            number, _, below = path.partition(b"/")
            return stays_inside(os.path.join(self._fetch[int(number)], below).rstrip(b"/"), target)

        try:
            result = Unpacker(source, allowance, place, allows_link, self._fetch).unpack()
            if result.missing and all_there:
                names = ", ".join(shown(self._fetch[number]) for number in sorted(result.missing))
                raise BadPack(f"{names}: the command did not create it")
            self._commit(result, parents, holders)
        finally:
            for holder in holders.values():
                clear_held(holder)
            for above, parent in parents.items():
                with suppress(OSError):
                    os.rmdir(beside[above], dir_fd=parent)
            for descriptor in (*parents.values(), *holders.values()):
                os.close(descriptor)

    def _commit(
        self, result: Unpacked, parents: dict[bytes, int], holders: dict[bytes, int]
    ) -> None:
        """Moves everything into its place. Raises BadPack, usually before anything was moved."""
        arrived = sorted(result.arrived)
        Fetching(self._send, [self._fetch[number] for number in arrived], self._mark).check()
        for number in arrived:
            path = self._fetch[number]
            above, name = os.path.split(path)
            with naming(path):
                put_in_place(holders[above], number, parents[above], name)

    def _beside(self, number: int) -> bytes:
        return b".lbd-%d-%d" % (self._mark, number)

    def clear(self, directory: bytes = b".") -> None:
        """Removes what a killed transfer has left."""
        for number, path in enumerate(self._fetch):
            beside = os.path.join(directory, os.path.dirname(path), self._beside(number))
            with suppress(OSError):
                holder = os.open(beside, OPEN_DIRECTORY)
                try:
                    clear_held(holder)
                finally:
                    os.close(holder)
                os.rmdir(beside)


def hold(parent: int, name: bytes) -> int:
    """Makes a directory that only its user may enter, and opens it. Raises OSError, and BadPack if
    it was replaced at once."""
    os.mkdir(name, 0o700, dir_fd=parent)
    holder = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
    try:
        # What is ours may look like another user's, on a file system that knows no users
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        probe = os.open(PROBE, flags, 0o600, dir_fd=holder)
        owner = os.fstat(probe).st_uid
        os.close(probe)
        if os.fstat(holder).st_uid != owner or os.listdir(holder) != [os.fsdecode(PROBE)]:
            raise BadPack(f"{shown(name)}: somebody has replaced it")
        os.unlink(PROBE, dir_fd=holder)
        mode = stat.S_IMODE(os.fstat(holder).st_mode)
        if mode & 0o077:  # else nothing is changed: that could take away setgid, and so the group
            with suppress(OSError):
                os.fchmod(holder, mode & 0o7700)
    except BaseException:
        os.close(holder)
        raise
    return holder


def clear_held(holder: int) -> None:
    """Removes what is ours in it, and nothing else: it may be another directory by now."""
    with suppress(OSError):
        for name in map(os.fsencode, os.listdir(holder)):
            if name.startswith(HELD):
                clear_away(name, holder)


def stays_inside(link: bytes, target: bytes) -> bool:
    """Returns whether a symbolic link at this path of the working directory points into it.

    ".." after a name is refused: the name may be another link, whose target has another parent.
    """
    if target.startswith(b"/") or not target:
        return False
    steps = [step for step in target.split(b"/") if step not in (b"", b".")]
    if b".." in dropwhile(b"..".__eq__, steps):
        return False
    end = os.path.normpath(os.path.join(os.path.dirname(link), target))
    return end != b".." and not end.startswith(b"../")


def put_in_place(holder: int, number: int, parent: int, name: bytes) -> None:
    """Moves what has arrived to `name`, in one step. Raises OSError."""
    fresh, old = FRESH + b"-%d" % number, OLD + b"-%d" % number
    try:
        move(fresh, holder, name, parent)
        return
    except OSError as problem:
        if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    libc = ctypes.CDLL(None)
    exchange = getattr(libc, "renameat2", None)
    if exchange is not None and exchange(holder, fresh, parent, name, RENAME_EXCHANGE) == 0:
        return  # the old one, now under the fresh one's name, is removed later
    move(name, parent, old, holder)
    try:
        move(fresh, holder, name, parent)
    except BaseException:
        for back in (name, name[:200] + OLD):  # the latter if something has got its name
            with suppress(OSError):
                move(old, holder, back, parent)
                break
        raise


def move(name: bytes, source: int, moved: bytes, target: int) -> None:
    """Renames it from one open directory to another, also a directory of ours that nobody may write
    to. Raises OSError."""
    try:
        os.rename(name, moved, src_dir_fd=source, dst_dir_fd=target)
        return
    except PermissionError as problem:
        found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=source)
        try:
            status, itself = os.fstat(found), f"/proc/self/fd/{found}"
            if not stat.S_ISDIR(status.st_mode) or status.st_mode & stat.S_IWUSR:
                raise problem from None
            os.chmod(itself, status.st_mode & 0o777 | stat.S_IWUSR)
            try:
                os.rename(name, moved, src_dir_fd=source, dst_dir_fd=target)
            finally:
                os.chmod(itself, status.st_mode & 0o777)
        finally:
            os.close(found)

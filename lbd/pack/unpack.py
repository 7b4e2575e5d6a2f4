"""Puts the files that come back from a workdir into the directory they were requested from.

It runs as the user, at the pace of a pipe or file. Each listed path is created beside its place and
moved there in one step once all of it has arrived, so nothing partly fetched is ever seen under its
name, whatever is killed on the way.

Others may be able to write into that directory, and then they can rename everything in it, also
what is not theirs. So what arrives is created within a directory that only its user may enter: one
for all listed paths of a directory, since each takes two descriptors until everything has arrived.
And of what has the name of a listed path by then, only the very directory that was sent is replaced
and removed; another one is put aside.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import dropwhile
from typing import BinaryIO

from lbd.pack.clear import clear_away
from lbd.pack.pack import (
    OPEN_DIRECTORY,
    Allowance,
    BadPack,
    Unpacked,
    Unpacker,
    check_is,
    naming,
    shown,
)
from lbd.pack.places import ITSELF, UNKNOWN, Noted, has, is_ours, open_way

RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
FRESH, OLD, PROBE = HELD = b".lbd-new", b".lbd-old", b".lbd-probe"  # what their names begin with
KEPT = b"kept"  # not one of these


class Fetching:
    """Unpacks listed paths below the current directory."""

    def __init__(
        self, send: list[bytes], fetch: list[bytes], mark: int, noted: Sequence[Noted] = ()
    ) -> None:
        """`send`: paths that were sent and so may be replaced. `mark`: part of the names beside
        ours, the same for each try. `noted`: what the paths to fetch were when they were sent, as
        far as anybody has looked."""
        self._send = send
        self._fetch = fetch
        self._mark = mark
        self._noted = noted

    def _is_sent(self, path: bytes) -> bool:
        return any(path == s or path.startswith(s + b"/") or s == b"." for s in self._send)

    def check(self, directory: bytes = b".") -> None:
        """Checks that no directory would be lost: each is replaced as a whole, so only one that was
        sent may be. Raises BadPack.
        """
        for path in self._fetch:
            if self._is_sent(path):
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

    def unpack(self, source: BinaryIO, allowance: Allowance, *, all_there: bool) -> str:
        """Returns what was put aside, for the user; "" if nothing was. `all_there`: no path may be
        missing. Raises BadPack, OSError."""
        self.clear()  # leftovers of a killed transfer with the same mark
        places = dict[bytes, Place]()

        def place(number: int) -> tuple[int, bytes]:
            if number >= len(self._fetch):
                raise BadPack("received more than requested")
            above = os.path.dirname(self._fetch[number])
            if above not in places:
                places[above] = self._open(number)
            return places[above].holder, FRESH + b"-%d" % number

        def allows_link(path: bytes, target: bytes) -> bool:
            number, _, below = path.partition(b"/")
            return stays_inside(os.path.join(self._fetch[int(number)], below).rstrip(b"/"), target)

        try:
            result = Unpacker(source, allowance, place, allows_link, self._fetch).unpack()
            if result.missing and all_there:
                names = ", ".join(shown(self._fetch[number]) for number in sorted(result.missing))
                raise BadPack(f"{names}: the command did not create it")
            return self._commit(result, places)
        finally:
            for opened in places.values():
                opened.close()

    def _open(self, number: int) -> "Place":
        """Opens the directory that a listed path is in. Raises OSError, BadPack."""
        path, noted = self._fetch[number], self._noted_of(number)
        parent, is_safe = open_way(path, make=True)
        try:
            if noted.above and not is_safe:
                check_is(noted.above, parent, os.path.dirname(path) or b".")
                is_safe = True
            beside = self._beside(number)
            return Place(parent, hold(parent, beside), beside, is_safe)
        except BaseException:
            os.close(parent)
            raise

    def _noted_of(self, number: int) -> Noted:
        return self._noted[number] if number < len(self._noted) else UNKNOWN

    def _commit(self, result: Unpacked, places: dict[bytes, "Place"]) -> str:
        """Moves everything into its place. Returns what was put aside. Raises BadPack, usually
        before anything was moved."""
        arrived, aside = sorted(result.arrived), list[str]()
        Fetching(self._send, [self._fetch[number] for number in arrived], self._mark).check()
        for number in arrived:
            path = self._fetch[number]
            above, name = os.path.split(path)
            itself = self._noted_of(number).itself
            arrival = Arrival(places[above], number, name, self._is_sent(path), itself)
            with naming(path):
                if other := arrival.put_in_place(self._mark):
                    aside.append(f"{shown(path)} is not what it was; that is {shown(other)} now")
        return "; ".join(aside)

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


@dataclass(frozen=True, slots=True)
class Place:
    """A directory that listed paths are put into."""

    directory: int
    holder: int  # where they arrive
    beside: bytes  # its name in the directory
    is_safe: bool  # nobody else can have put another directory in its place

    def close(self) -> None:
        """Removes the holder."""
        clear_held(self.holder)
        with suppress(OSError):
            os.rmdir(self.beside, dir_fd=self.directory)
        os.close(self.directory)
        os.close(self.holder)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A listed path that has arrived, and what may be removed for it."""

    place: Place
    number: int
    name: bytes
    is_sent: bool
    itself: bytes  # stamp of the directory that was sent; b"" if nobody has looked

    def put_in_place(self, mark: int) -> bytes:
        """Moves it to its name. Returns the new name of what had that and was not sent, b"" if it
        was. Raises OSError, BadPack."""
        parent, holder = self.place.directory, self.place.holder
        fresh, old = FRESH + b"-%d" % self.number, OLD + b"-%d" % self.number
        aside = self.name[:200] + OLD + b"-%d" % mark
        try:
            # Where others may write, they could as well remove a file or an empty directory
            move(fresh, holder, self.name, parent, may_replace=self.place.is_safe)
            return b""
        except OSError as problem:
            if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        if not self._may_go(self.name, parent):
            self._put_aside(aside)
            return aside
        try:
            rename_as(RENAME_EXCHANGE, fresh, holder, self.name, parent)
            old = fresh
        except OSError:  # a file system that cannot
            move(self.name, parent, old, holder)
        if is_other := not self._may_go(old, holder):  # it came just now
            self._put_back(old, aside)
        if old == fresh:
            return aside if is_other else b""  # else it is removed with the holder
        try:
            move(fresh, holder, self.name, parent)
        except BaseException:
            with suppress(FileNotFoundError):  # it is aside
                self._put_back(old, self.name, self.name[:200] + OLD)
            raise
        return aside if is_other else b""

    def _put_aside(self, aside: bytes) -> None:
        """Gives what has the name another one, and moves what has arrived there. Raises OSError,
        BadPack."""
        parent, fresh = self.place.directory, FRESH + b"-%d" % self.number
        try:
            move(self.name, parent, aside, parent)
        except FileExistsError:
            raise BadPack(
                f"{shown(self.name)} is not what it was, and there is {shown(aside)} already; "
                "move it away"
            ) from None
        try:
            move(fresh, self.place.holder, self.name, parent)
        except BaseException:
            with suppress(OSError):  # unless something has got its name
                move(aside, parent, self.name, parent)
            raise

    def _may_go(self, name: bytes, directory: int) -> bool:
        """Whether what has that name is what was sent, and so may be removed. Raises OSError."""
        if not (self.is_sent and self.place.is_safe):
            return False
        found = os.open(name, ITSELF, dir_fd=directory)
        try:
            if self.itself:
                return has(self.itself, found)
            return is_ours(self.place.directory, found)  # only root or the caller may write there
        finally:
            os.close(found)

    def _put_back(self, name: bytes, *others: bytes) -> None:
        """Moves it out of the holder, to the first name that is free, or keeps the holder. Raises
        OSError, then."""
        for other in others:
            with suppress(OSError):
                move(name, self.place.holder, other, self.place.directory)
                return
        os.rename(name, KEPT, src_dir_fd=self.place.holder, dst_dir_fd=self.place.holder)
        raise FileExistsError(errno.EEXIST, f"what had this name is in {shown(self.place.beside)}")


def move(name: bytes, source: int, moved: bytes, target: int, *, may_replace: bool = False) -> None:
    """Renames it from one open directory to another, also a directory of ours that nobody may write
    to. Raises OSError."""
    change = replace if may_replace else rename
    try:
        change(name, source, moved, target)
        return
    except PermissionError as problem:
        found = os.open(name, ITSELF, dir_fd=source)
        try:
            status, itself = os.fstat(found), f"/proc/self/fd/{found}"
            if not stat.S_ISDIR(status.st_mode) or status.st_mode & stat.S_IWUSR:
                raise problem from None
            os.chmod(itself, status.st_mode & 0o777 | stat.S_IWUSR)
            try:
                change(name, source, moved, target)
            finally:
                os.chmod(itself, status.st_mode & 0o777)
        finally:
            os.close(found)


def replace(name: bytes, source: int, moved: bytes, target: int) -> None:
    """Raises OSError."""
    os.rename(name, moved, src_dir_fd=source, dst_dir_fd=target)


def rename(name: bytes, source: int, moved: bytes, target: int) -> None:
    """Replaces nothing. Raises OSError."""
    try:
        rename_as(RENAME_NOREPLACE, name, source, moved, target)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOSYS):
            raise
        with suppress(FileNotFoundError):  # a file system that cannot, as NFS: nearly as good
            os.stat(moved, dir_fd=target, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        replace(name, source, moved, target)


def rename_as(how: int, name: bytes, source: int, moved: bytes, target: int) -> None:
    """Raises OSError, also if the file system cannot rename in this way."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None or call(source, name, target, moved, how) != 0:
        number = errno.ENOSYS if call is None else ctypes.get_errno()
        raise OSError(number, os.strerror(number))

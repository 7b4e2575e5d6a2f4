"""Puts the files that come back from a workdir into the directory they were requested from.

It runs as the user, at the pace of a pipe or file. Each listed path is created beside its place and
moved there in one step once all of it has arrived, so nothing partly fetched is ever seen under its
name, whatever is killed on the way.
"""

import ctypes
import errno
import os
from itertools import dropwhile
from typing import BinaryIO

from lbd.pack.clear import clear_away
from lbd.pack.pack import (
    Allowance,
    BadPack,
    Unpacked,
    Unpacker,
    naming,
    open_parent,
    shown,
)

RENAME_EXCHANGE = 2


class Fetching:
    """Unpacks listed paths below the current directory."""

    def __init__(self, send: list[bytes], fetch: list[bytes], mark: int) -> None:
        """`send`: paths that were sent and so may be replaced. `mark`: part of the names beside
        ours, with digits that nobody else with write access there can guess."""
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
        parents: dict[int, int] = {}

        def place(number: int) -> tuple[int, bytes]:
            if number >= len(self._fetch):
                raise BadPack("received more than requested")
            path = self._fetch[number]
            if number not in parents:
                parents[number] = open_parent(path, follow=True, make=True)
            return parents[number], self._beside(path, number)

        def allows_link(path: bytes, target: bytes) -> bool:
            number, _, below = path.partition(b"/")
            return stays_inside(os.path.join(self._fetch[int(number)], below).rstrip(b"/"), target)

        try:
            result = Unpacker(source, allowance, place, allows_link, self._fetch).unpack()
            if result.missing and all_there:
                names = ", ".join(shown(self._fetch[number]) for number in sorted(result.missing))
                raise BadPack(f"{names}: the command did not create it")
            self._commit(result, parents)
        finally:
            for parent in parents.values():
                os.close(parent)
            self.clear()

    def _commit(self, result: Unpacked, parents: dict[int, int]) -> None:
        """Moves everything into its place. Raises BadPack, usually before anything was moved."""
        arrived = sorted(result.arrived)
        Fetching(self._send, [self._fetch[number] for number in arrived], self._mark).check()
        for number in arrived:
            path = self._fetch[number]
            name, fresh = os.path.basename(path), self._beside(path, number)
            with naming(path):
                put_in_place(parents[number], fresh, name)

    def _beside(self, path: bytes, number: int) -> bytes:
        name = os.path.basename(path)[:200]
        return b".%b.lbd-%d-%d" % (name, self._mark, number)

    def clear(self, directory: bytes = b".") -> None:
        """Removes what a killed transfer has left, or what was replaced."""
        for number, path in enumerate(self._fetch):
            fresh = os.path.join(directory, os.path.dirname(path), self._beside(path, number))
            for left in (fresh, fresh + b".old"):
                clear_away(left)


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


def put_in_place(parent: int, fresh: bytes, name: bytes) -> None:
    """Renames `fresh` to `name`, in one step. Raises OSError."""
    try:
        os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
        return
    except OSError as problem:
        if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    libc = ctypes.CDLL(None)
    exchange = getattr(libc, "renameat2", None)
    if exchange is not None and exchange(parent, fresh, parent, name, RENAME_EXCHANGE) == 0:
        return  # the old one, now under the fresh one's name, is removed later
    os.rename(name, fresh + b".old", src_dir_fd=parent, dst_dir_fd=parent)
    os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)

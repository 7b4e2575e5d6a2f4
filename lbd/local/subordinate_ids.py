"""Whose a number of /etc/subuid is: who has a range of them is one person, not thousands.

With a user namespace (newuidmap) a process takes any number of its user's range, and budgets by
number would give that user as many shares as the range has numbers.
"""

import pwd
import time
from bisect import bisect_right
from pathlib import Path

from lbd.local.late_answers import LateAnswers

FILE = Path("/etc/subuid")
LOOK_EVERY_S = 10.0  # whether the file has changed
FILE_BYTES_MAX = 1 << 22
Range = tuple[int, int, str]  # first, count, whose: a name or a number


def read_ranges(text: str) -> list[Range]:
    """In order; a line that makes no sense is left out, as newuidmap does."""
    found: list[Range] = []
    for line in text.splitlines():
        parts = line.split(":")
        if len(parts) == 3 and parts[0] and parts[1].isdecimal() and parts[2].isdecimal():
            found.append((int(parts[1]), int(parts[2]), parts[0]))
    return sorted(found)


class Subordinates:
    """The ranges that the file assigns now; none where there is no file."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._ranges: list[Range] = []
        self._firsts: list[int] = []
        self._stamp: tuple[int, int] | None = None
        self._look_at_s = 0.0
        self._uids = LateAnswers(lambda name: pwd.getpwnam(name).pw_uid)

    def person(self, uid: int, now_s: float) -> int:
        """Who has that number: itself, or the user in whose range it is."""
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + LOOK_EVERY_S
            self._look()
        at = bisect_right(self._firsts, uid) - 1
        if at < 0:
            return uid
        first, count, whose = self._ranges[at]
        found = self._uid_of(whose) if uid < first + count else None
        return uid if found is None else found

    def _look(self) -> None:
        try:
            found = self._file.stat()
            stamp = found.st_mtime_ns, found.st_size
            if stamp == self._stamp:
                return
            with self._file.open(encoding="utf-8", errors="replace") as file:
                ranges = read_ranges(file.read(FILE_BYTES_MAX))
        except OSError:
            ranges, stamp = [], None
        self._ranges, self._stamp = ranges, stamp
        self._firsts = [first for first, _, _ in ranges]

    def _uid_of(self, whose: str) -> int | None:
        return int(whose) if whose.isdecimal() else self._uids.get(whose)


OF_THIS_HOST = Subordinates()


def person_of(uid: int) -> int:
    return OF_THIS_HOST.person(uid, time.monotonic())


def range_owner(uid: int, name: str) -> int | None:
    """Who has that number as one of a range; None of one that is an account of its own. `name`: by
    which the host knows it, the number itself if it has none."""
    owner = person_of(uid) if name == str(uid) else uid
    return None if owner == uid else owner

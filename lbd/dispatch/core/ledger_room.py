"""Limits on the room on the ledger's disk, so that no user or host can take all of it.

A submission brings its command, its environment and perhaps its input, up to some megabytes, which
stay on record while its jobs wait, and for `jobs_keep_days` after their end. So a user may have as
much on record as is left for all others, and the users of one host three times as much. The last
part of the disk is reserved for changes of existing jobs. Pure.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lbd.text.job_phrases import NOT_WRITTEN
from lbd.text.units import show_size

HOST_PARTS = 3  # multiples of the remaining room that each host may have; a user may have one
RESERVE_SHARE = 20  # a twentieth of the disk
RESERVE_BYTES_MAX = 256 << 20
SMALL_BYTES = 4096  # about what the smallest submission takes, with its environment
CHANGE_BYTES = 1 << 20  # what changes of existing jobs need
NO_MORE = "so the queue takes no new jobs; those in it go on"
NONE_BEGINS = "so the queue takes no new jobs and begins none; what runs goes on"
ENDED_SHARE = 2  # half of the room is for ended jobs


class OnRecord(NamedTuple):
    """What one user's submissions from one host take."""

    who: object  # as in the ledger
    user: str  # as given by `share_of`
    origin: str
    jobs: int
    size_bytes: int


class Disk(NamedTuple):
    free_bytes: int
    size_bytes: int
    directory: str = ""  # of the ledger

    @property
    def reserve_bytes(self) -> int:
        return min(self.size_bytes // RESERVE_SHARE, RESERVE_BYTES_MAX)

    @property
    def is_full(self) -> bool:
        """Whether it may lack the room for changes of existing jobs."""
        return self.free_bytes < min(CHANGE_BYTES, self.reserve_bytes + SMALL_BYTES)

    @property
    def where(self) -> str:
        return self.directory or "the disk of the ledger"


Weight = Literal["jobs", "bytes"]


@dataclass(frozen=True, slots=True)
class Excess:
    """The users with more on record than their share of that of a host, from which they submitted
    it, each with the host and the first job to keep."""

    who: str  # the column that identifies users
    first_kept: tuple[tuple[object, str, int], ...] = ()


class LedgerRoom:
    def __init__(self) -> None:
        self._of_user: Counter[str] = Counter()
        self._of_host: Counter[str] = Counter()

    def counted(self, found: Iterable[OnRecord]) -> None:
        """Replaces the counts by those of the ledger itself."""
        self._of_user.clear()
        self._of_host.clear()
        for one in found:
            self.take(one.user, one.origin, one.size_bytes)

    def take(self, user: str, origin: str, size_bytes: int) -> None:
        """`size_bytes` is negative if the submission failed after all."""
        self._of_user[user] += size_bytes
        self._of_host[origin] += size_bytes

    def why_not(
        self, user: str, origin: str, size_bytes: int, limit_bytes: int, disk: Disk | None
    ) -> str:
        """Returns why these bytes are not accepted; "" if they are. `limit_bytes`: for everything
        on record. `disk`: None if unknown."""
        if full := self.full(limit_bytes, disk, size_bytes):
            return full
        left = self._left(limit_bytes, disk) - size_bytes
        for who, has_bytes, parts in (
            (user, self._of_user[user], 1), (origin, self._of_host[origin], HOST_PARTS)
        ):  # fmt: skip
            if has_bytes + size_bytes > parts * left:
                return (
                    f"{who}'s jobs take {show_size(has_bytes)} of the queue's ledger, which "
                    f"leaves only {show_size(left)} for others"
                )
        return ""

    def full(self, limit_bytes: int, disk: Disk | None, size_bytes: int = SMALL_BYTES) -> str:
        """Returns why so many bytes are accepted from nobody; "" if they are from some."""
        if limit_bytes - self._of_host.total() < size_bytes:
            full = f"the ledger is full (dispatch.ledger_bytes is {show_size(limit_bytes)})"
            return f"{full}, {NO_MORE}"
        if disk is not None and self._left(limit_bytes, disk) < size_bytes:
            return f"{disk.where} is full, {NONE_BEGINS if disk.is_full else NO_MORE}"
        return ""

    def why_closed(self, limit_bytes: int, disk: Disk | None, trouble: str) -> str:
        """Returns why jobs are accepted from nobody now. `trouble`: why the last change could not
        be written; "" if it could."""
        full = self.full(limit_bytes, disk)
        if full and trouble:
            return full.replace(NO_MORE, NONE_BEGINS)
        return full or (f"{trouble}, {NOT_WRITTEN}" if trouble else "")

    def _left(self, limit_bytes: int, disk: Disk | None) -> int:
        left = limit_bytes - self._of_host.total()
        return left if disk is None else min(left, disk.free_bytes - disk.reserve_bytes)

    def ended_bytes(self, limit_bytes: int, disk: Disk | None) -> int:
        """Returns how many bytes of ended jobs are kept, for all users together. Where others fill
        the disk, it would not help to drop the little that these take."""
        most = limit_bytes // ENDED_SHARE
        if disk is None:
            return most
        free_bytes = max(0, disk.free_bytes - disk.reserve_bytes)
        share = (self._of_host.total() + free_bytes) // ENDED_SHARE
        return min(most, max(share, disk.reserve_bytes))


def until_written(disk: Disk | None, trouble: str, host: str) -> str:
    """Returns what has to come about before changes can be counted on to be written; "" if they can
    now. `trouble`: why the last one was not; `host`: the dispatcher's."""
    if disk is not None and disk.is_full:
        return f"there is room on {host}: {disk.where} is full"
    return f"{host} can write the ledger: {trouble}" if trouble else ""

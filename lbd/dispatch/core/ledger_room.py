"""Room on the ledger's disk, which has an end: nobody takes it all.

A submission brings its command, its environment and perhaps its input, up to some megabytes; what
is on record stays there for as long as its jobs wait, and for `jobs_keep_days` after their end. So
a user may have as much on record as is left for everybody else, and the users of one host three
times as much. The last of the disk is for what happens to the jobs that are there. Pure.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lbd.text.units import show_size

HOST_PARTS = 3  # of what is left, for each host; a user may have one
RESERVE_SHARE = 20  # a twentieth of the disk
RESERVE_BYTES_MAX = 256 << 20
ENDED_SHARE = 2  # half of the room is for jobs that have ended


class OnRecord(NamedTuple):
    """What the submissions of one user from one host take."""

    who: object  # as the ledger has it; None: of a ledger that did not keep uids
    user: str  # as `share_of` has it
    origin: str
    jobs: int
    size_bytes: int


class Disk(NamedTuple):
    free_bytes: int
    size_bytes: int

    @property
    def reserve_bytes(self) -> int:
        return min(self.size_bytes // RESERVE_SHARE, RESERVE_BYTES_MAX)


Weight = Literal["jobs", "bytes"]


@dataclass(frozen=True, slots=True)
class Excess:
    """Of users with more on record than their share: the first job that is kept."""

    who: str  # the column that tells users apart
    first_kept: tuple[tuple[object, int], ...] = ()


class LedgerRoom:
    def __init__(self) -> None:
        self._of_user: Counter[str] = Counter()
        self._of_host: Counter[str] = Counter()

    def counted(self, found: Iterable[OnRecord]) -> None:
        """What the ledger itself says, in place of what we know."""
        self._of_user.clear()
        self._of_host.clear()
        for one in found:
            self.take(one.user, one.origin, one.size_bytes)

    def take(self, user: str, origin: str, size_bytes: int) -> None:
        """`size_bytes` may be below 0: it did not come, after all."""
        self._of_user[user] += size_bytes
        self._of_host[origin] += size_bytes

    def why_not(
        self, user: str, origin: str, size_bytes: int, limit_bytes: int, disk: Disk | None
    ) -> str:
        """Why these bytes are not taken; "" if they are. `limit_bytes`: of all that is on record;
        `disk`: None if nothing is known of it."""
        left = limit_bytes - self._of_host.total() - size_bytes
        if disk is not None:
            left = min(left, disk.free_bytes - disk.reserve_bytes - size_bytes)
        if left < 0:
            return "the disk of the queue's ledger is full, except for what its jobs need"
        for who, has_bytes, parts in (
            (user, self._of_user[user], 1), (origin, self._of_host[origin], HOST_PARTS)
        ):  # fmt: skip
            if has_bytes + size_bytes > parts * left:
                return (
                    f"{who}'s jobs take {show_size(has_bytes)} of the queue's ledger, which "
                    f"leaves only {show_size(left)} for others"
                )
        return ""

    def ended_bytes(self, limit_bytes: int, disk: Disk | None) -> int:
        """What is kept of jobs that have ended, of all users together."""
        room = limit_bytes
        if disk is not None:
            free_bytes = max(0, disk.free_bytes - disk.reserve_bytes)
            room = min(room, self._of_host.total() + free_bytes)
        return room // ENDED_SHARE

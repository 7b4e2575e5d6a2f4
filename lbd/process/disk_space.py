"""Whether a disk is short of space, or of files."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

SHORT_SHARE = 10  # with less than a tenth free a disk is short,
SHORT_BYTES = 2 << 30  # and with more than so much it is not
RUNNING_BYTES_MIN = 1 << 16
USER_PARTS = 2  # of what is to be free: so much the outputs of a user may take while it is not


@dataclass(frozen=True, slots=True)
class Shortage:
    """So much more is to be free."""

    size_bytes: int  # below 0: so much is there beyond that
    files: int
    wanted_bytes: int = 0  # so much is to be free in all; 0: not known

    def __bool__(self) -> bool:
        return self.size_bytes > 0 or self.files > 0

    @property
    def room_bytes(self) -> int:
        """Above half of what is to be free: with less, the queue's ledger soon takes no job."""
        return self.wanted_bytes // 2 - self.size_bytes

    def once_printed(self, size_bytes: int) -> "Shortage":
        return replace(self, size_bytes=self.size_bytes + size_bytes)

    def of_user(self, limit_bytes: int) -> int:
        """What the outputs of one user may take. `limit_bytes`: those of an attempt."""
        part = self.wanted_bytes // USER_PARTS
        return min(limit_bytes, max(part, RUNNING_BYTES_MIN)) if part else limit_bytes


def shortage_of(root: Path, limit_bytes: int = SHORT_BYTES) -> Shortage:
    """Of that disk. Some file systems do not say how large they are."""
    try:
        found = os.statvfs(root)
    except OSError:
        return Shortage(0, 0)
    wanted_bytes = min(found.f_blocks * found.f_frsize // SHORT_SHARE, limit_bytes)
    return Shortage(
        wanted_bytes - found.f_bavail * found.f_frsize,
        max(0, found.f_files // SHORT_SHARE - found.f_favail) if found.f_files else 0,
        wanted_bytes,
    )

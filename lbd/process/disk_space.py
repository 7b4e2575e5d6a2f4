"""Whether a disk is short of space or of inodes."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

SHORT_SHARE = 10  # a disk is short with less than a tenth free,
SHORT_BYTES = 2 << 30  # unless more than this is free
RUNNING_BYTES_MIN = 1 << 16
FULL_BYTES = 64 << 10  # free space below which a disk counts as full
# while the disk is short, one user's outputs may take 1/N of the space that should be free
USER_PARTS = 2


@dataclass(frozen=True, slots=True)
class Shortage:
    """How much more space and how many more inodes should be free."""

    size_bytes: int  # negative: that much more is free than needed
    files: int
    wanted_bytes: int = 0  # how much should be free in all; 0: not known

    def __bool__(self) -> bool:
        return self.size_bytes > 0 or self.files > 0

    @property
    def room_bytes(self) -> int:
        """The space left above half of what should be free: below that, the queue's ledger soon
        accepts no jobs."""
        return self.wanted_bytes // 2 - self.size_bytes

    def once_printed(self, size_bytes: int) -> "Shortage":
        return replace(self, size_bytes=self.size_bytes + size_bytes)

    def of_user(self, limit_bytes: int) -> int:
        """Returns what the outputs of one user may take. `limit_bytes`: the limit for one
        attempt."""
        part = self.wanted_bytes // USER_PARTS
        return min(limit_bytes, max(part, RUNNING_BYTES_MIN)) if part else limit_bytes


def is_full(root: str | Path, least_bytes: int = FULL_BYTES) -> bool:
    """Whether the disk that holds `root` is full. Some file systems do not report their size."""
    try:
        found = os.statvfs(root)
    except OSError:
        return False
    return found.f_blocks > 0 and found.f_bavail * found.f_frsize < least_bytes


def shortage_of(root: Path, limit_bytes: int = SHORT_BYTES) -> Shortage:
    """Returns the shortage of the disk that holds `root`. Some file systems do not report their
    size."""
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

"""What would be lost if the LBM were killed now, in a small file beside the accounting.

On a full disk nothing can be added, but the bytes that a file has can be overwritten. So the file
always has all its bytes. The next LBM reads what the last one left there: unless the commands
themselves were handed over, they are lost. If an LBM is killed just after they were recorded, the
file says too much, never too little.
"""

import contextlib
import math
import os
from pathlib import Path

from lbd.lbm.usage.gaps import Gap
from lbd.text.job_limits import TIME_MAX

BYTES = 64
COMMANDS_MAX = 1 << 40


class GapFile:
    """Used by one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content = b""  # as we have written it

    def read(self) -> Gap | None:
        try:
            with self._path.open("rb") as file:
                return gap_in(file.read(BYTES))
        except OSError:
            return None

    def write(self, gap: Gap | None) -> None:
        """Does what is possible: where there never was room for the file, there is none."""
        content = content_of(gap)
        if content == self._content:
            return
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._path, flags, 0o600)
            try:
                if os.pwrite(descriptor, content, 0) == BYTES:
                    os.fdatasync(descriptor)
                    self._content = content
            finally:
                os.close(descriptor)


def content_of(gap: Gap | None) -> bytes:
    found = gap or Gap(0, 0.0, 0.0)
    text = f"{found.commands} {found.since:.3f} {found.until:.3f}"
    return f"{text:<{BYTES - 1}}\n".encode()


def gap_in(content: bytes) -> Gap | None:
    """Returns None if nothing is lost, or the content is not readable."""
    try:
        commands, since, until = content.decode("ascii").split()
        gap = Gap(int(commands), float(since), float(until))
    except ValueError:
        return None
    is_gap = 0 < gap.commands <= COMMANDS_MAX and math.isfinite(gap.until)
    return gap if is_gap and 0.0 <= gap.since <= gap.until <= TIME_MAX else None

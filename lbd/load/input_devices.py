"""When a keyboard, mouse or touchpad of this machine was last used.

A device is opened and polled for input; if there is any it is closed and opened again, so
keystrokes are never read. This needs root or the group `input`; without them nothing is reported.
"""

import os
import select
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lbd.text.kernel_tables import lines_of

LISTING, DEVICES = Path("/proc/bus/input/devices"), Path("/dev/input")
SHOWN = Path("/sys/class/input")  # readable even without /dev/input, or with an empty listing
LISTING_BYTES_MAX, DEVICES_MAX = 1 << 18, 64
OPENED = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
RESCAN_S = 60.0  # to find newly plugged-in devices


def used_by_people(listing: bytes) -> list[str]:
    """Returns the event devices of keyboards and pointers from the kernel's listing."""
    found = []
    for line in lines_of(listing):
        if line.startswith("H: Handlers="):
            handlers = line.removeprefix("H: Handlers=").split()
            if any(word == "kbd" or word.startswith("mouse") for word in handlers):
                found += [word for word in handlers if word.startswith("event")]
    return found[:DEVICES_MAX]


def of_this_machine(listing: Path = LISTING, shown: Path = SHOWN) -> list[str]:
    """Returns this machine's keyboards and pointers; all its input devices if their kinds are not
    listed."""
    found: list[str] = []
    with suppress(OSError), listing.open("rb") as lines:
        found = used_by_people(lines.read(LISTING_BYTES_MAX))
    with suppress(OSError):
        found = found or sorted(name for name in os.listdir(shown) if name.startswith("event"))
    return found[:DEVICES_MAX]


def is_listed(listing: Path = LISTING, shown: Path = SHOWN) -> bool:
    """Returns whether the kernel's list of input devices can be seen here."""
    return os.access(listing, os.R_OK) or shown.is_dir()


def unreadable(names: Iterable[str], devices: Path = DEVICES) -> list[str]:
    """Returns the devices that this process may not open, or that are missing from its /dev."""
    found = []
    for name in names:
        try:
            os.close(os.open(devices / name, OPENED))
        except OSError:
            found.append(name)
    return found


class InputDevices:
    def __init__(
        self, listing: Path = LISTING, devices: Path = DEVICES, shown: Path = SHOWN
    ) -> None:
        self._listing, self._devices, self._shown = listing, devices, shown
        self._open: dict[str, int] = {}
        self._scanned_s: float | None = None
        self.used_at_s = 0.0  # by the clock of `look`; 0: never seen

    def look(self, now_s: float) -> float:
        """Returns when a device was last used, to within the time since the previous look."""
        if self._scanned_s is None or not 0 <= now_s - self._scanned_s < RESCAN_S:
            self._scanned_s = now_s
            self._scan()
        if self._open:
            used = {name for name, fd in self._open.items() if is_readable(fd)}
            for name in used:
                self._reopen(name)
            self.used_at_s = now_s if used else self.used_at_s
        return self.used_at_s

    def close(self) -> None:
        for name in list(self._open):
            os.close(self._open.pop(name))
        self._scanned_s = None

    def _scan(self) -> None:
        names = of_this_machine(self._listing, self._shown)
        for name in self._open.keys() - set(names):
            os.close(self._open.pop(name))
        for name in names:
            if name not in self._open:
                self._reopen(name)

    def _reopen(self, name: str) -> None:
        if name in self._open:
            os.close(self._open.pop(name))
        with suppress(OSError):
            self._open[name] = os.open(self._devices / name, OPENED)


def is_readable(fd: int) -> bool:
    """Whether there is input. Also true for an unplugged device, which the next scan removes."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(event & select.POLLIN for _, event in poll.poll(0))

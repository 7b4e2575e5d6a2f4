"""What a daemon tells the one that started it: ready, stopping, and that its event loop turns.

systemd's protocol, sd_notify(3): datagrams of NAME=VALUE lines to the socket $NOTIFY_SOCKET. `lbd
up` speaks it too, as manager of its daemons. The whole of it is one `sendto`, so no library.

The watchdog is fed by a timer of the event loop: a loop that hangs feeds nothing, and whoever
started us ends us and starts us again.
"""

import os
import socket
import struct
from collections.abc import MutableMapping
from contextlib import suppress

from lbd.local.socket_file import bind_at

TYPE_CHECKING = False  # the keeper, which has no event loop, feeds a watchdog, too
if TYPE_CHECKING:
    import asyncio

FED_PER_TIMEOUT = 3  # so that one late turn of the loop is not an end
MESSAGES_MAX = 256  # read at once
LEAVING = "X_LBD_LEAVING=1"  # all is handed over; systemd passes over what it does not know
DISPATCHER_WANTED = "X_LBD_DISPATCHER=1"  # of a LIM: this host is to run it


def has_terminal() -> bool:
    """Returns whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


class ServiceManager:
    """The way to ours; to nobody, silently, where none asked to be told."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        """Takes its variables out of `environment`: what we start is nobody's service."""
        self._address = environment.pop("NOTIFY_SOCKET", "")
        usec = environment.pop("WATCHDOG_USEC", "")
        meant_for = environment.pop("WATCHDOG_PID", "")
        ours = meant_for in ("", str(os.getpid())) and usec.isdecimal()
        self.watchdog_s = int(usec) / 1e6 if ours and self._address else 0.0

    def report(self, line: str) -> bool:
        """Whether there is somebody to report it to."""
        self.notify(line)
        return bool(self._address)

    def notify(self, *lines: str) -> None:
        """Messages that cannot be sent are dropped: nobody waits for them."""
        if not self._address:
            return
        name = self._address
        address = "\0" + name[1:] if name.startswith("@") else name
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
        ):
            sock.setblocking(False)
            sock.sendto("\n".join(lines).encode(), address)

    def ready(self, status: str) -> None:
        self.notify("READY=1", f"STATUS={status}")

    def feed_watchdog(self, loop: "asyncio.AbstractEventLoop") -> None:
        """Now and for as long as the loop turns: a start and an end may hang, too."""
        if self.watchdog_s:
            self.notify("WATCHDOG=1")
            loop.call_later(self.watchdog_s / FED_PER_TIMEOUT, self.feed_watchdog, loop)


class NotifySocket:
    """The other end: where the daemons of `lbd up` say what they have to say.

    The kernel tells who sends (SCM_CREDENTIALS), so a stranger's datagram feeds nobody's watchdog.
    Nor does it take the room of theirs: nobody else may send there.
    """

    def __init__(self, path: str, owner: int | None = None) -> None:
        """`owner`: whom the daemons run as, if not as us."""
        self._path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.setblocking(False)
        bind_at(self.socket, path, 0o600, owner)

    def environment(self, watchdog_s: float) -> dict[str, str]:
        """Returns what a daemon must find in its environment."""
        found = {"NOTIFY_SOCKET": self._path}
        if watchdog_s:
            found["WATCHDOG_USEC"] = str(int(watchdog_s * 1e6))
        return found

    def received(self) -> list[tuple[int, set[str]]]:
        """Returns (pid, lines) of each datagram received so far."""
        found: list[tuple[int, set[str]]] = []
        while len(found) < MESSAGES_MAX:
            try:
                data, ancillary, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(12))
            except (BlockingIOError, InterruptedError):
                break
            for level, kind, value in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                    pid = struct.unpack_from("i", value)[0]
                    found.append((pid, set(data.decode(errors="replace").split("\n"))))
        return found

    def close(self) -> None:
        self.socket.close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)

"""A daemon's reports to the process that started it: ready, stopping, and that its event loop runs.

It is systemd's protocol, sd_notify(3): datagrams of NAME=VALUE lines to the socket $NOTIFY_SOCKET.
`lbd up` speaks it too, as manager of its daemons. One `sendto` is all it takes, so there is no
library.

A timer of the event loop feeds the watchdog: a hung loop feeds nothing, and the manager kills and
restarts the daemon.
"""

import os
import socket
import struct
from collections.abc import MutableMapping
from contextlib import suppress

from lbd.local.socket_file import bind_at

# imported for types only: the keeper, which has no event loop, feeds a watchdog, too
TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio

FED_PER_TIMEOUT = 3  # so that one late turn of the loop is not fatal
MESSAGES_MAX = 256  # read in one call
LEAVING = "X_LBD_LEAVING=1"  # everything is handed over; systemd ignores unknown names
DISPATCHER_WANTED = "X_LBD_DISPATCHER=1"  # sent by a LIM: this host should run the dispatcher


def has_terminal() -> bool:
    """Returns whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


class ServiceManager:
    """The connection to our manager; without one, nothing is sent."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        """Removes its variables from `environment`, since our children are not services."""
        self._address = environment.pop("NOTIFY_SOCKET", "")
        usec = environment.pop("WATCHDOG_USEC", "")
        meant_for = environment.pop("WATCHDOG_PID", "")
        ours = meant_for in ("", str(os.getpid())) and usec.isdecimal()
        self.watchdog_s = int(usec) / 1e6 if ours and self._address else 0.0

    def report(self, line: str) -> bool:
        """Returns whether there is a manager to report to."""
        self.notify(line)
        return bool(self._address)

    def notify(self, *lines: str) -> None:
        """Sends messages; drops those that cannot be sent, since nothing may wait for them."""
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
        """Feeds the watchdog now and as long as the loop runs, since start and end may hang,
        too."""
        if self.watchdog_s:
            self.notify("WATCHDOG=1")
            loop.call_later(self.watchdog_s / FED_PER_TIMEOUT, self.feed_watchdog, loop)


class NotifySocket:
    """The manager's end, which receives the messages of the daemons of `lbd up`.

    The kernel reports the sender (SCM_CREDENTIALS), so datagrams of other processes do not feed a
    watchdog. Nor can they fill the queue: the socket's mode lets nobody else send.
    """

    def __init__(self, path: str, owner: int | None = None) -> None:
        """`owner`: the account the daemons run as, if not ours."""
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

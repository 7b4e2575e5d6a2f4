"""Limits each address to a share of a port's connections; the excess is closed.

gRPC limits the connections of a port (`grpc.max_allowed_incoming_connections`) but not those of one
peer, nor does it show them. So this inspects the process's own descriptors, at intervals, and only
while there are many. A host needs a few connections; the share allows for many hosts behind one
address. Connections that have carried a call count first: over TLS only a host can make one, and
any user of that host could open as many that say nothing.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator

from lbd.net.call_floods import Place
from lbd.process.wake_ups import until_next_s

log = logging.getLogger("lbd.net")

LOOK_S = 1.0
SHARE = 4  # one address may have at most a fourth of a port's connections
LOOPBACK = "127.0.0.1"
DESCRIPTORS = "/proc/self/fd"
ANY = ("0.0.0.0", "::")  # noqa: S104  # the configuration may have these


def close_excess(
    address: str, port: int, share: int, called: Callable[[], Container[Place]] = tuple
) -> Counter[str]:
    """Closes connections to `port` beyond the `share` of each peer address. `called`: those that
    have carried a call, which count first. Returns how many, by address."""
    had: Counter[str] = Counter()
    closed: Counter[str] = Counter()
    if descriptor_count() <= share:
        return closed
    first, numbers = called(), descriptors()
    for has_called in (True, False):
        for sock, peer in connections_to(address, port, numbers):
            if (peer in first) is has_called:
                whose = sharer(peer[0])
                had[whose] += 1
                if had[whose] > share:
                    shut_down(sock)
                    closed[whose] += 1
    return closed


def descriptors() -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(DESCRIPTORS))
    except OSError:
        return []


def descriptor_count() -> int:
    """Returns how many there are, if the kernel says so; Linux before 6.2 does not."""
    try:
        return os.stat(DESCRIPTORS).st_size or len(descriptors())
    except OSError:
        return 0


def connections_to(
    address: str, port: int, numbers: Iterable[int]
) -> Iterator[tuple[socket.socket, Place]]:
    """Yields the connections to that place among these descriptors, each with its peer."""
    for number in numbers:
        try:  # no close here: some are users' and may hang when closed
            sock = socket.socket(fileno=number)
        except OSError:  # closed meanwhile, or not a socket
            continue
        try:
            with contextlib.suppress(OSError):  # not connected
                if sock.family in (socket.AF_INET, socket.AF_INET6):
                    own, own_port = sock.getsockname()[:2]
                    if own_port == port and address in (plain(own), *ANY):
                        peer, peer_port = sock.getpeername()[:2]
                        yield sock, (plain(peer), peer_port)
        finally:
            sock.detach()


def shut_down(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def reset(sock: socket.socket) -> None:
    """Like `shut_down`, but also drops data not read yet, which gRPC would read first."""
    import ctypes  # needs a MiB, and is rarely used

    unspecified = bytes(16)  # AF_UNSPEC: connect(2) dissolves the association
    ctypes.CDLL(None, use_errno=True).connect(sock.fileno(), unspecified, len(unspecified))


def sharer(peer: str) -> str:
    """Returns the address to count by: every user of this host may call from any of 127.0.0.0/8."""
    return LOOPBACK if peer.startswith("127.") else peer


def plain(address: str) -> str:
    """Returns an IPv4 address without the IPv6 form that gRPC gives it."""
    return address.removeprefix("::ffff:")


class ConnectionShares:
    """Checks a server's connections until the server has stopped."""

    def __init__(
        self,
        place: tuple[str, int],
        connections_max: int,
        called: Callable[[], Container[Place]] = tuple,
    ) -> None:
        """`called`: as for `close_excess`."""
        self._address, self._port = place
        self._called = called
        self._share = connections_max // SHARE
        self._later()

    def _later(self) -> None:
        loop = asyncio.get_running_loop()
        self._next = loop.call_later(until_next_s(LOOK_S, loop.time()), self._look)

    def end(self) -> None:
        self._next.cancel()

    def _look(self) -> None:
        closed = close_excess(self._address, self._port, self._share, self._called)
        for peer, count in closed.items():
            log.warning(
                "%s has more than %d connections to port %d: %d closed",
                peer, self._share, self._port, count,
            )  # fmt: skip
        self._later()

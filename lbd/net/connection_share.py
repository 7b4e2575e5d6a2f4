"""No address has all connections of a port: what it has beyond its share is closed.

gRPC bounds the connections of a port (`grpc.max_allowed_incoming_connections`) and not those of one
peer, nor does it show them. So we look at the descriptors of this process themselves, now and then,
and only while there are many. A host needs a few connections; the share leaves room for many hosts
behind one address.
"""

import asyncio
import contextlib
import logging
import os
import socket
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lbd.process.wake_ups import until_next_s

if TYPE_CHECKING:
    import grpc.aio

log = logging.getLogger("lbd.net")

LOOK_S = 1.0
SHARE = 4  # of a port's connections one address has at most a fourth
LOOPBACK = "127.0.0.1"
DESCRIPTORS = "/proc/self/fd"
ANY = ("0.0.0.0", "::")  # noqa: S104  # as the configuration may have it


def close_excess(address: str, port: int, share: int) -> Counter[str]:
    """Of connections to `port`, those beyond the `share` of a peer's address; how many, by that."""
    had: Counter[str] = Counter()
    closed: Counter[str] = Counter()
    numbers = descriptors()
    if len(numbers) <= share:
        return closed
    for sock, peer in connections_to(address, port, numbers):
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


def connections_to(
    address: str, port: int, numbers: Iterable[int]
) -> Iterator[tuple[socket.socket, tuple[str, int]]]:
    """Of these descriptors the connections to that place of ours, each with its peer."""
    for number in numbers:
        try:  # some are users', which may hang as they are closed
            sock = socket.socket(fileno=number)
        except OSError:  # closed meanwhile, or no socket
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
    """As `shut_down`, and what has come and was not read is dropped: gRPC would read it first."""
    import ctypes  # a MiB that is hardly ever needed

    unspecified = bytes(16)  # connect(2): it dissolves the association
    ctypes.CDLL(None, use_errno=True).connect(sock.fileno(), unspecified, len(unspecified))


def sharer(peer: str) -> str:
    """Every user of this host may call from each of 127.0.0.0/8."""
    return LOOPBACK if peer.startswith("127.") else peer


def plain(address: str) -> str:
    """gRPC has an IPv4 address as one of IPv6."""
    return address.removeprefix("::ffff:")


class ConnectionShares:
    """Looks at a server's connections for as long as there is that server."""

    def __init__(
        self, server: "grpc.aio.Server", place: tuple[str, int], connections_max: int
    ) -> None:
        self._server = weakref.ref(server)
        self._address, self._port = place
        self._share = connections_max // SHARE
        self._later()

    def _later(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(until_next_s(LOOK_S, loop.time()), self._look)

    def _look(self) -> None:
        if self._server() is None:
            return
        for peer, count in close_excess(self._address, self._port, self._share).items():
            log.warning(
                "%s has more than %d connections to port %d: %d closed",
                peer, self._share, self._port, count,
            )  # fmt: skip
        self._later()

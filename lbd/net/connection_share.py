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

import grpc.aio

from lbd.process.wake_ups import until_next_s

log = logging.getLogger("lbd.net")

LOOK_S = 1.0
SHARE = 4  # of a port's connections one address has at most a fourth
LOOPBACK = "127.0.0.1"
DESCRIPTORS = "/proc/self/fd"
ANY = ("0.0.0.0", "::")  # noqa: S104  # as the configuration may have it


def close_excess(address: str, port: int, share: int) -> Counter[str]:
    """Of connections to `port`, those beyond the `share` of a peer's address; how many, by that."""
    try:
        numbers = sorted(int(name) for name in os.listdir(DESCRIPTORS))
    except OSError:
        return Counter()
    if len(numbers) <= share:
        return Counter()
    had: Counter[str] = Counter()
    closed: Counter[str] = Counter()
    for number in numbers:
        with contextlib.suppress(OSError):  # closed meanwhile, no socket, not connected
            sock = socket.socket(
                fileno=number
            )  # some are users', which may hang as they are closed
            try:
                peer = peer_of(sock, address, port)
                had[peer] += 1
                if peer and had[peer] > share:
                    sock.shutdown(socket.SHUT_RDWR)
                    closed[peer] += 1
            finally:
                sock.detach()
    return closed


def peer_of(sock: socket.socket, address: str, port: int) -> str:
    """Whose share a connection to that place of ours is of, "" if it is none. Raises OSError."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return ""
    own, own_port = sock.getsockname()[:2]
    if own_port != port or address not in (plain(own), *ANY):
        return ""
    return sharer(plain(sock.getpeername()[0]))


def sharer(peer: str) -> str:
    """Every user of this host may call from each of 127.0.0.0/8."""
    return LOOPBACK if peer.startswith("127.") else peer


def plain(address: str) -> str:
    """gRPC has an IPv4 address as one of IPv6."""
    return address.removeprefix("::ffff:")


class ConnectionShares:
    """Looks at a server's connections for as long as there is that server."""

    def __init__(
        self, server: grpc.aio.Server, place: tuple[str, int], connections_max: int
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

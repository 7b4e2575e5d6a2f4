"""The TCP ports of this host's daemons, kept for their account while these are away.

The ports are above 1023, so any process may bind one in the moment in which its daemon is
restarted, and keep it. The keeper outlives the daemons, so it keeps a socket bound to each of their
ports.

- With SO_REUSEPORT, Linux lets a port that is bound be bound again only by sockets of the same
  owner that have this option as well. Root gives the sockets to the daemons' account: fchown(2).
- Without SO_REUSEADDR: with it, anybody's socket with that option could be bound there, too, as
  long as nobody listens.
- The sockets do not listen, so they get no connections.
- With IP_FREEBIND the address may be one that this host will only have later.

What the daemons do for it is in net/transport.py. One gap: for an IPv6 address alone, Linux 6.18
lets another owner bind [::] who has bound 0.0.0.0 before.
"""

import contextlib
import os
import socket
import time
from collections.abc import Sequence

PORTS_MAX = 8
LEAST = 1024  # those below nobody else may bind
AGAIN_S = 1.0  # a port that somebody else has now may be free later
IP_FREEBIND = 15  # <linux/in.h>; the socket module does not name it
ANY = ("0.0.0.0", "::")  # noqa: S104  # a daemon that listens everywhere has both at once


def pack_places(address: str, ports: Sequence[int]) -> str:
    """As one word of the keeper's command line."""
    return " ".join((address, *map(str, ports)))


class KeptPorts:
    """The sockets of one keeper."""

    def __init__(self, packed: str, owner: int) -> None:
        """`owner`: the account of the daemons."""
        self._owner = owner
        self._addresses: tuple[str, ...] = ()
        self._missing: list[int] = []
        self._sockets: list[socket.socket] = []
        self._packed, self.next_s = "", 0.0
        self.become(packed)

    def become(self, packed: str) -> None:
        """As the LBM says: a host may join, or change its address, after the keeper has begun.
        Raises ValueError."""
        if packed == self._packed:
            return
        address, *ports = packed.split(" ")
        numbers = [port for port in map(int, ports) if LEAST <= port < 1 << 16]
        self._packed = packed
        self._addresses = ANY[::-1] if address in ANY else (address,)
        self._missing = numbers[:PORTS_MAX]
        self.next_s = 0.0  # not before is it tried again
        before, self._sockets = self._sockets, []
        self.keep()
        for sock in before:  # the same one may be kept still
            sock.close()

    def keep(self) -> None:
        """Those that are not kept yet, if they can be had: a daemon of a release before may listen
        there without the option."""
        if not self._missing or time.monotonic() < self.next_s:
            return
        self.next_s = time.monotonic() + AGAIN_S
        for port in tuple(self._missing):
            for address in self._addresses:
                with contextlib.suppress(OSError, UnicodeError):  # an LBM may say anything
                    self._sockets.append(bound(address, port, self._owner))
                    self._missing.remove(port)
                    break

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()


def bound(address: str, port: int, owner: int) -> socket.socket:
    """Raises OSError."""
    kinds = socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST
    family, kind, _, _, place = socket.getaddrinfo(address, port, 0, *kinds)[0]
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(socket.socket(family, kind))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if owner != os.geteuid():
            os.fchown(sock.fileno(), owner, -1)
        sock.bind(place)
        stack.pop_all()
    return sock

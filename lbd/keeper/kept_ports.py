"""Reserves the TCP ports of this host's daemons for their account while the daemons are down.

The ports are above 1023, so any process could bind one while its daemon restarts, and keep it. The
keeper outlives the daemons, so it keeps a socket bound to each of their ports.

- With SO_REUSEPORT, Linux lets a bound port be bound again only by sockets of the same owner that
  also have this option. Root gives the sockets to the daemons' account with fchown(2).
- SO_REUSEADDR is not set: with it, anybody's socket with that option could be bound there, too, as
  long as nobody listens.
- The sockets do not listen, so they get no connections.
- With IP_FREEBIND the address may be one that this host will only have later.

For the daemons' side see net/transport.py. One gap: for an IPv6 address alone, Linux 6.18 lets
another owner bind [::] who has bound 0.0.0.0 before.
"""

import contextlib
import os
import socket
import time
from collections.abc import Sequence

PORTS_MAX = 8
LEAST = 1024  # only root may bind lower ports
AGAIN_S = 1.0  # a port in use by another process may be free later
IP_FREEBIND = 15  # <linux/in.h>; the socket module does not name it
ANY = ("0.0.0.0", "::")  # noqa: S104  # a daemon that listens everywhere has both at once


def pack_places(address: str, ports: Sequence[int]) -> str:
    """Packs the address and the ports into one word of the keeper's command line."""
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
        """Reserves the ports that the LBM names: a host may join, or change its address, after the
        keeper was started. Raises ValueError."""
        if packed == self._packed:
            return
        address, *ports = packed.split(" ")
        numbers = [port for port in map(int, ports) if LEAST <= port < 1 << 16]
        self._packed = packed
        self._addresses = ANY[::-1] if address in ANY else (address,)
        self._missing = numbers[:PORTS_MAX]
        self.next_s = 0.0  # when to try the missing ones again
        before, self._sockets = self._sockets, []
        self.keep()
        for sock in before:  # closed last: the same port may stay reserved
            sock.close()

    def keep(self) -> None:
        """Binds the ports not reserved yet, if possible: others may listen there without
        the option."""
        if not self._missing or time.monotonic() < self.next_s:
            return
        self.next_s = time.monotonic() + AGAIN_S
        for port in tuple(self._missing):
            for address in self._addresses:
                with contextlib.suppress(OSError, UnicodeError):  # the LBM's input is not trusted
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

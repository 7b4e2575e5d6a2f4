"""Closes the connections of an address that floods a port with calls (see `call_floods`), or with
HTTP/2 frames that carry no call, which gRPC handles itself.

gRPC counts the calls of each connection for channelz, at no measurable cost per call. Reading these
numbers takes up to a millisecond, so they are read only while this process is busy, and those of
each connection only while many calls are left.

One thread reads all connections, and stays with one for as long as data is there. With endless
frames (PING, SETTINGS, PRIORITY, unknown ones) one connection can make all others wait. The kernel
knows how many bytes each received; those not explained by messages count as calls that are left.
"""

import asyncio
import json
import logging
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from typing import TypedDict
from urllib.parse import unquote

from grpc._cython import cygrpc  # type: ignore[attr-defined]  # as grpcio-channelz does

from lbd.net.call_floods import ANY_PORT, CallFloods, Place
from lbd.net.connection_share import connections_to, descriptors, plain, reset
from lbd.process.wake_ups import until_next_s

log = logging.getLogger("lbd.net")

OPTION = ("grpc.enable_channelz", 1)
LOOK_S = 1.0
BUSY = 0.1  # fraction of a processor; less is no flood
MANY = 500  # calls left since the last look
MANY_NEW = 50  # while connections are new: of short-lived ones only the last is seen
CLOSE_LOOK_S = 0.1
AWAY_LOOK_S = 0.005  # a TLS handshake takes about as long
SPENT = 0.1  # the share of time that looks may take
PEERS_MAX = 4096
FRAMES_BYTES = 1 << 15  # this many bytes outside complete messages count as a call
RECEIVED_AT = 128  # the offset of tcpi_bytes_received in the kernel's tcp_info


class CallWatch:
    """Watches a server's calls until the server has stopped."""

    def __init__(
        self, place: tuple[str, int], taken: Counter[str], read_bytes: Counter[str]
    ) -> None:
        """`taken`: the number of calls taken over from each peer, named as gRPC does; `read_bytes`:
        the bytes of their messages."""
        self._address, self._port = place
        self._taken, self._read_bytes = taken, read_bytes
        self._floods = CallFloods()
        self._left = 0
        self._had: dict[Place, int] = {}  # bytes received by the last look
        self._had_read = 0
        self._looked_s = time.monotonic()
        self._cpu_s = time.process_time()
        self._away: asyncio.TimerHandle | None = None  # while connections are kept away
        self._later(0.0)

    def end(self) -> None:
        self._next.cancel()
        if self._away is not None:
            self._away.cancel()

    def _later(self, spent_s: float) -> None:
        loop = asyncio.get_running_loop()
        if self._floods.is_calm:
            later_s = until_next_s(LOOK_S, loop.time())
        else:
            later_s = max(CLOSE_LOOK_S, spent_s / SPENT)
        self._next = loop.call_later(later_s, self._look)

    def _look(self) -> None:
        began_s, now_s = time.thread_time(), time.monotonic()
        if not self._floods.is_calm or self._are_many_left(now_s):
            self._look_closely(now_s)
        self._later(time.thread_time() - began_s)

    def _are_many_left(self, now_s: float) -> bool:
        cpu_s = time.process_time()
        busy = (cpu_s - self._cpu_s) / max(now_s - self._looked_s, LOOK_S / 2)
        self._cpu_s, self._looked_s = cpu_s, now_s
        if busy < BUSY and len(self._taken) < PEERS_MAX:
            return False
        before, self._left = self._left, begun_calls() - self._taken.total()
        had, self._had = self._had, self._received()
        had_read, self._had_read = self._had_read, self._read_bytes.total()
        # Per connection, not in total: totals would miss short-lived connections.
        come = sum(received - had.get(place, 0) for place, received in self._had.items())
        grown = self._left - before + (come - (self._had_read - had_read)) // FRAMES_BYTES
        many = MANY if self._had.keys() <= had.keys() else MANY_NEW
        return grown > many or len(self._taken) >= PEERS_MAX

    def _received(self) -> dict[Place, int]:
        """Returns the bytes received, by connection."""
        there = connections_to(self._address, self._port, descriptors())
        return {peer: received_bytes(sock) for sock, peer in there}

    def _look_closely(self, now_s: float) -> None:
        begun, received = dict(begun_by_peer(self._port)), self._received()
        for peer in self._taken.keys() - begun.keys():
            self._left += self._taken.pop(peer)
            self._had_read -= self._read_bytes.pop(peer, 0)
        left = {}
        for peer, calls in begun.items():
            place = place_of(peer)
            frames_bytes = max(0, received.get(place, 0) - self._read_bytes[peer])
            left[place] = calls - self._taken[peer] + frames_bytes // FRAMES_BYTES
        for flood in self._floods.look(left, now_s):
            address, port = flood.source
            if port == ANY_PORT:
                what = f"{address}: its connections are closed for {flood.away_s:g} s"
            else:
                what = f"{address}, port {port}: that connection is closed"
            log.warning("too many calls or frames to port %d from %s", self._port, what)
        if self._away is None:
            self._keep_away()

    def _keep_away(self) -> None:
        began_s = time.thread_time()
        away = self._floods.away(time.monotonic())
        self._away = None
        if away:
            numbers = descriptors()
            for sock, peer in connections_to(self._address, self._port, numbers):
                if peer in away or (peer[0], ANY_PORT) in away:
                    reset(sock)
            later_s = max(AWAY_LOOK_S, (time.thread_time() - began_s) / SPENT)
            self._away = asyncio.get_running_loop().call_later(later_s, self._keep_away)


def received_bytes(sock: socket.socket) -> int:
    """Returns the bytes received since it was connected; 0 if it was closed meanwhile."""
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RECEIVED_AT + 8)
        return int(struct.unpack_from("=Q", info, RECEIVED_AT)[0])
    except (OSError, struct.error):
        return 0


def place_of(peer: str) -> Place:
    """Returns the place of "ipv4:10.0.0.2:40123" or "ipv6:%5Bfe80::1%5D:40123"."""
    address, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return plain(address.strip("[]")), int(port)


class Ref(TypedDict):
    name: str  # for a connection: "chttp2 " and its peer
    serverId: str
    socketId: str


class Calls(TypedDict, total=False):  # zeros are omitted
    callsStarted: str
    streamsStarted: str


class Known(TypedDict):
    ref: Ref
    data: Calls
    local: dict[str, dict[str, str]]


def servers() -> list[Known]:
    """Returns the servers of this process."""
    return json.loads(cygrpc.channelz_get_servers(0)).get("server") or []


def begun_calls() -> int:
    """Returns the calls begun on all servers of this process."""
    return sum(int(server["data"].get("callsStarted", 0)) for server in servers())


def begun_by_peer(port: int) -> Iterator[tuple[str, int]]:
    """Yields each connection to `port`: its peer, named as gRPC does, and the calls begun."""
    for server in servers():
        for ref in connections(int(server["ref"]["serverId"])):
            try:
                known: Known = json.loads(cygrpc.channelz_get_socket(int(ref["socketId"])))[
                    "socket"
                ]
            except ValueError:  # closed meanwhile
                continue
            if any(int(place.get("port", 0)) == port for place in known["local"].values()):
                calls = int(known["data"].get("streamsStarted", 0))
                yield ref["name"].partition(" ")[2], calls


def connections(server: int) -> Iterator[Ref]:
    """Yields a server's connections, which gRPC lists a few hundred at a time, by number."""
    first, is_end = 0, False
    while not is_end:
        try:
            page = json.loads(cygrpc.channelz_get_server_sockets(server, first, 0))
        except ValueError:  # the server is gone
            return
        refs: list[Ref] = page.get("socketRef") or []
        yield from refs
        first = max((int(ref["socketId"]) + 1 for ref in refs), default=0)
        is_end = page.get("end", False) or not refs

"""Returns which user's process is at the other end of a connection within this machine.

All pages of one machine share their cookies, whatever their ports: a user who gets another to open
a page of theirs receives that user's cookie. On loopback the kernel knows the owner of a
connection, so that a session is valid only for its own user.

The kernel is asked about that one connection (sock_diag(7)), which takes the same time however many
there are. /proc/net/tcp lists all connections, and a user can make so many that reading it would
stall the page. So it is read only if the kernel cannot be asked, and no further than
`TABLE_BYTES_MAX`.
"""

import functools
import ipaddress
import os
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lbd.text.kernel_tables import lines_of

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
TABLE_BYTES_MAX = 4 << 20  # some 28,000 connections
ESTABLISHED = 1
MAPPED = 0xFFFF << 32  # ::ffff:127.0.0.1
SOCK_DIAG, BY_FAMILY, REQUEST, ERROR = 4, 20, 1, 2  # linux/netlink.h, linux/sock_diag.h
HEADER = struct.Struct("=IHHII")
QUESTION = struct.Struct("=BBBBI")
PORTS = struct.Struct("!HH")
NO_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # and no interface
STATE_AT = HEADER.size + 1
PORTS_AT = HEADER.size + 4
UID_AT = HEADER.size + 64
ANSWER_BYTES = HEADER.size + 72
ANSWER_S = 1.0  # the kernel answers at once

End = tuple[str, int]


def kernel_form(address: str, port: int) -> set[str]:
    """Formats an address as in /proc/net/tcp: words of 32 bits in the machine's byte order."""
    ip = ipaddress.ip_address(address)
    plain = ip if isinstance(ip, ipaddress.IPv4Address) else ip.ipv4_mapped
    forms = [ip.packed]
    if plain is not None:
        forms = [plain.packed, (MAPPED | int(plain)).to_bytes(16, "big")]
    words = [struct.unpack(f"={len(packed) // 4}I", packed) for packed in forms]
    return {"".join(f"{word:08X}" for word in each) + f":{port:04X}" for each in words}


def uid_in(lines: Iterable[str], client: set[str], server: set[str]) -> int | None:
    """Returns the owner of the socket of `client` that is connected to `server`."""
    for line in lines:
        found = line.split(None, 8)
        if len(found) > 7 and found[1] in client and found[2] in server:
            return int(found[7]) if int(found[3], 16) == ESTABLISHED else None
    return None


def client_uid(client: End, server: End) -> int | None:
    """Returns None if it is not known."""
    with suppress(OSError, ValueError):
        return uid_asked(client, server) if can_be_asked() else uid_read(client, server)
    return None


def uid_asked(client: End, server: End) -> int | None:
    """Asks the kernel by sock_diag. Raises OSError, ValueError."""
    ends = [ipaddress.ip_address(address).packed for address, _ in (client, server)]
    family = socket.AF_INET if len(ends[0]) == len(ends[1]) == 4 else socket.AF_INET6
    ports = PORTS.pack(client[1], server[1])
    places = b"".join(packed.ljust(16, b"\0") for packed in ends)
    asked = QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << ESTABLISHED)
    body = asked + ports + places + NO_COOKIE
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, SOCK_DIAG) as line:
        line.settimeout(ANSWER_S)
        line.sendto(HEADER.pack(HEADER.size + len(body), BY_FAMILY, REQUEST, 1, 0) + body, (0, 0))
        answer, sender = line.recvfrom(1 << 16)
    if sender[0] != 0 or HEADER.unpack_from(answer)[1] == ERROR or len(answer) < ANSWER_BYTES:
        return None  # no such connection
    # Without such a connection, the kernel answers with a socket that listens there.
    is_theirs = answer[PORTS_AT : PORTS_AT + len(ports)] == ports
    if answer[STATE_AT] != ESTABLISHED or not is_theirs:
        return None
    uid: int = struct.unpack_from("=I", answer, UID_AT)[0]
    return uid


@functools.cache
def can_be_asked() -> bool:
    """Tests sock_diag on a connection of our own."""
    with (
        suppress(OSError),
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as way,
    ):
        return uid_asked(way.getsockname(), way.getpeername()) == os.geteuid()
    return False


def uid_read(client: End, server: End) -> int | None:
    """Reads /proc/net/tcp. Raises ValueError."""
    ours, theirs = kernel_form(*server), kernel_form(*client)
    for table in TABLES:
        with suppress(OSError), table.open("rb") as file:
            found = uid_in(lines_of(file.read(TABLE_BYTES_MAX))[1:], theirs, ours)
            if found is not None:
                return found
    return None

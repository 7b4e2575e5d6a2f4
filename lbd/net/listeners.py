"""Counts the listeners on a TCP port of this host.

The keeper reserves the daemons' ports for their account (keeper/kept_ports.py). This lets another
process of that account listen beside a daemon, and the kernel would give each half of the
connections. So a daemon checks for other listeners before it listens.

Listeners of other accounts do not count: the kernel does not let them share the port. Any user may
listen for IPv6 alone beside an IPv4 listener, but gets none of our connections.
"""

import contextlib
import os
import struct

TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
LISTEN = "0A"
PLACE, STATE, OWNER, INODE = 1, 3, 7, 9  # columns; a line may occur twice while others come and go
ANY = (bytes(4), bytes(16))
MAPPED = bytes(10) + b"\xff\xff"


def count_listeners(address: bytes, port: int) -> int:
    """Returns how many listeners of our account would get connections to that address, or to any
    address if it is a wildcard.

    `address`: packed, of either family."""
    own, found = plain(address), set[str]()
    for table in TABLES:
        with contextlib.suppress(OSError), open(table) as file:  # IPv6 may be missing
            next(file, None)
            for columns in map(str.split, file):
                where, _, number = columns[PLACE].rpartition(":")
                is_ours = columns[STATE] == LISTEN and int(columns[OWNER]) == os.geteuid()
                if is_ours and int(number, 16) == port:
                    theirs = plain(unpack_words(where))
                    if theirs == own or theirs in ANY or own in ANY:
                        found.add(columns[INODE])
    return len(found)


def unpack_words(text: str) -> bytes:
    """Unpacks an address that the kernel prints as 32-bit numbers in native byte order."""
    return b"".join(struct.pack("=I", int(text[at : at + 8], 16)) for at in range(0, len(text), 8))


def plain(address: bytes) -> bytes:
    """Returns an IPv4 address without the IPv6 form in which gRPC binds it."""
    return address[-4:] if len(address) == 16 and address.startswith(MAPPED) else address

"""Who listens on a TCP port of this host.

The keeper keeps the daemons' ports for their account (keeper/kept_ports.py), which lets another
process of that account listen where a daemon does: the kernel would give each half of the
connections. So before one listens it looks whether somebody does.

Listeners of other accounts do not count: the kernel lets none of them have the port beside us. Any
user may have it for IPv6 alone beside one of IPv4, and gets none of our connections.
"""

import contextlib
import os
import struct

TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
LISTEN = "0A"
PLACE, STATE, OWNER, INODE = 1, 3, 7, 9  # columns; while others come and go, a line may come twice
ANY = (bytes(4), bytes(16))
MAPPED = bytes(10) + b"\xff\xff"


def count_listeners(address: bytes, port: int) -> int:
    """How many of our account would get connections to that address, or to one of all if it is for
    all.
    `address`: packed, of either family."""
    own, found = plain(address), set[str]()
    for table in TABLES:
        with contextlib.suppress(OSError), open(table) as file:  # there may be no IPv6
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
    """The kernel prints an address as numbers of 32 bits in the order of this machine."""
    return b"".join(struct.pack("=I", int(text[at : at + 8], 16)) for at in range(0, len(text), 8))


def plain(address: bytes) -> bytes:
    """gRPC binds an IPv4 address as one of IPv6."""
    return address[-4:] if len(address) == 16 and address.startswith(MAPPED) else address

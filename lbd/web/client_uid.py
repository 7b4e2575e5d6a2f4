"""Whose process is at the other end of a connection within this machine.

All pages of one machine share their cookies, whatever their ports: a user who has another open a
page of theirs is sent the other's cookie. On loopback the kernel says whose a connection is, so
that a session counts for its own user alone.
"""

import ipaddress
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
ESTABLISHED = "01"
MAPPED = 0xFFFF << 32  # ::ffff:127.0.0.1


def kernel_form(address: str, port: int) -> set[str]:
    """As /proc/net/tcp has it: words of 32 bits in the machine's own order."""
    ip = ipaddress.ip_address(address)
    forms = [ip.packed]
    if isinstance(ip, ipaddress.IPv4Address):
        forms.append((MAPPED | int(ip)).to_bytes(16, "big"))
    words = [struct.unpack(f"={len(packed) // 4}I", packed) for packed in forms]
    return {"".join(f"{word:08X}" for word in each) + f":{port:04X}" for each in words}


def uid_in(lines: Iterable[str], client: set[str], server: set[str]) -> int | None:
    """The owner of the socket of `client` that is connected to `server`."""
    for line in lines:
        found = line.split(None, 8)
        if len(found) > 7 and found[1] in client and found[2] in server:
            return int(found[7]) if found[3] == ESTABLISHED else None
    return None


def client_uid(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """None if it is not known."""
    ours, theirs = kernel_form(*server), kernel_form(*client)
    for table in TABLES:
        with suppress(OSError, ValueError):
            found = uid_in(table.read_text().splitlines()[1:], theirs, ours)
            if found is not None:
                return found
    return None

"""Which releases of lbd understand each other. Pure.

The wire format between hosts has a version. A release speaks the newest it knows and understands
some older ones, usually the one before. Two hosts understand each other if either range includes
the other's newest or oldest version. So a cluster is upgraded host by host, one release at a time.

Unknown fields are kept; unknown requests are refused with a message. A later release may announce
more behind these words, such as features that older ones are then not asked for.

Every call between hosts has the caller's announcement as a header, and the answer to a stream has
that of the called host. A host that joins announces nothing yet.
"""

import re
from dataclasses import dataclass

from lbd import __version__

HEADER = "lbd-wire"
VERSION_MAX = 1 << 16
RELEASE = re.compile(r"[A-Za-z0-9.+~-]{1,40}")


@dataclass(frozen=True, slots=True)
class Wire:
    release: str
    newest: int
    oldest: int

    def announcement(self) -> str:
        return f"{self.newest} {self.oldest} {self.release}"

    def __str__(self) -> str:
        return f"lbd {self.release} (wire {self.oldest} to {self.newest})"


OWN = Wire(__version__, newest=1, oldest=1)


def read(text: str) -> Wire:
    """Reads an announcement; further words of a later release are ignored. Raises ValueError."""
    newest, oldest, release, *_ = text.split(" ")
    if not RELEASE.fullmatch(release):
        raise ValueError("a malformed announcement of a release")
    wire = Wire(release, int(newest), int(oldest))
    if not 0 <= wire.oldest <= wire.newest <= VERSION_MAX:
        raise ValueError("an invalid wire version")
    return wire


def disagreement(name: str, one: Wire, other_name: str, other: Wire) -> str:
    """Returns why the two do not understand each other, with advice; "" if they do."""
    if one.newest < other.oldest:
        return f"{name} runs {one}, too old for {other} on {other_name}: upgrade {name}"
    if other.newest < one.oldest:
        return disagreement(other_name, other, name, one)
    return ""

"""Which releases of lbd understand each other, and which features each has. Pure.

The wire format between hosts has a version. A release speaks the newest it knows and understands
some older ones, usually the one before. Two hosts understand each other if either range includes
the other's newest or oldest version. So a cluster is upgraded host by host, one release at a time.

Within that, releases differ by features: a host is not asked for a feature it does not announce.
Unknown fields are kept; unknown requests are refused with a message.

Every call between hosts has the caller's announcement as a header, and the answer to a stream has
that of the called host. A call without one comes from a release before announcements: version 1.
"""

import re
from dataclasses import dataclass

from lbd import __version__

HEADER = "lbd-wire"
VERSION_MAX = 1 << 16
RELEASE = re.compile(r"[A-Za-z0-9.+~-]{1,40}")
FEATURES = re.compile(r"[a-z0-9,-]{0,400}")

FILES = "stage"  # commands with files sent along
TERMINAL = "terminal"  # commands with a terminal
SLOTS = "slots"  # commands of several slots
NEEDS = "needs"  # commands that need resources or features
# Names for missing features.
SHOWN = {
    FILES: "transfer files (--send, --fetch)",
    TERMINAL: "give a command a terminal",
    SLOTS: "give a command several slots (-n)",
    NEEDS: "provide resources and features (--need, --feature)",
}


@dataclass(frozen=True, slots=True)
class Wire:
    release: str
    newest: int
    oldest: int
    features: frozenset[str] = frozenset()

    def announcement(self) -> str:
        features = ",".join(sorted(self.features))
        return f"{self.newest} {self.oldest} {self.release} {features}"

    def __str__(self) -> str:
        return f"lbd {self.release} (wire {self.oldest} to {self.newest})"


OWN = Wire(__version__, newest=2, oldest=1, features=frozenset(SHOWN))
BEFORE = Wire("before 0.1", newest=1, oldest=1, features=frozenset((FILES, TERMINAL)))


def read(text: str) -> Wire:
    """Reads an announcement; further words of a later release are ignored. Raises ValueError."""
    newest, oldest, release, features, *_ = [*text.split(" "), ""]
    if not (RELEASE.fullmatch(release) and FEATURES.fullmatch(features)):
        raise ValueError("a malformed announcement of a release")
    wire = Wire(release, int(newest), int(oldest), frozenset(filter(None, features.split(","))))
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


def lacking(theirs: Wire, wanted: set[str]) -> str:
    """Returns which of the wanted features a release lacks; "" if it has them all."""
    missing = [SHOWN[feature] for feature in sorted(wanted - theirs.features)]
    if not missing:
        return ""
    return f"runs {theirs}, which cannot {' or '.join(missing)}"

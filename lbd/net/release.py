"""Which releases of lbd understand each other, and what each of them can do. Pure.

The wire between hosts has a version. A release speaks the newest it knows and understands some
older ones, as a rule the one before; two hosts understand each other if either range reaches the
other's newest or the other's oldest. So a cluster is upgraded host by host, one release at a time.
Within that, releases differ by features: what a host does not announce is not asked of it. Fields
that are not known are kept, requests that are not known are refused in so many words.

Every call between hosts carries the announcement of the caller as a header, and the answer to a
stream that of the host called. Without one it is of a release before there were any: version 1.
"""

import re
from dataclasses import dataclass

from lbd import __version__

HEADER = "lbd-wire"
VERSION_MAX = 1 << 16
RELEASE = re.compile(r"[A-Za-z0-9.+~-]{1,40}")
FEATURES = re.compile(r"[a-z0-9,-]{0,400}")

FILES = "stage"  # commands that bring their files along
TERMINAL = "terminal"  # commands with a terminal
SLOTS = "slots"  # commands of several slots
NEEDS = "needs"  # commands that need resources or features
# What to call them when they are missing.
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
    """An announcement; what a later one has more is passed over. Raises ValueError."""
    newest, oldest, release, features, *_ = [*text.split(" "), ""]
    if not (RELEASE.fullmatch(release) and FEATURES.fullmatch(features)):
        raise ValueError("a malformed announcement of a release")
    wire = Wire(release, int(newest), int(oldest), frozenset(filter(None, features.split(","))))
    if not 0 <= wire.oldest <= wire.newest <= VERSION_MAX:
        raise ValueError("an invalid wire version")
    return wire


def disagreement(name: str, one: Wire, other_name: str, other: Wire) -> str:
    """Why the two do not understand each other, and what to do; "" if they do."""
    if one.newest < other.oldest:
        return f"{name} runs {one}, too old for {other} on {other_name}: upgrade {name}"
    if other.newest < one.oldest:
        return disagreement(other_name, other, name, one)
    return ""


def lacking(theirs: Wire, wanted: set[str]) -> str:
    """What of the features wanted a release does not have; "" if it has them all."""
    missing = [SHOWN[feature] for feature in sorted(wanted - theirs.features)]
    if not missing:
        return ""
    return f"runs {theirs}, which cannot {' or '.join(missing)}"

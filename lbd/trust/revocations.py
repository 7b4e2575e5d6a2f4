"""The authority's list for all hosts: which certificates are revoked, and where the authority has
moved.

It holds the lowest valid issue of each host that was revoked.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lbd.errors import PeerError

BYTES_MAX = 1 << 20
HOME_CHARS_MAX = 400


@dataclass(frozen=True, slots=True)
class Revocations:
    """A list of revoked hosts; the one with the higher number takes precedence."""

    number: int = 0
    lowest: Mapping[str, int] = field(default_factory=dict)  # host -> its lowest valid issue
    home: str = ""  # "h2 10.0.0.2:7901", the authority's host and LIM; "" = never moved

    def lowest_issue(self, host: str) -> int:
        return self.lowest.get(host, 0)

    def revokes_more(self, other: "Revocations") -> bool:
        return any(issue > other.lowest_issue(host) for host, issue in self.lowest.items())

    def and_earlier(self, others: Iterable["Revocations"]) -> "Revocations":
        """Returns this list with what others revoke beyond it: what was revoked once stays so."""
        lowest = dict(self.lowest)
        for other in others:
            for host, issue in other.lowest.items():
                lowest[host] = max(issue, lowest.get(host, 0))
        return Revocations(self.number, lowest, self.home)

    def text(self) -> str:
        home = {"home": self.home} if self.home else {}
        return json.dumps(
            {"number": self.number, "lowest": dict(sorted(self.lowest.items())), **home}
        )


def parse(text: str) -> Revocations:
    """Raises PeerError if it is malformed."""
    try:
        found = json.loads(text[:BYTES_MAX])
        number, lowest, home = found["number"], found["lowest"], found.get("home", "")
        if not isinstance(number, int) or not all(isinstance(n, int) for n in lowest.values()):
            raise TypeError
        if home and (len(home) > HOME_CHARS_MAX or len(home.split()) != 2):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise PeerError("not a list of revoked hosts") from None
    return Revocations(number, {str(host): issue for host, issue in lowest.items()}, str(home))


def revocations_in(signed: bytes) -> Revocations:
    """Returns the list that was received in this form, by whomever it is signed. Raises
    PeerError."""
    return parse(signed.partition(b"\n")[2].decode("utf-8", "replace"))

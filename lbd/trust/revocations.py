"""Which certificates count no more: of each host that was revoked, the lowest valid issue."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from lbd.errors import PeerError

BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Revocations:
    """A list of revoked hosts; the one with the higher number takes precedence."""

    number: int = 0
    lowest: Mapping[str, int] = field(default_factory=dict)  # host -> its lowest valid issue

    def lowest_issue(self, host: str) -> int:
        return self.lowest.get(host, 0)

    def text(self) -> str:
        return json.dumps({"number": self.number, "lowest": dict(sorted(self.lowest.items()))})


def parse(text: str) -> Revocations:
    """Raises PeerError if it is none."""
    try:
        found = json.loads(text[:BYTES_MAX])
        number, lowest = found["number"], found["lowest"]
        if not isinstance(number, int) or not all(isinstance(n, int) for n in lowest.values()):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise PeerError("no list of revoked hosts") from None
    return Revocations(number, {str(host): issue for host, issue in lowest.items()})

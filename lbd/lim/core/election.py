"""Which host is the load information centre: the best-ranked host that is not silent.

There is no vote. Every host walks down the ranking (configured order, then name) and takes the
first host that it does not suspect; a host that arrives at itself acts as the centre. A candidate
is suspected when it has sent no vector for `silence_s` since it became the candidate, and cleared
by its next vector, so a better-ranked host that returns takes over again. In a partition each side
has a centre; two at once do no harm, since samples carry their own order and each host reports to
every centre that it hears.
"""

from collections.abc import Callable, Iterable

from lbd.lim.core.messages import Member
from lbd.model import HostId


def ranking(members: Iterable[Member]) -> list[HostId]:
    return [member.name for member in sorted(members, key=lambda m: (m.rank, m.name))]


class Election:
    def __init__(self, me: HostId) -> None:
        self._me = me
        self._heard_at_s: dict[HostId, float] = {}  # last vector of each host that sends them
        self._suspected: set[HostId] = set()
        self._candidate: HostId | None = None
        self._candidate_since_s = 0.0

    def heard(self, name: HostId, now_s: float) -> None:
        """A vector came from `name`: it acts as a centre."""
        self._heard_at_s[name] = now_s
        self._suspected.discard(name)

    def forget(self, name: HostId) -> None:
        self._heard_at_s.pop(name, None)
        self._suspected.discard(name)

    def centre(
        self,
        order: Iterable[HostId],
        gone: Callable[[HostId, float], bool],
        now_s: float,
        silence_s: float,
    ) -> HostId:
        """Returns the centre as seen from here. `gone`: whether a host has left, or is known to be
        down, by now."""
        for name in order:
            if name == self._me:
                break
            if name in self._suspected or (
                gone(name, now_s) and not self._hears(name, now_s, silence_s)
            ):
                continue
            if self._candidate != name:
                self._candidate, self._candidate_since_s = name, now_s
            if now_s - self._candidate_since_s <= silence_s or self._hears(name, now_s, silence_s):
                return name
            self._suspected.add(name)
        self._candidate = self._me
        return self._me

    def _hears(self, name: HostId, now_s: float, silence_s: float) -> bool:
        at_s = self._heard_at_s.get(name)
        return at_s is not None and now_s - at_s <= silence_s

    def heard_lately(self, now_s: float, silence_s: float) -> set[HostId]:
        """Returns every host that has acted as a centre recently."""
        if not self._heard_at_s:
            return set()
        return {name for name, at_s in self._heard_at_s.items() if now_s - at_s <= silence_s}

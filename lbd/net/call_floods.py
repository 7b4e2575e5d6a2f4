"""Decides which addresses flood a port with calls, and for how long to keep each away. Pure.

gRPC begins a call as soon as its headers arrive, and hands it over when we get to it. Once more
than a thousand wait, it ends calls of any caller. A host can begin that many in milliseconds, and
we then take over some tens a second. So a flood does not show in the calls we get, but in those we
do not: the calls that gRPC has begun on each connection, minus those taken over. They are called
left here.

An honest host's calls are left only for a moment, even when thousands come together: it waits for
answers, and has at most `LEFT_MAX` in progress. So only growth counts, and one look counts no more
than half of a flood, since we may have been stopped ourselves while one host's calls were given up
and repeated. Some of it is forgiven each second: calls that gRPC ended in another host's flood, and
miscounted ones.

An address stands for all callers from there. Only the holder of a certificate has calls at all, so
no other user of a host can get its address kept away. From loopback all hosts of a lab may call, so
there only the connection is closed, and the next one is admitted.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

LEFT_MAX = 4096  # what a host may have in progress: guarded_calls.CALLS_MAX
LEFT_MAX_AGAIN = LEFT_MAX // 2  # for a source that has flooded before
FORGIVEN_PER_S = 500.0
AWAY_S, AWAY_S_MAX = 10.0, 60.0  # doubled each time, until it behaved for as long
ADDRESSES_MAX = 256
ANY_PORT = 0

Place = tuple[str, int]  # an address and a port, or ANY_PORT


@dataclass(frozen=True, slots=True)
class Flood:
    source: Place
    away_s: float


@dataclass(frozen=True, slots=True)
class Stay:
    """How long a source is kept away."""

    away_s: float
    until_s: float

    @property
    def forgotten_s(self) -> float:
        return self.until_s + self.away_s


def source_of(place: Place) -> Place:
    """Returns what to keep away when this peer's calls flood."""
    address, _ = place
    return place if address.startswith("127.") or address == "::1" else (address, ANY_PORT)


class CallFloods:
    def __init__(self) -> None:
        self._left: dict[Place, int] = {}
        self._owed: dict[Place, float] = {}  # by source: growth not yet forgiven
        self._looked_s = 0.0
        self._stays: dict[Place, Stay] = {}  # the last stay of each source, until forgotten

    @property
    def is_calm(self) -> bool:
        """Returns whether the last look found nothing, so that the next one may be later."""
        return not self._owed and not self._stays

    def look(self, left: Mapping[Place, int], now_s: float) -> list[Flood]:
        """`left`: the calls left on each connection, by peer. Returns the floods that begin."""
        self._stays = {
            source: stay for source, stay in self._stays.items() if now_s < stay.forgotten_s
        }
        grown: Counter[Place] = Counter()
        for place, calls in left.items():
            grown[source_of(place)] += calls - self._left.get(place, 0)
        forgiven = FORGIVEN_PER_S * (now_s - self._looked_s)
        self._left, self._looked_s = dict(left), now_s
        owed = {
            source: max(0.0, self._owed.get(source, 0.0) - forgiven)
            + min(grown[source], LEFT_MAX / 2)
            for source in {*grown, *self._owed} - self.away(now_s)
        }
        floods = [source for source, calls in owed.items() if calls > self._left_max(source)]
        self._owed = {
            source: calls for source, calls in owed.items() if calls > 0 and source not in floods
        }
        return [self._keep_away(source, now_s) for source in floods]

    def away(self, now_s: float) -> set[Place]:
        """Returns the sources from which no connection may stay."""
        return {source for source, stay in self._stays.items() if now_s < stay.until_s}

    def _left_max(self, source: Place) -> int:
        return LEFT_MAX_AGAIN if source in self._stays else LEFT_MAX

    def _keep_away(self, source: Place, now_s: float) -> Flood:
        last = self._stays.pop(source, None)
        away_s = min(2 * last.away_s, AWAY_S_MAX) if last else AWAY_S
        if len(self._stays) >= ADDRESSES_MAX:
            del self._stays[next(iter(self._stays))]
        self._stays[source] = Stay(away_s, now_s + away_s)
        return Flood(source, away_s)

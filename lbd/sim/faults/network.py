"""Virtual time, and a network that loses, duplicates, delays and cuts.

Every event is a call scheduled with `Network.at`; a run depends only on its seed.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable
from random import Random

from lbd.model import HostId

LATENCY_S = (0.0002, 0.002)
BEGIN_S = 1000.0  # where the virtual clock starts


class Network:
    """`rng` decides what happens to messages."""

    def __init__(self, seed: int, loss: float = 0.0) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.now_s = BEGIN_S
        self.loss = loss  # share of messages that are lost
        self.twice = 0.0  # share that arrives twice
        self.latency_s = LATENCY_S
        self.mute: set[tuple[HostId, HostId]] = set()  # (sender, receiver) pairs that are cut
        self.cuts: set[frozenset[HostId]] = set()
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, delay_s: float, body: Callable[[], None]) -> None:
        heapq.heappush(self._calls, (self.now_s + delay_s, next(self._order), body))

    def run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self._calls and self._calls[0][0] <= end_s:
            self.now_s, _, body = heapq.heappop(self._calls)
            body()
        self.now_s = end_s

    def run_until(self, condition: Callable[[], bool], limit_s: float, what: str) -> float:
        """Runs until the condition holds. Returns the seconds it took. Raises AssertionError with
        the seed if it does not within `limit_s`."""
        began_s = self.now_s
        while not condition():
            if self.now_s - began_s >= limit_s:
                raise AssertionError(f"seed {self.seed}: not within {limit_s:g} s: {what}")
            self.run(0.1)
        return self.now_s - began_s

    def cut_between(self, inside: Iterable[HostId], outside: Iterable[HostId]) -> None:
        others = list(outside)
        self.cuts |= {frozenset((a, b)) for a in inside for b in others}

    def heal(self) -> None:
        self.cuts.clear()

    def is_cut(self, sender: HostId, to: HostId) -> bool:
        return frozenset((sender, to)) in self.cuts or (sender, to) in self.mute

    def passes(self, sender: HostId, to: HostId | None) -> bool:
        """Returns whether this message arrives."""
        if to is None or self.is_cut(sender, to):
            return False
        return self.rng.random() >= self.loss

    def delay_s(self) -> float:
        return self.rng.uniform(*self.latency_s)

    def copies(self) -> int:
        """Returns how often a message that passes arrives."""
        return 2 if self.rng.random() < self.twice else 1

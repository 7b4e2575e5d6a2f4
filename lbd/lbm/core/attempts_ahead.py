"""How many attempts of the queue's this host may be sent beyond its free slots. Pure.

With jobs of a millisecond the way to the dispatcher and back takes longer than the job. So, as long
as what runs here is short, a few more attempts wait here for the next free slot. Those who came
first still go first, but for what a job may wait here while another host has become free: `ahead_s`
if the next ones are like the last ones, `WAIT_S` at most: then it goes back to its place.
"""

from dataclasses import dataclass

AHEAD_MAX = 64
WAIT_S = 0.25
FIRST_AT = 8  # attempts seen
WEIGHT = 0.125  # of the newest
SHORTEST_S = 0.001  # what goes with it takes as long


@dataclass(slots=True)
class Ahead:
    ahead_s: float
    reported: int = 0
    _mean_s: float = 0.0
    _seen: int = 0

    def ran(self, seconds: float) -> None:
        """An attempt held its slot for so long."""
        self._seen += 1
        weight = max(WEIGHT, 1 / self._seen)
        self._mean_s += weight * (max(seconds, SHORTEST_S) - self._mean_s)

    def waited(self) -> None:
        """For nothing: those that run are not short any more."""
        self._mean_s = max(self._mean_s, WAIT_S)

    def depth(self, slots: int) -> int:
        if self._seen < FIRST_AT:
            return 0
        return min(AHEAD_MAX, int(slots * self.ahead_s / self._mean_s))

    def has_changed(self, slots: int) -> bool:
        """Does it differ so much from what was told that the dispatcher should know?"""
        depth = self.depth(slots)
        return depth > 2 * self.reported or 2 * depth < self.reported

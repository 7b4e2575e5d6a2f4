"""How many attempts the dispatcher may send this host beyond its free slots. Pure.

With jobs of a millisecond the round trip to the dispatcher takes longer than the job. So, as long
as jobs here are short, a few more attempts wait here for the next free slot. Attempts still start
in the order in which they came, except for the time that a job may wait here while another host has
become free: `ahead_s` if the next jobs are like the last ones, and at most `WAIT_S`. After that the
job goes back to its place in the queue.
"""

from dataclasses import dataclass

from lbd.lbm.core.execution import Execution

AHEAD_MAX = 64
WAIT_S = 0.25
FIRST_AT = 8  # number of attempts seen before any are sent ahead
WEIGHT = 0.125  # of the newest attempt in the mean
SHORTEST_S = 0.001  # the overhead of an attempt takes as long


@dataclass(slots=True)
class Ahead:
    ahead_s: float
    reported: int = 0
    _mean_s: float = 0.0
    _seen: int = 0

    def learn(self, execution: Execution, phase: str) -> None:
        """Learns from an end, or a refusal in that phase, how long attempts hold their slots."""
        if phase == "slot" and execution.spec.slots == (1, 1):
            self.waited()
        elif execution.exit is not None and execution.process is not None:
            self.ran(execution.exited_s - execution.process.began_s)

    def ran(self, seconds: float) -> None:
        """Notes that an attempt held its slot for so long."""
        self._seen += 1
        weight = max(WEIGHT, 1 / self._seen)
        self._mean_s += weight * (max(seconds, SHORTEST_S) - self._mean_s)

    def waited(self) -> None:
        """Notes that an attempt waited in vain: the running attempts are not short any more."""
        self._mean_s = max(self._mean_s, WAIT_S)

    def depth(self, slots: int) -> int:
        if self._seen < FIRST_AT:
            return 0
        return min(AHEAD_MAX, int(slots * self.ahead_s / self._mean_s))

    def has_changed(self, slots: int) -> bool:
        """Says whether the depth differs enough from the last reported one to report it again."""
        depth = self.depth(slots)
        return depth > 2 * self.reported or 2 * depth < self.reported

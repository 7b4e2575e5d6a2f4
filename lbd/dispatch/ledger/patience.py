"""When a standby may take the lead. Pure.

The leader increments a heartbeat in the database several times within its lease. A standby that has
seen the same heartbeat for longer than a lease, by its own clock, takes over. Their settings may
differ while `dispatch.leader_lease_s` changes, so the leader's lease is on record, and a standby
waits for the longer one. No clocks are compared, so setting one does no harm. The leader counts its
lease from before it sent the heartbeat that the standby saw, so it has stopped by then (`Tenure`).
If it is wrong about that, the database rejects its writes, which have another fencing number.
"""

from dataclasses import dataclass

CLOCKS_APART = 1.05  # bound on the ratio of two clocks' speeds


@dataclass(frozen=True, slots=True)
class Seen:
    """The row of the leadership as last seen."""

    fencing: int
    leader: str  # "": it was given up
    heartbeat: int
    term_s: float = 0.0  # the leader's; 0: not known


@dataclass(slots=True)
class Patience:
    """When one standby may take over. Times are monotonic seconds."""

    own_name: str
    term_s: float
    last: Seen | None = None
    since_s: float = 0.0

    def over(self, seen: Seen, now_s: float) -> bool:
        """Whether to take over, given what was just seen.

        The previous dispatcher of our own host has ended, since we hold its lock.
        """
        if seen != self.last:
            self.last, self.since_s = seen, now_s
        if seen.leader in ("", self.own_name):
            return True
        return now_s - self.since_s > max(self.term_s, seen.term_s) * CLOCKS_APART


@dataclass(slots=True)
class Tenure:
    """The time until which no other dispatcher can have taken over from this leader."""

    term_s: float
    until_s: float

    def renewed(self, sent_s: float) -> None:
        self.until_s = sent_s + self.term_s

    def valid(self, now_s: float) -> bool:
        return now_s < self.until_s

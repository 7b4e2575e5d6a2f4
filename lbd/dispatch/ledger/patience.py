"""When a standby may take the lead. Pure.

The leader counts up a heartbeat in the database several times within its lease. A standby that has
seen the same heartbeat for longer than a lease, by its own clock, takes over: it compares no
clocks, so nobody's being set does harm. The leader counts its lease from before it sent the
heartbeat that the standby saw, so it has stopped by then (`Tenure`); and should it be wrong about
that, the database refuses what it writes, for it has another fencing number.
"""

from dataclasses import dataclass

CLOCKS_APART = 1.05  # two clocks differ in pace by less


@dataclass(frozen=True, slots=True)
class Seen:
    """The row of the leadership as last seen."""

    fencing: int
    leader: str  # "" = it was laid down
    heartbeat: int


@dataclass(slots=True)
class Patience:
    """When one standby may take over. Times are monotonic seconds."""

    own_name: str
    term_s: float
    last: Seen | None = None
    since_s: float = 0.0

    def over(self, seen: Seen, now_s: float) -> bool:
        """Whether to take over from what was just seen there.

        The last dispatcher of our own host has ended, as we hold its lock.
        """
        if seen != self.last:
            self.last, self.since_s = seen, now_s
        if seen.leader in ("", self.own_name):
            return True
        return now_s - self.since_s > self.term_s * CLOCKS_APART


@dataclass(slots=True)
class Tenure:
    """Until when no other dispatcher can have taken over from this leader."""

    term_s: float
    until_s: float

    def renewed(self, sent_s: float) -> None:
        self.until_s = sent_s + self.term_s

    def valid(self, now_s: float) -> bool:
        return now_s < self.until_s

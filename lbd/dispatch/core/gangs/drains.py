"""For how long slots are kept for a gang, and for how long others then pass. Pure.

A drain belongs to its user, not to one gang: otherwise a series of gangs, each of which is given
up, or begins, before its drain ends, would keep slots for ever. So would a series of users, whom a
host may make up: before a drain follows another user's, others pass for as long as slots were kept.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

DRAIN_S, DRAIN_S_MIN = 600.0, 1.0
USERS_KNOWN = 1000


@dataclass(slots=True)
class Drain:
    """Alternating periods: slots are kept for a gang, then others pass for as long."""

    since_s: float
    until_s: float
    length_s: float
    keeps: bool = True

    @classmethod
    def first(cls, now_s: float, drain_s: float) -> "Drain":
        length_s = max(drain_s, DRAIN_S_MIN)
        return cls(now_s, now_s + length_s, length_s)

    def pass_to(self, now_s: float) -> bool:
        """Advances to that time. Returns whether the period has changed."""
        before = self.since_s
        while now_s >= self.until_s:
            self.keeps, self.since_s = not self.keeps, self.until_s
            self.length_s *= 2 if self.keeps else 1
            self.until_s += self.length_s
        return self.since_s != before

    def follow(self, owed_until_s: float, now_s: float) -> None:
        """Others pass until then at least; the next drain lasts as long as it would now."""
        if owed_until_s <= (now_s if self.keeps else self.until_s):
            return
        if self.keeps:
            self.keeps, self.since_s = False, now_s
            self.length_s /= 2  # it doubles with the next drain
        self.until_s = owed_until_s

    def is_over(self, now_s: float) -> bool:
        """Whether others have passed by now for as long as slots were kept."""
        return now_s >= self.until_s + (self.length_s if self.keeps else 0.0)

    def gang_begins(self, now_s: float, drain_s: float) -> None:
        """Others pass for as long as slots were kept until now. The user's next drain is as long as
        a first one."""
        self.pass_to(now_s)
        if self.keeps:
            kept_s = now_s - self.since_s
            self.keeps, self.since_s, self.until_s = False, now_s, now_s + kept_s
        self.length_s = max(drain_s, DRAIN_S_MIN) / 2  # it doubles with the next drain


@dataclass(slots=True)
class Drains:
    """Each user's latest drain."""

    _of_user: OrderedDict[str, Drain] = field(default_factory=OrderedDict)
    _current: Drain | None = None
    _seen_s: float = 0.0  # when it was the current one last

    def turn_to(self, drain: Drain, now_s: float) -> None:
        """Advances this drain, by which slots are kept now, or others pass."""
        drain.pass_to(now_s)
        before, self._current = self._current, drain
        if before is not None and before is not drain:
            kept_s = min(self._seen_s, before.until_s) - before.since_s
            drain.follow(self._seen_s + kept_s if before.keeps else before.until_s, now_s)
        self._seen_s = now_s

    def of(self, user: str, now_s: float, drain_s: float) -> Drain:
        """Returns a new one once others have passed for as long as slots were kept."""
        drain = self._of_user.pop(user, None)
        if drain is None or drain.is_over(now_s):
            drain = Drain.first(now_s, drain_s)
        self._of_user[user] = drain
        while len(self._of_user) > USERS_KNOWN:
            self._of_user.popitem(last=False)
        return drain

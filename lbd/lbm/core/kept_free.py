"""For how long the waiting commands of each user may keep what is free from others. Pure.

A command that waits for several slots, or several GPUs, keeps those that are free from others until
there are enough: otherwise it might never begin. Its user needs to hold nothing for that, and may
send the next such command whenever one gives up. So the time counts for the user, not for each
command. It is used up while they keep something that is free, and comes back as fast while they do
not. Once it is used up they keep nothing of the kind until all of it is back, and so never more
than half of the time.
"""

import math
from collections.abc import Set
from dataclasses import dataclass, field

SLOTS = ""  # in place of the name of a resource
Kept = tuple[str, str]  # the user who keeps it from others, and what


@dataclass(slots=True)
class KeptFree:
    limit_s: float = math.inf  # for each user and what they keep
    kept: Set[Kept] = frozenset()  # since the last `pass_to`
    pausing: set[Kept] = field(default_factory=set)  # whose time is used up
    _used_s: dict[Kept, float] = field(default_factory=dict)  # if there is any
    _now_s: float = -math.inf

    def pass_to(self, now_s: float) -> bool:
        """Returns whether a pause has begun."""
        paused_before = self.pausing.copy()
        passed_s, self._now_s = now_s - self._now_s, now_s
        for one in self.kept | self._used_s.keys():
            used_s = self._used_s.pop(one, 0.0) + (passed_s if one in self.kept else -passed_s)
            if used_s >= self.limit_s:
                self.pausing.add(one)
            if used_s > 0.0:
                self._used_s[one] = min(used_s, self.limit_s)
            else:
                self.pausing.discard(one)
        return not self.pausing <= paused_before

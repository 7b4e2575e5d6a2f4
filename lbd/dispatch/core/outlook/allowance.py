"""How many steps of reading and playing lines may be taken now. Pure.

All plays together have a tenth of the time. Of that, one user's submissions have a quarter, and all
submissions together leave part of it to plays of the lines as they are, which serve all users.
"""

from dataclasses import dataclass, field

PER_S, AHEAD_S = 20_000, 2.5  # a step, of one job in one draw, takes some 5 µs
FOUND_STEPS = 4  # to find the next job in line
LINES = ""  # instead of a user
OF_SUBMISSIONS, OF_USER = 0.8, 0.25
USER_AHEAD_S = 1.0
USERS_KNOWN = 1000


@dataclass(slots=True)
class Allowance:
    _due_s: dict[str, float] = field(default_factory=dict)  # when each user's past use is paid off
    _all_due_s: float = 0.0

    def has(self, user: str, now_s: float) -> bool:
        """Whether a play is allowed. `user`: whose submission it is for, or LINES."""
        share = OF_SUBMISSIONS if user != LINES else 1.0
        ahead_s = self._all_due_s - now_s
        own_s = self._due_s.get(user, now_s) - now_s
        return ahead_s < share * AHEAD_S and own_s < USER_AHEAD_S

    def took(self, steps: float, user: str, now_s: float) -> None:
        self._all_due_s = max(self._all_due_s, now_s) + steps / PER_S
        if user == LINES:
            return
        if len(self._due_s) >= USERS_KNOWN:
            self._due_s = {one: at_s for one, at_s in self._due_s.items() if at_s > now_s}
        due_s = max(self._due_s.get(user, now_s), now_s)
        self._due_s[user] = due_s + steps / (OF_USER * PER_S)

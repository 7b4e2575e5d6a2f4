"""`lbctl advise`: what other rules for the owners of hosts would have done to a day's jobs. Pure.

For every command that was suspended it is known how long the owner stayed and what moving would
have lost. So each rule "wait so long, then move" can be computed afterwards: it waits for the whole
stay, or for its limit and then loses the cost. For the trials (`policy/wait_trials.py`) each host
reports how long they would wait now. They have learnt from these same stays, so they do a little
better here than they would have then, and so does whichever timer looks best.

Unknown are how soon another host would have taken a moved command, and whether that host's owner
would have come back, too.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

FEWEST = 10  # interruptions needed for advice
GAIN_MIN = 0.05  # a smaller gain is not worth a change


@dataclass(frozen=True, slots=True)
class Interruption:
    """A command that was suspended on some host."""

    ended: float  # UNIX seconds
    stay_s: float
    cost_s: float  # of moving it
    moved_after_s: float | None  # None: it waited
    trial_limit_s: float | None = None  # what its host's trials say now; None: too few yet


@dataclass(frozen=True, slots=True)
class OwnerRuleResult:
    rule: str
    setting: str  # how to set it; "" = as it is now
    waited_s: float
    lost_s: float
    moves: int

    @property
    def delay_s(self) -> float:
        return self.waited_s + self.lost_s


Limit = Callable[[Interruption], float]
DECIDE = 'owner_is_back = "decide", decide_by ='
RULES: tuple[tuple[str, str, Limit], ...] = (
    ("wait until they leave", 'owner_is_back = "suspend"', lambda one: math.inf),
    ("move at once", 'owner_is_back = "evict", evict_grace_s = 0', lambda one: 0.0),
    ("move after 1 min", f'{DECIDE} "timer", decide_after_s = 60', lambda one: 60.0),
    ("move after 5 min", f'{DECIDE} "timer", decide_after_s = 300', lambda one: 300.0),
    ("move after 15 min", f'{DECIDE} "timer", decide_after_s = 900', lambda one: 900.0),
    ("wait as long as moving costs", f'{DECIDE} "work"', lambda one: one.cost_s),
)
TRIALS = "wait as the trials say", f'{DECIDE} "trials"'


def by_trials(one: Interruption) -> float:
    """Returns the trials' limit; before they have seen enough, that of the rule "work"."""
    return one.cost_s if one.trial_limit_s is None else one.trial_limit_s


def results(found: Sequence[Interruption]) -> list[OwnerRuleResult]:
    """Returns the past behaviour first; empty if there are too few interruptions."""
    if len(found) < FEWEST:
        return []
    now = reckoned("as it was", "", found, lambda one: one.moved_after_s)
    rules = RULES
    if any(one.trial_limit_s is not None for one in found):
        rules = (*RULES, (*TRIALS, by_trials))
    return [now, *(reckoned(rule, how, found, by(limit)) for rule, how, limit in rules)]


def by(limit: Limit) -> Callable[[Interruption], float | None]:
    def moved_after_s(one: Interruption) -> float | None:
        limit_s = limit(one)
        return None if one.stay_s <= limit_s else limit_s

    return moved_after_s


def reckoned(
    rule: str,
    setting: str,
    found: Iterable[Interruption],
    moved_after_s: Callable[[Interruption], float | None],
) -> OwnerRuleResult:
    waited_s = lost_s = 0.0
    moves = 0
    for one in found:
        after_s = moved_after_s(one)
        if after_s is None:
            waited_s += one.stay_s
        else:
            waited_s, lost_s, moves = waited_s + after_s, lost_s + one.cost_s, moves + 1
    return OwnerRuleResult(rule, setting, waited_s, lost_s, moves)


def best(found: Sequence[OwnerRuleResult]) -> OwnerRuleResult | None:
    """Returns the rule with the least delay, if that is clearly less than it was."""
    if not found:
        return None
    least = min(found[1:], key=lambda one: one.delay_s)
    return least if least.delay_s < (1 - GAIN_MIN) * found[0].delay_s else None

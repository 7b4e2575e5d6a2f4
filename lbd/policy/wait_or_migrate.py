"""The owner of a host is back: a suspended command there either waits for them to leave, or moves.
Pure.

`OwnerHistory` learns one host: its chances from one step to the next by hour of the week, and how
long its owner stays. For one command, `rest_s` weighs what moving would lose against how soon the
owner will leave; `decide_gang` does so for tasks that only run together. Rules:

- **threshold** (default): He et al., theorem III.4 (`theory/wait_or_migrate.py`), with the chance
  of leaving of an owner who has been here as long as this one (`theory/owner_periods.py`). Where
  stays have a heavy tail that chance falls, and there is a time to stop waiting;
- **work**: the same for a fixed amount of work: longer jobs are moved earlier than by the paper;
- **myopic**: wait if a move costs a step or more;
- **optimal**: the full decision process (equation 2, `theory/migration_process.py`), which also
  counts how many other hosts are free, or may be free next. It is solved only for few tasks and
  hosts, and for rounded costs and chances, as a solution takes some hundredths of a second and a
  daemon cannot wait longer. Cases that are too large, or hardly ever change, fall back to
  threshold.

Until a stay has been seen to end nothing is known, and the command waits as long as a move would
cost: that is never more than twice the cost with perfect foresight.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from lbd.text.units import show_duration
from lbd.theory.migration_process import best_of_alike
from lbd.theory.owner_periods import Stays, fit, safe_limit_s
from lbd.theory.wait_or_migrate import (
    OnOff,
    myopic_thresholds,
    on_hosts,
    threshold,
    work_threshold,
)

Rule = Literal["threshold", "work", "myopic", "optimal"]

HOURS = 168  # of a week
BETA = 0.999  # discount per step, as in the paper
PRIOR = OnOff(1 / 30, 1 - 1 / 60)  # half an hour here, an hour away, in steps of a minute
PRIOR_STEPS = 20.0  # weight of a host's prior, and of the host as the prior of its hours
STAYS_KEPT = 200
FEWEST_STAYS = 5  # ended stays needed to predict the next one
SHOWN_CHANCE = 0.8
LONGEST_S = 30 * 86400.0  # the longest that is shown
# the most tasks it is solved for; spare hosts counted beyond the tasks
SMALL_GANG, SPARE_MORE = 4, 4
COST_STEP = 1.1  # costs are rounded to powers of it
SOLVED = 256  # cached solutions of processes

Counts = list[int]  # steps begun OFF, of those ended ON; steps begun ON, of those ended ON


def learnt(counts: Sequence[int], prior: OnOff, weight: float) -> OnOff:
    """Estimates p01 and p11 by counting, with a prior that weighs `weight` steps of either kind."""
    off, left, on, stayed = counts
    p01 = (left + weight * prior.p01) / (off + weight)
    p11 = (stayed + weight * prior.p11) / (on + weight)
    return OnOff(p01, p11)


@dataclass(slots=True)
class OwnerHistory:
    """What was observed of one host's owner. Times are seconds of one clock; hours 0 … 167."""

    hours: list[Counts] = field(default_factory=lambda: [[0, 0, 0, 0] for _ in range(HOURS)])
    stays_s: deque[float] = field(default_factory=lambda: deque(maxlen=STAYS_KEPT))
    since_s: float | None = None  # when the owner came; None while away
    _fitted: Stays | None = None

    def step(self, hour: int, was_here: bool, is_here: bool) -> None:
        """Counts one step. Raises ValueError for an hour outside the week."""
        if not 0 <= hour < HOURS:
            raise ValueError(f"hour {hour} of the week: must be 0 to {HOURS - 1}")
        counts, kind = self.hours[hour], 0 if was_here else 2
        counts[kind] += 1
        counts[kind + 1] += not is_here

    def came(self, now_s: float) -> None:
        """Records that the owner is back; does nothing if they were here already."""
        if self.since_s is None:
            self.since_s = now_s

    def left(self, now_s: float) -> None:
        """Records that the owner has left; does nothing if they were away already."""
        if self.since_s is not None:
            self.stays_s.append(max(0.0, now_s - self.since_s))
            self.since_s, self._fitted = None, None

    def stayed_s(self, now_s: float) -> float:
        """Returns how long the owner has been here; 0 while away."""
        return 0.0 if self.since_s is None else max(0.0, now_s - self.since_s)

    def steps(self, hour: int) -> int:
        """Returns how many steps were observed in this hour of the week."""
        off, _, on, _ = self.hours[hour]
        return off + on

    def chain(self, hour: int | None = None) -> OnOff:
        """Returns the host's chances, or those of one hour with the host's as the prior."""
        total = [sum(column) for column in zip(*self.hours, strict=True)]
        host = learnt(total, PRIOR, PRIOR_STEPS)
        return host if hour is None else learnt(self.hours[hour], host, PRIOR_STEPS)

    def by_hour(self) -> list[OnOff]:
        """Returns the chances for each hour of the week."""
        host = self.chain()
        return [learnt(counts, host, PRIOR_STEPS) for counts in self.hours]

    def rows(self) -> list[Counts]:
        """Returns the counts, for saving across a restart."""
        return [list(counts) for counts in self.hours]

    def restore(self, rows: Sequence[Sequence[int]], stays_s: Sequence[float]) -> None:
        """Restores saved counts. Raises ValueError, and changes nothing, if they are impossible."""
        fits = len(rows) == HOURS and all(
            len(row) == 4 and 0 <= row[1] <= row[0] and 0 <= row[3] <= row[2] for row in rows
        )
        if not fits or not all(0 <= stay_s < math.inf for stay_s in stays_s):
            raise ValueError("the owner's record is damaged and starts again empty")
        self.hours = [list(row) for row in rows]
        self.stays_s = deque(stays_s, maxlen=STAYS_KEPT)
        self._fitted = None

    def stays(self) -> Stays | None:
        """Returns the distribution of the owner's stays; None while too few have ended."""
        if self._fitted is None and len(self.stays_s) >= FEWEST_STAYS and any(self.stays_s):
            self._fitted = fit(list(self.stays_s))
        return self._fitted


@dataclass(frozen=True, slots=True)
class Others:
    """The hosts that run none of the job's tasks."""

    hosts: int
    free: int  # of these, with their owners away


@dataclass(frozen=True, slots=True)
class Wait:
    reason: str


@dataclass(frozen=True, slots=True)
class Move:
    reason: str


def rest_s(
    history: OwnerHistory,
    move_s: float,
    step_s: float,
    now_s: float,
    rule: Rule = "threshold",
    hour: int | None = None,
) -> float:
    """Returns how much longer one suspended command waits for an owner who is here; infinite: until
    they leave. At 0 or below, it moves.

    `move_s` is what moving costs: the seconds since the command started or was checkpointed, plus
    the transfer of its files.
    """
    stays, stayed_s = history.stays(), history.stayed_s(now_s)
    if stays is None:
        return safe_limit_s(move_s) - stayed_s
    patience_s = patience(move_s / step_s, history.chain(hour), rule) * step_s
    return stays.limit_s(patience_s, stayed_s)


def best_rest_s(
    history: OwnerHistory,
    move_s: float,
    step_s: float,
    now_s: float,
    others: Others,
    hour: int | None = None,
) -> float:
    """As `rest_s`, by the full process: the answer holds for this step only; ask again in the next
    one."""
    if history.stays() is None:
        return safe_limit_s(move_s) - history.stayed_s(now_s)
    moves = is_best_moved(history.chain(hour), 1, 0, others, move_s / step_s)
    if moves is None:
        return rest_s(history, move_s, step_s, now_s, "threshold", hour)
    return 0.0 if moves else math.inf


def is_best_moved(chain: OnOff, tasks: int, on: int, others: Others, cost: float) -> bool | None:
    """Whether the full process moves those tasks whose hosts are not ON; None: too large to
    solve."""
    if tasks > SMALL_GANG:
        return None
    spare = min(others.hosts, tasks + SPARE_MORE)
    rounded = COST_STEP ** round(math.log(cost, COST_STEP)) if cost > 0 else 0.0
    chances = (float(f"{chance:.2g}") for chance in (chain.p01, 1 - chain.p11))
    moved = solved(tasks, spare, *chances, rounded)
    return moved[on][min(others.free, spare)] > 0 if moved is not None else None


@lru_cache(SOLVED)
def solved(
    tasks: int, spare: int, leaves: float, comes: float, cost: float
) -> tuple[tuple[int, ...], ...] | None:
    best = best_of_alike(tasks, spare, OnOff(leaves, 1 - comes), cost, BETA)
    return best.moved if best is not None else None


def free_within_s(history: OwnerHistory, now_s: float) -> float | None:
    """Returns the time from now by which the owner has left in 80 % of cases; None if unknown."""
    stays = history.stays()
    if stays is None:
        return None
    left_s = stays.left_s(SHOWN_CHANCE, history.stayed_s(now_s))
    return left_s if left_s <= LONGEST_S else None


def outlook(history: OwnerHistory, now_s: float) -> str:
    """Says when the owner will leave, judging by earlier stays."""
    stays, stayed_s = history.stays(), history.stayed_s(now_s)
    if stays is None:
        return "it is not known how long the owner will stay"
    soon_s = free_within_s(history, now_s)
    if soon_s is None:
        return f"owners who have stayed {show_duration(stayed_s)} have hardly ever left soon"
    return f"in {SHOWN_CHANCE:.0%} of such stays the owner leaves within {show_duration(soon_s)}"


def patience(cost: float, chain: OnOff, rule: Rule) -> float:
    """Returns the rate limit, in steps: waiting is right while owners leave more often than once in
    so many steps.

    `cost` is that of a move, in steps. For rule work the limit is the cost itself
    (`owner_periods`). For the paper's threshold 1/(1 - β(p11 - p01)) it is the time for which p01
    makes the threshold equal to the cost.
    """
    if rule == "work":
        return cost
    if rule == "myopic":
        return math.inf if cost >= 1 else 0.0
    if cost <= 0:
        return 0.0
    leaves = chain.p11 - (1 - 1 / cost) / BETA  # the p01 at which γ_1 equals the cost
    if leaves <= 0:
        return math.inf
    return 0.0 if leaves >= 1 else -1 / math.log1p(-leaves)


def decide_gang(
    chain: OnOff,
    tasks: int,
    away: int,
    cost: float,
    others_free: int,
    rule: Rule = "threshold",
    others: int | None = None,
) -> Wait | Move:
    """Decides for `tasks` that only run together, one per host; on `away` of these hosts the owner
    is back.

    `cost` is that of moving one task, in steps. `others` is the number of further hosts, free or
    not, which the rule optimal needs. Either all such tasks move or none (lemma III.1). The caller
    asks again when an owner comes or leaves. Raises ValueError if `away` is 0 or more than `tasks`,
    for a negative cost, and for tasks outside 1 … 100.
    """
    if not (1 <= away <= tasks and cost >= 0):
        raise ValueError(f"{away} of {tasks} hosts away, a cost of {cost:g}: out of range")
    state = f"{away} of {tasks} hosts have their owners back"
    if others_free < away:
        return Wait(f"{state}, {others_free} others are free: waiting")
    if rule == "optimal":
        on, spare = tasks - away, max(others_free, others or 0)
        best = is_best_moved(chain, tasks, on, Others(spare, others_free), cost)
        if best is not None:
            words = f"{state}; a move costs {cost:.3g} steps"
            if best:
                return Move(f"{words}, and waiting would cost more: moving")
            return Wait(f"{words}, and waiting costs less: waiting")
    even = gang_threshold(chain, tasks, tasks - away, rule)
    words = f"{state}; a move costs {cost:.3g} steps, waiting is worth {even:.3g}"
    return Move(f"{words}: moving") if cost < even else Wait(f"{words}: waiting")


def gang_threshold(chain: OnOff, tasks: int, on: int, rule: Rule) -> float:
    if rule == "work":
        return work_threshold(on + 1, on_hosts(tasks, chain)) if chain.p01 else math.inf
    if rule == "myopic":
        return myopic_thresholds(tasks)[on]
    return threshold(on + 1, tasks, chain, BETA)

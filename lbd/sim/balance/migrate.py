"""Tasks on hosts whose owners come and go, in virtual time: waiting against moving.

The simulation of He et al., section IV. n tasks proceed only while all their hosts are ON. A step
of waiting costs 1, the move of a task γ. All rules see exactly the same owners.

With unlimited spare hosts, a moved task is on a host that is ON, as the theory assumes. Otherwise
there are a number of spare hosts, and it moves to a random one that is ON now. On measured series a
rule knows only the past: it learns the probabilities on the way.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from lbd.policy.wait_or_migrate import (
    BETA,
    FEWEST_STAYS,
    PRIOR_STEPS,
    STAYS_KEPT,
    Rule,
    learnt,
    patience,
)
from lbd.policy.wait_trials import WaitTrials
from lbd.theory.migration_process import Alike
from lbd.theory.owner_periods import fit
from lbd.theory.wait_or_migrate import (
    OnOff,
    moves,
    myopic_thresholds,
    thresholds,
    work_thresholds,
)

Row = list[bool]  # which hosts are ON in a step
EVEN = OnOff(0.5, 0.5)  # assumed before anything was observed
RELEARN = 20  # steps between two updates of the rule
BUSY_PERCENT = 15.0  # a host is ON up to this load (section III-A: ζ = 15 %)
FEWEST_CHANGES = 10  # a series with fewer is not worth deciding about


@dataclass(frozen=True, slots=True)
class MigrationState:
    """What a rule decides on."""

    step: int
    on: int  # how many of the tasks' hosts are ON
    others_on: int
    waited: int  # consecutive steps waited up to this one


Decide = Callable[[MigrationState], int]  # how many tasks to move


@dataclass(frozen=True, slots=True)
class MigrationOutcome:
    steps: int
    waited: int
    moved: int

    def cost_per_step(self, cost: float) -> float:
        return (self.waited + cost * self.moved) / self.steps

    def cost_per_work(self, cost: float) -> float:
        """Returns the cost per step of work; infinite if there was none."""
        worked = self.steps - self.waited
        return (self.waited + cost * self.moved) / worked if worked else float("inf")


# -- rules -----------------------------------------------------------------------------------------


def by_thresholds(cost: float, found: Sequence[float]) -> Decide:
    """Returns the rule of theorem III.4, of fixed work or the myopic one, depending on `found`."""

    def decide(state: MigrationState) -> int:
        return len(found) - state.on if moves(cost, state.on, found, state.others_on) else 0

    return decide


def after(steps: int, tasks: int) -> Decide:
    """Moves after `steps` steps of waiting, as soon as hosts are free; 0 moves at once."""

    def decide(state: MigrationState) -> int:
        away = tasks - state.on
        return away if state.waited >= steps and state.others_on >= away else 0

    return decide


def never(_state: MigrationState) -> int:
    return 0


def by_table(best: Alike) -> Decide:
    def decide(state: MigrationState) -> int:
        return best.moved[state.on][state.others_on]

    return decide


def rule_named(name: str, cost: float, tasks: int, chain: OnOff, beta: float) -> Decide:
    """Raises KeyError for a name that is not threshold, work, myopic, always, never."""
    if name == "threshold":
        return by_thresholds(cost, thresholds(tasks, chain, beta))
    if name == "work":
        return by_thresholds(cost, work_thresholds(tasks, chain))
    if name == "myopic":
        return by_thresholds(cost, myopic_thresholds(tasks))
    return {"always": after(0, tasks), "never": never}[name]


# -- hosts by chains -------------------------------------------------------------------------------


def drawn(hosts: int, chain: OnOff, steps: int, rng: Random) -> Iterator[Row]:
    """Yields independent chains, starting from their long-run state."""
    row = [rng.random() < chain.on_share for _ in range(hosts)]
    for _ in range(steps):
        yield row
        row = [rng.random() < (chain.p11 if on else chain.p01) for on in row]


def run_endless(
    tasks: int, chain: OnOff, steps: int, decide: Decide, rng: Random, start_on: bool = True
) -> MigrationOutcome:
    """Runs tasks with unlimited other hosts that are ON."""
    row = [start_on or rng.random() < chain.on_share for _ in range(tasks)]
    waited = moved = stretch = 0
    for step in range(steps):
        away = decide(MigrationState(step, sum(row), tasks, stretch)) if not all(row) else 0
        if away:
            moved += away
            row = [True] * tasks
        stretch = 0 if all(row) else stretch + 1
        waited += stretch > 0
        # one draw for each task, so that every rule meets the same luck
        row = [rng.random() < (chain.p11 if on else chain.p01) for on in row]
    return MigrationOutcome(steps, waited, moved)


# -- hosts by number -------------------------------------------------------------------------------


def run_rows(rows: Sequence[Row], tasks: int, decide: Decide, rng: Random) -> MigrationOutcome:
    """Runs tasks on hosts with known states, starting on the first ones.

    Raises ValueError if there are fewer hosts than tasks.
    """
    count = len(rows[0]) if rows else 0
    if not 1 <= tasks <= count:
        raise ValueError(f"{tasks} tasks on {count} hosts")
    ours = list(range(tasks))
    waited = moved = stretch = 0
    for step, row in enumerate(rows):
        on = [h for h in ours if row[h]]
        if len(on) < tasks:
            others = [h for h in range(count) if row[h] and h not in ours]
            away = decide(MigrationState(step, len(on), len(others), stretch))
            if away:
                moved += away
                stay = [h for h in ours if not row[h]][away:]
                ours = on + stay + rng.sample(others, away)
        stretch = 0 if all(row[h] for h in ours) else stretch + 1
        waited += stretch > 0
    return MigrationOutcome(len(rows), waited, moved)


class Learning:
    """A threshold rule with probabilities counted on all hosts, up to the present step.

    It holds all rows but reads none of the future.
    """

    def __init__(
        self, rows: Sequence[Row], tasks: int, cost: float, name: str = "threshold"
    ) -> None:
        self._rows, self._tasks, self._cost, self._name = rows, tasks, cost, name
        self._counts = [0, 0, 0, 0]
        self._seen = 0  # the last row counted
        self._learnt = 0  # the row at which the rule was last updated
        self._rule = rule_named(name, cost, tasks, EVEN, BETA)

    def __call__(self, state: MigrationState) -> int:
        for step in range(self._seen + 1, state.step + 1):
            for was, on in zip(self._rows[step - 1], self._rows[step], strict=True):
                self._counts[2 if was else 0] += 1
                self._counts[3 if was else 1] += on
        self._seen = state.step
        if state.step - self._learnt >= RELEARN:
            self._learnt = state.step
            chain = learnt(self._counts, EVEN, PRIOR_STEPS)
            self._rule = rule_named(self._name, self._cost, self._tasks, chain, BETA)
        return self._rule(state)


class LearningStays:
    """A single task, with the owners' stays on any host so far (`theory/owner_periods.py`).

    Does what `rest_s` of the policy does live, treating all hosts alike.
    """

    def __init__(self, rows: Sequence[Row], cost: float, rule: Rule) -> None:
        self._rows, self._cost, self._rule = rows, cost, rule
        self._counts = [0, 0, 0, 0]
        # step when the current stay began, or -1
        self._began = [0 if not on else -1 for on in rows[0]]
        self._ended: list[float] = []
        self._seen = 0
        self._learnt = -RELEARN
        self._limit = cost

    def __call__(self, state: MigrationState) -> int:
        for step in range(self._seen + 1, state.step + 1):
            self._count(step)
        self._seen = state.step
        if len(self._ended) >= FEWEST_STAYS and state.step - self._learnt >= RELEARN:
            self._learnt = state.step
            chain = learnt(self._counts, EVEN, PRIOR_STEPS)
            lasting = [float(state.step - began) for began in self._began if began >= 0]
            stays = fit(self._ended[-STAYS_KEPT:], lasting)
            self._limit = stays.limit_s(patience(self._cost, chain, self._rule), 0.0)
        return int(state.others_on > 0 and state.waited >= self._limit)

    def _count(self, step: int) -> None:
        for host, (was, on) in enumerate(zip(self._rows[step - 1], self._rows[step], strict=True)):
            self._counts[2 if was else 0] += 1
            self._counts[3 if was else 1] += on
            if was and not on:
                self._began[host] = step
            elif on and not was:
                self._ended.append(float(step - self._began[host]))
                self._began[host] = -1


class LearningLimit:
    """Tasks that wait as long as trials on all hosts found best so far (`policy/wait_trials`)."""

    def __init__(self, rows: Sequence[Row], tasks: int, cost: float, rng: Random) -> None:
        self._rows, self._tasks, self._cost, self._rng = rows, tasks, cost, rng
        self._trials = WaitTrials()
        self._seen = -1

    def __call__(self, state: MigrationState) -> int:
        for step in range(self._seen + 1, state.step + 1):
            self._trials.step(self._rows[step], self._rng)
        self._seen = state.step
        limit, away = self._trials.limit(self._cost), self._tasks - state.on
        return away if state.waited >= limit and state.others_on >= away else 0


def rows_of(series: Sequence[Sequence[float]], busy: float) -> list[Row]:
    """A host is ON while its load is at or below `busy`.

    All rows have the length of the shortest series.
    """
    return [[load <= busy for load in loads] for loads in zip(*series, strict=False)]


def is_lively(loads: Sequence[float], busy: float) -> bool:
    on = [load <= busy for load in loads]
    return sum(a != b for a, b in pairwise(on)) >= FEWEST_CHANGES


def chain_of(loads: Sequence[float], busy: float) -> OnOff:
    """Returns the probabilities of an active series, by counting (section III-A)."""
    on = [load <= busy for load in loads]
    counts = {(a, b): 0 for a in (False, True) for b in (False, True)}
    for step in pairwise(on):
        counts[step] += 1
    from_off, from_on = (counts[was, False] + counts[was, True] for was in (False, True))
    return OnOff(counts[False, True] / from_off, counts[True, True] / from_on)

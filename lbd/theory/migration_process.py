"""The full decision process of waiting and moving, where it is small enough to be solved.

He et al., section III-B, equation (2): which hosts run the tasks, and which of all hosts are ON. If
all hosts are alike, it is enough to know how many of the tasks' hosts and how many of the others
are ON: (n + 1)(m + 1) states for m spare hosts, without the paper's assumption that enough of them
are always ON.

It is solved by value iteration with MacQueen's bounds: the change per round lies between two
numbers, which converge as fast as the hosts forget their state, not as β^k.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lbd.theory.wait_or_migrate import OnOff, binomial, check, check_cost, on_hosts

PRECISION = 1e-10  # relative, of a value
ROUNDS = 3000  # enough for hosts that keep their state for some hundred steps
MOST_ALIKE = 4000  # states, which take some seconds
Values = list[float]


def iterate(backup: Callable[[Values], Values], size: int, beta: float) -> Values | None:
    """Returns the fixed point of `backup`; None if 3000 rounds do not reach it."""
    values = [0.0] * size
    for _ in range(ROUNDS):
        new = backup(values)
        changes = [a - b for a, b in zip(new, values, strict=True)]
        low, high = min(changes), max(changes)
        rest = beta / (1 - beta)
        values = new
        largest = max(1.0, max(values) + rest * high)
        if rest * (high - low) <= 2 * PRECISION * largest:
            return [value + rest * (low + high) / 2 for value in values]
        # Subtracting one number from all values leaves an equally good start, and keeps them small.
        least = values[0]
        values = [value - least for value in values]
    return None


@dataclass(frozen=True, slots=True)
class Alike:
    """The best rule for hosts that are all alike, and its cost (discounted, in steps)."""

    tasks: int
    spare: int
    cost: tuple[tuple[float, ...], ...]  # by the tasks' hosts ON and spare hosts ON, before moving
    moved: tuple[tuple[int, ...], ...]  # how many tasks to move in that state

    def mean_cost(self, chain: OnOff) -> float:
        """Returns the mean cost when every host starts in its long-run state."""
        on, others = (binomial(n, chain.on_share) for n in (self.tasks, self.spare))
        return math.fsum(
            a * b * cost
            for a, row in zip(on, self.cost, strict=True)
            for b, cost in zip(others, row, strict=True)
        )


def best_of_alike(tasks: int, spare: int, chain: OnOff, cost: float, beta: float) -> Alike | None:
    """Solves equation (2) for n tasks on n of n + `spare` equal hosts; None if it is too large.

    `cost` is γ. Moving only some of the interrupted tasks is allowed too (lemma III.1 says that it
    is of no use). Raises ValueError for tasks outside 1 … 100, a negative number of spare hosts, a
    cost that is negative or infinite, β outside (0, 1).
    """
    check(tasks, beta)
    check_cost(cost)
    if spare < 0 or cost == math.inf:
        raise ValueError(f"{spare} spare hosts, a cost of {cost:g}: must be 0 or more, and finite")
    width = spare + 1
    if (tasks + 1) * width > MOST_ALIKE:
        return None
    ours = on_hosts(tasks, chain)
    others = on_hosts(spare, chain) if spare else [[1.0]]

    def follow(values: Values) -> list[Values]:
        """Returns β·E of the value after a step, by the hosts that are ON after moving."""
        rows = [values[s * width : (s + 1) * width] for s in range(tasks + 1)]
        half = [[dot(row, step) for step in others] for row in rows]
        columns = list(zip(*half, strict=True))
        return [[beta * dot(step, column) for column in columns] for step in ours]

    def choose(after: list[Values], on: int, free: int) -> tuple[float, int]:
        most = min(tasks - on, free)
        return min(
            (float(on + j < tasks) + cost * j + after[on + j][free - j], j) for j in range(most + 1)
        )

    states = [(on, free) for on in range(tasks + 1) for free in range(width)]

    def backup(values: Values) -> Values:
        after = follow(values)
        return [choose(after, on, free)[0] for on, free in states]

    values = iterate(backup, len(states), beta)
    if values is None:
        return None
    after = follow(values)
    grid = [range(s * width, (s + 1) * width) for s in range(tasks + 1)]
    return Alike(
        tasks,
        spare,
        tuple(tuple(values[i] for i in row) for row in grid),
        tuple(tuple(choose(after, *states[i])[1] for i in row) for row in grid),
    )


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))

"""The owner is back: wait until the host is free again, or move to another one.

After T. He, S. Chen, H. Kim, L. Tong, K.-W. Lee, "To Migrate or to Wait: Bandwidth-Latency Tradeoff
in Opportunistic Scheduling of Parallel Tasks", section III. Time advances in steps. A host is ON
(free for us) or OFF (its owner is here), a two-state Markov chain. n tasks on n hosts run only
while all n are ON. A step of waiting costs 1, moving one task costs γ; both are discounted by β a
step.

With equal, independent hosts and enough others that are ON, the best rule is a threshold T_i: move
every task away from the OFF hosts if at least i hosts are ON, else wait (lemma III.2). T_i is the
best one for γ_i ≤ γ ≤ γ_{i+1} (theorem III.4).

Corrections and additions:

- γ_i is a quotient of differences between the rules T_i and T_{i-1}. They differ only in state i -
  1, so every start gives the same γ_i; but from "all ON" that state is hardly ever reached and the
  differences cancel (n = 10, β = 0.999). Here they are taken from a start in state i - 1.
- For one task the paper's theorem gives γ_1 = 1/(1 - β(p11 - p01)), which it does not print.
- Equations (2) to (4) weigh cost per step of time. A job has a fixed amount of work, and a step of
  waiting does not bring its end nearer, so its whole cost is the cost per step of *work*: equation
  (1). The thresholds then are those of `work_thresholds`, which are higher; for one task 1/p01, the
  mean stay of the owner. The paper's thresholds are the default, for comparison with the paper.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

MOST_TASKS = 100  # each threshold takes some n³ operations

Row = list[float]


@dataclass(frozen=True, slots=True)
class OnOff:
    """A host's transition probabilities per step (section III-A)."""

    p01: float  # OFF to ON: the owner leaves
    p11: float  # ON to ON: the owner stays away

    def __post_init__(self) -> None:
        """Raises ValueError for values that are not probabilities."""
        for name, chance in (("p01", self.p01), ("p11", self.p11)):
            if not 0 <= chance <= 1:
                raise ValueError(f"{name} = {chance:g}: must be 0 to 1")

    @property
    def memory(self) -> float:
        """How much of the state remains after a step: p11 - p01, 0 if each step is independent."""
        return self.p11 - self.p01

    @property
    def on_share(self) -> float:
        """The share of steps that the host is ON; a half for a host that never changes."""
        moves = self.p01 + 1 - self.p11
        return self.p01 / moves if moves else 0.5


def check(tasks: int, beta: float) -> None:
    if not 1 <= tasks <= MOST_TASKS:
        raise ValueError(f"{tasks} hosts: must be 1 to {MOST_TASKS}")
    if not 0 < beta < 1:
        raise ValueError(f"beta = {beta:g}: must be between 0 and 1")


def check_cost(cost: float) -> None:
    if not 0 <= cost <= math.inf:
        raise ValueError(f"a cost of {cost:g}: must be 0 or more")


def binomial(n: int, p: float) -> Row:
    """Returns the probabilities of 0 … n successes."""
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


def on_hosts(tasks: int, chain: OnOff) -> list[Row]:
    """Returns P of equation (3): from i ON hosts to j of `tasks`, in one step without moving.

    Of the i that are ON, k stay ON, and j - k of the others turn ON. Raises ValueError for a number
    of hosts outside 1 … 100.
    """
    check(tasks, 0.5)
    rows = []
    for i in range(tasks + 1):
        stay, come = binomial(i, chain.p11), binomial(tasks - i, chain.p01)
        row = [0.0] * (tasks + 1)
        for k, a in enumerate(stay):
            for other, b in enumerate(come):
                row[k + other] += a * b
        rows.append(row)
    return rows


def solve(matrix: list[Row], right: list[Row]) -> list[Row]:
    """Returns X of matrix · X = right, by elimination. No choice of pivots is needed here: but for
    its last column the matrix is I - Q, where Q is of a chain that ends for sure."""
    a = [[*row, *rest] for row, rest in zip(matrix, right, strict=True)]
    size = len(a)
    for i in range(size):
        for j in range(i + 1, size):
            factor = a[j][i] / a[i][i]
            if factor:
                a[j][i:] = [y - factor * x for x, y in zip(a[i][i:], a[j][i:], strict=True)]
    for i in reversed(range(size)):
        for j in range(i + 1, size):
            factor = a[i][j]
            if factor:
                a[i][size:] = [
                    y - factor * x for x, y in zip(a[j][size:], a[i][size:], strict=True)
                ]
        a[i][size:] = [x / a[i][i] for x in a[i][size:]]
    return [row[size:] for row in a]


@dataclass(frozen=True, slots=True)
class Metrics:
    """The discounted sums that equation (4) compares, for one threshold rule."""

    processing: float  # 𝒫, steps that the tasks ran
    migrations: float  # ℳ, tasks moved


def metrics_by_start(rule: int, tasks: int, chain: OnOff, beta: float) -> list[Metrics]:
    """Returns (𝒫, ℳ) of the rule T_rule, by the number of ON hosts at the first step.

    Equation (4), read as the value of each start: the gain of a step and β times what follows; it
    is π_n and (λᵀ + βπᵀP)·diag(MQ) of the paper with all of λ on that start. Raises ValueError for
    tasks outside 1 … 100, a rule outside 0 … tasks, β outside (0, 1).
    """
    check(tasks, beta)
    if not 0 <= rule <= tasks:
        raise ValueError(f"T_{rule}: must be 0 to {tasks}")
    step = on_hosts(tasks, chain)
    after = [i if i < rule else tasks for i in range(tasks + 1)]
    matrix = [[(i == j) - beta * p for j, p in enumerate(step[a])] for i, a in enumerate(after)]
    gains = [[float(a == tasks), float(a - i)] for i, a in enumerate(after)]
    return [Metrics(*pair) for pair in solve(matrix, gains)]


def metrics(rule: int, tasks: int, chain: OnOff, beta: float) -> Metrics:
    """Returns 𝒫_i and ℳ_i of lemma III.3, from λ = (0 … 0, 1): all hosts ON. Raises as
    `metrics_by_start`."""
    return metrics_by_start(rule, tasks, chain, beta)[tasks]


def thresholds(tasks: int, chain: OnOff, beta: float) -> tuple[float, ...]:
    """Returns γ_1 … γ_n of theorem III.4, in steps of waiting.

    Raises ValueError for tasks outside 1 … 100, β outside (0, 1).
    """
    check(tasks, beta)
    return tuple(threshold(i, tasks, chain, beta) for i in range(1, tasks + 1))


def threshold(i: int, tasks: int, chain: OnOff, beta: float) -> float:
    """Returns γ_i alone: with i - 1 hosts ON, moving is right while it costs less than this.

    Raises ValueError for tasks outside 1 … 100, i outside 1 … tasks, β outside (0, 1).
    """
    waits = metrics_by_start(i, tasks, chain, beta)[i - 1]
    goes = metrics_by_start(i - 1, tasks, chain, beta)[i - 1]
    return (waits.processing - goes.processing) / (waits.migrations - goes.migrations)


def myopic_thresholds(tasks: int) -> tuple[float, ...]:
    """Returns γ_i^MY = 1/(n - i + 1) (end of section III): the rule that looks only at this step.

    Raises ValueError for tasks outside 1 … 100.
    """
    check(tasks, 0.5)
    return tuple(1 / (tasks - i + 1) for i in range(1, tasks + 1))


def work_thresholds(tasks: int, chain: OnOff) -> tuple[float, ...]:
    """Returns the costs at which T_i replaces T_{i-1}, by the cost per step of work done. Our own.

    A long job's whole cost is its steps of work times θ, the cost of each; h(s) is how much more a
    start with s hosts ON costs than one with all ON. Under T_i both are linear in γ, and the
    threshold is the γ at which waiting and moving cost the same in state i - 1, the only one in
    which T_{i-1} differs. For one task it is 1/p01. Infinite if owners never leave. Raises
    ValueError for tasks outside 1 … 100.
    """
    check(tasks, 0.5)
    if chain.p01 == 0:
        return (math.inf,) * tasks
    step = on_hosts(tasks, chain)
    return tuple(work_threshold(i, step) for i in range(1, len(step)))


def work_threshold(i: int, step: list[Row]) -> float:
    tasks = len(step) - 1
    after = [s if s < i else tasks for s in range(tasks + 1)]
    # Unknowns: h(0) … h(n - 1), θ; each at γ = 0, and its slope in γ.
    matrix = [
        [(s == j) - step[a][j] for j in range(tasks)] + [float(a == tasks)]
        for s, a in enumerate(after)
    ]
    costs = [[float(a != tasks), float(a - s)] for s, a in enumerate(after)]
    found = solve(matrix, costs)
    theta = found.pop()
    rises = [wait - move for wait, move in zip(step[i - 1], step[tasks], strict=True)]
    saved = [math.fsum(p * h[k] for p, h in zip(rises, found, strict=False)) for k in (0, 1)]
    # 1 + wait·h = γ·(n - i + 1) - θ + move·h, each h and θ linear in γ.
    rest = tasks - i + 1 - theta[1] - saved[1]
    return (1 + saved[0] + theta[0]) / rest if rest > 0 else math.inf


def wait_below(cost: float, found: Sequence[float]) -> int:
    """Returns the i of the best rule T_i at this cost of a move: with fewer hosts ON, wait.

    `found` are thresholds in rising order, as above; exactly on one of them both rules are equally
    good, and the higher is taken. Raises ValueError for a cost that is negative or not a number.
    """
    check_cost(cost)
    return bisect_right(found, cost)


def moves(cost: float, on: int, found: Sequence[float], others_on: int) -> bool:
    """Whether to move now: `on` of the n hosts are ON, and `others_on` others would take a task.

    Lemma III.2 with the remark after it: only if moving lets all n tasks run. Raises ValueError as
    `wait_below`, and for more hosts ON than there are.
    """
    tasks = len(found)
    if not 0 <= on <= tasks:
        raise ValueError(f"{on} hosts are ON: must be 0 to {tasks}")
    if on == tasks or others_on < tasks - on:
        return False
    return on >= wait_below(cost, found)

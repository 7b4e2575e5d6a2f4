"""When a batch of tasks ends with P slots, and how many slots end it at a target time.

After M. Sleiman, L. Lipsky, R. Sheahan, "Dynamic Resource Allocation of Computer Clusters with
Probabilistic Workloads", sections III to VI. N independent tasks run P at a time; their times are
exponential with mean x̄ (`mean_s`), so every moment of the batch is known exactly:

- while at least P tasks are left, one ends every x̄/P on average: the steady stretch;
- then P, P-1, … 1 are left, and nothing can speed them up: the *drain*, x̄·H(P) long on average.

The static rule (SAA) keeps P. The dynamic rule (DAA) decides again whenever a task ends: it takes
the fewest slots with which the remaining tasks end by the target on average, changing by at most
one. The spread of the end then comes from the drain alone, however long the batch.

Corrections to the paper's formulas: the time left is (N-n-P)/P + H(P), not (N-n+P)/P + H(P); within
the drain it is H(N-n), not H(P) - H(N-n), which is the time that has passed; σ²(N;N) lacks the mean
squared; `procNeeded` can return 0 slots. Tasks left are those running and those waiting.

What the paper leaves open, the whole distribution of the end, is in `theory/batch_end.py`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

EULER = 0.5772156649015329
Drain = Callable[[int], float]  # means until the last of P running tasks ends

STEERED = 8  # tasks before the drain
BISECTIONS = 50
SUMMED = 100  # terms of H(n); beyond, the expansion in 1/n is accurate to 16 digits


@lru_cache(maxsize=4096)
def harmonic(n: int) -> float:
    """Returns H(n) = 1 + 1/2 + … + 1/n (section III); 0 for n = 0. Raises ValueError below 0."""
    if n < 0:
        raise ValueError(f"H({n}): must be of 0 or more")
    if n <= SUMMED:
        return math.fsum(1 / i for i in range(1, n + 1))
    return math.log(n) + EULER + 1 / (2 * n) - 1 / (12 * n**2) + 1 / (120 * n**4)


@lru_cache(maxsize=4096)
def harmonic_2(n: int) -> float:
    """Returns H₂(n) = 1 + 1/4 + … + 1/n² (section III); 0 for n = 0. Raises ValueError below 0."""
    if n < 0:
        raise ValueError(f"H2({n}): must be of 0 or more")
    if n <= SUMMED:
        return math.fsum(1 / i**2 for i in range(1, n + 1))
    return math.pi**2 / 6 - 1 / n + 1 / (2 * n**2) - 1 / (6 * n**3) + 1 / (30 * n**5)


def check(left: int, slots: int, mean_s: float) -> None:
    if left < 0:
        raise ValueError(f"{left} tasks left: must be 0 or more")
    if slots < 1:
        raise ValueError(f"{slots} slots: must be 1 or more")
    if not 0 < mean_s < math.inf:
        raise ValueError(f"a mean task time of {mean_s:g} s: must be above 0")


def mean_left_s(left: int, slots: int, mean_s: float, drain: Drain = harmonic) -> float:
    """Returns the mean seconds until the last of `left` tasks ends: equation (2).

    `left` counts running and waiting tasks; with fewer than `slots` the time is the drain,
    x̄·H(left). Tasks that are not exponential have another `drain`. Raises ValueError for a
    negative number of tasks, no slot, or a mean not above 0.
    """
    check(left, slots, mean_s)
    at_once = min(slots, left)
    return mean_s * ((left - at_once) / slots + drain(at_once))


def variance_left_s2(left: int, slots: int, mean_s: float) -> float:
    """Returns the variance of that time, in seconds squared, on constant slots: equation (3).

    Raises ValueError as `mean_left_s`.
    """
    check(left, slots, mean_s)
    at_once = min(slots, left)
    return mean_s**2 * ((left - at_once) / slots**2 + harmonic_2(at_once))


def variance_steered_s2(left: int, slots: int, mean_s: float) -> float:
    """Returns the variance of that time under DAA, in seconds squared. Our own, from simulation.

    The paper prints one number: .4586 of the squared mean before the drain, with P = 4 and any
    number of tasks. In our simulations it is 1.56, .465, .13, .044, .015 for P = 2, 4, 8, 16, 32:
    as if DAA cancelled the variance of all but the last `STEERED` tasks before the drain. Raises
    ValueError as `mean_left_s`.
    """
    check(left, slots, mean_s)
    at_once = min(slots, left)
    return mean_s**2 * (min(left - at_once, STEERED) / slots**2 + harmonic_2(at_once))


class SeenDrain:
    """The drain of tasks like the observed ones, in multiples of their mean. Our own.

    As the drain begins, each of P tasks is somewhere in its life, longer ones more likely: its
    remaining time is at most t in a share F_e(t) = Σ min(x_i, t) / Σ x_i of cases (the equilibrium
    distribution), and the last of them ends after ∫ 1 - F_e(t)^P dt. For exponential tasks that is
    H(P) again. Heavy tails have a far longer drain, and equation (2) as printed ends such batches
    late. Where even the variance is infinite (Pareto, α ≤ 2), one long task among the observed ones
    dominates; many slots are then taken early. Raises ValueError for no task times, or one not
    above 0.
    """

    def __init__(self, seen_s: Sequence[float]) -> None:
        if not seen_s or not all(0 < one_s < math.inf for one_s in seen_s):
            raise ValueError("a drain is made of task times, all of them above 0")
        times, total = sorted(seen_s), math.fsum(seen_s)
        mean = total / len(times)
        # F_e is linear between two task times: (length in means, F_e at both ends).
        self._pieces: list[tuple[float, float, float]] = []
        before_s, share = 0.0, 0.0
        for number, one_s in enumerate(times):
            length_s = one_s - before_s
            end = share + length_s * (len(times) - number) / total
            if end > share:  # times that are equal within rounding count as one
                self._pieces.append((length_s / mean, share, end))
                before_s, share = one_s, end
        self._known: dict[int, float] = {0: 0.0}

    def __call__(self, tasks: int) -> float:
        if tasks not in self._known:
            n = tasks + 1
            self._known[tasks] = math.fsum(
                length * (1 - (end**n - begin**n) / (n * (end - begin)))
                for length, begin, end in self._pieces
            )
        return self._known[tasks]


def equal_tasks_s(left: int, slots: int, mean_s: float) -> float:
    """Returns the seconds for tasks that all take `mean_s` and begin together: x̄·⌈N/P⌉ (section
    III).

    Raises ValueError as `mean_left_s`.
    """
    check(left, slots, mean_s)
    return mean_s * -(-left // slots)


def last_of_equal_s(waiting: int, free_s: Sequence[float], mean_s: float) -> float:
    """Returns when the last of the waiting tasks ends if all take `mean_s`, each on the next slot
    that comes free. `free_s`: when each of the slots first does. Our own: equation (2) counts parts
    of a round of tasks, and slots that are all there.

    Raises ValueError as `mean_left_s`.
    """
    check(waiting, len(free_s), mean_s)
    if not waiting:
        return 0.0
    low_s, high_s = 0.0, max(free_s) + mean_s * -(-waiting // len(free_s))
    for _ in range(BISECTIONS):
        at_s = (low_s + high_s) / 2
        ended = sum(int((at_s - one_s) / mean_s) for one_s in free_s if one_s < at_s)
        low_s, high_s = (low_s, at_s) if ended >= waiting else (at_s, high_s)
    return high_s


def slots_for_mean(
    left: int, within_s: float, mean_s: float, most: int, drain: Drain = harmonic
) -> int | None:
    """Returns the fewest slots that end the batch within `within_s` on average: equation (2) solved
    for P.

    None if not even `most` slots do. Each further slot shortens the mean while P < left (by
    x̄·(left/P - 1) /(P + 1)), so the answer is found by bisection. Raises ValueError as
    `mean_left_s`.
    """
    check(left, most, mean_s)
    low, high = 1, max(1, min(most, left))
    if mean_left_s(left, high, mean_s, drain) > within_s:
        return None
    while low < high:
        middle = (low + high) // 2
        if mean_left_s(left, middle, mean_s, drain) <= within_s:
            high = middle
        else:
            low = middle + 1
    return low


def next_slots(
    slots: int, left: int, time_left_s: float, mean_s: float, most: int, drain: Drain = harmonic
) -> int:
    """DAA's `procNeeded` at the end of a task (section IV): returns the slots from now on.

    This is the fewest of slots - 1, slots, slots + 1 with which `left` tasks end within
    `time_left_s` on average; slots + 1 if none does. It stays within 1 … `most` and never exceeds
    the tasks left. It falls by one at a time, since a running task is not thrown away, and rises by
    one at a time, since the paper found more to be of little use. 0 when no task is left. Raises
    ValueError as `mean_left_s`.
    """
    check(left, slots, mean_s)
    if left == 0:
        return 0
    highest = max(1, min(slots + 1, left, most))
    wanted = min(max(1, slots - 1), highest)
    while wanted < highest and mean_left_s(left, wanted, mean_s, drain) > time_left_s:
        wanted += 1
    return wanted


@dataclass(slots=True)
class TaskMean:
    """The mean task time, learnt from ended and from running tasks (section VI).

    The mean of the ended tasks is too small while few have ended: the short ones end first. Under
    the model, the l-th end comes x̄·l/P after the start, so P·t/l is x̄ without that error; if P
    changes on the way, that is the time that slots have worked, over the number of ended tasks.
    Where tasks are known to be alike, that is too large instead until those that run have ended.
    Earlier batches count as `prior_tasks` tasks of `prior_s` seconds each.
    """

    prior_s: float
    prior_tasks: float = 1.0
    worked_s: float = 0.0  # by all slots, for ended, running and lost tasks
    ended: int = 0
    ended_s: float = 0.0  # the part of it for ended tasks
    only_ended: bool = False  # running tasks tell nothing, as tasks are alike, and these not older

    def __post_init__(self) -> None:
        """Raises ValueError for a prior that is not a positive number of seconds and tasks."""
        if not (0 < self.prior_s < math.inf and 0 < self.prior_tasks < math.inf):
            raise ValueError(f"{self.prior_tasks:g} tasks of {self.prior_s:g} s: must be above 0")

    @property
    def mean_s(self) -> float:
        seen_s = self.ended_s if self.only_ended else self.worked_s
        return (self.prior_tasks * self.prior_s + seen_s) / self.tasks

    def least_s(self, running: int) -> float:
        """Returns the mean if so many tasks that run ended now."""
        return (self.prior_tasks * self.prior_s + self.worked_s) / (self.tasks + running)

    @property
    def tasks(self) -> float:
        """The number of tasks behind the mean; its relative standard deviation is 1/√tasks."""
        return self.prior_tasks + self.ended


@dataclass(frozen=True, slots=True)
class End:
    """When the batch ends with the current slots: mean and standard deviation, seconds from now."""

    mean_s: float
    sd_s: float
    tasks_sd_s: float = 0.0  # the part of it that would remain if the mean task were known


def end_left(left: int, slots: int, mean: TaskMean) -> End:
    """Returns the end by equations (2) and (3) with a mean that is itself uncertain.

    For a fixed mean x̄ the time is a·x̄ with variance v·x̄²; x̄ has the variance x̄²/k after k
    tasks. By the law of total variance both add up. Raises ValueError as `mean_left_s`.
    """
    mean_s, unsure = mean.mean_s, 1 / mean.tasks
    end_s = mean_left_s(left, slots, mean_s)
    variance = variance_left_s2(left, slots, mean_s) * (1 + unsure) + end_s**2 * unsure
    return End(end_s, math.sqrt(variance))


@dataclass(slots=True)
class Batch:
    """One batch on its way to its target under DAA: events in, slots out.

    The caller starts tasks while fewer run than `slots`, and reports each `began`, `ended`, `lost`.
    Times are seconds of one clock that never runs backwards. With `learns` off the mean stays the
    prior's.
    """

    waiting: int  # tasks that have not begun
    target_s: float  # by the clock
    slots: int
    most: int  # the most slots it may ever have
    mean: TaskMean
    learns: bool = True
    drain: Drain = harmonic
    running: int = 0
    extra: int = 0  # likely excess of the running tasks beyond one mean each, in tasks
    _seen_s: float = -math.inf

    @property
    def left(self) -> int:
        return self.waiting + self.running

    def began(self, now_s: float) -> None:
        """A task begins. Raises ValueError if none waits."""
        if self.waiting < 1:
            raise ValueError("no task waits")
        self._work_until(now_s)
        self.waiting, self.running = self.waiting - 1, self.running + 1

    def ended(self, now_s: float) -> int:
        """A task has ended; returns the slots from now on. Raises ValueError if none runs."""
        self._stop(now_s)
        if self.learns:
            self.mean.ended += 1
        return self._again(now_s)

    def lost(self, now_s: float) -> int:
        """A task's host was lost and the task waits again; returns the slots from now on.

        The work it had done counts as time without an end. Raises ValueError if none runs.
        """
        self._stop(now_s)
        self.waiting += 1
        return self._again(now_s)

    def withdrawn(self) -> None:
        """A waiting task was cancelled or held. Raises ValueError if none waits."""
        if self.waiting < 1:
            raise ValueError("no task waits")
        self.waiting -= 1

    def limit(self, most: int, now_s: float) -> int:
        """Limits it to `most` slots from now on; returns how many it takes. Raises ValueError below
        1."""
        if most < 1:
            raise ValueError(f"{most} slots: must be 1 or more")
        self._work_until(now_s)
        self.most = most
        self.slots = min(self.slots, most)
        return self.slots

    def end(self, now_s: float) -> End:
        """Predicts the end from now on with the current slots."""
        self._work_until(now_s)
        return end_left(self.left, max(1, self.slots), self.mean)

    def stood(self, for_s: float, now_s: float) -> None:
        """A running task has been suspended for `for_s`, until now."""
        self._work_until(now_s)
        if self.learns:
            self.mean.worked_s = max(0.0, self.mean.worked_s - for_s)

    def _stop(self, now_s: float) -> None:
        if self.running < 1:
            raise ValueError("no task runs")
        self._work_until(now_s)
        self.running -= 1

    def _again(self, now_s: float) -> int:
        time_left_s = self.target_s - now_s
        had = max(1, self.slots)
        mean_s, work = self.mean.mean_s, self.left + self.extra
        slots = next_slots(had, work, time_left_s, mean_s, self.most, self.drain)
        self.slots = min(slots, self.left)
        return self.slots

    def _work_until(self, now_s: float) -> None:
        if self.learns and self.running:
            self.mean.worked_s += self.running * (now_s - self._seen_s)
        self._seen_s = now_s


def first_slots(
    left: int, within_s: float, mean_s: float, most: int, drain: Drain = harmonic
) -> int:
    """Returns the slots a batch begins with (section IV): enough to end in time on average, else
    `most`.

    Never more than there are tasks. Raises ValueError as `mean_left_s`.
    """
    enough = slots_for_mean(left, within_s, mean_s, most, drain)
    return max(1, min(most, left)) if enough is None else enough

"""How long recently ended jobs held their slots: seconds × slots. Pure.

This is the sequential lifetime, not wall-clock time: Downey's predictions hardly match reality if
the distribution is fitted to the latter. Other resources are held for as long as their jobs run,
and by other jobs than most: a thousand short ones say nothing about the one that has the GPU. So
each resource has its own lifetimes, in seconds.

The kinds of jobs (user and command) that ended are counted, too. A thousand tasks of one array say
much about the next task, but no more about another command than a single run would.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from lbd.model import Needs
from lbd.theory.lifetimes import OLDER_FEWEST, UniformLog, fit_in_two, learnt_s

KEPT = 1000
FEWEST = 5  # ended jobs needed to predict anything
OUTLIVES = 0.5  # by tests/bench/forecasts.py: with 1, forecasts of new commands were too long
REFITTED = 10  # refits until everything kept has been replaced
RESOURCES_MAX = 100  # users choose the names
CUTOFFS_KNOWN = 100
MEMORY = "memory"
Fit = tuple[UniformLog, float]  # a distribution and its mean


@dataclass(slots=True)
class SlotTimes:
    recent_s: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    count: int = 0
    # of each recent one, and how many there are of each; a job without a kind is alone
    _kinds: deque[Hashable] = field(default_factory=deque)
    _of_kind: dict[Hashable, int] = field(default_factory=dict)
    _fits: dict[float | None, Fit] = field(default_factory=dict)  # by cutoff
    _fitted: int = 0  # how many had ended when they were fitted
    _unforeseen: int = 0  # how many since lived longer than they allow

    def ended(self, life_s: float, kind: Hashable = None) -> None:
        life_s = learnt_s(life_s)
        self.recent_s.append(life_s)
        self.count += 1
        kind = self.count if kind is None else kind
        self._kinds.append(kind)
        self._of_kind[kind] = self._of_kind.get(kind, 0) + 1
        if len(self._kinds) > KEPT:
            self._of_kind[oldest := self._kinds.popleft()] -= 1
            if not self._of_kind[oldest]:
                del self._of_kind[oldest]
        fit = self._fits.get(None)
        self._unforeseen += fit is not None and fit[0].at_age(life_s) is None

    def unlike_all(self, kind: Hashable) -> float:
        """Returns the chance that a job of another kind lives longer than all recent ones: of n + 1
        kinds, the last is the longest once in n + 1 times, and its jobs then outlive the longest
        job of the others in half of the cases. 0 for a job without a kind."""
        return OUTLIVES / (len(self._of_kind) + 1) if kind is not None else 0.0

    def lifetimes(self, cutoff_s: float | None = None) -> Fit | None:
        """Returns the recent distribution and mean, none longer than the cutoff; None if too few
        have ended. Cached, since each submission asks, and a fit to a thousand takes a
        millisecond."""
        recent_s = self.recent_s
        if len(recent_s) < FEWEST:
            return None
        is_old = self.count - self._fitted > len(recent_s) // REFITTED
        if is_old or self._unforeseen >= OLDER_FEWEST or len(self._fits) > CUTOFFS_KNOWN:
            self._fits, self._fitted, self._unforeseen = {}, self.count, 0
        if (found := self._fits.get(cutoff_s)) is None:
            lives_s = [min(life_s, cutoff_s or life_s) for life_s in recent_s]
            found = self._fits[cutoff_s] = fit_in_two(lives_s), sum(lives_s) / len(lives_s)
        return found


@dataclass(slots=True)
class ResourceTimes:
    """By wall-clock time: what a job holds is unavailable to others, whatever else it holds."""

    slots: SlotTimes = field(default_factory=SlotTimes)  # held by every job
    by_name: dict[str, SlotTimes] = field(default_factory=dict)

    def ended(self, needs: Needs, ran_s: float, kind: Hashable = None) -> None:
        self.slots.ended(ran_s, kind)
        names = [name for name, _ in needs.resources] + [MEMORY] * bool(needs.memory_bytes)
        for name in names:
            if name in self.by_name or len(self.by_name) < RESOURCES_MAX:
                self.by_name.setdefault(name, SlotTimes()).ended(ran_s)

    def count(self, name: str) -> int:
        return len(self.by_name[name].recent_s) if name in self.by_name else 0

    def lifetimes(self, name: str) -> Fit | None:
        """As in `SlotTimes`, for the jobs that held this resource."""
        found = self.by_name.get(name)
        return found.lifetimes() if found is not None else None

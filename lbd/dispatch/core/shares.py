"""Who goes before others that came earlier, and who may have no more for now: users and names.

Rules beside the order of arrival, each off unless the configuration sets it:

- priorities: a job of a higher one goes first, in its line;
- fair share: of several users' jobs, those of who has least go first. What a user has is the slots
  held now, and the mean of those held lately, which fades with `fair_share_s`. Neither alone will
  do: by what is held now, who has had all for an hour is as good as who waited; by the past alone,
  all slots that become free at once would go to one user;
- limits: the slots of one user's jobs, the jobs of one name. Who has reached one is passed over;
- arrays of which only so many tasks may run at once (`--array 1-100%4`) are passed over meanwhile;
- targets, of the arrays that have one: who has as many tasks running as it needs is passed over.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.targets.arrays import Targets

NAMES_KNOWN = 10_000  # whose limit is remembered
USERS_KNOWN = 1000  # before those are forgotten who have nothing and have long had nothing
FORGOTTEN = 1e-3  # of a slot


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that `[dispatch]` of the configuration sets."""

    priorities: bool = False
    fair_share_s: float = 0.0  # 0: no fair share
    user_slots: int = 0  # of one user at once; 0: no limit
    name_jobs: tuple[tuple[str, int], ...] = ()  # of names that match, each: jobs at once
    interleave_arrays: bool = True
    backfill: str = "off"  # off | limit | learnt: who may pass a head that waits
    backfill_risk: float = 0.1


class Flow(NamedTuple):
    """Jobs that differ only in their order."""

    priority: int = 0
    user: str = ""
    name: str = ""
    array: int = 0


ONE_FLOW = Flow()


@dataclass(slots=True)
class Use:
    slots: int = 0
    mean: float = 0.0  # of the slots held lately
    at_s: float = 0.0  # when that was


@dataclass(slots=True)
class Shares:
    rules: Rules
    targets: Targets = field(default_factory=lambda: Targets(lambda _: 0, is_held=False))
    now_s: float = 0.0
    events: int = 0  # so far, of those that `at` heard of
    users: dict[str, Use] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)  # jobs that run, of limited names
    arrays: dict[int, int] = field(default_factory=dict)  # tasks that run, of limited arrays
    has_room: bool = False  # a task of a limited array has ended: another may begin anywhere
    limits: bool = field(init=False)  # whether anybody may be passed over
    counts: bool = field(init=False)  # whether anything must be known of who has what
    _one_flow: bool = field(init=False)
    _limits: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.limits = bool(self.rules.user_slots or self.rules.name_jobs)
        self.counts = self.limits or bool(self.rules.fair_share_s)
        self.targets.limit = self.most_at_once
        self._one_flow = not (self.counts or self.rules.priorities)

    @property
    def passes_over(self) -> bool:
        """Whether who waits may have reached a limit or have enough for a target."""
        return self.limits or bool(self.targets) or bool(self.arrays)

    def bars(self, job: QueuedJob) -> bool:
        """Whether no job of this flow may begin for now; `obstacle` says why."""
        if job.target is not None and self.targets.is_full(job, self.now_s):
            return True
        if job.at_once and self.arrays.get(job.array, 0) >= job.at_once:
            return True
        return self.limits and bool(self.obstacle(job))

    def at(self, now_s: float) -> None:
        """Sets the time of the event that is being handled."""
        self.now_s = now_s
        self.events += 1

    def flow(self, job: QueuedJob) -> Flow:
        array = job.array if job.at_once or self.targets.holds(job) else 0
        if self._one_flow:
            return Flow(array=array) if array else ONE_FLOW
        rules = self.rules
        return Flow(
            job.priority if rules.priorities else 0,
            job.user if rules.fair_share_s or rules.user_slots else "",
            job.name if self.name_limit(job.name) else "",
            array,
        )

    def name_limit(self, name: str) -> int:
        """The limit for a job's name; 0 means none."""
        if not (name and self.rules.name_jobs):
            return 0
        if name not in self._limits:
            if len(self._limits) >= NAMES_KNOWN:
                self._limits.clear()
            fitting = (n for pattern, n in self.rules.name_jobs if fnmatchcase(name, pattern))
            self._limits[name] = next(fitting, 0)
        return self._limits[name]

    def took(self, job: QueuedJob, slots: int) -> None:
        self.targets.began(job, self.now_s)
        if job.at_once:
            self.arrays[job.array] = self.arrays.get(job.array, 0) + 1
        if self.counts:
            self._changed(job, slots, 1)

    def gave(self, job: QueuedJob, slots: int) -> None:
        if job.at_once:
            self.has_room = True
            self.arrays[job.array] -= 1
            if not self.arrays[job.array]:
                del self.arrays[job.array]
        if self.counts:
            self._changed(job, -slots, -1)

    def _changed(self, job: QueuedJob, slots: int, jobs: int) -> None:
        use = self.users.setdefault(job.user, Use(at_s=self.now_s))
        use.mean, use.at_s = self._mean(use), self.now_s
        use.slots += slots
        if self.name_limit(job.name):
            self.names[job.name] = self.names.get(job.name, 0) + jobs
            if not self.names[job.name]:
                del self.names[job.name]
        if jobs < 0 and (len(self.users) > USERS_KNOWN or not self.rules.fair_share_s):
            self.users = {name: one for name, one in self.users.items() if self._is_known(one)}

    def _is_known(self, use: Use) -> bool:
        return use.slots > 0 or self._mean(use) > FORGOTTEN

    def _mean(self, use: Use) -> float:
        if not self.rules.fair_share_s:
            return 0.0
        kept = math.exp(-max(0.0, self.now_s - use.at_s) / self.rules.fair_share_s)
        return use.slots + (use.mean - use.slots) * kept

    def standing(self, user: str) -> float:
        """The sort key of a user; the lowest goes first."""
        use = self.users.get(user)
        return use.slots + self._mean(use) if use is not None else 0.0

    def slots_left(self, user: str) -> float:
        if not self.rules.user_slots:
            return math.inf
        use = self.users.get(user)
        return self.rules.user_slots - (use.slots if use is not None else 0)

    def most_at_once(self, job: QueuedJob, count: int) -> int:
        """How many of `count` jobs like this the limits allow."""
        if self.rules.user_slots:
            count = min(count, self.rules.user_slots // job.slots)
        return min(count, self.name_limit(job.name) or count, job.at_once or count)

    def obstacle(self, job: QueuedJob, count: int = 1) -> str:
        """Why not so many jobs of this flow may begin for now, "" if they may."""
        if self.slots_left(job.user) < count * job.slots:
            limit = self.rules.user_slots
            if count * job.slots > limit:
                return f"it needs {count * job.slots} slots; the limit per user is {limit}"
            held = self.users[job.user].slots
            slots = "1 slot" if held == 1 else f"{held} slots"
            return f"{job.user}'s jobs hold {slots}; the limit per user is {limit}"
        limit = self.name_limit(job.name)
        if limit and self.names.get(job.name, 0) + count > limit:
            return f"{limit} jobs named {job.name} are running, the limit"
        if job.at_once and self.arrays.get(job.array, 0) + count > job.at_once:
            tasks = "1 task" if job.at_once == 1 else f"{job.at_once} tasks"
            return f"{tasks} of its array may run at once (%{job.at_once})"
        return self.targets.obstacle(job, self.now_s) if job.target is not None else ""


def read_name_limits(given: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Parses limits such as "fit-*:2". Raises ValueError, one line."""
    limits = []
    for text in given:
        name, _, number = text.rpartition(":")
        if not (name and number.isascii() and number.isdecimal() and 0 < int(number) < 1 << 31):
            raise ValueError(
                f"{text!r}: must be a name and the number to run at once, like fit-*:2"
            )
        limits.append((name, int(number)))
    return tuple(limits)

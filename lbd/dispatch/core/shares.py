"""Which users and names go before others that came earlier, and which must wait for now.

These rules modify the order of arrival; each is off unless configured:

- priorities: a job of a higher priority goes first in its line;
- fair share: among several users, the one who has least goes first. What a user has is the slots
  held now plus the mean of those held lately, which fades with `fair_share_s`. Neither alone works:
  by current slots, a user who has had all for an hour equals one who waited; by the past alone, all
  slots released together would go to one user;
- limits: the slots of one user's jobs, the jobs of one name. At the limit, further ones are passed
  over;
- arrays with a limit on running tasks (`--array 1-100%4`) are passed over while at the limit;
- arrays with a target are passed over while they have as many running tasks as they need.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.targets.arrays import Targets
from lbd.text.units import counted

NAMES_KNOWN = 10_000  # names with cached limits
USERS_KNOWN = 1000  # beyond that, users are forgotten who have had nothing for long
FORGOTTEN = 1e-3  # in slots


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that `[dispatch]` of the configuration sets."""

    priorities: bool = False
    fair_share_s: float = 0.0  # 0: no fair share
    user_slots: int = 0  # per user; 0: no limit
    # name patterns, each with its limit of running jobs
    name_jobs: tuple[tuple[str, int], ...] = ()
    interleave_arrays: bool = True
    backfill: str = "off"  # off | limit | learnt: which jobs may pass a waiting head
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
    at_s: float = 0.0  # the time of `mean`


@dataclass(slots=True)
class Shares:
    rules: Rules
    targets: Targets = field(default_factory=lambda: Targets(lambda _: 0, is_held=False))
    now_s: float = 0.0
    events: int = 0  # number of events passed to `at` so far
    users: dict[str, Use] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)  # running jobs, by limited name
    arrays: dict[int, int] = field(default_factory=dict)  # running tasks, by limited array
    looks: int = 0  # at users and flows so far, for the heads of lines
    # The limited arrays and names of which a task or job has ended: another may start anywhere.
    freed: set[int | str] = field(default_factory=set)
    limits: bool = field(init=False)  # whether any job may be passed over because of limits
    counts: bool = field(init=False)  # whether users' shares must be tracked
    _one_flow: bool = field(init=False)
    _limits: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.limits = bool(self.rules.user_slots or self.rules.name_jobs)
        self.counts = self.limits or bool(self.rules.fair_share_s)
        self.targets.limit = self.most_at_once
        self._one_flow = not (self.counts or self.rules.priorities)

    @property
    def passes_over(self) -> bool:
        """Whether waiting jobs may have reached a limit, or have enough for a target."""
        return self.limits or bool(self.targets.arrays or self.arrays)

    def bars(self, job: QueuedJob) -> bool:
        """Whether no job of this flow may start for now; `obstacle` says why."""
        if job.target is not None and self.targets.is_full(job, self.now_s):
            return True
        if job.at_once and self.arrays.get(job.array, 0) >= job.at_once:
            return True
        return self.limits and bool(self.obstacle(job))

    def full(self, job: QueuedJob) -> int | str | None:
        """Returns the array or name that has as many running as its limit; None if neither has.
        Both are parts of the flow, so no job of that may start until they are in `freed`."""
        if job.at_once and self.arrays.get(job.array, 0) >= job.at_once:
            return job.array
        return job.name if self.is_full(job.name) else None

    def is_full(self, name: str) -> bool:
        limit = self.name_limit(name)
        return bool(limit) and self.names.get(name, 0) >= limit

    def at(self, now_s: float) -> None:
        """Sets the time of the event that is being handled."""
        self.now_s = now_s
        self.events += 1

    def flow(self, job: QueuedJob) -> Flow:
        has_own = job.at_once or (job.target is not None and self.targets.holds(job))
        array = job.array if has_own else 0
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
            self.freed.add(job.array)
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
            if jobs < 0:
                self.freed.add(job.name)
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

    def most_at_once(self, job: QueuedJob, count: int) -> tuple[int, str]:
        """How many of `count` jobs like this the limits allow, and the limit that does not allow
        more, as `%4 allows`; "" if all may run."""
        limits = [
            (job.at_once, f"its own %{job.at_once} allows"),
            (self.name_limit(job.name), "dispatch.name_jobs allows of its name"),
        ]
        least, said = min(
            ((most, said) for most, said in limits if 0 < most < count), default=(count, "")
        )
        if self.rules.user_slots and (most := self.rules.user_slots // job.slots) < least:
            least, said = most, "dispatch.user_slots allows a user"
        return least, said

    def obstacle(self, job: QueuedJob, count: int = 1) -> str:
        """Returns why `count` jobs of this flow may not start for now; "" if they may."""
        if self.slots_left(job.user) < count * job.slots:
            limit = self.rules.user_slots
            if count * job.slots > limit:
                return f"it needs {count * job.slots} slots; the limit per user is {limit}"
            held = self.users[job.user].slots
            return f"{job.user}'s jobs hold {counted(held, 'slot')}; the limit per user is {limit}"
        limit = self.name_limit(job.name)
        if limit and self.names.get(job.name, 0) + count > limit:
            return f"{limit} jobs named {job.name} are running, the limit"
        if job.at_once and self.arrays.get(job.array, 0) + count > job.at_once:
            return f"{counted(job.at_once, 'task')} of its array may run at once (%{job.at_once})"
        return self.targets.obstacle(job, self.now_s) if job.target is not None else ""

    def would_bar(self, other: QueuedJob, head: QueuedJob) -> bool:
        """Whether the head could not start beside the other job, because of a limit of both."""
        if head.user == other.user and self.slots_left(head.user) < head.slots + other.slots:
            return True
        limit = self.name_limit(head.name) if head.name == other.name else 0
        if limit and self.names.get(head.name, 0) + 2 > limit:
            return True
        is_of_array = bool(head.at_once) and head.array == other.array
        return is_of_array and self.arrays.get(head.array, 0) + 2 > head.at_once


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

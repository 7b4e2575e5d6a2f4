"""Who goes before others that came earlier, and who may have no more for now: users and names.

Three rules beside the order of arrival, each off unless the configuration sets it:

- priorities: a job of a higher one goes first, in its line;
- fair share: of several users' jobs, those of who has least go first. What a user has is the slots
  held now, and the mean of those held lately, which fades with `fair_share_s`. Neither alone will
  do: by what is held now, who has had all for an hour is as good as who waited; by the past alone,
  all slots that become free at once would go to one user;
- limits: the slots of one user's jobs, the jobs of one name. Who has reached one is passed over.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from lbd.dispatch.discipline import QueuedJob

NAMES_KNOWN = 10_000  # whose limit is remembered
USERS_KNOWN = 1000  # before those are forgotten who have nothing and have long had nothing
FORGOTTEN = 1e-3  # of a slot


@dataclass(frozen=True, slots=True)
class Rules:
    """See `[dispatch]` of the configuration."""

    priorities: bool = False
    fair_share_s: float = 0.0  # 0: no fair share
    user_slots: int = 0  # of one user at once; 0: no limit
    name_jobs: tuple[tuple[str, int], ...] = ()  # of names that match, each: jobs at once
    interleave_arrays: bool = True


class Flow(NamedTuple):
    """Jobs among which only their order counts."""

    priority: int = 0
    user: str = ""
    name: str = ""


ONE_FLOW = Flow()


@dataclass(slots=True)
class Use:
    slots: int = 0
    mean: float = 0.0  # of the slots held lately
    at_s: float = 0.0  # when that was


@dataclass(slots=True)
class Shares:
    rules: Rules
    now_s: float = 0.0
    events: int = 0  # so far, of those that `at` heard of
    users: dict[str, Use] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)  # jobs that run, of limited names
    limits: bool = field(init=False)  # whether anybody may be passed over
    counts: bool = field(init=False)  # whether anything must be known of who has what
    _one_flow: bool = field(init=False)
    _limits: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.limits = bool(self.rules.user_slots or self.rules.name_jobs)
        self.counts = self.limits or bool(self.rules.fair_share_s)
        self._one_flow = not (self.counts or self.rules.priorities)

    def at(self, now_s: float) -> None:
        """Something happens."""
        self.now_s = now_s
        self.events += 1

    def flow(self, job: QueuedJob) -> Flow:
        if self._one_flow:
            return ONE_FLOW
        rules = self.rules
        return Flow(
            job.priority if rules.priorities else 0,
            job.user if rules.fair_share_s or rules.user_slots else "",
            job.name if self.name_limit(job.name) else "",
        )

    def name_limit(self, name: str) -> int:
        """0: none."""
        if not (name and self.rules.name_jobs):
            return 0
        if name not in self._limits:
            if len(self._limits) >= NAMES_KNOWN:
                self._limits.clear()
            fitting = (n for pattern, n in self.rules.name_jobs if fnmatchcase(name, pattern))
            self._limits[name] = next(fitting, 0)
        return self._limits[name]

    def took(self, job: QueuedJob, slots: int) -> None:
        if self.counts:
            self._changed(job, slots, 1)

    def gave(self, job: QueuedJob, slots: int) -> None:
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
        """The least goes first."""
        use = self.users.get(user)
        return use.slots + self._mean(use) if use is not None else 0.0

    def slots_left(self, user: str) -> float:
        if not self.rules.user_slots:
            return math.inf
        use = self.users.get(user)
        return self.rules.user_slots - (use.slots if use is not None else 0)

    def obstacle(self, job: QueuedJob) -> str:
        """Why nothing of its flow may begin for now, "" = it may."""
        if self.slots_left(job.user) < job.slots:
            limit = self.rules.user_slots
            if job.slots > limit:
                return f"it needs {job.slots} slots; no user may hold more than {limit}"
            held = self.users[job.user].slots
            return f"jobs of {job.user} hold {held} slots; {limit} is the most for a user"
        limit = self.name_limit(job.name)
        if limit and self.names.get(job.name, 0) >= limit:
            return f"{limit} named {job.name} run, the most at once"
        return ""


def read_name_limits(given: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Of "fit-*:2". Raises ValueError, one line."""
    limits = []
    for text in given:
        name, _, number = text.rpartition(":")
        if not (name and number.isascii() and number.isdecimal() and 0 < int(number) < 1 << 31):
            raise ValueError(f"{text!r}: write a name and how many at once, like fit-*:2")
        limits.append((name, int(number)))
    return tuple(limits)

"""A job that runs on MIN to MAX slots, at the head of its line: fewer now or more later? Pure.

All slots of a job are on one host, so each host is a separate machine (`FreeSlots`), and the best
choice is the best over all hosts. The strategies are those of `theory/allocation.py` (Downey 1997).
They guarantee to other jobs:

- **Order is kept.** Only the head of a line decides; a job that holds out stays the head, and no
  job behind it starts before it.
- **No job waits longer than for a rigid head.** As soon as one host has all the slots that the job
  can use it starts there, whatever was predicted. So it never holds up the line longer than a job
  that asked for exactly that many. The job itself waits at most `hold_s_max`, if set: then it
  starts with what is free.
- **No wait for what may never come.** A host counts with the slots it has now. A host that leaves
  is no longer considered at the next decision, and fewer slots count at once.

A decision stands until slots are released, a job arrives, or its time to decide again has come.
Under lock-in a job that holds out names its slots and gets no more than these: it leaves the rest
to the jobs behind it sooner, and pays for a prediction that was too modest (section 6.1).

What is not given of A, σ and the work is learnt by user and command name (`Speedups`).
"""

import math
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from lbd.config.dispatch import Strategy
from lbd.model import HostId, JobId
from lbd.theory.allocation import (
    PAPER,
    Choice,
    Held,
    Malleable,
    Rules,
    better_of,
    choose,
    forced,
    least_turnaround,
    predicted,
    what_is_free,
)
from lbd.theory.calibration import Correction
from lbd.theory.queue_time import Releases
from lbd.theory.speedup import Speedup
from lbd.theory.speedup_fit import SpeedupFit

SOONEST_S = 1e-6  # until the next decision
COMMANDS_KNOWN = 1000  # users' commands with remembered runs
SLOTS = itemgetter(0)
RUNS_KNOWN = 60  # remembered runs of each
RUNS_A_FIT = 10  # refits when a tenth of all known runs is new
FEWEST_RUNS = 4  # before they say more than that speedup is linear


@dataclass(frozen=True, slots=True)
class FreeSlots:
    """A host's slots at this moment."""

    host: HostId
    free: int
    releases: Releases  # of its running jobs
    jobs: Mapping[JobId, int] = field(default_factory=dict)  # those jobs and their slots

    @property
    def total(self) -> int:
        return self.free + self.releases.total


@dataclass(frozen=True, slots=True)
class Rule:
    """What `[dispatch]` sets for malleable jobs, and what is known of predictions."""

    strategy: Strategy
    rules: Rules = PAPER
    lock_in: bool = False
    hold_s_max: float = math.inf  # longest time to hold out, from when it could first have started
    correction: Correction | None = None  # for bias


@dataclass(frozen=True, slots=True)
class Head:
    """What is remembered about the head of a line between two decisions."""

    since_s: float | None = None  # when it began to hold out; None: it does not
    offered: int = 0  # slots that it could have had then
    locked: int | None = None  # slots that it named

    def held(self, now_s: float) -> Held | None:
        return None if self.since_s is None else Held(now_s - self.since_s, self.offered)


@dataclass(frozen=True, slots=True)
class BeginOn:
    host: HostId
    slots: int
    reason: str


@dataclass(frozen=True, slots=True)
class Hold:
    slots: int  # it is expected to get
    host: HostId | None  # on this host; None: no host has as many as it needs
    ask_at_s: float  # at the latest; infinite: when slots are released
    head: Head
    reason: str


def decide(
    job: Malleable, rooms: Sequence[FreeSlots], rule: Rule, head: Head, now_s: float
) -> BeginOn | Hold:
    """Decides what the job at the head of the line does now."""
    wanted = job.locked(head.locked) if head.locked is not None else job
    held = head.held(now_s)
    over = held is not None and held.for_s >= rule.hold_s_max
    strategy: Strategy = "avg" if over else rule.strategy
    fitting = [room for room in rooms if room.total >= wanted.least]
    if not fitting:
        return Hold(wanted.least, None, math.inf, head, "no host has as many slots as it needs")
    if strategy in ("pred", "bias"):
        choice, room = by_prediction(wanted, fitting, rule)
    else:
        # If it can start now on some host, hosts where it cannot do not end sooner and are ignored.
        # Hosts with equal total and free slots are equivalent, so one stands for all.
        able = {(one.free, one.total): one for one in fitting if one.free >= wanted.least}
        choice, room = best_of(
            [
                (choose(strategy, wanted, one.free, one.releases, None, held, rule.rules), one)
                for one in (able.values() or fitting)
            ],
            rule.rules,
        )
    if choice.now:
        reason = "has waited as long as allowed" if over else choice.reason
        return BeginOn(room.host, choice.slots, reason)
    return hold(wanted, choice, rooms, room, rule, head, now_s)


def by_prediction(
    job: Malleable, rooms: Sequence[FreeSlots], rule: Rule
) -> tuple[Choice, FreeSlots]:
    """PRED and BIAS over hosts. What is free now needs no prediction; for later starts each host is
    evaluated only for ends before the best so far."""
    correction = rule.correction if rule.strategy == "bias" else None
    widest = max(rooms, key=lambda one: one.free)
    now = what_is_free(job, widest.free)
    if now is not None and now.slots == job.useful:
        return replace(now, reason="has all it can use"), widest
    later: tuple[Choice, FreeSlots] | None = None
    bound_s = now.ends_in_s if now is not None else math.inf
    for room in sorted(rooms, key=lambda one: -one.free):
        found = later_on(job, room, correction, bound_s)
        if found is not None and found.ends_in_s < bound_s:
            later, bound_s = (found, room), found.ends_in_s
    if now is None and later is None:
        waits = [(forced(job, room.free, room.releases), room) for room in rooms]
        return min(waits, key=lambda one: one[0].ends_in_s)
    if now is None:
        assert later is not None
        return replace(later[0], reason="fewer are free than it needs"), later[1]
    best = now if later is None else better_of(now, later[0], rule.rules)
    return later if later is not None and not best.now else (best, widest)


def later_on(
    job: Malleable, room: FreeSlots, correction: Correction | None, bound_s: float
) -> Choice | None:
    """Returns the best choice on one host among slots that are not free yet; None if it ends after
    `bound_s`."""
    free, releases = room.free, room.releases
    queue = predicted(free, releases, correction)
    if correction is not None:
        return least_turnaround(job, free, queue, releases, bound_s)

    def comes_by(slots: int, t_s: float) -> bool:
        return releases.comes_by(slots - free, t_s)

    return least_turnaround(job, free, queue, releases, bound_s, comes_by)


def best_of(found: Sequence[tuple[Choice, FreeSlots]], rules: Rules) -> tuple[Choice, FreeSlots]:
    """Compares hosts: the best now against the best later. A host that has all it can use wins over
    any that makes it wait."""
    now = min((one for one in found if one[0].now), key=lambda one: one[0].runs_s, default=None)
    later = min(
        (one for one in found if not one[0].now), key=lambda one: one[0].ends_in_s, default=None
    )
    if now is None or later is None:
        first = now or later
        assert first is not None
        return first
    return now if better_of(now[0], later[0], rules).now else later


def hold(
    job: Malleable,
    choice: Choice,
    rooms: Sequence[FreeSlots],
    room: FreeSlots,
    rule: Rule,
    head: Head,
    now_s: float,
) -> Hold:
    """The head waits; `head` records whether it chose to."""
    offered = max(one.free for one in rooms)
    if head.since_s is None and offered >= job.least:
        head = Head(now_s, min(offered, job.useful), choice.slots if rule.lock_in else None)
    ask_at_s = now_s + max(choice.begins_in_s, SOONEST_S)
    if head.since_s is not None:
        ask_at_s = min(ask_at_s, max(head.since_s + rule.hold_s_max, now_s + SOONEST_S))
    return Hold(choice.slots, room.host, ask_at_s, head, choice.reason)


def expected_wait(
    job: Malleable, free: int, releases: Releases, correction: Correction | None
) -> tuple[int, float] | None:
    """Returns the slots that a first decision expects, and the uncorrected prediction of when they
    are free, from which BIAS learns once the outcome is known. None if there is nothing to
    predict."""
    if not job.least <= free < job.useful:
        return None
    later = least_turnaround(job, free, predicted(free, releases, correction), releases)
    if later is None:
        return None
    return later.slots, predicted(free, releases)(later.slots)


@dataclass(frozen=True, slots=True)
class KnownSpeedup:
    """A, σ and L of a job, and where they come from."""

    speedup: Speedup
    work_s: float
    fitted: SpeedupFit | None  # None: given, or assumed to be linear
    linear: bool  # for lack of data
    given: bool = False  # by its user
    is_guess: bool = False  # its work is the mean of other commands


Command = tuple[str, int]  # the user, and a hash of the command name
Runs = tuple[tuple[int, float], ...]  # slots, and seconds on them


@dataclass(slots=True)
class Speedups:
    """A, σ and L of each user's commands, learnt from ended runs.

    A fit takes some tens of milliseconds, too long to wait for: `to_fit` returns the runs of one
    command, the fit is computed elsewhere, and `fitted` stores it. Until then the earlier values
    apply. Bounded: the commands not used for longest are forgotten, and of each command the oldest
    runs. One user's runs say nothing about another's.
    """

    _runs: OrderedDict[Command, deque[tuple[int, float]]] = field(default_factory=OrderedDict)
    _fits: dict[Command, SpeedupFit] = field(default_factory=dict)
    _stale: dict[Command, None] = field(default_factory=dict)  # in order
    _new: dict[Command, int] = field(default_factory=dict)  # runs since the last fit

    def ended(self, user: str, name: int, slots: int, run_s: float) -> None:
        """Learns from a run that succeeded."""
        if slots < 1 or not 0 < run_s < math.inf:
            return
        key = user, name
        runs = self._runs.setdefault(key, deque(maxlen=RUNS_KNOWN))
        runs.append((slots, run_s))
        self._runs.move_to_end(key)
        self._new[key] = self._new.get(key, 0) + 1
        enough = len(runs) >= FEWEST_RUNS and self._new[key] * RUNS_A_FIT >= len(runs)
        if enough and len(set(map(SLOTS, runs))) > 1:
            self._stale[key] = None
        while len(self._runs) > COMMANDS_KNOWN:
            oldest, _ = self._runs.popitem(last=False)
            self._fits.pop(oldest, None)
            self._stale.pop(oldest, None)
            self._new.pop(oldest, None)

    def to_fit(self) -> tuple[Command, Runs] | None:
        """Returns a command that has ended since its last fit, with its runs."""
        while self._stale:
            key = next(iter(self._stale))
            del self._stale[key]
            self._new[key] = 0
            runs = tuple(self._runs[key])
            if len({slots for slots, _ in runs}) > 1:  # newer runs may have displaced the others
                return key, runs
        return None

    def fitted(self, key: Command, found: SpeedupFit) -> None:
        if not found.says_something:
            self._fits.pop(key, None)
        elif key in self._runs:
            self._fits[key] = found

    def of(
        self,
        user: str,
        name: int,
        most: int,
        mean_work_s: float,
        speedup: tuple[float, float] | None = None,
        work_s: float | None = None,
    ) -> KnownSpeedup:
        """Returns what is known. The user's own `speedup` and `work_s` take precedence over what
        was learnt. With too few runs the speedup is linear up to `most`, with the mean work of
        these runs, or of all jobs (`mean_work_s`) without any."""
        key = user, name
        runs = self._runs.get(key, ())
        if runs:
            self._runs.move_to_end(key)
        found = self._fits.get(key)
        if speedup is not None:
            shape = Speedup(*speedup)
        else:
            shape = found.speedup if found is not None else Speedup(float(most), 0.0)
        if work_s is None and found is not None and speedup is None:
            work_s = found.work_s
        elif work_s is None and runs:
            work_s = sum(shape.at(slots) * run_s for slots, run_s in runs) / len(runs)
        learnt, given = found if speedup is None else None, speedup is not None
        linear, is_guess = not given and learnt is None, work_s is None
        work_s = mean_work_s if work_s is None else work_s
        return KnownSpeedup(shape, work_s, learnt, linear, given, is_guess)

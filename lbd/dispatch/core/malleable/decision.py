"""A job that runs on MIN to MAX slots, at the head of its line: fewer now or more later? Pure.

All slots of a job are on one host, so each host is a machine of its own (`FreeSlots`), and what is
best is the best over hosts. The strategies are those of `theory/allocation.py` (Downey 1997). What
they promise to others:

- **Order is kept.** Only the head of a line is asked; who holds out stays the head, and nobody
  behind it begins before it.
- **Nobody waits longer than for a rigid head.** As soon as one host has all the slots that the job
  can use it begins there, whatever was predicted. So the line is never held up for longer than by
  a job that asked for just as many. Nor is a job held up for more than `hold_s_max`, if that is
  set: then it begins with what is free.
- **No wait for what may never come.** A host counts with the slots that are its own now. One that
  leaves takes its offers along at the next question, and so does a lower number of its slots.

A decision stands until slots come back, a job arrives, or the time is over at which to ask again.
Under lock-in a job that holds out names its slots and gets no more than these: it leaves the rest
to those behind it sooner, and pays for a prediction that was too modest (section 6.1).

What is not given of A, σ and the work is learnt by user and command name (`Speedups`).
"""

import math
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

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

SOONEST_S = 1e-6  # until somebody is asked again
COMMANDS_KNOWN = 1000  # users' commands whose runs are remembered,
RUNS_KNOWN = 60  # and runs of each
RUNS_A_FIT = 10  # of all that are known, a tenth new: then again
FEWEST_RUNS = 4  # before they say more than that speedup is linear


@dataclass(frozen=True, slots=True)
class FreeSlots:
    """A host's slots, now."""

    host: HostId
    free: int
    releases: Releases  # of what runs there
    jobs: Mapping[JobId, int] = field(default_factory=dict)  # that is, and their slots

    @property
    def total(self) -> int:
        return self.free + self.releases.total


@dataclass(frozen=True, slots=True)
class Rule:
    """What `[dispatch]` says of malleable jobs, and what is known of predictions."""

    strategy: Strategy
    rules: Rules = PAPER
    lock_in: bool = False
    hold_s_max: float = math.inf  # to hold out, from when it could first have begun
    correction: Correction | None = None  # for bias


@dataclass(frozen=True, slots=True)
class Head:
    """What is remembered of the head of a line between two questions."""

    since_s: float | None = None  # it holds out since then; None: it does not
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
    slots: int  # it is expected to get,
    host: HostId | None  # there; None: no host has as many as it needs
    ask_at_s: float  # at the latest; infinite: when slots come back
    head: Head
    reason: str


def decide(
    job: Malleable, rooms: Sequence[FreeSlots], rule: Rule, head: Head, now_s: float
) -> BeginOn | Hold:
    """Decides what the job at the head of the queue does now."""
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
        # Where it could begin now, none of the others ends sooner: they have no say in it. And of
        # hosts with as many slots, as many of them free, one speaks for all.
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
    """PRED and BIAS over hosts. What is free now is known of all of them without a prediction, and
    of each later host only what ends before the best so far is worked out."""
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
    """The best on one host of what is not free there yet; None if it ends after `bound_s`."""
    free, releases = room.free, room.releases
    queue = predicted(free, releases, correction)
    if correction is not None:
        return least_turnaround(job, free, queue, releases, bound_s)

    def comes_by(slots: int, t_s: float) -> bool:
        return releases.comes_by(slots - free, t_s)

    return least_turnaround(job, free, queue, releases, bound_s, comes_by)


def best_of(found: Sequence[tuple[Choice, FreeSlots]], rules: Rules) -> tuple[Choice, FreeSlots]:
    """Over hosts: the best there is now against the best later, and a host that has all it can
    use before any that asks it to wait."""
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
    """The slots that a first decision looks forward to, and the uncorrected prediction of when they
    are free: what BIAS learns from once that is known. None where there is nothing to predict."""
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
    fitted: SpeedupFit | None  # None: given, or taken for linear
    linear: bool  # for want of anything better
    given: bool = False  # by its user


Command = tuple[str, str]  # its user, and its name
Runs = tuple[tuple[int, float], ...]  # slots, and seconds on them


@dataclass(slots=True)
class Speedups:
    """What was learnt of A, σ and L of each user's commands, from ended runs.

    A fit takes some tens of milliseconds, which nobody may wait for: `to_fit` gives the runs of one
    command, the fit is made elsewhere, and `fitted` takes it. Until then what was known before
    counts. Bounded: the commands that were asked for least lately are forgotten, and of each its
    oldest runs. A user's runs say nothing of another's.
    """

    _runs: OrderedDict[Command, deque[tuple[int, float]]] = field(default_factory=OrderedDict)
    _fits: dict[Command, SpeedupFit] = field(default_factory=dict)
    _stale: dict[Command, None] = field(default_factory=dict)  # in order
    _new: dict[Command, int] = field(default_factory=dict)  # runs since the last fit

    def ended(self, user: str, name: str, slots: int, run_s: float) -> None:
        """Learns from a run that succeeded."""
        if slots < 1 or not 0 < run_s < math.inf:
            return
        key = user, name
        runs = self._runs.setdefault(key, deque(maxlen=RUNS_KNOWN))
        runs.append((slots, run_s))
        self._runs.move_to_end(key)
        self._new[key] = self._new.get(key, 0) + 1
        enough = len(runs) >= FEWEST_RUNS and self._new[key] * RUNS_A_FIT >= len(runs)
        if enough and len({slots for slots, _ in runs}) > 1:
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
            if len({slots for slots, _ in runs}) > 1:  # newer ones may have pushed the others out
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
        name: str,
        most: int,
        mean_work_s: float,
        speedup: tuple[float, float] | None = None,
        work_s: float | None = None,
    ) -> KnownSpeedup:
        """What its user gives, `speedup` and `work_s`, counts before what was learnt. Linear up to
        `most` where too few runs are known, with their mean work, else that of all jobs,
        `mean_work_s`."""
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
        work_s = mean_work_s if work_s is None else work_s
        return KnownSpeedup(shape, work_s, learnt, linear=not given and learnt is None, given=given)

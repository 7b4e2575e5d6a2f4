"""What is known about this host's owner, and which commands wait for the owner to leave. Pure.

Once a step (`admission.owner_step_s`) the owner is counted as here or away, by hour of the week:
p01, the chance that an owner who is here has left a step later, and p11, that one who is away still
is. Stays are kept one by one. Both outlive the LBM in a file of bounded size, as the trials do.

With `admission.owner_is_back = "decide"` every command is suspended while the owner is here. Once a
step each command is decided on: does it keep waiting, or is it moved? Moving costs the time for
which it has run (since its checkpoint, if it has one) and the transfer of its files. How long it
waits depends on `admission.decide_by`:

- **trials** (default): as long as would have been best so far for imagined commands on the hosts of
  this cluster (`policy/wait_trials`). It needs no model of how owners come and go. Until it has
  seen enough, the next rule is used;
- **work, threshold, myopic, optimal**: by this owner's stays and chances
  (`policy/wait_or_migrate`), the last one also by how many other hosts there are, and how many of
  them are free;
- **timer**: a fixed time.

Tasks of a gang only continue together. What matters is at how many of their hosts the owner is
back, and either all start again elsewhere or none does. Moving then costs the time for which the
gang has run, however many hosts are left, so each of these bears one n-th of it. For gangs
**trials**, which know only single commands, means **work**.

On measured series (`lbd sim migrate --series`) trials cost least of the rules that need no setting,
and work costs less than threshold. Times are UNIX seconds, because they are compared across
restarts. A clock that is set spoils one stay.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TypeGuard

from lbd.config.access import AdmissionConfig
from lbd.lbm.core.owner_presence import UNTIL_GONE, stays
from lbd.lbm.core.room_for_suspended import RoomElsewhere
from lbd.model import NO_NEEDS, Facts, HostId, JobId, Needs
from lbd.policy.wait_or_migrate import (
    Move,
    Others,
    OwnerHistory,
    Rule,
    best_rest_s,
    decide_gang,
    outlook,
    rest_s,
)
from lbd.policy.wait_trials import FEWEST_WAITS, WaitTrials
from lbd.text.units import show_duration
from lbd.theory.owner_periods import safe_limit_s

GAP_STEPS = 3  # after this gap nothing is known about the time between two looks
KEPT = 500  # interrupted commands, for `lbctl advise`
STANDING_MAX = 1000
VERSION = 1
RULES: Mapping[str, Rule] = {"work": "work", "threshold": "threshold", "myopic": "myopic"}
NOWHERE = "no other host has had room for it for long enough: waiting"
GANG_NOWHERE = "other hosts have no room for these tasks: waiting"
GANG_HOSTS_COUNTED = 20  # of one gang: more would take long, and give the same answer
SOON_S = 300.0

Json = dict[str, object]
Clock = Callable[[float], str]  # formats a UNIX time for people


@dataclass(frozen=True, slots=True)
class Standing:
    """A suspended command, as its host sees it."""

    job: JobId
    cost_s: float  # of moving it
    is_movable: bool  # it has neither read nor written anything that must not be repeated
    gang: tuple[HostId, ...] = ()  # the hosts of its tasks, if it is part of a gang
    slots: int = 1
    needs: Needs = NO_NEEDS
    excluded: frozenset[HostId] = frozenset()  # it cannot start again there
    is_fixed: bool = False  # it is not movable, whatever it has read or written


@dataclass(frozen=True, slots=True)
class Verdict:
    goes: bool
    until_s: float  # end of the wait; infinite: as long as the owner is here
    reason: str
    is_decided: bool = True  # False: there is nothing to decide, since it cannot be moved


def until(until_s: float, now_s: float, clock: Clock) -> str:
    """Formats the end of a wait, with seconds if it is soon. Time zones differ by whole minutes."""
    return f"until {clock(until_s)}" + f":{int(until_s) % 60:02d}" * (until_s - now_s < SOON_S)


@dataclass(frozen=True, slots=True)
class Interruption:
    """A command that an owner's stay has interrupted, kept after the owner has left."""

    ended_s: float
    stay_s: float
    cost_s: float
    moved_after_s: float | None  # None: it was not moved


@dataclass(slots=True)
class Interrupted:
    """An interrupted command while the owner is here."""

    cost_s: float
    moved_s: float | None = None
    decided_s: float = -math.inf
    by: tuple[object, ...] = ()  # what the decision was based on, besides time
    verdict: Verdict = field(default=Verdict(False, -math.inf, ""))


@dataclass(slots=True)
class OwnerBook:
    host: HostId
    step_s: float = 60.0
    history: OwnerHistory = field(default_factory=OwnerHistory)
    trials: WaitTrials = field(default_factory=WaitTrials)
    is_here: bool | None = None  # None: the owner is not watched
    since_s: float | None = None  # when the owner came, or left
    elsewhere: RoomElsewhere = field(default_factory=RoomElsewhere)
    others: Others = field(default_factory=lambda: Others(0, 0))
    away: Mapping[HostId, bool] = field(default_factory=dict)  # for each host: is its owner away?
    interruptions: deque[Interruption] = field(default_factory=lambda: deque(maxlen=KEPT))
    _interrupted: dict[JobId, Interrupted] = field(default_factory=dict)
    _step_at_s: float | None = None
    _was_here: bool = False  # at the last step
    _came_before_s: float | None = None  # as the LBM before left it

    # Observations

    def look(self, is_here: bool, now_s: float, hour: int) -> bool:
        """Returns whether a step has passed. `hour`: hour of the week."""
        if is_here is not self.is_here:
            self._changed(is_here, now_s)
        if self._step_at_s is None or not 0 <= now_s - self._step_at_s < GAP_STEPS * self.step_s:
            self._step_at_s, self._was_here = now_s, is_here
            return True
        if now_s < self._step_at_s + self.step_s:
            return False
        self._step_at_s += self.step_s
        self.history.step(hour, self._was_here, is_here)
        self._was_here = is_here
        return True

    def unwatched(self) -> None:
        """Forgets the owner's presence: the rules do not depend on it any more."""
        self.is_here = self.since_s = self._step_at_s = self.history.since_s = None
        self._interrupted.clear()

    def _changed(self, is_here: bool, now_s: float) -> None:
        before_s, self._came_before_s = self._came_before_s, None
        self.since_s = before_s if is_here and before_s is not None else now_s
        self.is_here = is_here
        if is_here:
            self.history.came(self.since_s)
            return
        stay_s = self.history.stayed_s(now_s)
        self.history.left(now_s)
        for one in self._interrupted.values():
            if one.verdict.is_decided:
                moved_after_s = None if one.moved_s is None else stay_s - (now_s - one.moved_s)
                self.interruptions.append(Interruption(now_s, stay_s, one.cost_s, moved_after_s))
        self._interrupted.clear()

    def cluster_is(
        self,
        away: Mapping[HostId, bool],
        others_free: bool,
        rng: Random,
        *,
        step: bool,
        room: Mapping[HostId, int] | None = None,
        facts: Mapping[HostId, Facts] | None = None,
    ) -> None:
        """`away`: for every host, whether its owner is away or it has none. `others_free`: another
        host would take a command; `room`: free slots of each host that takes commands; `facts`: the
        other resources of those hosts."""
        self.elsewhere.look(others_free, room or {}, facts or {}, self.step_s)
        self.away = away
        free = [is_away for name, is_away in away.items() if name != self.host]
        self.others = Others(len(free), sum(free))
        if step and len(away) > 1:
            self.trials.step([away[name] for name in sorted(away)], rng)

    # Decisions

    def verdict(
        self, one: Standing, config: AdmissionConfig, now_s: float, hour: int, clock: Clock
    ) -> Verdict:
        """Decides on a suspended command. The verdict stays the same within a step."""
        known = self._interrupted.get(one.job)
        if known is None:
            known = Interrupted(one.cost_s)
            if len(self._interrupted) < STANDING_MAX:
                self._interrupted[one.job] = known
        if known.moved_s is not None and not one.gang:  # it is on its way
            return known.verdict
        has_room = self.fits(one) if one.gang else self.fits_beside(one)
        by = config.decide_by, config.decide_after_s, has_room, one.is_movable, self.back_at(one)
        if by != known.by or now_s >= min(known.verdict.until_s, known.decided_s + self.step_s):
            known.by, known.decided_s, known.cost_s = by, now_s, one.cost_s
            known.verdict = self._verdict(one, config, now_s, hour, clock)
        if known.verdict.goes and known.moved_s is None:
            known.moved_s = now_s
            if not one.gang:
                self.elsewhere.is_taken()
        return known.verdict

    def stands(self, one: Standing, now_s: float, *, moved: bool) -> None:
        """Like `verdict`, for a plain rule: the command waits, or is moved at once."""
        if one.job not in self._interrupted and len(self._interrupted) < STANDING_MAX:
            verdict = Verdict(moved, math.inf, "", is_decided=one.is_movable)
            self._interrupted[one.job] = Interrupted(one.cost_s, verdict=verdict)
            if moved:
                self._interrupted[one.job].moved_s = now_s

    def gone(self, job: JobId) -> None:
        """Forgets a command that has ended, unless it was moved: it did not wait for the whole
        stay."""
        known = self._interrupted.get(job)
        if known is not None and known.moved_s is None:
            del self._interrupted[job]

    def _verdict(
        self, one: Standing, config: AdmissionConfig, now_s: float, hour: int, clock: Clock
    ) -> Verdict:
        back = self.back(clock)
        if not one.is_movable:
            return Verdict(False, math.inf, f"{back}; {stays(one.is_fixed)}", is_decided=False)
        lost = f"moving would lose {show_duration(one.cost_s)}"
        seen = f"{back}; {outlook(self.history, now_s)}; {lost}"
        if one.gang:
            return self._of_gang(one, config, now_s, hour, seen, clock)
        if not self.fits_beside(one):
            return Verdict(False, math.inf, f"{seen}; {NOWHERE}")
        left_s = self.left_s(one.cost_s, config, now_s, hour)
        if left_s <= 0:
            return Verdict(True, now_s, f"{seen}; moving")
        if left_s == math.inf:
            return Verdict(False, math.inf, f"{seen}; {UNTIL_GONE}")
        until_s = now_s + left_s
        waits = until(until_s, now_s, clock)
        return Verdict(False, until_s, f"{seen}; waiting {waits}, then moving")

    def back_at(self, one: Standing) -> int:
        """At how many hosts of its gang the owner is back."""
        return sum(host == self.host or not self.away.get(host, True) for host in set(one.gang))

    def fits(self, one: Standing) -> bool:
        """Whether other hosts, or free hosts of the gang, would take the suspended tasks."""
        still = sum(host == self.host or not self.away.get(host, True) for host in one.gang)
        free = (host for host, is_away in self.away.items() if is_away)
        hosts = (host for host in free if host not in one.excluded)
        takes = self.elsewhere.takes
        return sum(takes(host, one.slots, one.needs) for host in hosts) >= still

    def fits_beside(self, one: Standing) -> bool:
        """Whether another host would take it."""
        return self.elsewhere.beside(self.host, one.slots, one.needs, one.excluded)

    def _of_gang(
        self,
        one: Standing,
        config: AdmissionConfig,
        now_s: float,
        hour: int,
        seen: str,
        clock: Clock,
    ) -> Verdict:
        hosts, back = len(set(one.gang)), self.back_at(one)
        if hosts > 1:
            seen = f"{seen}; the owner is back at {back} of the {hosts} hosts of its gang"
        if not self.fits(one):
            return Verdict(False, math.inf, f"{seen}; {GANG_NOWHERE}")
        stayed_s = self.history.stayed_s(now_s)
        if config.decide_by == "timer":
            left_s = config.decide_after_s - stayed_s
        elif self.history.stays() is None:
            left_s = safe_limit_s(one.cost_s) - stayed_s
        else:
            goes = self._is_best_begun_again(one, config, hosts, back, hour)
            left_s = 0.0 if goes else math.inf
        if left_s <= 0:
            return Verdict(True, now_s, f"{seen}; the whole gang starts again")
        if left_s == math.inf:
            return Verdict(False, math.inf, f"{seen}; waiting")
        until_s = now_s + left_s
        return Verdict(False, until_s, f"{seen}; waiting {until(until_s, now_s, clock)}")

    def _is_best_begun_again(
        self, one: Standing, config: AdmissionConfig, hosts: int, back: int, hour: int
    ) -> bool:
        rule: Rule = (
            "optimal" if config.decide_by == "optimal" else RULES.get(config.decide_by, "work")
        )
        taken = {*one.gang, *one.excluded}
        others = [is_away for host, is_away in self.away.items() if host not in taken]
        tasks = min(hosts, GANG_HOSTS_COUNTED)
        back = min(back, tasks)
        free = max(back, sum(others))  # one host may take several tasks
        cost = one.cost_s / self.step_s / back
        chain = self.history.chain(hour)
        found = decide_gang(chain, tasks, back, cost, free, rule, max(free, len(others)))
        return isinstance(found, Move)

    def back(self, clock: Clock) -> str:
        """How every message about a suspended command begins."""
        return f"{self.host}'s owner came back at {clock(self.since_s or 0.0)}"

    def left_s(self, cost_s: float, config: AdmissionConfig, now_s: float, hour: int) -> float:
        """How much longer to wait."""
        by, stayed_s = config.decide_by, self.history.stayed_s(now_s)
        if by == "timer":
            return config.decide_after_s - stayed_s
        if by == "trials" and self.trials.interruptions >= FEWEST_WAITS:
            return self.trials.limit(cost_s / self.step_s) * self.step_s - stayed_s
        if by == "optimal":
            return best_rest_s(self.history, cost_s, self.step_s, now_s, self.others, hour)
        rule = RULES.get(by, "work")
        return rest_s(self.history, cost_s, self.step_s, now_s, rule, hour)

    # The file

    def to_json(self, now_s: float) -> Json:
        return {
            "version": VERSION,
            "step_s": self.step_s,
            "hours": self.history.rows(),
            "stays_s": list(self.history.stays_s),
            "trials": {"rows": self.trials.rows(), "interruptions": self.trials.interruptions},
            "came_s": self.history.since_s,
            "saved_s": now_s,
            "interruptions": [
                [one.ended_s, one.stay_s, one.cost_s, one.moved_after_s]
                for one in self.interruptions
            ],
        }

    def read(self, stored: object, now_s: float) -> None:
        """Restores what `to_json` returned. Counts of steps of another length are dropped. Raises
        ValueError, and changes nothing, if `stored` is not valid."""
        if not isinstance(stored, dict) or stored.get("version") != VERSION:
            raise ValueError("this release cannot read the record of the owner")
        hours, stays_s, rows = (stored.get(key) for key in ("hours", "stays_s", "interruptions"))
        if not (are_counts(hours) and are_times(stays_s) and isinstance(rows, list)):
            raise ValueError("the record of the owner is damaged")
        interruptions = [interruption_of(row) for row in rows[-KEPT:]]
        same_steps = stored.get("step_s") == self.step_s
        trials = WaitTrials()
        if same_steps and (kept := stored.get("trials")) is not None:
            trials = trials_of(kept)
        self.history.restore(hours if same_steps else OwnerHistory().rows(), stays_s)
        self.trials = trials
        self.interruptions.extend(interruptions)
        came_s, saved_s = stored.get("came_s"), stored.get("saved_s")
        if is_time(came_s) and is_time(saved_s) and came_s <= saved_s <= now_s:
            self._came_before_s = came_s if now_s - saved_s < GAP_STEPS * self.step_s else None


def is_time(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0


def are_times(value: object) -> TypeGuard[list[float]]:
    return isinstance(value, list) and all(map(is_time, value))


def are_counts(value: object) -> TypeGuard[list[list[int]]]:
    return isinstance(value, list) and all(
        isinstance(row, list) and all(type(count) is int for count in row) for row in value
    )


def trials_of(kept: object) -> WaitTrials:
    """Raises ValueError."""
    rows, interruptions = (
        (kept.get("rows"), kept.get("interruptions")) if isinstance(kept, dict) else (None, None)
    )
    if not are_counts(rows) or type(interruptions) is not int:
        raise ValueError("the record of the trials is damaged")
    trials = WaitTrials()
    trials.restore(rows, interruptions)
    return trials


def interruption_of(row: object) -> Interruption:
    """Raises ValueError."""
    if not isinstance(row, list) or len(row) != 4 or not are_times(row[:3]):
        raise ValueError("the record of the owner is damaged")
    ended_s, stay_s, cost_s, moved_after_s = row
    if moved_after_s is not None and not is_time(moved_after_s):
        raise ValueError("the record of the owner is damaged")
    return Interruption(ended_s, stay_s, cost_s, moved_after_s)

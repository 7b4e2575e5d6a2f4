"""When a pending job will start, as far as can be predicted. Pure.

The line is played through (`line_played.py`) up to a limit; jobs before the given one beyond that
are worked off at the combined rate of all slots of the line's hosts, a mean lifetime each. A job
with needs besides slots waits for those too (`needs_outlook.py`), and so do the jobs behind it.
Future jobs are unknown: under priorities and fair shares they may go first, and then it takes
longer.
"""

import copy
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import NamedTuple

from lbd.config.dispatch import STRATEGIES
from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.dispatch.core.malleable.heads import NOTHING_KNOWN, ROOMS, room_of
from lbd.dispatch.core.malleable.prospects import CALIBRATED, Situation, within
from lbd.dispatch.core.outlook.forecast_words import (
    FREE,
    GUESS,
    HOLDS_OUT,
    MAY_HOLD_OUT,
    NO_INTERVAL,
    SHARES,
    TOO_FEW_WITH_NEEDS,
    made_from,
    made_from_those_with,
    made_of,
    nobody_has,
    too_few_ended,
)
from lbd.dispatch.core.outlook.line_maker import NEW
from lbd.dispatch.core.outlook.line_played import Spread
from lbd.dispatch.core.outlook.needs_outlook import (
    Known,
    NeedsOutlook,
    NeedsOutlooks,
    parts_of,
    releases_of,
)
from lbd.dispatch.core.outlook.places import FRESH_S, Place, Places
from lbd.dispatch.core.outlook.plays import Played, Plays
from lbd.dispatch.core.outlook.queue_outlook import QueueOutlook, SlotTimes
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.registry import Registered
from lbd.model import JobId
from lbd.text.units import counted
from lbd.theory.calibration import Correction
from lbd.theory.lifetimes import UniformLog


class Prediction(NamedTuple):
    wait_s: float | None  # None: unknown
    how: str  # how it was made, or why it was not
    is_rough: bool = False  # what it is learnt from is unlike the jobs that run, or wait ahead
    within_s: tuple[float, float] | None = None  # nine in ten such jobs start; None: unknown


@dataclass(slots=True)
class Forecast:
    queues: Queues
    places: Places = field(init=False)
    plays: Plays = field(init=False)
    _outlooks: dict[HostConnection, QueueOutlook] = field(default_factory=dict)
    _events: int = -1  # the state the outlooks are for
    _seen_s: float = 0.0  # the time they were made
    _needs: NeedsOutlooks = field(default_factory=NeedsOutlooks)
    _rng: Random = field(default_factory=lambda: Random(0))  # for disciplines that choose at random

    def __post_init__(self) -> None:
        self.plays = Plays(self.queues)
        self.places = Places(self.queues, self.plays.allowance)

    def forget(self) -> None:
        """Discards what was computed; the next question computes it again."""
        self._outlooks = {}
        self.places.forget()
        self.plays.forget()
        self._needs.forget()

    def of(self, registered: Registered, now_s: float) -> Prediction:
        kind = registered.kind
        if registered.line is None or kind.gang:
            return Prediction(None, "")
        if kind.target is not None and self.queues.shares.obstacle(kind):
            return Prediction(None, "")
        if (place := self.places.of(registered, now_s)) is None:
            return Prediction(None, "")
        ahead = self.places.taken_ahead(registered.id) if place.jobs else {}
        found = self._predict(registered.line, place, kind, ahead, now_s, registered.id)
        if not found.wait_s or not self.queues.heads.may_hold_out(kind):
            return found
        how = found.how if found.is_rough else f"{found.how}; {GUESS}: {MAY_HOLD_OUT}"
        return found._replace(how=how, is_rough=True, within_s=None)

    def interval_of(
        self, registered: Registered, now_s: float
    ) -> Callable[[], Spread | None] | None:
        """Returns a function, to be called in a thread, that computes the wait of a job whose needs
        besides slots are taken, and the interval in which nine in ten such jobs start. None if too
        little is known, or if the job does not wait for that: then the line tells, as played."""
        place, line, kind = self.places.of(registered, now_s), registered.line, registered.kind
        if line is None or place is None or place.jobs or not kind.needs:
            return None
        if self.queues.heads.may_hold_out(kind):
            return None
        needs = self._needs_outlook(line, kind, now_s)
        if needs is None or needs.is_there or not has_intervals(self.queues, needs):
            return None
        back = releases_of(needs, self._known_of(line))
        return partial(within, *back) if back else None

    def played(self, line: HostConnection, now_s: float) -> Played | None:
        outlook = self.outlook(line, now_s)
        return self.plays.of(line, outlook.general, outlook.head_s, now_s)

    def of_new(self, job: QueuedJob, now_s: float) -> Prediction:
        """Predicts the wait of one that arrives now."""
        line = self.line_for(job, now_s)
        if line is None:
            return Prediction(None, nobody_has(job))
        return self.of_new_in(line, job, now_s)

    def of_new_in(self, line: HostConnection, job: QueuedJob, now_s: float) -> Prediction:
        place = self.places.of_new(line, job, now_s)
        taken = self.places.taken_in(line, now_s) if job.needs and place.jobs else {}
        return self._predict(line, place, job, taken, now_s)

    def line_for(self, job: QueuedJob, now_s: float) -> HostConnection | None:
        """Returns the line it would join; None if no current host may take it."""
        queues = self.queues
        guess = copy.copy(queues.discipline)  # so that our own does not count it
        line = guess.join(job, queues.hosts, now_s, self._rng)
        if line is None or not any(one.suits(job) for one in queues.servers.get(line, ())):
            return None
        return line

    def situation(
        self, job: QueuedJob, correction: Correction, now_s: float
    ) -> tuple[Situation, str]:
        """Returns what a job arriving now could expect, for evaluation elsewhere, and how that is
        known."""
        queues, line = self.queues, self.line_for(job, now_s)
        if line is None:
            nowhere = Situation((), 0, None, 0.0, None, 0, correction)
            return nowhere, nobody_has(job)
        servers = [one for one in queues.servers.get(line, ()) if one.suits(job)]
        place, outlook = self.places.of_new(line, job, now_s), self.outlook(line, now_s)
        prediction = self.of_new_in(line, job, now_s)
        known = queues.slot_times.lifetimes()
        lifetimes = known[0] if known is not None else NOTHING_KNOWN[0]
        best = sorted(servers, key=lambda one: (not one.has_for(job), -one.free))[:ROOMS]
        rooms = tuple(
            room_of(one, math.inf if one.has_for(job) else 0, now_s, lifetimes) for one in best
        )
        needs = self._needs_outlook(line, job, now_s) if job.needs else None
        has = has_intervals(queues, needs)
        if has and not job.needs:
            new = job._replace(id=NEW)
            played = self.plays.of(line, outlook.general, outlook.head_s, now_s, new)
            has = played is None or not played.goes_otherwise(NEW)
        now = Situation(
            rooms, place.jobs, prediction.wait_s, outlook.behind_s(1) or 0.0, None, 0,
            # Learnt for waits for slots, and from forecasts that were no rough guesses.
            Correction() if job.needs or prediction.is_rough else correction,
            bool(job.needs) and (needs is None or not needs.is_there),
            has, is_unknown=prediction.wait_s is None,
        )  # fmt: skip
        if not place.jobs and needs and (back := releases_of(needs, self._known_of(line))):
            now = replace(now, ahead_slots=back[0], all_held=back[1])
        if not job.needs and prediction.wait_s is not None:
            # Not the line of a past play: of that there may be a newer one for fewer slots.
            new = job._replace(id=NEW)
            there = self.plays.line_with(line, outlook.general, outlook.head_s, now_s, new)
            now = replace(now, line=there)
        if job.slots_most > job.slots:
            left = max(job.slots, queues.shares.slots_left(job.user))
            rules = {one.upper(): queues.heads.rule_of(one) for one in STRATEGIES if one != "free"}
            now = replace(now, rules=rules, slots_left=left)
        how = prediction.how
        if how == FREE and min(job.slots_most, now.most) > now.free and outlook.slot_times:
            how += f"; more than {now.free}: {made_from(outlook.slot_times)}"
        return now, how

    def _needs_outlook(
        self, line: HostConnection, job: QueuedJob, now_s: float
    ) -> NeedsOutlook | None:
        """Returns None if too many kinds of jobs have been evaluated in the last moment."""
        servers = self.queues.servers.get(line, ())
        return self._needs.of(line, job, servers, self._known_of(line), now_s)

    def _known_of(self, line: HostConnection) -> Known:
        def known(part: Hashable) -> tuple[UniformLog, float] | None:
            if isinstance(part, str):
                return self.queues.resource_times.lifetimes(part)
            found = slot_times_of(self.queues, line)
            return found[1:] if found is not None else None

        return known

    def _predict(
        self, line: HostConnection, place: Place, job: QueuedJob,
        taken: Mapping[Hashable, int], now_s: float, job_id: JobId = NEW,
    ) -> Prediction:  # fmt: skip
        """`taken`: what the jobs ahead take of its needs besides slots."""
        outlook = self.outlook(line, now_s)
        if not outlook.total:
            return Prediction(None, "no slot is available to the queue")
        if self.queues.plan is not None:
            return Prediction(None, "no estimate while slots are reserved for a gang")
        asked, obstacle = self.queues.heads.asked.get(line), self.queues.shares.obstacle(job)
        if asked is not None and (place.jobs or asked.job == job_id):
            return Prediction(None, HOLDS_OUT if asked.job != job_id else "")
        needs = self._needs_outlook(line, job, now_s) if job.needs else None
        if job.needs and needs is None:
            return Prediction(None, "")
        is_there = (
            needs.is_there if needs is not None else has_room(self.queues, line, outlook, job)
        )
        if is_there and not place.jobs and not obstacle:
            return Prediction(0.0, FREE)
        barred = Prediction(None, obstacle if job_id == NEW else "")  # a job's reason says it
        if obstacle and job.needs:
            return barred
        if needs is not None and needs.wait_s is None and outlook.slot_times is not None:
            return Prediction(None, needs.why)
        if place.jobs and outlook.held_up and outlook.slot_times is not None:
            return Prediction(None, outlook.held_up)
        head_s = outlook.head_s if place.jobs else 0.0
        asked_of = line, outlook.general, head_s, now_s
        played, told_by = self.plays.telling_of(job, job_id, place.jobs, *asked_of)
        until_s = self._begin_s(outlook, played, told_by, place, now_s) if played else None
        if obstacle and (until_s in (None, math.inf) or not (played and job_id in played.places)):
            return barred
        if until_s is None or played is None:
            return Prediction(None, too_few_ended(len(self.queues.resource_times.slots.recent_s)))
        if math.isinf(until_s):
            return Prediction(None, "no estimate until more slots are available to the queue")
        jobs = counted(place.jobs, "job") if place.jobs else "no job"
        limit = f"{barred.how}; " if barred.how else ""
        ahead = f"{limit}{jobs} ahead, {outlook.slots_for(job, self.queues.servers[line])}; "
        no_interval = f"; {NO_INTERVAL}" if job.needs and place.jobs else ""
        how = ahead + made_of(played, outlook.slot_times, told_by)
        shares = self._by_shares(line, job)
        how += f"; {GUESS}: {why}" if (why := played.why_rough(told_by) or shares) else ""
        how += no_interval
        if needs is None or needs.wait_s is None:
            has = has_intervals(self.queues, needs) and not shares
            within_s = played.interval_of(told_by, until_s, now_s) if has else None
            return Prediction(until_s, how, bool(why), within_s)
        own = {part: taken.get(part, 0) for part in parts_of(job.needs, job.slots)}
        behind_s = needs.behind_s(own, self._known_of(line))
        if behind_s is None:
            return Prediction(None, TOO_FEW_WITH_NEEDS)
        own_s = needs.wait_s + behind_s
        if own_s >= until_s or not place.jobs:
            of_needs = made_from_those_with(needs, self.queues.resource_times)
            how = ahead + (of_needs or made_of(played, outlook.slot_times, told_by))
            return Prediction(own_s, f"{how}; it is waiting for what it needs{no_interval}")
        return Prediction(until_s, how, bool(why))

    def _by_shares(self, line: HostConnection, job: QueuedJob) -> str:
        """Says that users take turns by their shares there, if they do."""
        waiting = self.queues.lines.get(line) if self.queues.shares.rules.fair_share_s else None
        return SHARES if waiting is not None and not waiting.puts_last(job) else ""

    def _begin_s(
        self, outlook: QueueOutlook, played: Played, job: JobId, place: Place, now_s: float
    ) -> float | None:
        """Those that came since the line was played are ahead of a new job only."""
        begin_s = played.begin_s(job, now_s)
        if begin_s is not None and job != NEW:
            return begin_s
        if begin_s is None and played.stops:
            return None
        base_s = played.last_s(now_s) if begin_s is None else begin_s
        beyond = max(0, place.slots - played.slots)
        beyond_s = outlook.behind_s(beyond, self.plays.since(played))
        return begin_s if beyond_s is None else base_s + beyond_s

    def outlook(self, line: HostConnection, now_s: float) -> QueueOutlook:
        """Caches the outlook between two events."""
        events = self.queues.shares.events
        if self._events != events or now_s - self._seen_s > FRESH_S:
            self._events, self._seen_s, self._outlooks = events, now_s, {}
        if line not in self._outlooks:
            head = self.queues.head(line)
            needs = head.kind if head is not None and head.kind.needs else None
            self._outlooks[line] = QueueOutlook.of(
                self.queues.servers.get(line, ()),
                slot_times_of(self.queues, line),
                self._needs_outlook(line, needs, now_s) if needs is not None else None,
            )
        return self._outlooks[line]


def has_intervals(queues: Queues, needs: NeedsOutlook | None) -> bool:
    """Whether enough of the jobs that the prediction is based on have ended."""
    if needs and needs.shortage and isinstance(part := needs.shortage.part, str):
        return queues.resource_times.count(part) >= CALIBRATED
    return len(queues.resource_times.slots.recent_s) >= CALIBRATED


def has_room(queues: Queues, line: HostConnection, outlook: QueueOutlook, job: QueuedJob) -> bool:
    if job.only is None and not job.barred:
        return outlook.most_free >= job.slots
    return any(one.free >= job.slots and one.suits(job) for one in queues.servers.get(line, ()))


def slot_times_of(queues: Queues, line: HostConnection) -> SlotTimes | None:
    """Returns how many jobs have ended, with their distribution and mean, none longer than the
    line's cutoff."""
    ended = queues.resource_times.slots
    known = ended.lifetimes(queues.discipline.cutoff_s(line))
    return (len(ended.recent_s), *known) if known is not None else None

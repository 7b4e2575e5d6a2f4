"""When the jobs in a line start, by playing it through in virtual time. Pure.

Running jobs end, and each job in line takes released slots of a host that it may go to, strictly in
the line's order: so no job is predicted to start before those ahead of it. Only a job at a limit
(of an array, a user, a name) is passed, until a job that counts towards that limit ends.

Single run times are unknown, so the line is played several times, each time with other run times:
the median of the starts is the forecast, and nine in ten of them are its interval. `lives.py` says
what they are drawn from.

Times drawn earlier in the same play for similar jobs count as additional ended runs (Pólya's urn:
Blackwell and MacQueen 1973). This has two effects. The uncertainty of a handful of runs is in the
interval: in one play they are all short, in another long, however many wait. And running jobs count
with their ages, as censored observations: of a new command the short runs end first, so those still
running, which are drawn first, are longer. If no run of a command has ended, all its jobs take the
time drawn for the first.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import chain
from math import exp
from random import Random
from statistics import NormalDist
from typing import NamedTuple

from lbd.dispatch.core.outlook.lives import Lives
from lbd.model import HostId
from lbd.theory.calibration import LEAST_SPREAD, NORMAL_90

LOOKS = 100  # looks at hosts in a play that take as long as a step
STRATIFIED = 100  # samples that each get an even share of short and long run times
LOW = 0.05
LEAST_FACTOR = exp(NORMAL_90 * LEAST_SPREAD)
DRAWS_MIN = 5
EXACT_DRAWS, EXACT_STEPS = 101, 200_000  # in a thread
Spread = tuple[float, float, float]  # 5 %, median, 95 %
Cap = Hashable
Caps = tuple[tuple[Cap, int], ...]  # limits that a job counts towards, and by how much
TARGET, USER = "target", "user"  # kinds of limits; that of a user counts slots


class Running(NamedTuple):
    """A job that holds slots."""

    host: int
    slots: int
    age_s: float
    lives: Lives
    sample: Hashable  # jobs with the same sample are alike
    caps: Caps = ()
    array: int = 0


class Queued(NamedTuple):
    """A job in line."""

    slots: int
    lives: Lives
    sample: Hashable
    caps: Caps = ()
    only: HostId | None = None
    barred: frozenset[HostId] = frozenset()
    not_before_s: float = 0.0
    takes: bool = True  # False: it is only asked about
    array: int = 0
    is_gang: bool = False  # it starts together with the other tasks of its array

    @property
    def steps(self) -> float:
        """The steps of one draw; hosts where it may not go cost extra."""
        return 1 + len(self.barred) / LOOKS

    def on(self, slots: int) -> "Queued":
        """Returns the same job with so many slots."""
        caps = ((cap, slots if is_of_user(cap) else taken) for cap, taken in self.caps)
        return self._replace(slots=slots, caps=tuple(caps))


class PlayedTimes(NamedTuple):
    """When jobs start and end in one play, from now."""

    begins_s: list[float]  # of those in line
    ends_s: list[float]  # of the running ones, then of those in line


@dataclass(frozen=True, slots=True)
class Line:
    hosts: tuple[HostId, ...]
    free: tuple[int, ...]  # slots of each; negative where a host has fewer than are in use
    runs: tuple[Running, ...]  # similar ones oldest first
    waits: tuple[Queued, ...]  # in the order of their turns
    room: Mapping[Cap, int]  # how much is left of each limit

    @property
    def jobs(self) -> int:
        return len(self.runs) + len(self.waits)

    @property
    def steps(self) -> float:
        """The steps of one draw."""
        return len(self.runs) + sum(one.steps for one in self.waits)

    def begins_s(self, draws: int) -> list[list[float]]:
        """Returns the start of each job in line, from now, in each of `draws` plays."""
        return [times.begins_s for times in self.plays(draws)]

    def spreads(self, draws: int) -> list[Spread]:
        """Returns the spread of each job in line."""
        return spreads_of(self.plays(draws))

    def plays(self, draws: int) -> list[PlayedTimes]:
        shares = self._shares(draws)
        plays = (Play(self, shares, draw) for draw in range(draws))
        return [PlayedTimes(play.begins_s(), play.ends_s) for play in plays]

    def _shares(self, draws: int) -> Mapping[Hashable, Sequence[float]]:
        rng, found = Random(1), dict[Hashable, Sequence[float]]()
        strata = [(n + 0.5) / draws for n in range(draws)]
        jobs: chain[Running | Queued] = chain(self.runs, self.waits)
        for one in jobs:
            if one.sample not in found and len(found) < STRATIFIED:
                rng.shuffle(strata)
                found[one.sample] = tuple(strata)
            elif one.sample not in found:
                found[one.sample] = [rng.random() for _ in range(draws)]
        return found


def is_of_user(cap: Cap) -> bool:
    return isinstance(cap, tuple) and cap[0] == USER


def draws_for(steps: float, draws: int, steps_max: int) -> int:
    """Returns the number of draws. `steps`: of one draw. Odd, so that there is a median."""
    return max(DRAWS_MIN, min(draws, int(steps_max / max(1.0, steps)))) | 1


def spreads_of(plays: Sequence[PlayedTimes]) -> list[Spread]:
    begins_s = (times.begins_s for times in plays)
    return [spread(sorted(one)) for one in zip(*begins_s, strict=True)]


def spread(rising: Sequence[float]) -> Spread:
    """Returns 5 %, median and 95 %: a new value falls below the k-th of n in k of n + 1 cases. The
    interval is at least `LEAST_FACTOR` either way, since no jobs are more alike, and no slot is
    reused more promptly, than that. Of fewer than 19 values even the first and the last are nearer
    to the median than 5 and 95 %: they are moved away as those of a normal distribution."""
    last = len(rising) - 1
    at, median_s = max(0, round(LOW * (last + 2)) - 1), rising[last // 2]
    low_s, high_s = rising[at], rising[last - at]
    if last + 2 < 1 / LOW and math.isfinite(high_s):
        wider = NORMAL_90 / NormalDist().inv_cdf((last + 1) / (last + 2))
        low_s = max(0.0, median_s - wider * (median_s - low_s))
        high_s = median_s + wider * (high_s - median_s)
    return min(low_s, median_s / LEAST_FACTOR), median_s, max(high_s, median_s * LEAST_FACTOR)


class Drawn:
    """The run times drawn in one play."""

    def __init__(self, shares: Mapping[Hashable, float]) -> None:
        self._shares = shares  # by sample
        self._lives_s: dict[Hashable, list[float]] = {}  # by similarity key, in the order drawn
        self._lines_s: dict[Hashable, float] = {}  # by command line, where that has not run before
        # By similarity key, how many times as long as the known lines those that have not run take.
        self._scales: dict[Hashable, float] = {}

    def left_s(self, lives: Lives, sample: Hashable, age_s: float = 0.0) -> float:
        """Draws a remaining time. Among similar jobs the oldest must come first."""
        share = self._shares[sample]
        if lives.alike is None:
            return lives.left_s(share, age_s)
        if (same_s := self._lines_s.get(lives.line, 0.0)) > age_s:
            return max(0.0, min(same_s, lives.most_s) - age_s)
        drawn_s = self._lives_s.setdefault(lives.alike, [])
        scale = self._scales.get(lives.alike, 1.0) if lives.line is not None else 1.0
        of_known_s = lives.left_s(share, age_s / scale, drawn_s, may_be_shorter=scale == 1.0)
        left_s = scale * of_known_s
        life_s = age_s + left_s
        if lives.line is not None:
            self._lines_s[lives.line] = life_s
            if lives.like_s and lives.alike not in self._scales:
                scale = self._scales[lives.alike] = max(1.0, life_s / lives.like_s[-1])
        drawn_s.append(life_s / scale)
        return left_s


class Play:
    """One play of the line, with one draw of the run times. One class because each step of it uses
    nearly all of these tables."""

    def __init__(self, line: Line, shares: Mapping[Hashable, Sequence[float]], draw: int) -> None:
        self.line, self.now_s = line, 0.0
        self.drawn = Drawn({sample: drawn[draw] for sample, drawn in shares.items()})
        self.free, self.room = list(line.free), dict(line.room)
        self.ends = [
            (self.drawn.left_s(one.lives, one.sample, one.age_s), n, one.host, one.slots, one.caps)
            for n, one in enumerate(line.runs)
        ]
        self.ends_s = [end_s for end_s, *_ in self.ends] + [math.inf] * len(line.waits)
        heapify(self.ends)
        self.number = {name: n for n, name in enumerate(line.hosts)}
        self.with_free: dict[int, set[int]] = {}  # hosts by number of free slots
        self.levels: list[int] = []  # these numbers, ascending, as a host may claim 65536
        for n, count in enumerate(self.free):
            self._has_free(n, count)
        self.following = list(range(len(line.waits)))
        # By limit, and by how much of it each takes: in line order. The first job for which enough
        # is left again follows; the next one when that has started.
        self.passed: dict[Cap, dict[int, list[int]]] = {}
        # The job that no host had room for, and hosts where something has ended since: only those
        # are checked.
        self.held_up: tuple[int, set[int]] = -1, set()

    def begins_s(self) -> list[float]:
        found = [math.inf] * len(self.line.waits)
        while self.following or (self.passed and self.ends):
            if not self.following:
                self._end()
                continue
            n = self.following[0]
            job = self.line.waits[n]
            if (full := self._full(job)) is not None:
                self._pass(heappop(self.following), job, *full)
            elif job.not_before_s > self.now_s:
                if self.ends and self.ends[0][0] <= job.not_before_s:
                    self._end()
                else:
                    self.now_s = job.not_before_s
            elif (host := self._host_for(n, job)) is not None:
                found[heappop(self.following)] = self.now_s
                if job.takes:
                    self._begin(n, job, host)
                for cap, _ in job.caps:
                    self._let_on(cap)
            elif self.ends:
                self._end()
            else:
                break
        return found

    def _full(self, job: Queued) -> tuple[Cap, int] | None:
        return next((one for one in job.caps if self.room[one[0]] < one[1]), None)

    def _pass(self, n: int, job: Queued, full: Cap, taken: int) -> None:
        heappush(self.passed.setdefault(full, {}).setdefault(taken, []), n)
        for cap, _ in job.caps:
            if cap != full:
                self._let_on(cap)

    def _let_on(self, cap: Cap) -> None:
        passed, room = self.passed.get(cap, {}), self.room[cap]
        firsts = [(those[0], taken) for taken, those in passed.items() if taken <= room]
        if firsts:
            _, taken = min(firsts)
            heappush(self.following, heappop(passed[taken]))
            if not passed[taken]:
                del passed[taken]
            if not passed:
                del self.passed[cap]

    def _host_for(self, n: int, job: Queued) -> int | None:
        if job.only is not None:
            named = self.number.get(job.only)
            return named if named is not None and self.free[named] >= job.slots else None
        before, freed = self.held_up
        if n == before:
            there: Iterable[int] = [one for one in freed if self.free[one] >= job.slots]
        else:
            levels = self.levels[bisect_left(self.levels, job.slots) :]
            there = chain.from_iterable(self.with_free[one] for one in levels)
        for host in there:
            if self.line.hosts[host] not in job.barred:
                return host
        self.held_up = n, set()
        return None

    def _begin(self, n: int, job: Queued, host: int) -> None:
        self._give(host, -job.slots)
        for cap, taken in job.caps:
            self.room[cap] -= taken
        at_s = self.now_s + self.drawn.left_s(job.lives, job.sample)
        number = len(self.line.runs) + n
        self.ends_s[number] = at_s
        heappush(self.ends, (at_s, number, host, job.slots, job.caps))

    def _end(self) -> None:
        self.now_s, _, host, slots, caps = heappop(self.ends)
        self._give(host, slots)
        self.held_up[1].add(host)
        for cap, taken in caps:
            self.room[cap] += taken
            self._let_on(cap)

    def _give(self, host: int, slots: int) -> None:
        before = self.free[host]
        if before > 0:
            self.with_free[before].discard(host)
            if not self.with_free[before]:
                del self.with_free[before]
                del self.levels[bisect_left(self.levels, before)]
        self._has_free(host, before + slots)

    def _has_free(self, host: int, count: int) -> None:
        self.free[host] = count
        if count > 0:
            if count not in self.with_free:
                self.with_free[count] = set()
                insort(self.levels, count)
            self.with_free[count].add(host)

"""When those in a line begin, by playing it through in virtual time. Pure.

What runs ends, and each in line takes slots of a host that it may go to as they come back, strictly
in the line's order: so no job is predicted to begin before those ahead of it. Only a job
that has reached a limit (of an array, a user, a name) is passed, until one that counts towards that
limit ends.

Nobody knows how long one job takes, so the line is played several times, each time with other run
times: the median of the begins is the forecast, and nine in ten of them are its interval. A run
time is drawn from what the job's like took, and with the weight of one more such run from what all
took that have ended (the next of n alike is longer than all of them once in n + 1 times); of one
that runs, from those longer than its age.

What was drawn in this play of others of its like counts as one more run that has ended (Pólya's
urn: Blackwell and MacQueen 1973). Two things follow. What a handful of runs leave unknown is in the
interval: in one play they are all short, in another long, however many wait. And those that run
count with their ages, as observations that are censored: of a new command the short runs end first,
and those that still run, which are drawn first, are longer than these. Of jobs of one command of
which no run has ended all take what was drawn for the first.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import chain
from math import exp
from random import Random
from typing import NamedTuple

from lbd.model import HostId
from lbd.theory.calibration import LEAST_SPREAD, NORMAL_90
from lbd.theory.queue_time import UniformLog

LOOKS = 100  # at hosts in a play take as long as a step
STRATIFIED = 100  # samples, of which each has its share of short and of long run times
LOW = 0.05
LEAST_FACTOR = exp(NORMAL_90 * LEAST_SPREAD)
DRAWS_MIN = 5
EXACT_DRAWS, EXACT_STEPS = 101, 200_000  # in a thread
Spread = tuple[float, float, float]  # 5 %, median, 95 %
Cap = Hashable


class Lives(NamedTuple):
    """How long a job takes."""

    like_s: tuple[float, ...]  # its like that ended, the shortest first
    general: UniformLog | None  # all that ended; None: too few
    most_s: float = math.inf  # then it is ended
    alike: Hashable = None  # those of one are of its like; None: it has none

    @property
    def is_known(self) -> bool:
        return bool(self.like_s) or self.general is not None

    def left_s(self, share: float, age_s: float = 0.0, drawn_s: Sequence[float] = ()) -> float:
        """What one of this age still has to run, for a share between 0 and 1 drawn at random.
        `drawn_s`: how long those of its like take in this play of which that was drawn before, all
        longer than its age."""
        like_s, general = self.like_s, self.general
        first = bisect_right(like_s, age_s)
        longer, drawn = len(like_s) - first, len(drawn_s)
        if general is None or (drawn and not like_s):
            other = 0.0
        else:
            other = general.longer_than(age_s) if like_s else 1.0
        at = share * (longer + drawn + other)
        if at < longer:
            left_s = like_s[first + int(at)] - age_s
        elif at < longer + drawn:
            left_s = drawn_s[int(at) - longer] - age_s
        elif general is not None and other > 0:
            left_s = general.left_s((at - longer - drawn) / other, age_s)
        else:  # longer than all: as long again with an even chance
            left_s = age_s * share / (1 - share)
        return max(0.0, min(left_s, self.most_s - age_s))


class Running(NamedTuple):
    """A job that holds slots."""

    host: int
    slots: int
    age_s: float
    lives: Lives
    sample: Hashable  # those of one are alike
    caps: tuple[tuple[Cap, int], ...] = ()  # of which it takes so much


class Queued(NamedTuple):
    """A job in line."""

    slots: int
    lives: Lives
    sample: Hashable
    caps: tuple[tuple[Cap, int], ...] = ()
    only: HostId | None = None
    barred: frozenset[HostId] = frozenset()
    not_before_s: float = 0.0
    takes: bool = True  # or is only asked about

    @property
    def steps(self) -> float:
        """Of one draw: the hosts where it may not go are looked at in vain."""
        return 1 + len(self.barred) / LOOKS


@dataclass(frozen=True, slots=True)
class Line:
    hosts: tuple[HostId, ...]
    free: tuple[int, ...]  # slots of each; below 0 where it has fewer than run there
    runs: tuple[Running, ...]  # of those alike the oldest first
    waits: tuple[Queued, ...]  # in the order in which they begin
    room: Mapping[Cap, int]  # how much of each is left

    @property
    def jobs(self) -> int:
        return len(self.runs) + len(self.waits)

    @property
    def steps(self) -> float:
        """Of one draw."""
        return len(self.runs) + sum(one.steps for one in self.waits)

    def begins_s(self, draws: int) -> list[list[float]]:
        """When each in line begins, from now, in each of so many plays."""
        shares = self._shares(draws)
        return [Play(self, shares, draw).begins_s() for draw in range(draws)]

    def spreads(self, draws: int) -> list[Spread]:
        """Of each in line."""
        plays = self.begins_s(draws)
        return [spread(sorted(begins)) for begins in zip(*plays, strict=True)]

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


def draws_for(steps: float, draws: int, steps_max: int) -> int:
    """`steps`: of one. Odd, so that there is a median."""
    return max(DRAWS_MIN, min(draws, int(steps_max / max(1.0, steps)))) | 1


def spread(rising: Sequence[float]) -> Spread:
    """One more falls below the k-th of n in k of n + 1 cases. No jobs are so alike, and no slot is
    taken again so soon, that less than `LEAST_FACTOR` either way could be told."""
    last = len(rising) - 1
    at, median_s = max(0, round(LOW * (last + 2)) - 1), rising[last // 2]
    return (
        min(rising[at], median_s / LEAST_FACTOR),
        median_s,
        max(rising[last - at], median_s * LEAST_FACTOR),
    )


class Drawn:
    """The run times of one play."""

    def __init__(self, shares: Mapping[Hashable, float]) -> None:
        self._shares = shares  # of each sample
        self._lives_s: dict[Hashable, list[float]] = {}  # of those alike, as they were drawn

    def left_s(self, lives: Lives, sample: Hashable, age_s: float = 0.0) -> float:
        """Of those alike the oldest is asked for first."""
        share = self._shares[sample]
        if lives.alike is None:
            return lives.left_s(share, age_s)
        drawn_s = self._lives_s.setdefault(lives.alike, [])
        left_s = lives.left_s(share, age_s, drawn_s)
        drawn_s.append(age_s + left_s)
        return left_s


class Play:
    """The line once, with one draw of the run times."""

    def __init__(self, line: Line, shares: Mapping[Hashable, Sequence[float]], draw: int) -> None:
        self.line, self.now_s = line, 0.0
        self.drawn = Drawn({sample: drawn[draw] for sample, drawn in shares.items()})
        self.free, self.room = list(line.free), dict(line.room)
        self.ends = [
            (self.drawn.left_s(one.lives, one.sample, one.age_s), n, one.host, one.slots, one.caps)
            for n, one in enumerate(line.runs)
        ]
        heapify(self.ends)
        self.number = {name: n for n, name in enumerate(line.hosts)}
        self.with_free: dict[int, set[int]] = {}  # hosts, by how many slots are free there,
        self.levels: list[int] = []  # which are these, rising: a host may say that it has 65536
        for n, count in enumerate(self.free):
            self._has_free(n, count)
        self.following = list(range(len(line.waits)))
        # By limit, and by how much of it each takes: in the line's order. The first of those for
        # whom there is enough again follows; the next when that one has begun.
        self.passed: dict[Cap, dict[int, list[int]]] = {}
        # For whom no host has had room, and where something has ended since: those are looked at.
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
        heappush(self.ends, (at_s, len(self.line.runs) + n, host, job.slots, job.caps))

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

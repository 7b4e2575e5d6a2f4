"""How many tasks of each array may run, and why, compared with a simple model.

It is one file because the model and what compares it are of no use without each other.
"""

import math
import re
from random import Random
from statistics import median

import pytest

from lbd.dispatch.core.discipline import QueuedJob, Target
from lbd.dispatch.core.targets.arrays import FRESH_S, SHARED_S, Targets
from lbd.dispatch.core.targets.plan import SURE, UNKNOWN_TASKS
from lbd.dispatch.core.targets.rounds import PLAYED_MAX
from lbd.dispatch.core.targets.target_array import DEADLINE_CHANCE, PLAN_SHARE
from lbd.dispatch.core.targets.task_times import EARLIER_COUNT, Earlier, TaskTimes
from lbd.model import JobId
from lbd.text.units import show_duration
from lbd.theory.batch_end import quantile_s
from lbd.theory.target_time import (
    STEERED,
    harmonic,
    mean_left_s,
    variance_left_s2,
    variance_steered_s2,
)


def between(mean_s, sd_s, tasks_sd_s=0.0):
    """The wider of a log-normal and, of what varies with the tasks, a gamma interval."""
    if mean_s <= 0:
        return 0.0, 0.0, 0.0
    sd_s = max(sd_s, 0.05 * mean_s, 1.0 / SURE)
    squared = math.log(1 + (sd_s / mean_s) ** 2)
    middle, off = math.log(mean_s) - squared / 2, SURE * math.sqrt(squared)
    third = min(1.0, tasks_sd_s / mean_s) / 3
    low, high = (mean_s * (1 - third**2 + z * third) ** 3 for z in (-SURE, SURE))
    low_s, high_s = math.exp(middle - off), max(mean_s, math.exp(middle + off))
    return mean_s, min(low, low_s), max(high, high_s)


class PlainArray:
    def __init__(self, job, earlier, most):
        self.job, self.until_s = job, job.target.unix_s
        self.waiting, self.running, self.over_s, self.ended = 0, {}, [], 0
        others = earlier.others_s
        count = min(len(others), EARLIER_COUNT)
        other_s = sum(others) / len(others) if others else 0.0
        if job.work_s is not None:
            other_s = job.work_s / job.slots
            others, count = (other_s,), 1
        self.prior_tasks = float(len(earlier.own_s) + count)
        total_s = sum(earlier.own_s) + count * other_s
        self.prior_s = total_s / self.prior_tasks if self.prior_tasks else 1.0
        self.prior_tasks = self.prior_tasks or UNKNOWN_TASKS
        self.times = TaskTimes()
        self.times.add(others + earlier.own_s)
        self.seen_s = 0.0  # when the state of a task last changed
        self.slots, self.most, self.target_s = 1, most, self.until_s
        self.steered = self.in_time = self.is_cut = self.is_hopeless = False
        self.given_s = None
        self.planned = 0, 0, -math.inf
        self.extra, self.only_ended, self.ended_s = 0, False, 0.0

    @property
    def left(self):
        return self.waiting + len(self.running)

    @property
    def tasks(self):
        return self.prior_tasks + self.ended

    @property
    def known(self):
        return self.tasks >= 1

    @property
    def total_s(self):
        running_s = sum(self.seen_s - begun_s for begun_s in self.running.values())
        return self.prior_tasks * self.prior_s + sum(self.over_s) + running_s

    @property
    def mean_s(self):
        ended_s = self.prior_tasks * self.prior_s + self.ended_s
        return (ended_s if self.only_ended else self.total_s) / self.tasks

    @property
    def at_once(self):
        return min(self.slots, self.most)

    def left_s(self, slots, tasks=None):
        return mean_left_s(
            self.left if tasks is None else tasks, slots, self.mean_s, self.times.drain
        )

    def aim(self, now_s, ended=None):
        self.target_s = self.until_s
        ages = [now_s - begun_s for id_, begun_s in self.running.items() if id_ != ended]
        self.only_ended = not self.times.is_told_by(ages)
        if self.known:
            self.target_s -= self.before_s(self.slots, self.left)
        self.extra = self.times.beyond_means(ages, self.mean_s)

    def before_s(self, slots, left):
        if not self.job.target.is_deadline:
            return 0.0
        drained = min(max(1, slots), max(1, left))
        late_s = quantile_s(DEADLINE_CHANCE, drained, drained, self.mean_s)
        late_s -= self.mean_s * harmonic(drained)
        steered = min(max(0, left - drained), STEERED)
        return math.hypot(late_s, SURE * self.mean_s * math.sqrt(steered) / drained)

    def look(self, now_s):
        if self.left:
            most = max(1, self.most)
            spread_s = math.sqrt(variance_steered_s2(self.left, most, self.mean_s))
            self.in_time = now_s + self.left_s(most) <= self.target_s + spread_s
            if self.given_s is None:
                self.given_s = max(0.0, self.until_s - now_s)
            least_s = self.waiting / most * self.total_s / (self.tasks + len(self.running))
            self.is_hopeless = now_s + least_s > self.until_s + self.given_s

    def plan(self, now_s):
        most = max(1, self.most)
        self.planned = self.left, self.most, now_s
        if not self.known:
            self.prior_s = max(1.0, self.until_s - now_s) / mean_left_s(self.left, most, 1.0)
            self.slots = min(self.left, most)
            return
        for _ in range(2):
            self.aim(now_s)
            self.slots = self.needed(most, now_s)
        if self.may_be_late(now_s, most):
            self.slots = min(self.left, most)
        self.look(now_s)

    def may_be_late(self, now_s, most):
        if not (self.job.target.is_deadline and self.known and self.waiting):
            return False
        return now_s + self.soonest(now_s, max(1, most, self.at_once))[2] > self.until_s

    def needed(self, most, now_s):
        """Returns the fewest tasks with which it ends in time, or else as many as are of use."""
        all_of_use = max(1, min(most, self.left))
        enough = (n for n in range(1, all_of_use) if self.left_s(n) <= self.target_s - now_s)
        return next(enough, all_of_use)

    def may_plan(self, now_s):
        if self.steered and self.running:
            return False
        left, most, at_s = self.planned
        if abs(self.left - left) > PLAN_SHARE * left or self.most != most:
            return True
        return not self.running and now_s - at_s > PLAN_SHARE * max(0.0, self.until_s - at_s)

    def over(self, id_, now_s, *, ended, waits):
        self.seen_s, begun_s = now_s, self.running.pop(id_)
        self.over_s.append(now_s - begun_s)
        self.ended += ended
        self.ended_s += (now_s - begun_s) * ended
        self.waiting += not ended
        tasks = self.left + self.extra
        had = max(1, self.slots)
        highest = max(1, min(had + 1, tasks, max(1, self.most_then)))
        steps = range(min(max(1, had - 1), highest), highest)
        in_time = (n for n in steps if self.left_s(n, tasks) <= self.target_s - now_s)
        self.slots = min(next(in_time, highest), self.left) if tasks else 0
        if ended and self.may_be_late(now_s, self.most_then):
            self.slots = min(had + 1, self.left, self.most_then)
        self.waiting -= not (ended or waits)

    def last_end(self, now_s):
        def left_s(share, age_s):
            longer = sorted(seen_s for seen_s in self.times.seen_s if seen_s > age_s)
            if not longer and age_s < (as_good_as := max(self.times.seen_s, default=0.0) * 1.1):
                longer = [as_good_as]
            return (
                longer[int(share * len(longer))] - age_s if longer else age_s * share / (1 - share)
            )

        ages = [now_s - begun_s for begun_s in self.running.values()]
        low_s, mean_s, high_s = (
            max(left_s(share ** (1 / len(ages)), age_s) for age_s in ages)
            for share in (0.05, 0.5, 0.95)
        )
        return mean_s, (high_s - low_s) / (2 * SURE)

    def in_rounds(self, now_s, slots, *, alike=None):
        """Nothing is known of when slots come free, so all are there now. Tasks that are alike take
        the next free one each."""
        alike = self.times.may_be_alike if alike is None else alike
        if not (alike and self.waiting):
            return self.left_s(slots, self.left + self.extra)
        free_s = sorted(self.run_s(now_s) + [0.0] * (slots - len(self.running)))[:slots]
        for _ in range(self.waiting):
            free_s = sorted([free_s[0] + self.mean_s, *free_s[1:]])
            last_s = max(free_s)
        return last_s + self.longer_s(slots)

    def run_s(self, now_s):
        seen_s = sorted(self.times.seen_s)
        run_s = []
        for begun_s in self.running.values():
            age_s = now_s - begun_s
            longer = [one_s for one_s in seen_s if one_s > age_s]
            run_s.append(median(longer) - age_s if longer else age_s - seen_s[-1])
        return run_s

    def longer_s(self, slots):
        last, unlike = min(slots, self.left), 1.0
        if (count := len(self.times.seen_s)) < 10:
            mean_s = sum(self.times.seen_s) / count
            varies = sum((one_s / mean_s - 1) ** 2 for one_s in self.times.seen_s)
            unlike = math.sqrt((varies + 0.5) / (count + 1))
        return max(0.0, self.times.drain(last) - last / (last + 1)) * self.mean_s * unlike

    def played(self, now_s):
        """As it will be decided at each end of a task."""
        if not (self.times.may_be_alike and self.waiting <= PLAYED_MAX) or self.may_be_late(
            now_s, max(1, self.most)
        ):
            return []
        off = min(0.5, SURE * max(0.05, math.sqrt(self.times.spread / self.tasks)))
        takes_s = [self.mean_s * factor for factor in (1.0, 1.0 - off, 1.0 + off)]
        longer_s = self.longer_s(max(1, self.at_once))
        return [self.played_with(now_s, one_s) + longer_s for one_s in takes_s]

    def played_with(self, now_s, takes_s):
        """On some slots tasks end, and the others are free."""
        most, slots = max(1, self.most), max(1, self.at_once)
        ends_s, waiting, at_s = self.run_s(now_s), self.waiting, 0.0
        while True:
            all_slots = max(most, slots, len(self.running))
            while waiting and len(ends_s) < min(slots, all_slots):
                ends_s.append(at_s + takes_s)
                waiting -= 1
            if not waiting:
                return max(ends_s)
            left = waiting + len(ends_s) - 1
            by_s = self.until_s - now_s - self.before_s(slots, left + 1)
            at_s = min(ends_s)
            ends_s.remove(at_s)
            highest = max(1, min(slots + 1, left, most))
            steps = range(min(max(1, slots - 1), highest), highest)
            enough = (n for n in steps if self.left_s(n, left) <= by_s - at_s)
            slots = next(enough, highest)

    def end(self, now_s):
        """Returns its mean and standard deviation."""
        if not (self.left and self.known):
            return None
        tells = self.times.may_be_alike or self.times.lives is not None
        if not self.waiting and self.times.seen_s and tells:
            return self.last_end(now_s)
        slots = max(1, self.at_once)
        on_s = end_s = varies_s = self.in_rounds(now_s, slots)
        variance = variance_left_s2(self.left, slots, self.mean_s)
        played = self.played(now_s) if self.waiting and self.in_time else []
        if self.waiting and self.in_time:
            all_s = self.in_rounds(now_s, max(slots, self.most))
            end_s = end_s if slots == 1 else max(self.target_s - now_s, all_s)
            end_s = played[0] if played else end_s
            if slots not in (1, self.most):  # it can have one more, and one less
                variance = min(variance, variance_steered_s2(self.left, slots, self.mean_s))
                varies_s = self.mean_s * (harmonic(min(slots, self.left)) + STEERED / slots)
        if not self.in_time:
            drain_s = self.mean_s * harmonic(min(slots, self.left))
            end_s = min(end_s, max(0.0, self.together_s - now_s) + drain_s)
        sd_s = math.sqrt((variance + varies_s**2 / self.tasks) * self.times.spread)
        sd_s = max(sd_s, *(abs(one_s - end_s) / SURE for one_s in (on_s, *played)))
        return end_s, sd_s, math.sqrt(variance * self.times.spread)

    def soonest(self, now_s, slots):
        end_s = self.in_rounds(now_s, slots, alike=self.times.are_alike)
        variance = variance_left_s2(self.left, slots, self.mean_s) + end_s**2 / self.tasks
        return between(end_s, math.sqrt(variance * self.times.spread))

    def within(self, now_s):
        """Returns its mean, and an interval of nine in ten."""
        mean_s, low_s, high_s = between(*self.end(now_s))
        if self.job.target.is_deadline and self.in_time and self.waiting:
            soonest = self.soonest(now_s, max(1, self.at_once, self.most))
            high_s = min(high_s, max(self.until_s - now_s, soonest[2]))
        return mean_s, low_s, high_s

    def why(self, now_s):
        end = self.end(now_s)
        if end is None:
            said = (
                "it is not yet known how long its tasks take: until one has ended, it takes "
                f"turns with others, at most {self.at_once} at once"
            )
        elif not self.waiting:
            return "its last tasks are running, and more slots would not help"
        else:
            said = self.no_more(now_s)
        if self.most < self.slots:
            return said + "; other arrays with targets need the rest"
        if self.known and self.waiting and self.is_hopeless:
            return said + "; that is too late to keep its place, so it takes turns with other jobs"
        if self.waiting and len(self.running) < self.at_once:
            return said + "; other jobs have the slots now"
        return said

    def no_more(self, now_s):
        late_s = now_s - self.until_s + self.end(now_s)[0]
        ends_by_s = now_s + self.within(now_s)[2]
        may_be_late = self.job.target.is_deadline and ends_by_s > self.until_s + 1.0
        if self.in_time and late_s < 1.0 and not may_be_late:
            said = f"as many as it needs to end {self.when}"
            if self.at_once > 1:
                return f"{said}; fewer once fewer will do"
            early = f"; it will end {show_duration(-late_s)} early on average"
            return f"{said}; more once more are needed{early if late_s <= -1.0 else ''}"
        if self.in_time and self.at_once < self.most:
            why = "one more whenever a task ends"
        else:
            other = "other arrays with targets leave it"
            why = f"as many as {other if self.is_cut else 'there are slots for'}"
        if abs(late_s) < 1.0:
            return f"{why}; it will end just in time on average"
        late = "late" if late_s > 0 else "early"
        fewer = "; fewer once fewer will do" if late_s < 0 and self.at_once > 1 else ""
        return f"{why}; it will end {show_duration(abs(late_s))} {late} on average{fewer}"

    @property
    def when(self):
        return "by its deadline" if self.job.target.is_deadline else "at its target time"

    def obstacle(self, now_s):
        running = len(self.running)
        if running < self.at_once:
            return ""
        if not self.at_once:
            return "other arrays with targets need all slots more urgently"
        said = "1 task of its array is" if running == 1 else f"{running} tasks of its array are"
        if not self.known:
            return f"{said} running, the limit until it is known how long they take"
        why = re.split("; (?:it will end |fewer|more)", self.no_more(now_s))[0]
        return f"{said} running, {why}"


class Plain:
    def __init__(self, slots):
        self.slots, self.arrays, self.divided_s = slots, {}, -math.inf

    def room(self, job):
        return self.slots // job.slots

    def refresh(self, array, now_s):
        count = len(self.arrays)
        if now_s - self.divided_s > (count * SHARED_S if count > 1 else FRESH_S):
            self.divide(now_s)
        if array.may_plan(now_s):
            array.plan(now_s)

    def divide(self, now_s):
        self.divided_s = now_s
        arrays = self.arrays.values()
        for array in arrays:
            array.most, array.together_s = self.room(array.job), math.inf
            array.is_cut = False
        if len(arrays) < 2:
            return
        slots = max(self.room(array.job) * array.job.slots for array in arrays)
        rest = slots
        for array in arrays:
            if not array.known:
                part = slots // len(arrays) // array.job.slots
                array.most = max(1, min(array.most, part))
                rest -= min(array.most, array.left) * array.job.slots
        known = [array for array in arrays if array.known]
        for array in known:
            array.aim(now_s)
        self.share(known, max(0, rest), now_s)
        if len(known) == len(arrays) and slots:
            work_s = sum(array.left * array.mean_s * array.job.slots for array in known)
            for array in known:
                array.together_s = now_s + work_s / slots

    def share(self, known, rest, now_s):
        """Gives one slot at a time to the array that would be latest."""
        width = {id(array): array.job.slots for array in known}
        room = {id(array): rest // array.job.slots for array in known}
        needs = {
            id(array): array.needed(room[id(array)], now_s) if room[id(array)] else 1
            for array in known
        }
        given = dict.fromkeys(width, 0)
        if sum(needs[one] * width[one] for one in needs) <= rest:
            given = room
        else:
            for array in sorted(known, key=lambda one: -self.late_s(one, 1, now_s)):
                if width[id(array)] <= rest:
                    given[id(array)], rest = 1, rest - width[id(array)]
            short = [array for array in known if given[id(array)]]
            while rest and short:
                latest = max(short, key=lambda one: self.late_s(one, given[id(one)], now_s))
                if given[id(latest)] < needs[id(latest)] and width[id(latest)] <= rest:
                    given[id(latest)] += 1
                    rest -= width[id(latest)]
                else:
                    short.remove(latest)
        for array in known:
            array.is_cut = given[id(array)] < array.most
            array.most = min(array.most, given[id(array)])

    @staticmethod
    def late_s(array, slots, now_s):
        return now_s + array.left_s(slots) - array.target_s


class Both:
    def __init__(self, rng):
        self.rng, self.now_s, self.made = rng, 0.0, 0
        self.plain = Plain(rng.randint(1, 12))
        self.targets = Targets(lambda job: self.plain.room(job))
        self.jobs = {}  # the waiting and running jobs of each array

    def array(self):
        rng = self.rng
        self.made += 1
        number, tasks = self.made, rng.choice([1, 3, 8, 30])
        target = Target(self.now_s + rng.choice([5.0, 60.0, 300.0]), rng.random() < 0.5)
        times_s = [
            tuple(rng.expovariate(0.1) for _ in range(rng.choice([0, 0, 4, 30]))) for _ in "ab"
        ]
        earlier = Earlier(*times_s)
        work_s = rng.choice([None, None, 12.0])
        self.targets.expect(number, earlier)
        slots = rng.choice([1, 1, 2])
        for n in range(tasks):
            id_ = JobId(f"{number}_{n}")
            job = QueuedJob(id_, slots, array=number, target=target, work_s=work_s)
            if n == 0:
                self.plain.arrays[number] = PlainArray(job, earlier, self.plain.room(job))
                self.plain.divided_s = -math.inf
                self.jobs[number] = {}
            self.plain.arrays[number].waiting += 1
            self.jobs[number][id_] = job
            self.targets.came(job)

    def begin(self, number, array):
        job = next(job for id_, job in self.jobs[number].items() if id_ not in array.running)
        array.seen_s, array.running[job.id] = self.now_s, self.now_s
        array.waiting -= 1
        self.targets.began(job, self.now_s)

    def end(self, number, array, *, whole):
        array.most_then = max(1, array.most)
        id_ = self.rng.choice(list(array.running))
        job = self.jobs[number].pop(id_)
        begun_s = array.running.pop(id_)
        if whole:
            array.times.add((self.now_s - begun_s,))
        self.aim_with(array, id_, begun_s)
        array.over(id_, self.now_s, ended=whole, waits=False)
        array.steered = True
        self.targets.left(id_, job, self.now_s, whole=whole)
        self.settle(number, array)

    def aim_with(self, array, id_, begun_s):
        """The code's own aim still counts the task, but not its age."""
        array.running[id_] = begun_s
        array.aim(self.now_s, ended=id_)

    def lose(self, number, array):
        array.most_then = max(1, array.most)
        id_ = self.rng.choice(list(array.running))
        self.aim_with(array, id_, array.running[id_])
        array.over(id_, self.now_s, ended=False, waits=True)
        self.targets.lost(self.jobs[number][id_], self.now_s)
        self.settle(number, array)

    def withdraw(self, number, array):
        id_ = next(id_ for id_ in self.jobs[number] if id_ not in array.running)
        job = self.jobs[number].pop(id_)
        array.waiting -= 1
        self.targets.left(id_, job, self.now_s, whole=False)
        if not array.left:
            del self.plain.arrays[number], self.jobs[number]

    def suspend(self, number, array):
        id_ = self.rng.choice(list(array.running))
        for_s = self.rng.random() * (self.now_s - array.running[id_])
        array.running[id_] += for_s
        array.seen_s = self.now_s
        self.targets.was_suspended(self.jobs[number][id_], for_s, self.now_s)

    def settle(self, number, array):
        array.look(self.now_s)
        if not array.left:
            del self.plain.arrays[number], self.jobs[number]

    def step(self):
        rng = self.rng
        self.now_s += rng.choice([0.0, 0.3, 2.0, 9.0])
        if not self.plain.arrays or (len(self.plain.arrays) < 3 and rng.random() < 0.1):
            self.array()
            return
        number, array = rng.choice(list(self.plain.arrays.items()))
        self.plain.refresh(array, self.now_s)
        assert self.targets.is_full(array.job, self.now_s) == bool(array.obstacle(self.now_s))
        may_begin = array.waiting and not array.obstacle(self.now_s)
        match rng.choice(["begin", "begin", "begin", "end", "end", "lose", "suspend", "rest"]):
            case "begin" if may_begin:
                self.begin(number, array)
            case "end" if array.running:
                self.end(number, array, whole=rng.random() < 0.9)
            case "lose" if array.running:
                self.lose(number, array)
            case "suspend" if array.running:
                self.suspend(number, array)
            case "rest" if array.waiting and rng.random() < 0.3:
                self.withdraw(number, array)
            case "rest" if rng.random() < 0.2:
                self.plain.slots = rng.randint(1, 12)

    def compare(self):
        assert bool(self.targets) == bool(self.plain.arrays)
        for number, array in self.plain.arrays.items():
            self.plain.refresh(array, self.now_s)
            found = self.targets.standing(array.job, self.now_s)
            expected = array.at_once, len(array.running), array.left
            assert (found.at_once, found.running, found.left) == expected
            end = array.end(self.now_s)
            if end is None:
                assert found.end is None
            else:
                within = found.end.mean_s, found.end.low_s, found.end.high_s
                assert within == pytest.approx(array.within(self.now_s), rel=1e-6)
            assert found.why == array.why(self.now_s)
            assert self.targets.obstacle(array.job, self.now_s) == array.obstacle(self.now_s)
            assert self.targets.keeps_place(number) == (array.known and not array.is_hopeless)


@pytest.mark.parametrize("seed", range(12))
def test_how_many_of_each_array_run_and_when_it_ends(seed):
    both = Both(Random(seed))
    for _ in range(150):
        both.step()
        both.compare()

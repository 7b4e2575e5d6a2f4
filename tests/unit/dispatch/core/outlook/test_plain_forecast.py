"""When each of those who wait will begin, reckoned for each alone, on queues drawn at random."""

from collections import Counter
from random import Random
from statistics import fmean

import pytest

from lbd.dispatch.core.discipline import ONLY_LINE, QueuedJob
from lbd.dispatch.core.malleable.prospects import CALIBRATED
from lbd.dispatch.core.outlook.needs_outlook import needs_outlook, parts_of
from lbd.model import NO_NEEDS, Facts, JobId, Needs
from lbd.theory.calibration import Correction
from lbd.theory.queue_time import Releases, fit_in_two, wait_s
from tests.unit.dispatch.core.outlook.test_forecast import known
from tests.unit.dispatch.core.test_queues import Table


class Drawn:
    """A busy queue of one line, and when whoever waits there begins, reckoned for each alone."""

    def __init__(self, rng):
        self.rng, self.table = rng, Table()
        self.lives_s = [rng.uniform(1, 99) for _ in range(rng.choice([3, 5, CALIBRATED]))]
        self.forecast = known(self.table, self.lives_s)
        self.times = self.table.queues.resource_times
        for _ in range(rng.choice([0, 5, CALIBRATED])):
            self.times.ended(Needs((("gpu", 1),)), rng.uniform(1, 99))
        for n in range(rng.randint(1, 3)):
            facts = Facts(("linux",), (("gpu", rng.randint(0, 3), 0),))
            slots = rng.randint(1, 4)
            self.table.host(f"h{n}", slots, open_slots=rng.randint(0, slots), facts=facts)
        for n in range(1, rng.randint(2, 12)):
            self.table.now_s += rng.random()
            self.table.arrive(f"{n}", slots=rng.choice([1, 1, 2]), needs=self.needs())
        self.now_s = self.table.now_s + 1.0
        self.servers = self.table.queues.servers[ONLY_LINE]
        line = self.table.queues.lines.get(ONLY_LINE)
        self.waiting = line.order() if line is not None else []

    def needs(self):
        return self.rng.choice([NO_NEEDS, NO_NEEDS, Needs((("gpu", 1),)), Needs((("gpu", 2),))])

    def known(self, part):
        if isinstance(part, str):
            return self.times.lifetimes(part)
        if len(self.lives_s) < 5:
            return None
        return fit_in_two(self.lives_s), fmean(self.lives_s)

    def wait_s(self, job, ahead):
        """None: nothing can be said."""
        total = sum(server.usable for server in self.servers)
        if not total:
            return None
        own = needs_outlook(job, self.servers, self.known, self.now_s) if job.needs else None
        there = own.is_there if own else any(s.free >= job.slots for s in self.servers)
        if there and not ahead:
            return 0.0
        if len(self.lives_s) < 5 or (own and own.wait_s is None):
            return None
        if not ahead:
            return own.wait_s if own else self.slots_s(job.slots)
        first = ahead[0]
        head_s = self.slots_s(first.slots)
        if first.needs:
            head = QueuedJob(JobId("head"), first.slots, needs=first.needs)
            found = needs_outlook(head, self.servers, self.known, self.now_s)
            if found.wait_s is None:
                return None
            head_s = max(head_s, found.wait_s)
        slots = sum(one.slots for one in ahead)
        until_s = head_s + slots * fmean(self.lives_s) / total
        if own is None:
            return until_s
        taken = Counter()
        for one in ahead:
            if one.needs:
                taken.update(parts_of(one.needs, one.slots))
        own_parts = {part: taken[part] for part in parts_of(job.needs, job.slots)}
        behind_s = own.behind_s(own_parts, self.known)
        return None if behind_s is None else max(until_s, own.wait_s + behind_s)

    def slots_s(self, slots):
        free = [(max(0, s.free), [(e.ran_s(self.now_s), e.slots) for e in s.running.values()])
                for s in self.servers]  # fmt: skip
        if any(count >= slots for count, _ in free):
            return 0.0
        lives, all_free = fit_in_two(self.lives_s), sum(count for count, _ in free)
        everybody = [one for _, held in free for one in held]
        held_slots = sum(n for _, n in everybody)
        if slots > all_free:
            return wait_s(min(slots - all_free, held_slots), everybody, lives)
        able = [
            wait_s(slots - count, held, lives) for count, held in free
            if count + sum(n for _, n in held) >= slots
        ]  # fmt: skip
        return min(able) if able else wait_s(min(slots, held_slots), everybody, lives)


@pytest.mark.parametrize("seed", range(60))
def test_of_each_job_the_wait_is_foretold_that_is_reckoned_for_it_alone(seed):
    drawn = Drawn(Random(seed))
    table, forecast, now_s = drawn.table, drawn.forecast, drawn.now_s
    for n, waiter in enumerate(drawn.waiting):
        registered = table.queues.registry[waiter.id]
        found = forecast.of(registered, now_s)
        assert found.wait_s == pytest.approx(drawn.wait_s(registered.kind, drawn.waiting[:n]))
        check_interval(drawn, registered, drawn.waiting[:n])
    for slots, needs in ((1, NO_NEEDS), (2, NO_NEEDS), (1, Needs((("gpu", 1),)))):
        job = QueuedJob(JobId("new"), slots, needs=needs)
        servers = [server for server in drawn.servers if server.suits(job)]
        expected = drawn.wait_s(job, drawn.waiting) if servers else None
        expected = None if expected is None else pytest.approx(expected)
        assert forecast.of_another(slots, now_s, needs).wait_s == expected
        if servers and not needs:
            arrival = forecast.of_arrival(slots, now_s)
            assert (arrival[0] if arrival else None) == expected
        if servers:
            now, _ = forecast.situation(job, Correction(), now_s)
            assert (now.base_s, now.ahead_jobs) == (expected, len(drawn.waiting))
            check_situation(drawn, job, now)


def check_interval(drawn, registered, ahead):
    """What the interval of one's wait is made from, which has others before it."""
    found = drawn.forecast.ahead_of(registered, drawn.now_s)
    if len(drawn.lives_s) < CALIBRATED or registered.kind.needs:
        assert found is None or registered.kind.needs
    elif ahead:
        free = sum(max(0, server.free) for server in drawn.servers)
        held = [(e.ran_s(drawn.now_s), e.slots) for s in drawn.servers for e in s.running.values()]
        missing = max(0, ahead[0].slots - free) + sum(one.slots for one in ahead)
        releases = Releases.of(held, fit_in_two(drawn.lives_s))
        assert found == (missing, releases, len(ahead))


def check_situation(drawn, job, now):
    """What is asked elsewhere of one that comes now."""
    suiting = [server for server in drawn.servers if server.suits(job)]
    best = max(suiting, key=lambda one: (one.has_for(job), one.free))
    assert now.free == (max(0, best.free) if best.has_for(job) else 0)
    there = any(s.has_for(job) and s.free >= job.slots for s in suiting)
    assert now.lacks_needs == (bool(job.needs) and not there)
    calibrated = len(drawn.lives_s) >= CALIBRATED
    total = sum(server.usable for server in drawn.servers)
    if len(drawn.lives_s) < 5 or not total:
        assert now.slot_s == 0.0
        return
    assert now.slot_s == pytest.approx(fmean(drawn.lives_s) / total)
    if job.needs:
        return
    assert now.has_intervals == calibrated
    everybody = [(e.ran_s(drawn.now_s), e.slots) for s in drawn.servers for e in s.running.values()]
    first = drawn.waiting[0].slots if drawn.waiting else job.slots
    free = sum(max(0, server.free) for server in drawn.servers)
    ahead = sum(one.slots for one in drawn.waiting)
    assert now.ahead_slots == max(0, first - free) + ahead
    assert now.all_held == Releases.of(everybody, fit_in_two(drawn.lives_s))

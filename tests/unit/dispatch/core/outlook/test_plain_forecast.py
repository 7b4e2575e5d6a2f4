"""The forecasts for waiting jobs on random queues, compared with separate computations."""

from collections import Counter
from random import Random
from statistics import fmean

import pytest

from lbd.dispatch.core.discipline import ONLY_LINE, QueuedJob
from lbd.dispatch.core.malleable.prospects import CALIBRATED
from lbd.dispatch.core.outlook.needs_outlook import needs_outlook, parts_of
from lbd.model import NO_NEEDS, Facts, JobId, Needs
from lbd.theory.calibration import Correction
from lbd.theory.lifetimes import fit_in_two
from tests.unit.dispatch.core.outlook.test_forecast import another, arrival, known
from tests.unit.dispatch.core.test_queues import Table


class Drawn:
    """A busy queue of one line."""

    def __init__(self, rng):
        self.rng, self.table = rng, Table()
        self.lives_s = [rng.uniform(1, 99) for _ in range(rng.choice([3, 5, CALIBRATED]))]
        self.forecast = known(self.table, self.lives_s)
        self.times = self.table.queues.resource_times
        for _ in range(rng.choice([0, 5, CALIBRATED])):
            self.lives_s.append(rng.uniform(1, 99))
            self.times.ended(Needs((("gpu", 1),)), self.lives_s[-1])
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

    def is_known(self, job, ahead):
        """Returns whether its wait can be forecast."""
        if not sum(server.usable for server in self.servers):
            return False
        own = needs_outlook(job, self.servers, self.known, self.now_s) if job.needs else None
        there = own.is_there if own else any(s.free >= job.slots for s in self.servers)
        if there and not ahead:
            return True
        if len(self.lives_s) < 5 or (own and own.wait_s is None):
            return False
        if ahead and ahead[0].needs:
            head = QueuedJob(JobId("head"), ahead[0].slots, needs=ahead[0].needs)
            if needs_outlook(head, self.servers, self.known, self.now_s).wait_s is None:
                return False
        most = max(one.slots for one in (*ahead, job))
        if not any(server.usable >= most for server in self.servers):
            return False
        taken = Counter()
        for one in ahead:
            if one.needs:
                taken.update(parts_of(one.needs, one.slots))
        own_parts = {part: taken[part] for part in parts_of(job.needs, job.slots)}
        return own is None or own.behind_s(own_parts, self.known) is not None

    def least_s(self, job, ahead):
        """It starts neither before it has what it needs nor before those ahead of it."""
        own_s = 0.0
        if job.needs:
            own_s = needs_outlook(job, self.servers, self.known, self.now_s).wait_s
        waits = [self.forecast.of(self.table.queues.registry[one.id], self.now_s) for one in ahead]
        return max([own_s, *(found.wait_s for found, one in zip(waits, ahead, strict=True)
                             if not one.needs)])  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_each_predictable_job_gets_a_wait_in_the_order_of_the_line(seed):
    drawn = Drawn(Random(seed))
    table, forecast, now_s = drawn.table, drawn.forecast, drawn.now_s
    for n, waiter in enumerate(drawn.waiting):
        registered, ahead = table.queues.registry[waiter.id], drawn.waiting[:n]
        found = forecast.of(registered, now_s)
        assert (found.wait_s is not None) == drawn.is_known(registered.kind, ahead)
        if found.wait_s is not None:
            assert found.wait_s >= drawn.least_s(registered.kind, ahead)
        if len(drawn.lives_s) < CALIBRATED and not registered.kind.needs:
            assert found.within_s is None
        elif found.wait_s and not registered.kind.needs:
            assert found.within_s[0] <= found.wait_s <= found.within_s[1]
    for slots, needs in ((1, NO_NEEDS), (2, NO_NEEDS), (1, Needs((("gpu", 1),)))):
        job = QueuedJob(JobId("new"), slots, needs=needs)
        servers = [server for server in drawn.servers if server.suits(job)]
        found = another(forecast, slots, now_s, needs)
        expected = bool(servers) and drawn.is_known(job, drawn.waiting)
        assert (found.wait_s is not None) == expected
        if servers and not needs:
            first = arrival(forecast, slots, now_s)
            assert (first[0] if first else None) == found.wait_s
        if servers:
            now, _ = forecast.situation(job, Correction(), now_s)
            assert (now.base_s, now.ahead_jobs) == (found.wait_s, len(drawn.waiting))
            check_situation(drawn, job, now)


def check_situation(drawn, job, now):
    """Checks what is asked elsewhere about a job that comes now."""
    suiting = [server for server in drawn.servers if server.suits(job)]
    best = max(suiting, key=lambda one: (one.has_for(job), one.free))
    assert now.free == (max(0, best.free) if best.has_for(job) else 0)
    there = any(s.has_for(job) and s.free >= job.slots for s in suiting)
    assert now.lacks_needs == (bool(job.needs) and not there)
    total = sum(server.usable for server in drawn.servers)
    if len(drawn.lives_s) < 5 or not total:
        assert now.slot_s == 0.0
        return
    assert now.slot_s == pytest.approx(fmean(drawn.lives_s) / total)
    if not job.needs:
        assert now.has_intervals == (len(drawn.lives_s) >= CALIBRATED)
        assert now.line is None or len(now.line.waits) == len(drawn.waiting) + 1

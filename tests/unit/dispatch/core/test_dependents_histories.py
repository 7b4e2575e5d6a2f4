"""Jobs that wait for others, in random histories, compared with a simple model."""

from random import Random

import pytest

from lbd.dispatch.core.dependencies.conditions import Condition, waited_for, why_never
from lbd.dispatch.core.dependencies.dependents import Dependents, Due, Waits
from lbd.dispatch.core.discipline import QueuedJob
from lbd.model import JobId
from tests.unit.dispatch.core.test_dependents import ANY, FAILED, OK, SPANS


class Ledger:
    """How jobs 1 to 6 ended: None while they have not, GONE where the record no longer exists."""

    GONE = "gone"

    def __init__(self, rng):
        self.rng, self.dependents = rng, Dependents()
        self.ended = {
            number: rng.choice((None, None, True, False, self.GONE)) for number in range(1, 7)
        }
        self.waiting, self.asked, self.made = {}, [], 0

    def of(self, span):
        return [self.ended[number] for number in range(span[0], span[1] + 1)]

    def meets(self, one):
        well = self.of((one.first, one.last))
        if one.how is OK and (False in well or self.GONE in well):
            return False
        if None in well:
            return None
        return one.how is not FAILED or False in well

    def verdict(self, conditions):
        """Returns None while the job waits, "" if it may start, or all reasons why it never can."""
        found = [self.meets(one) for one in conditions]
        if False not in found:
            return None if None in found else ""
        wells = {one: self.of((one.first, one.last)) for one in conditions}
        return [
            why_never(one, on_record=self.GONE not in wells[one] or False in wells[one])
            for one, met in zip(conditions, found, strict=True) if met is False
        ]  # fmt: skip

    def park(self):
        self.made += 1
        job = JobId(f"w{self.made}")
        drawn = [
            (self.rng.choice((OK, FAILED, ANY)), *self.rng.choice(SPANS))
            for _ in range(self.rng.randint(1, 4))
        ]
        self.waiting[job] = found = tuple(Condition(*one, str(one[1])) for one in drawn)
        self.dependents.park(job, Waits(found), "ann", "h1")

    def job(self, number):
        return QueuedJob(JobId(str(number)), array=3 if 3 <= number <= 5 else 0)

    def ends(self, number):
        if self.ended[number] is None:
            self.ended[number] = well = self.rng.random() < 0.7
            self.dependents.ended(self.job(number), well=well)
        elif self.ended[number] != self.GONE and self.rng.random() < 0.5:
            self.ended[number] = None
            self.dependents.came_again(self.job(number))

    def ask(self):
        self.asked += [(span, self.of(span)) for span in self.dependents.uncounted()]

    def answer(self):
        span, well = self.asked.pop(self.rng.randrange(len(self.asked)))
        if self.rng.random() < 0.2:
            self.dependents.not_counted([span])
        else:
            on_record = len(well) - well.count(self.GONE)
            self.dependents.counted(span, self.of(span).count(None), on_record, bad=False in well)

    def look(self):
        due = set(self.dependents.due)
        self.dependents.due = Due()
        asked = {span for span, _ in self.asked} | self.dependents._unasked.keys()
        for job, wanted in list(self.waiting.items()):
            is_counted = not any((one.first, one.last) in asked for one in wanted)
            expected = self.verdict(wanted)
            found = self.dependents.verdict(job, 0.0) if job in due else None
            if is_counted:
                assert expected == found or found in expected, "it learns of what decides"
                left = [one for one in wanted if not self.meets(one)]
                assert self.dependents.left(job) == waited_for(left)
            if found is not None:
                assert expected is not None
                assert bool(found) == bool(expected)
                self.dependents.drop(job)
                del self.waiting[job]


@pytest.mark.parametrize("seed", range(60))
def test_a_waiting_job_learns_of_what_decides_it_also_of_jobs_that_restart(seed):
    ledger = Ledger(Random(seed))
    for _ in range(150):
        match ledger.rng.randrange(6):
            case 0 | 1 if len(ledger.waiting) < 8:
                ledger.park()
            case 2 | 3:
                ledger.ends(ledger.rng.randint(1, 6))
            case 4 if ledger.asked:
                ledger.answer()
            case 5:
                ledger.ask()
        ledger.look()
    for job in ledger.waiting:
        ledger.dependents.drop(job)
    left = ledger.dependents
    assert (left._watched, left._unasked, left._arrays, left.waits) == ({}, {}, {}, {})

"""What is kept of the forecasts of a burst: that of one play of the line, continued."""

from dataclasses import replace
from heapq import heappop, heappush
from random import Random

import pytest

import lbd.dispatch.predictions
from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.ledger_rows import Submission, command_of
from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.core.outlook.plays import STEPS
from lbd.dispatch.core.outlook.queue_outlook import starts_s
from lbd.dispatch.core.run_times import line_of, name_hash
from lbd.dispatch.predictions import Predictions
from lbd.model import JobId
from lbd.theory.lifetimes import UniformLog
from tests.unit.dispatch.core.test_queues import Table

MINE, ALPHA = b"./mine.sh\x001\x00", b"./alpha.sh\x0010\x00"


def fields(command, user):
    return {"command": name_hash(command_of(command)), "command_line": line_of(command),
            "user": user}  # fmt: skip


class Burst:
    """Sixteen slots, all taken, and thirty jobs of about ten seconds that wait."""

    def __init__(self, monkeypatch, *, known=True):
        self.table, rng = Table(), Random(3)
        monkeypatch.setattr(lbd.dispatch.predictions, "clock_s", lambda: self.table.now_s)
        self.predictions = Predictions(self.table.queues, None, by_uid=False)
        for _ in range(60):
            self.ended(ALPHA, "bob", rng.uniform(5, 15))
        for _ in range(8 * known):
            self.ended(MINE, "ann", 1.0)
        self.table.host("h1", 16)
        for n in range(46):
            self.table.arrive(f"{n}", **fields(ALPHA, "bob"))

    def ended(self, command, user, took_s):
        job = QueuedJob(JobId("0"), **fields(command, user))
        self.table.queues.run_times.ended(job, took_s)
        self.table.queues.resource_times.slots.ended(took_s, user)

    def submits(self, count=40, within_s=0.4, **more):
        """Returns what is kept of each of a burst, and what is shown of the last at once."""
        sent, kept = replace(Submission("ann", 1000, "h1", "", MINE, b""), **more), []
        self.predictions.forecast.plays.allowance.took(STEPS, "ann", self.table.now_s)
        for n in range(count):
            kept.append(self.predictions.of_submission(sent))
            came = self.predictions.comes(sent)
            self.table.arrive(f"{100 + n}", **fields(MINE, "ann"))
            self.predictions.arrived(came)
            self.table.now_s += within_s / count
        last = self.table.queues.registry[JobId(f"{99 + count}")]
        shown = Forecast(self.table.queues).of(last, self.table.now_s)
        return kept, shown


def test_a_burst_of_short_jobs_behind_long_ones_is_forecast_by_how_long_these_take(monkeypatch):
    """Each was taken to run as long as the mean of all: 19 s too long for the last of forty."""
    kept, shown = Burst(monkeypatch).submits()
    assert kept[-1].raw_s == pytest.approx(shown.wait_s, abs=2.0)
    assert kept[-1].low_s < shown.wait_s < kept[-1].high_s


def test_those_on_their_way_to_the_disk_are_counted_with_their_own_times(monkeypatch):
    burst = Burst(monkeypatch)
    sent = Submission("ann", 1000, "h1", "", MINE, b"")
    before = burst.predictions.of_submission(sent)
    written = [burst.predictions.comes(sent) for _ in range(32)]
    after = burst.predictions.of_submission(sent)
    assert 3.0 < after.raw_s - before.raw_s < 7.0
    for one in written:
        burst.predictions.arrived(one)
    assert burst.predictions.of_submission(sent) == before  # they were refused


def test_behind_a_burst_of_a_new_command_it_is_a_guess_that_corrects_no_other(monkeypatch):
    """Only the first was known to have jobs of a new command before it: none."""
    kept, shown = Burst(monkeypatch, known=False).submits(120)
    assert kept[0].raw_s is not None
    assert shown.is_rough
    assert kept[-1].raw_s is None
    assert kept[-1].wait_s > kept[0].wait_s


@pytest.mark.parametrize(("run_s", "longest"), [(1.0, 90), (3.0, 60), (0.01, 400), (20.0, 60)])
def test_jobs_start_on_slots_that_are_released_one_by_one(run_s, longest):
    """As played: sixteen slots are released at even intervals over ten seconds."""
    free_s, starts = [10 * (n + 1) / 16 for n in range(16)], []
    for _ in range(longest):
        starts.append(heappop(free_s))
        heappush(free_s, starts[-1] + run_s)
    known = 30, UniformLog(5.0, 15.0), 10.0
    for count in (1, 5, longest // 2, longest - 1):
        expected_s = starts[count] - starts[0]
        found_s = starts_s(count, 16, run_s, known)
        assert found_s == pytest.approx(expected_s, abs=0.7 + max(0.0, run_s - 10.0))

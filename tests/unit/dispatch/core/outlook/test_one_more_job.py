"""What is said of a job that comes now: from what, and for fewer and for more slots."""

from random import Random

import pytest

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.malleable.prospects import answer
from lbd.dispatch.core.outlook.arrivals import Arrivals
from lbd.dispatch.core.outlook.lives import Lives
from lbd.model import HostId, JobId
from lbd.theory.calibration import Correction
from tests.unit.dispatch.core.outlook.test_forecast import another, known, predicted
from tests.unit.dispatch.core.test_queues import Table

SAME = "by ended runs of the same commands"


def test_what_a_forecast_is_made_from_counts_the_jobs_before_this_one():
    """Of 27 jobs it was said where 19 were ahead, and of the last one, for all before it."""
    table = Table()
    forecast = known(table)
    table.host("h1", 2)
    seen, other = {"command": 1, "command_line": 1}, {"command": 2, "command_line": 2}
    table.queues.run_times.ended(QueuedJob(JobId("0"), **seen), 500.0)
    for name in "abcd":
        table.arrive(name, **seen)
    for name in "efghi":
        table.arrive(name, **other)
    of_all, of_same = "by the run times of 5 ended jobs (10s on average)", SAME
    assert predicted(table, forecast, "e").how == f"2 jobs ahead, 2 slots; {of_same}"
    said = f"3 jobs ahead, 2 slots; {of_same}, for 1 job {of_all}"
    assert predicted(table, forecast, "f").how.startswith(said)
    assert f"; {of_all}, for 4 jobs {of_same}" in predicted(table, forecast, "i").how
    assert f"; {of_all}, for 4 jobs {of_same}" in another(forecast, 1, 0.0).how


def prospects_of(forecast, now_s, *slots):
    """Returns when a job of each of these numbers of slots would start, asked one by one."""
    found = []
    for count in slots:
        now, _ = forecast.situation(QueuedJob(JobId(""), count), Correction(), now_s)
        (row,) = answer(now, count, count, None).prospects
        found.append((*row.interval_90_s, row.begins_in_s))
    return found


def test_after_much_has_changed_fewer_slots_are_no_later_than_more():
    """The line of a past play was used again, for one slot only."""
    table = Table()
    forecast = known(table, [50.0 + n / 10 for n in range(20)])
    table.host("h1", 8)
    for n in range(80):
        table.arrive(f"{n + 1}")
    one_s = another(forecast, 1, 0.0).wait_s
    table.now_s = 1.2
    for n in range(20, 80):
        table.ended(f"{n + 1}")
    (low_1_s, high_1_s, first_s), (low_2_s, high_2_s, second_s) = prospects_of(forecast, 1.2, 1, 2)
    assert first_s < one_s / 2
    assert low_1_s <= low_2_s
    assert first_s <= second_s
    assert high_1_s <= high_2_s


@pytest.mark.parametrize("seed", range(12))
def test_more_slots_are_neither_sooner_nor_surer_at_any_moment(seed):
    rng, table = Random(seed), Table()
    forecast = known(table, [rng.lognormvariate(2.0, 1.5) for _ in range(40)])
    for n in range(3):
        table.host(f"h{n}", rng.randint(4, 6))
    for n in range(rng.randint(10, 40)):
        table.now_s += rng.expovariate(1.0)
        more = {"command": rng.randint(1, 3), "name": rng.choice("xy"), "user": "ann"}
        table.arrive(f"{n + 1}", slots=rng.randint(1, 3), **more)
        if rng.random() < 0.3:
            running = [one for one in table.queues.registry.entries.values() if one.host]
            table.ended(rng.choice(running).job.id)
    found = prospects_of(forecast, table.now_s, 1, 2, 3, 4)
    for figures in zip(*found, strict=True):
        assert list(figures) == sorted(figures)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"only": HostId("h2")}, "no job ahead, 2 slots; "),
        ({"barred": frozenset({HostId("h2")})}, "no job ahead, 3 slots; "),
    ],
)
def test_the_slots_that_are_said_are_those_it_may_have(where, said):
    table = Table()
    forecast = known(table)
    table.host("h1", 3)
    table.host("h2", 2)
    for n in range(5):
        table.arrive(f"{n + 1}")
    assert another(forecast, 1, 0.0).how.startswith("no job ahead, 5 slots; ")
    assert another(forecast, 1, 0.0, **where).how.startswith(said)


def test_jobs_on_their_way_to_the_disk_are_ahead_of_the_next():
    """Of 26 submitted within a second, each was said to start at once."""
    table = Table()
    forecast = known(table)
    table.host("h1", 3)
    table.arrive("a")
    job, arrivals, comers = QueuedJob(JobId(""), 1), Arrivals(forecast), forecast.plays.comers
    lives, waits_s, written = Lives((10.0,), None), [], []
    for _ in range(5):
        waits_s.append(arrivals.of(job, 0.0).wait_s)
        written.append(comers.comes(1, 1, lives, None))
    assert waits_s == pytest.approx([0.0, 0.0, 10 / 3, 20 / 3, 10.0])  # two slots are free
    for name in "bcd":
        table.arrive(name)
    for one in written:
        comers.arrived(one)
    first_s = arrivals.of(job, 0.0).wait_s
    comers.comes(6, 1, lives, None)
    later_s = arrivals.of(job, 0.0).wait_s
    assert later_s - first_s == pytest.approx(20.0)

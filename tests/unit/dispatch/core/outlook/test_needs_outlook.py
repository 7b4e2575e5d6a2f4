"""When a job starts that needs more of its host than slots, and the effect on jobs behind it."""

import pytest

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.malleable.prospects import answer
from lbd.dispatch.core.outlook.forecast import NO_INTERVAL
from lbd.dispatch.core.outlook.needs_outlook import (
    KINDS_MAX,
    OTHERS_HAVE_IT,
    Shortage,
    lack_of,
    longest,
    shortages_of,
    too_few,
)
from lbd.model import NO_NEEDS, Facts, JobId, Needs
from lbd.theory.calibration import Correction
from lbd.theory.lifetimes import UniformLog
from lbd.theory.queue_time import wait_s
from tests.unit.dispatch.core.outlook.test_forecast import another, arrival, known, predicted
from tests.unit.dispatch.core.test_needs import BOTH, GPU, facts
from tests.unit.dispatch.core.test_queues import Table

GIB = 1 << 30
BIG = Needs(features=("big",))
SCRATCH = Needs((("scratch", 60 * GIB),))
NEXT_WAITS = "; the next job waits for that"
TENS = (10.0,) * 20


def had(table, needs, lives_s=TENS):
    for life_s in lives_s:
        table.queues.resource_times.ended(needs, life_s)


def two_gpus_in_use(slots=8, **more):
    """Two jobs hold GPUs for 10 s each, since 4 s ago and since now. Other slots are free."""
    table = Table(**more)
    forecast = known(table, TENS)
    had(table, GPU)
    table.host("h1", slots, facts=facts())
    table.arrive("a", needs=GPU)
    table.now_s = 4.0
    table.arrive("b", needs=GPU)
    return table, forecast


def about(seconds):
    return pytest.approx(seconds, rel=0.05)


def test_it_waits_for_the_resource_although_slots_are_free():
    table, forecast = two_gpus_in_use()
    found = another(forecast, 1, 4.0, GPU)
    assert found.wait_s == about(6.0)
    assert found.how == (
        "no job ahead, 8 slots; by 20 ended jobs that had gpu (10s on average); "
        "it is waiting for what it needs"
    )
    assert another(forecast, 1, 4.0)[:2] == (0.0, "slots are free")
    assert arrival(forecast, 1, 4.0, GPU)[0] == about(6.0)
    table.arrive("c", needs=GPU)
    assert predicted(table, forecast, "c").wait_s == about(6.0)
    table.ended("a")
    forecast.forget()
    assert another(forecast, 1, 4.0, BOTH).wait_s > 9.0  # both of them: b has just started


def test_jobs_ahead_take_the_resource_at_its_own_rate():
    table, forecast = two_gpus_in_use()
    for name in "cdef":
        table.arrive(name, needs=GPU)
    forecast.forget()
    assert predicted(table, forecast, "f").wait_s == about(6.0 + 3 * 10 / 2)  # not 3 * 10 / 8
    assert arrival(forecast, 1, 4.0, GPU) == (about(6.0 + 4 * 10 / 2), None, False)


@pytest.mark.parametrize(("slots", "needs"), [(8, GPU), (2, Needs(memory_bytes=GIB))])
def test_behind_other_jobs_it_is_said_why_there_is_no_interval(slots, needs):
    """A job with --mem or --need had none, and nothing on the screen said why."""
    table, forecast = two_gpus_in_use(slots)
    had(table, needs)
    table.arrive("c", needs=needs)
    table.arrive("d", needs=needs)
    forecast.forget()
    assert NO_INTERVAL not in predicted(table, forecast, "c").how
    for found in (predicted(table, forecast, "d"), another(forecast, 1, 4.0, needs)):
        assert found.wait_s > 0
        assert found.how.endswith(NO_INTERVAL)
    assert forecast.interval_of(table.queues.registry[JobId("d")], 4.0) is None
    plain = another(forecast, slots, 4.0)
    assert plain.wait_s > 0
    assert NO_INTERVAL not in plain.how


def test_a_job_behind_a_head_that_waits_for_a_resource_waits_as_well():
    table, forecast = two_gpus_in_use()
    table.arrive("c", needs=GPU)
    table.arrive("plain")
    forecast.forget()
    assert predicted(table, forecast, "plain").wait_s == about(6.0)  # there are slots
    assert another(forecast, 1, 4.0).wait_s == about(6.0)
    assert arrival(forecast, 1, 4.0)[0] == about(6.0)


def test_the_return_of_resources_held_by_others_is_unknown():
    table = Table()
    forecast = known(table)
    table.host("h1", 4, facts=facts(used=2))  # by commands that the queue does not know
    assert another(forecast, 1, 0.0, GPU)[:2] == (None, OTHERS_HAVE_IT)
    assert arrival(forecast, 1, 0.0, GPU) is None
    table.arrive("c", needs=GPU)
    table.arrive("plain")
    forecast.forget()
    assert predicted(table, forecast, "c")[:2] == (None, OTHERS_HAVE_IT)
    assert predicted(table, forecast, "plain")[:2] == (None, OTHERS_HAVE_IT + NEXT_WAITS)
    assert arrival(forecast, 1, 0.0) is None


def test_how_long_a_resource_is_held_is_learnt_from_the_jobs_that_had_it():
    """A thousand short jobs without it say nothing about that."""
    table = Table()
    forecast = known(table, (0.1,) * 200)
    table.host("h1", 8, facts=facts(gpus=1))
    for name in "ab":
        table.arrive(name, needs=GPU)
    table.now_s = 3.0
    table.arrive("plain")
    forecast.forget()
    assert predicted(table, forecast, "b")[:2] == (None, too_few("gpu"))
    assert predicted(table, forecast, "plain")[:2] == (None, too_few("gpu") + NEXT_WAITS)
    assert arrival(forecast, 1, 3.0, GPU) is None
    now, how = forecast.situation(QueuedJob(JobId(""), 1, needs=GPU), Correction(), 3.0)
    assert answer(now, 1, 1, None).prospects[0].begins_in_s is None
    assert how == too_few("gpu")
    had(table, GPU, TENS[:5])
    forecast.forget()
    assert predicted(table, forecast, "b").wait_s == about(7.0)
    assert (
        forecast.interval_of(table.queues.registry[JobId("b")], 3.0) is None
    )  # 5 jobs give no interval
    had(table, GPU)
    assert forecast.interval_of(table.queues.registry[JobId("b")], 3.0) is not None
    table.ended("a")
    assert table.queues.resource_times.count("gpu") == 26


def test_only_hosts_that_have_the_feature_count():
    table = Table()
    forecast = known(table)
    table.host("h1", 4, facts=facts())
    assert another(forecast, 1, 0.0, BIG).how == "no host that accepts jobs now has what it needs"
    table.host("h2", 1, facts=facts(features=("big", "linux")))
    assert another(forecast, 1, 0.0, BIG)[:2] == (0.0, "slots are free")
    table.arrive("a", needs=BIG)
    table.now_s = 4.0
    forecast.forget()
    assert another(forecast, 1, 4.0, BIG).wait_s == about(6.0)


@pytest.mark.parametrize(
    ("needs", "there"),
    [
        (Needs(memory_bytes=6 * GIB), facts(memory=8 * GIB)),
        (SCRATCH, Facts(("linux",), (("scratch", 100 * GIB, 0),))),
    ],
)
def test_memory_and_sizes_come_back_like_slots(needs, there):
    table = Table()
    forecast = known(table)
    had(table, needs)
    table.host("h1", 4, facts=there)
    table.arrive("a", needs=needs)
    table.now_s = 4.0
    forecast.forget()
    assert another(forecast, 1, 4.0, needs).wait_s == about(6.0)


def test_of_several_hosts_the_first_that_has_everything_counts():
    table, forecast = two_gpus_in_use()
    table.now_s = 7.0
    table.host("h2", 1, facts=facts(gpus=1))
    table.arrive("elsewhere", needs=GPU)
    table.now_s = 8.0
    forecast.forget()
    assert another(forecast, 1, 8.0, GPU).wait_s == about(2.0)  # on h1; on h2 in 9 s
    alone = Table()
    forecast = known(alone)
    alone.host("h1", 1, facts=facts())
    alone.arrive("plain")  # has the slot; both gpus are free
    alone.now_s = 3.0
    forecast.forget()
    assert another(forecast, 1, 3.0, GPU).wait_s == about(7.0)


def test_the_table_of_predict_shows_the_resource_with_an_interval():
    table, forecast = two_gpus_in_use()
    job = QueuedJob(JobId(""), 1, needs=GPU)
    now, how = forecast.situation(job, Correction(), 4.0)
    first = answer(now, 1, 1, None).prospects[0]
    assert first.begins_in_s == about(6.0)
    low_s, high_s = first.interval_90_s
    assert 0 < low_s <= first.begins_in_s * 1.01
    assert high_s < 11.0
    assert "is waiting for what it needs" in how
    plain, _ = forecast.situation(QueuedJob(JobId(""), 1), Correction(), 4.0)
    assert answer(plain, 1, 1, None).prospects[0].begins_in_s == 0.0
    table.arrive("c", needs=GPU)
    forecast.forget()
    interval = forecast.interval_of(table.queues.registry[JobId("c")], 4.0)
    low_s, median_s, high_s = interval()
    assert 0 < low_s <= median_s <= high_s < 11.0


def test_a_host_that_lacks_it_now_offers_none_of_its_slots():
    table, forecast = two_gpus_in_use()
    table.host("h2", 2, facts=facts(gpus=1))
    job = QueuedJob(JobId(""), 1, slots_most=8, needs=GPU)
    now, _ = forecast.situation(job, Correction(), 4.0)
    assert now.free == 2
    assert [row.begins_in_s for row in answer(now, 1, 2, None).prospects] == [0.0, 0.0]


def test_many_kinds_of_needs_cost_no_more_than_a_few():
    _, forecast = two_gpus_in_use()
    kinds = [Needs((("gpu", 1),), not_features=(f"no{n}",)) for n in range(KINDS_MAX + 5)]
    found = [arrival(forecast, 1, 4.0, needs) for needs in kinds]
    assert found[KINDS_MAX - 1] is not None
    assert found[KINDS_MAX:] == [None] * 5
    assert arrival(forecast, 1, 4.0, NO_NEEDS) is not None
    assert arrival(forecast, 1, 10.0, kinds[-1]) is not None  # a moment later there is room


def test_which_resource_is_short_on_a_host_and_how_long_it_is_held():
    table = Table()
    table.host("h1", 4, facts=Facts(("linux",), (("gpu", 4, 1),), memory_total=1000))
    table.arrive("a", slots=2, needs=Needs((("gpu", 2),), memory_bytes=600))
    table.now_s = 0.25
    table.arrive("b", needs=Needs((("gpu", 1),)))
    table.now_s = 0.5
    (server,) = table.queues.servers[1]

    def short(slots, gpus, memory=0):
        job = QueuedJob(JobId("c"), slots, needs=Needs((("gpu", gpus),), memory_bytes=memory))
        return [tuple(one)[1:] for one in shortages_of(server, job, table.now_s)]

    held_slots, held_gpus = [(0.5, 2), (0.25, 1)], [(0.5, 2), (0.25, 1)]
    assert short(1, 0) == []
    assert short(3, 1) == [(2, held_slots), (1, held_gpus)]
    assert short(1, 2, 400) == [(2, held_gpus)]
    assert short(1, 1, 401) == [(1, held_gpus), (1, [(0.5, 38)])]  # of 64 parts, 16 bytes each


@pytest.mark.parametrize(
    ("slots", "gpus", "lack"),
    [(1, 1, 0.0), (4, 1, 0.25), (6, 1, 0.5), (1, 4, 0.5), (4, 4, 0.5), (8, 4, 0.625), (1, 2, 0.0)],
)
def test_a_host_lacks_the_share_of_its_scarcest_resource(slots, gpus, lack):
    """One of its four slots is taken, and one of its four GPUs besides one that others have."""
    table = Table()
    table.host("h1", 4, facts=Facts(("linux",), (("gpu", 4, 1),)))
    table.arrive("a", needs=Needs((("gpu", 1),)))
    (server,) = table.queues.servers[1]
    job = QueuedJob(JobId("b"), slots, needs=Needs((("gpu", gpus),)))
    assert lack_of(server, job) == lack


@pytest.mark.parametrize("order", [1, -1])
def test_a_scarce_resource_is_complete_when_its_last_part_is_back(order):
    lives = {"gpu": (UniformLog(1.0, 10.0), 5.0), "disk": (UniformLog(1.0, 1000.0), 200.0)}
    parts = [Shortage("gpu", 1, [(0.5, 1)]), Shortage("disk", 1, [(0.5, 1)])][::order]
    waited_s, part = longest(parts, lives.get)
    assert part.part == "disk"
    assert waited_s == wait_s(1, [(0.5, 1)], lives["disk"][0])
    assert longest([*parts, Shortage("tape", 9, [])], lives.get)[1].part == "disk"

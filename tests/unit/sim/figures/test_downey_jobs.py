"""Downey's figures 3, 4 and 6 from our own jobs: the claims about them can fail."""

from lbd.sim.figures.catalogue import FIGURES
from lbd.sim.figures.downey_jobs import (
    SLOTS,
    allocated_time,
    claims_6,
    cluster_sizes,
    schedules,
    sizes_of,
    times_of,
    two_jobs,
)
from lbd.sim.figures.figure import Scale, plain_map
from lbd.sim.queueing.malleable import Served
from lbd.theory.allocation import Malleable
from lbd.theory.speedup import Speedup

SMALL = Scale(replications=1)


def served(work_s, parallelism, slots):
    return Served(Malleable(1, SLOTS, Speedup(parallelism, 1.0), work_s), 0.0, 0.0, slots)


def held(drawing):
    return [claim.holds for claim in drawing.claims]


def test_they_are_in_the_order_of_the_paper():
    own = [name for name in FIGURES if name.startswith("downey-")]
    assert own[:5] == [f"downey-{n}" for n in range(2, 7)]


def test_allocated_time_is_close_to_uniform_in_its_logarithm():
    assert held(allocated_time(SMALL, plain_map)) == [True] * 3
    alike = times_of([served(500.0, 1.0, 1) for _ in range(50)] + [served(5e5, 1.0, 1)])
    assert held(alike) == [False] * 3


def test_sizes_follow_the_line_of_the_paper():
    drawing = cluster_sizes(SMALL, plain_map)
    assert held(drawing) == [True] * 3
    assert [line.y for line in drawing.lines if line.name in ("1995", "1996")] == [(0.4,), (0.21,)]
    assert held(sizes_of([served(100.0, 1.5, 8)] * 9)) == [False] * 3


def test_waiting_jobs_fill_the_schedule():
    drawing = schedules(SMALL, plain_map)
    assert held(drawing) == [True, True]
    avg, pred = drawing.lines
    assert max(avg.y) == max(pred.y) == SLOTS
    assert avg.y[0] == avg.y[-1] == pred.y[-1] == 0
    assert pred.x[-1] < avg.x[-1]
    swapped = claims_6(two_jobs("PRED"), two_jobs("AVG"))
    assert [claim.holds for claim in swapped] == [False, False]

"""Jobs that leave their line and come back, again and again."""

from random import Random

import pytest

from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.waiting_line import PASSED_MIN
from lbd.model import HostId, JobId

JOBS = 50


@pytest.mark.parametrize("array", [0, 2])
def test_they_leave_few_places_behind(array):
    """Each hold and release of a job at whose front another waited left a place for good."""
    life, rng = Lifecycle(make("fcfs", ()), Terms()), Random(1)
    life.host_is(HostSlots(HostId("h1"), 1), 0.0, rng)
    life.submitted([QueuedJob(JobId(str(n))) for n in (0, 1)], 0.0, rng)
    again = [JobId(str(n)) for n in range(2, 2 + JOBS)]
    life.submitted([QueuedJob(name, array=array) for name in again], 0.0, rng)
    for _ in range(20):
        for name in again:
            life.hold(name, "held by ann", 0.0, rng)
        for name in again:
            life.release(name, 0.0, rng)
    line = next(one for one in life.queues.lines.values() if one.jobs)
    heaps = [*line._flows.values(), *(group.heap for group in line._groups.values())]
    assert max(map(len, heaps)) <= 2 * (JOBS + 2) + PASSED_MIN
    assert [one.id for one in line.first(99)] == ["1", *again]

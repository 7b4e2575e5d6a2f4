"""Who watches which job is found without a look at others' watchers."""

import pytest

from lbd.dispatch.watching import FEW_JOBS, Watcher, Watchers
from lbd.model import JobId


@pytest.mark.parametrize("count", [1, FEW_JOBS, FEW_JOBS + 1])
async def test_who_watches_few_jobs_is_not_looked_at_for_others(count):
    """Thousands of watchers of one job made each change of any job near it take as long."""
    looked_at, watchers = [], Watchers()

    class Looked(Watcher):
        def change(self, job, *, has_ended):
            looked_at.append(job)

    watcher = Looked(range(count), ends_only=False)
    watchers.add(watcher)
    for job in (0, count - 1, count):
        watchers.notify(JobId(str(job)), has_ended=False)
    assert looked_at == [0, count - 1] + [count] * (count > FEW_JOBS)
    watchers.remove(watcher)
    assert not len(watchers)

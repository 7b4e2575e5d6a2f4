"""A job that is requeued after its end: each later attempt is given the time of the requeue."""

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.records import Cause, Ending, Live
from lbd.model import JobId
from tests.unit.dispatch.core.test_lifecycle import Table


def test_each_attempt_is_given_the_time():
    table = Table()
    live = Live(QueuedJob(JobId("1")), 3, requeued=50.0)
    recorded, begin = table.life.revived(live, *table.when)
    assert (recorded.requeued, begin.requeued, begin.attempt) == (50.0, 50.0, 4)
    lost, begin, _ = table.ended(begin, Ending(Cause.LOST))
    assert (lost.requeued, begin.requeued, begin.attempt) == (50.0, 50.0, 5)


def test_a_new_dispatcher_gives_it_too():
    """For a job that was cancelled before it ran, nothing else shows that it is not new."""
    table = Table()
    live = Live(QueuedJob(JobId("1")), requeued=50.0)
    assert not live.is_new
    (begin,) = table.life.restored(live, None, *table.when)
    assert begin.requeued == 50.0

"""Tasks start again that other jobs wait for."""

from lbd.dispatch.core.dependencies.conditions import Condition, How
from lbd.dispatch.core.dependencies.dependents import Dependents, Waits
from lbd.dispatch.core.discipline import QueuedJob
from lbd.model import JobId


def test_tasks_that_come_again_one_after_the_other_cost_no_step_for_each_that_waits():
    """A user requeued the tasks of an array that a hundred thousand jobs waited for: the dispatcher
    answered nobody for nine seconds."""
    dependents, names = Dependents(), [JobId(str(number)) for number in range(100, 110)]
    for name in names:
        dependents.park(name, Waits((Condition(How.OK, 1, 9, "1"),)))
    dependents.due.clear()
    ((first, last),) = dependents.uncounted()
    dependents.counted((first, last), 1, 9, bad=False)
    assert not dependents.due, "nothing is decided"
    for number in range(1, 10):
        dependents.came_again(QueuedJob(JobId(str(number)), array=1))
        doubted = [dependents.waits[name].is_doubtful for name in names]
        assert set(doubted) == {number == 1}
        for name in names:
            assert dependents.verdict(name, 0.0) is None
    assert dependents.uncounted() == [(1, 9)]
    dependents.counted((1, 9), 0, 9, bad=False)
    assert [dependents.verdict(name, 0.0) for name in dependents.due] == [""] * len(names)

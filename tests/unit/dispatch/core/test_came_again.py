"""Jobs end or start again that very many others wait for."""

from random import Random

from lbd.dispatch.core.dependencies.conditions import Condition, How
from lbd.dispatch.core.dependencies.dependents import Dependents, Due, Waits
from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.lifecycle import FEW_LOOKS, Lifecycle
from lbd.dispatch.core.records import Met
from lbd.model import HostId, JobId


def test_tasks_that_come_again_one_after_the_other_cost_no_step_for_each_that_waits():
    """A user requeued the tasks of an array that a hundred thousand jobs waited for: the dispatcher
    answered nobody for nine seconds."""
    dependents, names = Dependents(), [JobId(str(number)) for number in range(100, 110)]
    for name in names:
        dependents.park(name, Waits((Condition(How.OK, 1, 9, "1"),)))
    dependents.due = Due()
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


def waited_for_by(many):
    """Jobs 1 to 4, a gang that is too large for the host, and many that wait for job 5."""
    life, rng = Lifecycle(make("fcfs", ()), Terms()), Random(1)
    life.host_is(HostSlots(HostId("h1"), 1), 0.0, rng)
    life.submitted([QueuedJob(JobId(str(n)), array=1, gang=4) for n in range(1, 5)], 0.0, rng)
    life.submitted([QueuedJob(JobId("5"))], 0.0, rng)
    waits = [(QueuedJob(JobId(str(n))), Waits((Condition(How.ANY, 5, 5, "5"),))) for n in many]
    life.submitted_early(waits, 0.0, rng)
    for span in life.dependents.uncounted():
        life.counted(span, 1, 0.0, rng, bad=False)
    while life.dependents.due:
        life.look_on(0.0, rng)
    life.dependents.ended(QueuedJob(JobId("5")), well=True)
    return life, rng


def test_an_act_that_ends_many_jobs_looks_at_few_that_wait_for_others():
    """A user killed a gang of 4,096 while 40,000 jobs were due: the dispatcher answered nobody for
    half a minute, and the leases of everybody's jobs ran out."""
    life, rng = waited_for_by(range(100, 400))
    joined = sum(isinstance(one, Met) for one in life.kill(JobId("1"), 0, 7.0, rng))
    assert joined == FEW_LOOKS
    assert sum(isinstance(one, Met) for one in life.look_on(7.0, rng)) == 300 - FEW_LOOKS


def test_a_gang_that_leaves_has_the_lines_looked_through_once(monkeypatch):
    life, rng = waited_for_by(())
    looked, fill = [], life.queues._fill
    monkeypatch.setattr(life.queues, "_fill", lambda *given: looked.append(1) or fill(*given))
    life.hold(JobId("1"), "held by ann", 7.0, rng)
    assert len(looked) == 1


def test_what_becomes_ready_in_one_turn_has_the_lines_looked_through_once(monkeypatch):
    """A look took 2 ms where a gang waited: the dispatcher answered nobody for minutes."""
    life, rng = waited_for_by(range(100, 400))
    looked, fill = [], life.queues._fill
    monkeypatch.setattr(life.queues, "_fill", lambda *given: looked.append(1) or fill(*given))
    assert sum(isinstance(one, Met) for one in life.look_on(7.0, rng)) == 300
    assert len(looked) == 1


def test_tasks_that_are_submitted_together_have_the_lines_looked_through_once(monkeypatch):
    life, rng = waited_for_by(())
    looked, fill = [], life.queues._fill
    monkeypatch.setattr(life.queues, "_fill", lambda *given: looked.append(1) or fill(*given))
    life.submitted([QueuedJob(JobId(str(n)), array=100) for n in range(100, 400)], 7.0, rng)
    assert len(life.jobs) == 4 + 1 + 300
    assert len(looked) == 1

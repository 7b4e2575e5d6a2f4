"""Jobs of several users whose time has come, or whose conditions are met, at one moment."""

from random import Random

from lbd.dispatch.core.dependencies.conditions import Condition, How
from lbd.dispatch.core.dependencies.dependents import Due, Waits
from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.lifecycle import LOOKS_MAX, Lifecycle
from lbd.dispatch.core.records import Met
from lbd.model import JobId

BEGIN_S = 100.0


def test_users_are_served_in_turn_and_each_job_once():
    due = Due()
    for job, user in (("1", "ann"), ("2", "ann"), ("1", "ann"), ("3", "bob"), ("4", "ann")):
        due.add(JobId(job), user)
    taken = []
    while due:
        taken.append(due.take())
    assert taken == ["1", "3", "2", "4"]


def test_a_job_does_not_wait_for_anothers_hundred_thousand_of_one_moment():
    """It began 25 s later for 300,000 of somebody's with the same --begin."""
    life, rng = Lifecycle(make("fcfs", ()), Terms()), Random(1)
    many = range(1, 10 * LOOKS_MAX)
    anns = [(QueuedJob(JobId(str(n)), user="ann"), Waits(begin=BEGIN_S)) for n in many]
    life.submitted_early(anns, 0.0, rng)
    first, second = JobId("999998"), JobId("999999")
    life.submitted([QueuedJob(first, user="bob")], 0.0, rng)
    bobs = Waits((Condition(How.OK, int(first), int(first), first),))
    life.submitted_early([(QueuedJob(second, user="bob"), bobs)], 0.0, rng)
    for span in life.dependents.uncounted():
        life.counted(span, 1, 0.0, rng, bad=False)
    while life.dependents.due:
        assert not life.look_on(0.0, rng)
    met = life.tick(BEGIN_S, rng)
    life.dependents.ended(QueuedJob(first, user="bob"), well=True)
    met += life.look_on(BEGIN_S, rng)
    assert Met(second) in met
    assert sum(isinstance(one, Met) for one in met) <= 2 * LOOKS_MAX < len(many)

"""A line of waiting jobs compared with a simple list, through random histories."""

from dataclasses import dataclass
from random import Random

import pytest

from lbd.dispatch.core import waiting_line
from lbd.dispatch.core.discipline import ONLY_LINE, HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.shares import Rules
from lbd.dispatch.core.waiting_line import SPARE_TURNS
from lbd.model import HostId, JobId

H1 = HostId("h1")
RULES = {
    "plain": Rules(),
    "priorities": Rules(priorities=True),
    "limits": Rules(user_slots=4, name_jobs=(("x", 1), ("y*", 2))),
    "in order": Rules(interleave_arrays=False, priorities=True, user_slots=5),
}


@dataclass(eq=False)
class Job:
    job: QueuedJob
    number: int  # its place, if it came alone
    begun: bool = False


class Line:
    """One host and a list of all jobs that wait for it. Each array has a single turn, which moves
    to the end of the line when one of its tasks starts."""

    def __init__(self, rules):
        self.rules = rules
        self.numbers = 0
        self.waiting = []
        self.running = {}  # by id
        self.turns = {}  # the place of each array
        self.slots = 0

    def number(self):
        self.numbers += 1
        return self.numbers

    def came(self, job):
        one = Job(job, self.number())
        self.waiting.append(one)
        if not any(other is not one for other in self.mates(one)):
            self.turns[job.array] = one.number

    def mates(self, one):
        """Returns the waiting tasks of its array that have not started."""
        return [other for other in self.waiting if self.is_with(other, one)]

    def is_with(self, other, one):
        together = self.rules.interleave_arrays and one.job.array and not one.begun
        return together and other.job.array == one.job.array and not other.begun

    def place(self, one):
        return self.turns[one.job.array] if self.mates(one) else one.number

    def rank(self, one):
        priority = one.job.priority if self.rules.priorities else 0
        return -priority, self.place(one), one.number

    def bars(self, job):
        slots = sum(one.job.slots for one in self.running.values() if one.job.user == job.user)
        if self.rules.user_slots and slots + job.slots > self.rules.user_slots:
            return True
        named = sum(one.job.name == job.name for one in self.running.values())
        for pattern, most in self.rules.name_jobs:
            if job.name.startswith(pattern.removesuffix("*")) and named >= most:
                return True
        tasks = sum(one.job.array == job.array for one in self.running.values())
        return bool(job.at_once) and tasks >= job.at_once

    def flow(self, one):
        """Returns a key that is equal for jobs that differ only in their order."""
        rules, job = self.rules, one.job
        return (
            job.priority if rules.priorities else 0,
            job.user if rules.user_slots else "",
            job.name if rules.name_jobs and job.name in ("x", "y1", "y2") else "",
            job.array if job.at_once else 0,
        )

    def head(self):
        fronts = {}
        for one in sorted(self.waiting, key=self.rank, reverse=True):
            fronts[self.flow(one)] = one
        able = [one for one in fronts.values() if not self.bars(one.job)]
        return min(able, key=self.rank, default=None)

    def order(self):
        def rank(one):
            lap = sum(other.number < one.number for other in self.mates(one))
            priority, place, number = self.rank(one)
            return priority, lap, place, number

        return [one.job.id for one in sorted(self.waiting, key=rank)]

    def fill(self):
        started = []
        while (head := self.head()) and head.job.slots <= self.free:
            alone = not self.mates(head)
            turn = self.place(head)
            self.waiting.remove(head)
            if not alone and self.mates(head):
                self.turns[head.job.array] = self.number()
            head.number, head.begun = turn, True
            self.running[head.job.id] = head
            started.append(head.job.id)
        return started

    @property
    def free(self):
        return self.slots - sum(one.job.slots for one in self.running.values())

    def ended(self, id_):
        if self.running.pop(id_, None) is None:
            self.waiting = [one for one in self.waiting if one.job.id != id_]

    def lost(self, id_):
        self.waiting.append(self.running.pop(id_))


class Both:
    def __init__(self, rules, seed):
        self.rng = Random(seed)
        self.line = Line(rules)
        self.queues = Queues(make("fcfs", ()), rules)
        self.made = 0
        self.host(2)

    def submit(self, count, **more):
        for _ in range(count):
            self.made += 1
            name = f"{self.made}" if self.rng.random() < 0.6 else f"j{self.made}"
            job = QueuedJob(JobId(name), estimate_s=7.0, **more)
            self.line.came(job)
            self.compare(self.queues.arrived(job, 0.0, self.rng))

    def host(self, slots):
        self.line.slots = slots
        self.compare(self.queues.host_is(HostSlots(H1, 9, slots), 0.0, self.rng))

    def end(self, id_):
        self.line.ended(id_)
        self.compare(self.queues.ended(id_, 0.0, self.rng))

    def lose(self, id_):
        self.line.lost(id_)
        self.compare(self.queues.lost(id_, 0.0, self.rng))

    def compare(self, starts):
        line = self.line
        assert [start.job.id for start in starts] == line.fill()
        if not self.made:
            return
        waiting = self.queues.lines[ONLY_LINE]
        assert waiting.jobs == len(line.waiting)
        assert waiting.slots == sum(one.job.slots for one in line.waiting)
        assert waiting.work_s == 7.0 * waiting.slots
        head, expected = waiting.head(), line.head()
        assert (head and head.id) == (expected and expected.job.id)
        assert [one.id for one in waiting.order()] == line.order()


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("seed", range(3))
def test_whose_turn_it_is(rules, seed):
    both = Both(RULES[rules], f"{rules}{seed}")
    rng, line = both.rng, both.line
    for _ in range(120):
        match rng.choices(["submit", "host", "end", "cancel", "lose"], [8, 2, 6, 4, 2])[0]:
            case "submit":
                count = rng.choice([1, 1, 1, 2, 4])
                both.submit(
                    count, slots=rng.choice([1, 1, 1, 2, 3]),
                    user=rng.choice("ab"), name=rng.choice(["", "x", "y1", "y2", "z"]),
                    priority=rng.randint(-1, 1), array=both.made + 1 if count > 1 else 0,
                    at_once=rng.randint(0, 2) if count > 1 else 0,
                )  # fmt: skip
            case "host":
                both.host(rng.randint(0, 6))
            case "end" if line.running:
                both.end(rng.choice(list(line.running)))
            case "cancel" if line.waiting:
                both.end(rng.choice(line.waiting).job.id)
            case "lose" if line.running:
                both.lose(rng.choice(list(line.running)))


@pytest.mark.parametrize("seed", range(40))
def test_the_first_of_a_line_are_those_that_came_first(seed):
    """Even where many have left, from before or from among them."""
    rng = Random(seed)
    queues = Queues(make("fcfs", ()), Rules(priorities=seed % 2 == 1, user_slots=9 * (seed % 3)))
    queues.host_is(HostSlots(H1, 4, open_slots=0), 0.0, rng)
    left = []
    for n in range(1, 31):
        job = JobId(f"{n}" if rng.random() < 0.5 else f"j{n}")
        array = n if rng.random() < 0.1 else 0
        queues.arrived(
            QueuedJob(job, user=rng.choice("abc"), array=array, at_once=array and 1), 0.0, rng
        )
        left.append(job)
        while left and rng.random() < 0.45:
            queues.ended(left.pop(rng.randrange(min(3, len(left)))), 0.0, rng)
        line = queues.lines[ONLY_LINE]
        count = rng.randint(1, 6)
        assert [one.id for one in line.first(count)] == left[:count], f"the first {count}"
        assert [one.id for one in line.first(99)] == left


def test_past_turns_are_not_kept():
    rng = Random(1)
    queues = Queues(make("fcfs", ()))
    queues.host_is(HostSlots(H1, 1), 0.0, rng)
    for n in range(1, 500):
        queues.arrived(QueuedJob(JobId(f"{n}")), 0.0, rng)
        if n > 3:
            queues.ended(JobId(f"{n - 3}"), 0.0, rng)
    (turns,) = queues.lines[ONLY_LINE]._turns.values()
    assert len(turns) <= 2 + SPARE_TURNS


def test_no_turn_is_lost_when_past_ones_are_removed_while_the_next_is_looked_for():
    """The first job was cancelled, and its flow's next turn was one too many to be kept with all
    past ones: the flow behind it had no turn any more."""
    for past in range(2 * SPARE_TURNS):
        rng, queues = Random(1), Queues(make("fcfs", ()), Rules(priorities=True))
        queues.host_is(HostSlots(H1, 1, open_slots=0), 0.0, rng)
        for n in range(1, 4):
            queues.arrived(QueuedJob(JobId(f"{n}"), priority=3 - n), 0.0, rng)
        queues.arrived(QueuedJob(JobId("4"), priority=2), 0.0, rng)
        for n in range(5, 5 + past):  # of the last flow, each time the only one
            queues.arrived(QueuedJob(JobId(f"{n}"), priority=0), 0.0, rng)
            queues.ended(JobId("3" if n == 5 else f"{n - 1}"), 0.0, rng)
        queues.ended(JobId("1"), 0.0, rng)
        line = queues.lines[ONLY_LINE]
        assert line.head().id == "4"
        assert {turn[-1] for turn in line._turns[""]} == set(line._flows)


def test_turns_are_kept_per_user():
    rng = Random(1)
    queues = Queues(make("fcfs", ()), Rules(user_slots=9))
    queues.host_is(HostSlots(H1, 1), 0.0, rng)
    begun = []
    for n in range(1, 500):
        begun += queues.arrived(QueuedJob(JobId(f"{n}"), user="ab"[n % 2]), 0.0, rng)
        if n > 3:
            begun += queues.ended(JobId(f"{n - 3}"), 0.0, rng)
    assert [start.job.id for start in begun] == [f"{n}" for n in range(1, 498)]
    for user, turns in queues.lines[ONLY_LINE]._turns.items():
        assert {turn[-1].user for turn in turns} == {user}
        assert len(turns) <= 4 + SPARE_TURNS


def test_an_array_whose_turn_has_passed_keeps_its_place_when_a_task_is_changed():
    rng, queues = Random(1), Queues(make("fcfs", ()))
    queues.host_is(HostSlots(H1, 1, open_slots=0), 0.0, rng)
    tasks = [QueuedJob(JobId(f"{n}"), array=1) for n in (1, 2, 3)]
    for job in (*tasks, QueuedJob(JobId("9"))):
        queues.arrived(job, 0.0, rng)
    queues.host_is(HostSlots(H1, 1), 0.0, rng)  # the first starts: the others' turn is after 9's
    queues.changed(tasks[1]._replace(name="x"), 0.0, rng)
    assert [one.id for one in queues.lines[ONLY_LINE].order()] == ["9", "2", "3"]


def test_turns_of_flows_that_have_left_do_not_count():
    """Each array with a limit has a flow; all tasks of the first have been cancelled."""
    rng, queues = Random(1), Queues(make("fcfs", ()), Rules(user_slots=9))
    queues.host_is(HostSlots(H1, 1, open_slots=0), 0.0, rng)
    for n in range(1, 9):
        queues.arrived(QueuedJob(JobId(f"{n}"), array=n, at_once=1, user="ab"[n % 2]), 0.0, rng)
    for n in (1, 2, 3, 4, 7):
        queues.ended(JobId(f"{n}"), 0.0, rng)
    line = queues.lines[ONLY_LINE]
    for count in (1, 2, 3, 4):
        assert [one.id for one in line.first(count)] == ["5", "6", "8"][:count]
    assert line.head().id == "5"


@pytest.mark.parametrize("rules", [Rules(), Rules(user_slots=9), Rules(fair_share_s=60.0)])
def test_a_line_keeps_nothing_of_jobs_that_no_longer_wait(rules):
    rng, queues = Random(1), Queues(make("fcfs", ()), rules)
    queues.host_is(HostSlots(H1, 1, open_slots=0), 0.0, rng)
    for n in range(1, 500):
        job = QueuedJob(JobId(f"{n}"), array=n, at_once=1, user=f"{n}")
        queues.arrived(job, 0.0, rng)
        if n > 3:
            queues.ended(JobId(f"{n - 3}"), 0.0, rng)
            assert queues.lines[ONLY_LINE].head().id == f"{n - 2}"
    line = queues.lines[ONLY_LINE]
    kept = line._flows, line._groups, line._noted, line._turns
    assert max(map(len, kept)) < 100


def test_of_many_long_arrays_few_jobs_are_looked_at(monkeypatch):
    """Each with a limit has a turn of its own, and a hundred jobs of each of a hundred were made at
    every event while a gang waited."""
    queues, rng = Queues(make("fcfs", ()), Rules()), Random(1)
    queues.host_is(HostSlots(H1, 4, open_slots=0), 0.0, rng)
    for array in range(1, 51):
        for n in range(100):
            job = QueuedJob(JobId(str(1000 * array + n)), array=array, at_once=1)
            queues.arrived(job, 0.0, rng)
    looked = []
    monkeypatch.setattr(waiting_line, "number_of", lambda one: looked.append(one) or one.number)
    first = [int(one.id) for one in queues.lines[ONLY_LINE].first(100)]
    assert first == [*range(1000, 1100)]
    assert len(looked) < 500

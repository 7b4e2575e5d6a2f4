"""The simulated line compared with the queue itself, which is driven to the same ends."""

import math
from random import Random

import pytest

from lbd.dispatch.core.discipline import ONLY_LINE, QueuedJob
from lbd.dispatch.core.outlook import line_maker
from lbd.dispatch.core.outlook.allowance import AHEAD_S, LINES, OF_SUBMISSIONS, PER_S
from lbd.dispatch.core.outlook.arrivals import Arrivals
from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.core.outlook.line_maker import NEW, PLAYED_MAX
from lbd.dispatch.core.outlook.line_played import (
    Line,
    Play,
    Queued,
    Running,
    draws_for,
    spread,
)
from lbd.dispatch.core.outlook.lives import SELDOM_UNLIKE, Lives
from lbd.dispatch.core.outlook.novelty import TARGET_AHEAD, TARGET_OWN
from lbd.dispatch.core.outlook.plays import STEPS, Plays
from lbd.dispatch.core.targets.task_times import Earlier
from lbd.model import HostId, JobId, Needs
from lbd.theory.lifetimes import UniformLog
from lbd.theory.next_run import VALUES
from tests.unit.dispatch.core.targets.test_arrays import FOUR_S, MEAN_S
from tests.unit.dispatch.core.targets.test_arrays import Table as Targets
from tests.unit.dispatch.core.test_queues import Table

LIVES = UniformLog(1.0, 100.0)
MEDIAN_S = LIVES.left_s(0.5, 0.0)
KNOWN = Lives((5.0, 7.0, 9.0), LIVES)


class Drawn:
    """A busy queue in which each job has its own command line, which often took as long before."""

    def __init__(self, rng, **rules):
        self.rng, self.table, self.life_s = rng, Table(**rules), {}
        self.began_s = {}

    def host(self, name, slots):
        self.began(self.table.host(name, slots))

    def arrive(self, **more):
        name = f"{len(self.life_s) + 1}"
        self.life_s[name] = self.rng.uniform(1, 50)
        given = {"command": 1, "command_line": int(name), **more}
        job = QueuedJob(JobId(name), **given)
        for _ in range(VALUES):
            self.table.queues.run_times.ended(job, self.life_s[name])
        self.table.now_s += 0.01 * self.rng.random()
        self.began(self.table.arrive(name, **given))

    def began(self, starts):
        for start in starts:
            self.began_s[start.partition("@")[0]] = self.table.now_s

    def run(self):
        """Runs until all have ended; returns the jobs that started after now, and when."""
        running, now_s = dict(self.began_s), self.table.now_s
        while running:
            name = min(running, key=lambda one: running[one] + self.life_s[one])
            self.table.now_s = running.pop(name) + self.life_s[name]
            before = set(self.began_s)
            self.began(self.table.ended(name))
            running.update({one: at for one, at in self.began_s.items() if one not in before})
        return {name: at - now_s for name, at in self.began_s.items() if at > now_s}


def check(drawn):
    queues, now_s = drawn.table.queues, drawn.table.now_s
    played = Plays(queues).of(ONLY_LINE, None, 0.0, now_s)
    found = {name: played.begin_s(name, now_s) for name in played.places}
    assert found == pytest.approx(drawn.run())
    assert len(found) > 3


@pytest.mark.parametrize("seed", range(20))
def test_each_job_starts_when_the_queue_itself_starts_it(seed):
    rng = Random(seed)
    drawn = Drawn(rng)
    drawn.host("h1", rng.randint(2, 5))
    for _ in range(15):
        drawn.arrive(slots=rng.choice([1, 1, 2]))
    check(drawn)


@pytest.mark.parametrize("seed", range(20))
def test_arrays_take_turns_and_limits_are_kept(seed):
    rng = Random(seed)
    drawn = Drawn(rng, user_slots=3)
    for n in range(3):
        drawn.host(f"h{n}", 2)
    for _ in range(4):
        user = rng.choice("ab")
        array = len(drawn.life_s) + 1
        at_once = rng.choice([0, 0, 2])
        for index in range(rng.choice([1, 5])):
            drawn.arrive(user=user, array=array, array_index=index, at_once=at_once)
        drawn.arrive(user=rng.choice("abc"))
    for _ in range(4):
        drawn.arrive(user="a")
    check(drawn)


def test_an_array_that_keeps_its_place_goes_before_later_jobs():
    table = Targets(slots=4)
    table.array(1, 64, FOUR_S)
    for _ in range(5):
        table.queues.resource_times.slots.ended(MEAN_S)
    table.arrive("9")
    last = table.queues.registry[JobId("9")]
    found = Forecast(table.queues).of(last, 0.0)
    assert found.wait_s == pytest.approx(64 / 4 * MEAN_S, rel=0.05)
    assert found.how.startswith("no job ahead, 4 slots; ")
    assert found.is_rough
    assert found.how.endswith(TARGET_AHEAD)
    assert found.within_s is None


def test_while_nothing_is_known_of_a_targets_tasks_all_in_its_line_is_a_guess():
    """The array takes turns then, so it is not ahead of the others; once a task has ended it is.
    Of what was said meanwhile, "in nine cases out of ten", three quarters were wrong."""
    table = Targets(slots=4)
    for _ in range(30):
        table.queues.resource_times.slots.ended(MEAN_S)
    for n in range(4):
        table.arrive(f"{n + 1}")
    table.arrive("9")
    before = Forecast(table.queues).of(table.queues.registry[JobId("9")], 0.0)
    assert not before.is_rough
    assert before.within_s is not None
    table.array(20, 10, FOUR_S, known=Earlier())
    after = Forecast(table.queues).of(table.queues.registry[JobId("9")], 0.0)
    assert after.how.endswith(TARGET_AHEAD)
    assert (after.is_rough, after.within_s) == (True, None)
    own = Forecast(table.queues).of(table.queues.registry[JobId("20001")], 0.0)
    assert own.how.endswith(TARGET_OWN)  # no other array is ahead


def test_tasks_of_a_target_that_have_not_run_take_what_their_user_says():
    """They took as long as all that ended, or longer: jobs behind were told twice their wait."""
    table = Targets(slots=4)
    for _ in range(30):
        table.queues.resource_times.slots.ended(10 * MEAN_S)
    own = {"user": "ann", "command": 1, "command_line": 2, "work_s": MEAN_S}
    table.array(1, 64, FOUR_S, known=Earlier(), **own)
    table.arrive("9")
    found = Forecast(table.queues).of(table.queues.registry[JobId("9")], 0.0)
    assert found.wait_s == pytest.approx(64 / 4 * MEAN_S, rel=0.1)
    assert "as their --work says" in found.how
    assert (found.is_rough, found.within_s) == (True, None)
    table.queues.run_times.ended(table.queues.registry[JobId("1064")].job, 2 * MEAN_S)
    found = Forecast(table.queues).of(table.queues.registry[JobId("9")], 0.0)
    assert found.wait_s == pytest.approx(64 / 4 * 2 * MEAN_S, rel=0.1)
    assert "as their --work says" not in found.how


def test_several_alike_and_unknown_jobs_are_one_sample():
    """The first of eight different jobs ends soon; if all are alike, all continue together."""
    waits = (Queued(1, Lives((), LIVES), "x"),)
    found = []
    for sample in (lambda n: n, lambda n: "one"):
        runs = tuple(Running(0, 1, 2.0, Lives((), LIVES), sample(n)) for n in range(8))
        found.append(Line((HostId("h1"),), (0,), runs, waits, {}).spreads(101)[0])
    assert found[0][1] < 2.0
    assert found[1] == pytest.approx(tuple(LIVES.left_s((n + 0.5) / 101, 2.0) for n in (4, 50, 96)))


@pytest.mark.parametrize(
    ("lives", "share", "age_s", "left_s"),
    [
        (Lives((5.0, 7.0, 9.0), None), 0.5, 0.0, 7.0),
        (Lives((5.0, 7.0, 9.0), None), 0.5, 6.0, 3.0),
        (Lives((5.0, 7.0, 9.0), None), 0.5, 9.0, 0.9),  # a little older: still like the longest
        (Lives((5.0, 7.0, 9.0), None), 0.5, 9.91, 9.91),  # older than all: as long again
        (KNOWN, 2.99 / (3 + SELDOM_UNLIKE), 0.0, 9.0),
        (KNOWN, (3 + SELDOM_UNLIKE / 2) / (3 + SELDOM_UNLIKE), 0.0, MEDIAN_S),
        (Lives((5.0,), LIVES), 0.5, 10.0, LIVES.left_s(0.5, 10.0)),
        (Lives((), LIVES, 30.0), 0.99, 10.0, 20.0),
        (Lives((), LIVES, 30.0), 0.5, 40.0, 0.0),  # beyond its limit: at any moment
    ],
)
def test_the_remaining_run_time_of_a_job(lives, share, age_s, left_s):
    assert lives.left_s(share, age_s) == pytest.approx(left_s)


@pytest.mark.parametrize(
    ("lives", "share", "age_s", "drawn_s", "left_s"),
    [
        (Lives((5.0, 7.0), None), 0.7, 0.0, (9.0, 9.0), 9.0),  # counts as one more run
        (Lives((5.0, 7.0), None), 0.49, 0.0, (9.0, 9.0), 7.0),
        (Lives((5.0, 7.0), None), 0.5, 8.0, (9.0,), 1.0),  # the others are shorter
        (Lives((5.0,), LIVES), 0.6, 0.0, (9.0,), 9.0),
        (Lives((5.0,), LIVES), 1 - SELDOM_UNLIKE / 2 / (2 + SELDOM_UNLIKE), 0.0, (9.0,), MEDIAN_S),
        (Lives((), LIVES), 0.9, 0.0, (9.0,), 9.0),  # none has ended: all are alike
        (Lives((), LIVES, 8.0), 0.9, 0.0, (9.0,), 8.0),
    ],
)
def test_a_drawn_value_of_a_similar_job_counts_as_a_run(lives, share, age_s, drawn_s, left_s):
    assert lives.left_s(share, age_s, drawn_s) == pytest.approx(left_s)


@pytest.mark.parametrize(("jobs", "draws"), [(1, 21), (100, 21), (1000, 11), (10_000, 5)])
def test_a_long_line_is_simulated_with_fewer_draws(jobs, draws):
    assert draws_for(jobs, 21, 10_000) == draws


def test_an_interval_contains_nine_in_ten():
    assert spread(list(range(101))) == (4, 50, 96)
    assert spread(list(range(21))) == (0, 10, 20)
    # The least and the most of five bound two in three of the next: nine in ten are further off.
    assert spread([10.0, 20.0, 30.0, 40.0, 50.0]) == pytest.approx((0.0, 30.0, 64.0), abs=0.1)
    rng, held = Random(1), 0
    for _ in range(2000):
        low, _, high = spread(sorted(rng.gauss(100.0, 9.0) for _ in range(9)))
        held += low <= rng.gauss(100.0, 9.0) <= high
    assert 0.86 < held / 2000 < 0.94


def test_no_interval_has_zero_width():
    assert spread([10.0] * 21) == pytest.approx((9.21, 10.0, 10.86), abs=0.01)
    assert spread([0.0] * 21) == (0.0, 0.0, 0.0)


def test_of_a_long_line_the_first_jobs_are_simulated_and_the_rest_advance_at_the_mean_rate():
    table = busy(PLAYED_MAX + 102, slots=2)
    forecast = Forecast(table.queues)
    last = table.queues.registry[JobId(f"{PLAYED_MAX + 102}")]
    assert forecast.of(last, 0.0).wait_s == pytest.approx((PLAYED_MAX + 100) * 10 / 2, rel=0.01)
    found = forecast.of_new(QueuedJob(JobId(""), 1), 0.0)
    assert found.wait_s == pytest.approx((PLAYED_MAX + 102) * 10 / 2, rel=0.01)
    assert found.how.startswith(f"{PLAYED_MAX + 100} jobs ahead, 2 slots; by the run times of ")


def counted(monkeypatch, name):
    """Counts the calls of a method of a play."""
    calls, method = [], getattr(Play, name)

    def called(*given):
        calls.append(given)
        return method(*given)

    monkeypatch.setattr(Play, name, called)
    return calls


def of_array(count, at_once, slots=1):
    """Returns an array of which this many tasks may run at once."""
    lives = Lives((10.0, 20.0, 30.0), None)
    waits = tuple(Queued(1, lives, n, (("array", 1),)) for n in range(count))
    return Line((HostId("h1"),), (slots,), (), waits, {"array": at_once})


@pytest.mark.parametrize(("at_once", "slots"), [(1, 4), (30, 100)])
def test_those_that_wait_for_a_limit_are_not_all_looked_at_at_each_end(monkeypatch, at_once, slots):
    looks = counted(monkeypatch, "_full")
    assert not any(map(math.isinf, of_array(500, at_once, slots).begins_s(1)[0]))
    assert len(looks) <= 3 * 500


def test_a_job_that_is_passed_over_for_one_limit_does_not_block_others():
    """Of a's slots there is room for the small job, but not for the wide one before it."""
    lives, user = Lives((10.0,), None), ("user", "a")
    waits = (
        Queued(2, lives, 1, ((user, 2),)),
        Queued(2, lives, 2, ((user, 2), ("name", 1))),
        Queued(1, lives, 3, ((user, 1),)),
    )
    line = Line((HostId("h1"),), (9,), (), waits, {user: 3, "name": 1})
    assert line.begins_s(1) == [[0.0, 10.0, 0.0]]


def test_a_host_that_says_it_has_very_many_slots_costs_no_more():
    lives = Lives((10.0,), None)
    hosts, free = (HostId("h1"), HostId("h2")), (2, 1 << 40)
    waits = tuple(Queued(1, lives, n, barred=frozenset(hosts[1:])) for n in range(6))
    line = Line(hosts, free, (), (*waits, Queued(9, lives, 9)), {})
    assert line.begins_s(1) == [[0.0, 0.0, 10.0, 10.0, 20.0, 20.0, 20.0]]


@pytest.mark.parametrize(("gangs", "size", "jobs"), [(4, 15, 1 + 2 * 15), (1, 70, 1 + 20)])
def test_of_gangs_no_more_jobs_are_played_than_of_others(monkeypatch, gangs, size, jobs):
    """Each counts for all of its tasks, and the last simulated one for no more than a line."""
    monkeypatch.setattr(line_maker, "PLAYED_MAX", 20)
    table = Table()
    for _ in range(5):
        table.queues.resource_times.slots.ended(10.0)
    table.host("h1", 100)
    assert table.arrive("1", slots=100)
    table.arrive("2", slots=100)
    for gang in range(gangs):
        for n in range(size):
            name = f"{100 * (gang + 1) + n}"
            table.arrive(name, array=gang + 1, array_index=n, gang=size)
    played = Plays(table.queues).of(ONLY_LINE, LIVES, 0.0, 0.0)
    assert len(played.line.waits) == jobs


class Counting(frozenset):
    """Counts how often it is asked for its members."""

    asked = 0

    def __contains__(self, one):
        Counting.asked += 1
        return super().__contains__(one)


def test_who_waits_for_one_host_looks_at_the_others_once():
    """Not at each end of a job there."""
    hosts = tuple(HostId(f"h{n}") for n in range(50))
    lives, barred = Lives((10.0,), None), Counting(hosts[1:])
    runs = tuple(Running(n % 50, 1, 0.0, Lives((1.0 + n,), None), n) for n in range(500))
    runs = (*runs, Running(0, 1, 0.0, Lives((1000.0,), None), "last"))
    free = (-1 - len(runs), *[0] * 49)
    Counting.asked = 0
    line = Line(hosts, free, runs, (Queued(1, lives, "x", barred=barred),), {})
    line.begins_s(1)
    assert Counting.asked <= len(hosts) + len(runs)


def busy(jobs=908, slots=8):
    table = Table()
    for _ in range(5):
        table.queues.resource_times.slots.ended(10.0)
    table.host("h1", slots)
    for n in range(1, jobs + 1):
        table.arrive(f"{n}")
    return table


def submit_all_that_differ(forecast, now_s, user, count=200):
    arrivals = Arrivals(forecast)
    for n in range(count):
        job = QueuedJob(JobId(""), 1 + n % 4, user=user, barred=frozenset({HostId(user + str(n))}))
        assert arrivals.of(job, now_s).wait_s == pytest.approx(900 * 10 / 8, rel=0.1)


def test_submissions_that_all_differ_have_a_part_of_the_time(monkeypatch):
    forecast, played = Forecast(busy().queues), counted(monkeypatch, "begins_s")
    seconds_s = AHEAD_S * OF_SUBMISSIONS
    for second in (0.0, 1.0):
        before = len(played)
        for user in "abcdef":
            submit_all_that_differ(forecast, second, user)
        assert (len(played) - before) * 900 <= seconds_s * PER_S + 3 * STEPS
        seconds_s = 1.0


def test_one_users_submissions_leave_time_for_those_of_others():
    forecast = Forecast(busy().queues)
    submit_all_that_differ(forecast, 0.0, "ann")
    job = QueuedJob(JobId(""), 1, user="bob", barred=frozenset({HostId("y")}))
    played = forecast.plays.of(ONLY_LINE, LIVES, 0.0, 0.0, job)
    assert NEW in played.places


def test_the_lines_themselves_are_simulated_whoever_submits():
    """They belong to all users, and are what remains for a user who has used up the time."""
    table = busy()
    forecast = Forecast(table.queues)
    for user in "abcdef":
        submit_all_that_differ(forecast, 0.0, user)
    played = forecast.plays.of(ONLY_LINE, LIVES, 0.0, 0.0)
    assert len(played.places) == 900
    job = QueuedJob(JobId(""), 1, user="ann", barred=frozenset({HostId("y")}))
    assert forecast.plays.of(ONLY_LINE, LIVES, 0.0, 0.0, job) is played


@pytest.mark.parametrize("more", ["barred", "needs"])
def test_of_jobs_that_may_not_go_to_most_hosts_fewer_are_played(more):
    """Checking each host for each of them takes the time of many steps."""
    table = busy(0)
    hosts = [HostId(f"h{n}") for n in range(1, 301)]
    for name in hosts:
        table.host(name, 1)
    for n in range(300):
        table.arrive(f"{n + 1}")
    for n in range(PLAYED_MAX):
        own = {"barred": frozenset(hosts[1:] * 3)} if more == "barred" else {}
        if more == "needs":
            own = {"needs": Needs(memory_bytes=n + 1)}
        table.arrive(f"{n + 301}", **own)
    found = Plays(table.queues)
    played = found.of(ONLY_LINE, LIVES, 0.0, 0.0)
    assert 100 < len(played.line.waits) < PLAYED_MAX
    assert played.steps <= 3 * STEPS
    assert not found.allowance.has(LINES, played.steps / PER_S - AHEAD_S)

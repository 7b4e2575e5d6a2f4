"""How a gang gets room: slots that are reserved for it, and which jobs may use them meanwhile."""

from random import Random

import pytest

from lbd.dispatch.core.gangs.gang_room import PARKED_OF_HOST, PARKED_OF_USER
from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.core.records import Begin
from lbd.dispatch.core.shares import Rules
from lbd.model import JobId
from tests.unit.dispatch.core.outlook.test_forecast import another
from tests.unit.dispatch.gangs import H1, H2, H3, LOST, OK, Table, of_kind


def test_the_next_gang_reserves_the_slots_that_become_free():
    table = Table(hosts=(H1, H2), gang_drain_s=100.0)
    first, second = table.submit() + table.submit()
    assert table.gang(4) == []
    table.submit()
    assert [one for one in table.ended(first) if isinstance(one, Begin)] == []
    assert (
        table.why(3)
        == "needs 4 slots together and holds 3; other jobs wait for it on h1, h2 from 0 until 100"
    )
    kept = "a slot is free on h1, h2, besides those reserved for the gang of job 3"
    assert table.why(7) == f"next, as soon as {kept}"
    assert another(Forecast(table.life.queues), 1, table.now_s).wait_s is None
    begins = of_kind(Begin, table.ended(second))
    assert [one.job for one in begins] == ["3", "4", "5", "6"]


def test_hosts_that_it_does_not_need_continue():
    table = Table(hosts=(H1, H2), gang_drain_s=100.0)
    table.submit(slots=2, limit_s=1000.0)
    (other,) = table.submit()
    assert table.gang(2) == []
    table.host(H3)  # two slots are free there, and one more on the second host
    assert {live.lease.host for live in table.life.leased.values()} == {H1, H2, H3}
    assert len(table.submit()) == 1
    assert other.job in table.life.leased


def test_a_drain_ends_and_the_next_one_lasts_twice_as_long():
    table = Table(hosts=(H1,), gang_drain_s=10.0)
    (first,) = table.submit()
    table.gang(2)
    assert table.submit() == []
    table.now_s = 9.9
    assert table.life.tick(*table.when) == []
    assert table.why(2).endswith(" and holds 1; other jobs wait for it on h1 from 0 until 10")
    table.now_s = 10.0
    (passes,) = table.life.tick(*table.when)
    assert table.why(2).endswith("; 0 are free; lets other jobs pass until 20")
    table.submit(slots=2)
    assert table.why(5) == "next, as soon as 2 slots are free at once on h1"  # none are reserved
    table.life.kill(JobId("5"), 0, *table.when)
    table.now_s = 20.0
    assert table.life.tick(*table.when) == []
    assert table.why(2).endswith("; other jobs wait for it on h1 from 20 until 40")
    table.ended(passes)
    table.now_s = 39.0
    assert table.submit() == []
    assert len(of_kind(Begin, table.ended(first))) == 2


def passing(table, until_s, begun=()):
    """Returns the share of that time in which waiting jobs of others may pass. `begun` are those
    that have passed before."""
    steps, passed, begun = 0, 0, list(begun)
    while table.now_s < until_s:
        for begin in begun:  # and the jobs that follow
            begun += of_kind(Begin, table.ended(begin))
        table.now_s += 1.0
        begun = of_kind(Begin, table.life.tick(*table.when)) + of_kind(Begin, table.submit())
        steps, passed = steps + 1, passed + bool(begun)
    for begin in begun:
        begun += of_kind(Begin, table.ended(begin))
    return passed / steps


def test_a_gang_that_never_begins_keeps_slots_for_half_of_the_time():
    """A job of the same user that never ends is in its way."""
    table = Table(hosts=(H1,), gang_drain_s=10.0, lease_s=1e9)
    table.submit(user="ann")
    table.gang(2, user="ann")
    assert 0.4 < passing(table, 5000.0) < 0.7


def test_a_drain_goes_on_with_its_users_next_gang():
    """Otherwise a series of gangs, each abandoned before its drain ends, would reserve slots for
    ever."""
    table = Table(hosts=(H1,), gang_drain_s=10.0, lease_s=1e9)
    table.submit(user="ann")
    table.gang(2, user="ann")
    passed = 0.0
    for _ in range(100):
        first = table.made + 1
        table.gang(2, user="ann")
        given_up = next(
            job for job, live in table.life.jobs.items() if live.job.gang and int(job) < first
        )
        begun = of_kind(Begin, table.life.kill(given_up, 0, *table.when))
        passed += passing(table, table.now_s + 9.0, begun) / 100
    assert passed > 0.3


def test_gangs_of_ever_new_users_do_not_keep_slots_for_ever():
    """A host may make users up: each had a drain of its own, one after the other."""
    table = Table(hosts=(H1,), gang_drain_s=10.0, lease_s=1e9)
    table.submit(user="ann")
    table.gang(2, user="made up")
    passed, begun = 0.0, []
    for number in range(100):
        first = table.made + 1
        table.gang(2, user=f"made up {number}")
        passed += passing(table, table.now_s + 9.0, begun) / 100
        gangs = [job for job, live in table.life.jobs.items() if live.job.gang]
        given_up = next(job for job in gangs if int(job) < first)
        begun = of_kind(Begin, table.life.kill(given_up, 0, *table.when))
    assert passed > 0.3


def test_when_a_gang_begins_others_pass_before_its_users_next_drain():
    """Otherwise a user whose next gang is kept waiting by one job of the previous one, and who ends
    that job just before the drain ends, would have slots kept for ever."""
    table = Table(hosts=(H1,), gang_drain_s=10.0, lease_s=1e9)
    in_the_way, other = table.running(2, user="ann")
    table.gang(2, user="ann")
    begun = of_kind(Begin, table.ended(other))
    passed, gangs = 0.0, 0
    for _ in range(100):
        passed += passing(table, table.now_s + 9.0, begun) / 100
        begun = []
        if table.life.queues.plan is not None:
            in_the_way, other = of_kind(Begin, table.ended(in_the_way))
            for begin in (in_the_way, other):
                table.ready(begin)
            table.gang(2, user="ann")
            begun = of_kind(Begin, table.ended(other))
            gangs += 1
    assert gangs > 20
    assert passed > 0.3


def test_two_gangs_of_a_user_have_one_drain():
    """The second is in front while the first is at a limit."""
    table = Table(hosts=(H1, H2), rules=Rules(user_slots=3), gang_drain_s=10.0, lease_s=1e9)
    table.submit(slots=2, user="bob")
    table.gang(3, user="ann")
    table.now_s = 10.0
    table.life.tick(*table.when)
    assert table.why(2).endswith("lets other jobs pass until 20")
    assert len(table.submit(user="ann")) == 1
    table.gang(2, user="ann")
    assert table.why(6).endswith("lets other jobs pass until 20")


def test_a_gang_of_another_user_has_its_own_drain():
    table = Table(hosts=(H1,), gang_drain_s=10.0, lease_s=1e9)
    table.submit(user="ann")
    table.gang(2, user="ann")
    table.gang(2, user="bob")
    table.now_s = 9.0
    table.life.kill(JobId("2"), 0, *table.when)
    assert table.why(4).endswith("and holds 1; other jobs wait for it on h1 from 9 until 19")


def test_a_few_gangs_of_each_user_are_looked_at_and_the_rest_follow():
    """A thousand waiting gangs took 20 ms of every heartbeat, and one user may queue many more."""
    table = Table(hosts=(H1,), gang_drain_s=0.0, lease_s=1e9)
    (own,) = table.submit(user="ann")
    for _ in range(50):
        assert table.gang(2, user="ann") == []
    assert len(table.life.queues.gangs.parked) == PARKED_OF_USER
    last = 1 + 2 * 50
    assert table.why(last) == "needs 2 slots together; other gangs of ann go first"
    table.gang(2, user="bob")
    assert len(table.life.queues.gangs.parked) == PARKED_OF_USER + 1
    table.life.kill(JobId(str(last)), 0, *table.when)  # one that is not examined yet
    begun, began = of_kind(Begin, table.ended(own)), []
    while begun:
        began.append(begun[0].job)
        for begin in begun:
            table.ready(begin)
        begun = [one for begin in begun for one in of_kind(Begin, table.ended(begin))]
    assert began == [*(str(2 * n) for n in range(1, 50)), "102"]  # in the order of their turns
    assert table.life.queues.gangs.parked == []


def test_the_users_of_one_host_have_not_all_places_for_gangs():
    table = Table(hosts=(H1,), gang_drain_s=0.0, lease_s=1e9)
    table.submit()
    for n in range(PARKED_OF_HOST + 9):
        table.gang(2, user=f"user{n}", origin="h3")
    assert len(table.life.queues.gangs.parked) == PARKED_OF_HOST
    table.gang(2, user="ann", origin="h2")
    assert len(table.life.queues.gangs.parked) == PARKED_OF_HOST + 1


def test_gangs_that_are_not_examined_step_aside_with_the_others():
    table = Table(hosts=(H1,), gang_drain_s=0.0, lease_s=1e9)
    table.submit()
    for _ in range(9):
        table.gang(2)
    table.life.host_gone(H1, *table.when)
    assert table.life.queues.gangs.leaders() == []
    assert len(table.life.queues.aside) == 9
    table.host(H1)
    assert len(table.life.queues.gangs.leaders()) == 9


def test_a_drain_that_reserves_almost_nothing_does_not_delay_others_for_ever():
    table = Table(hosts=(H1,), gang_drain_s=1e-300, lease_s=1e9)
    table.submit()
    table.gang(2)
    table.now_s = 1e6
    table.life.tick(*table.when)
    assert any(said in table.why(2) for said in ("wait for it on h1 from", "lets other jobs pass"))


def test_two_gangs_do_not_wait_for_each_other():
    table = Table(hosts=(H1, H2), gang_drain_s=100.0)
    first, second = table.submit() + table.submit()
    assert table.gang(4) == []
    assert table.gang(3) == []
    assert table.why(7).endswith("another gang is ahead of it")
    table.ended(first)
    begins = of_kind(Begin, table.ended(second))
    assert [one.job for one in begins] == ["3", "4", "5", "6"]
    for begin in begins:
        table.ready(begin)
    done = [action for begin in begins for action in table.ended(begin)]
    assert [one.job for one in of_kind(Begin, done)] == ["7", "8", "9"]


def test_a_smaller_gang_begins_beside_one_that_waits():
    table = Table(hosts=(H1, H2, H3), gang_drain_s=100.0)
    table.submit(slots=2, limit_s=50.0)
    assert table.gang(5) == []
    assert len(table.gang(2, limit_s=40.0)) == 2


@pytest.mark.parametrize("priorities", [True, False])
def test_a_higher_priority_passes_where_priorities_count(priorities):
    table = Table(hosts=(H1,), rules=Rules(priorities=priorities), gang_drain_s=100.0)
    table.submit()
    assert table.gang(2) == []
    assert table.submit() == []
    assert len(table.submit(priority=1)) == priorities


def test_a_gang_that_its_user_may_not_run_now_reserves_nothing():
    table = Table(hosts=(H1, H2), rules=Rules(user_slots=2))
    (held,) = table.submit(user="ann")
    assert table.gang(2, user="ann") == []
    assert table.why(2) == "ann's jobs hold 1 slot; the limit per user is 2"
    assert len(table.submit(user="bob")) == 1
    assert len(of_kind(Begin, table.ended(held))) == 2


def test_a_gang_keeps_its_place_when_its_hosts_leave_and_return():
    table = Table(hosts=(H1,), gang_drain_s=100.0)
    table.submit()
    table.gang(2)
    table.submit()
    table.life.host_gone(H1, *table.when)
    assert table.why(2).startswith("no host accepts jobs: 1 host out of contact")
    begins = of_kind(Begin, table.host(H2))
    assert [one.job for one in begins] == ["2", "3"]


def test_without_a_drain_it_waits_for_slots_that_happen_to_be_free():
    table = Table(hosts=(H1,), gang_drain_s=0.0)
    (first,) = table.submit()
    assert table.gang(2) == []
    (passes,) = table.submit()
    table.ended(first)
    assert len(of_kind(Begin, table.ended(passes))) == 2


# Random histories


class History:
    """Jobs, gangs and hosts that come and go at random."""

    def __init__(self, seed):
        self.rng = Random(seed)
        drain_s = self.rng.choice((0.0, 5.0, 50.0))
        self.table = Table(hosts=(H1, H2), gang_drain_s=drain_s, lease_s=1e9, host_failures=1000)
        self.running = {}  # Begin actions by job
        self.sizes = {}  # of gangs, by job

    def took(self, actions):
        begins = of_kind(Begin, actions)
        for begin in begins:
            self.running[begin.job] = begin
            if begin.gang_hosts:
                together = [one for one in begins if one.submission == begin.submission]
                assert len(together) == len(begin.gang_hosts) == self.sizes[begin.job]
            server = self.table.life.queues.hosts[begin.host]
            assert server.used <= server.slots
        for begin in begins:
            if begin.gang_hosts:
                self.table.ready(begin)

    def step(self):
        table, rng = self.table, self.rng
        table.now_s += rng.choice((0.0, 0.1, 1.0, 10.0))
        match rng.choice(
            ("job", "job", "gang", "end", "end", "end", "tick", "host", "gone", "kill")
        ):
            case "job":
                slots, limit_s = rng.choice((1, 1, 2)), rng.choice((0.0, 1.0, 20.0))
                self.took(table.submit(slots=slots, limit_s=limit_s, name=rng.choice(("", "x"))))
            case "gang":
                size, slots = rng.choice((2, 3, 4)), rng.choice((1, 1, 2))
                first = table.made + 1
                self.sizes |= dict.fromkeys(map(str, range(first, first + size)), size)
                self.took(table.gang(size, slots=slots, only=rng.choice((None, None, None, H1))))
            case "end" if self.running:
                self.end(rng.choice(sorted(self.running)))
            case "tick":
                self.took(table.life.tick(*table.when))
            case "host":
                self.took(table.host(rng.choice((H1, H2, H3)), rng.choice((2, 2, 4))))
            case "gone":
                self.took(table.life.host_gone(rng.choice((H1, H2, H3)), *table.when))
            case "kill" if waiting := sorted(table.life.jobs.keys() - self.running.keys()):
                self.took(table.life.kill(rng.choice(waiting), 0, *table.when))

    def end(self, job):
        begin = self.running.pop(job)
        self.table.begun(begin)
        how = self.rng.choice((OK, OK, OK, LOST)) if not begin.gang_hosts else OK
        self.took(self.table.ended(begin, how))

    def finish(self):
        table = self.table
        for host in (H1, H2, H3):
            self.took(table.host(host, 8))
        for _ in range(1000):
            if not table.life.jobs:
                return
            table.now_s += 1.0
            self.took(table.life.tick(*table.when))
            for job in sorted(self.running):
                self.end(job)
            for live in list(table.life.jobs.values()):
                if live.held:
                    self.took(table.life.release(live.job.id, *table.when))
        raise AssertionError(f"these never begin: {sorted(table.life.jobs)}")


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_gangs_start_whole_and_every_job_starts_eventually(seed):
    history = History(seed)
    for _ in range(150):
        history.step()
    history.finish()
    queues = history.table.life.queues
    assert (queues.gangs.parked, queues.gangs.tasks, queues.aside) == ([], {}, {})
    assert len(queues.registry) == 0
    assert all(waiting.jobs == 0 for waiting in queues.lines.values())


@pytest.mark.parametrize(
    ("size", "slots", "ends_s", "kept", "left"),
    [
        # h1: one slot until 50 s; h2: one until 50 s, one until 80 s; h3: the end is unknown.
        (2, 1, 50.0, {"h1": 2}, {"h1": 0}),
        (3, 1, 50.0, {"h1": 2, "h2": 1}, {"h1": 0, "h2": 0}),
        (4, 1, 80.0, {"h1": 2, "h2": 2}, {"h1": 0, "h2": 0}),
        (5, 1, 100.0, {"h1": 2, "h2": 2, "h3": 1}, {"h1": 0, "h2": 0, "h3": -1}),
        (1, 2, 50.0, {"h1": 2}, {"h1": 0}),
        (2, 2, 80.0, {"h1": 2, "h2": 2}, {"h1": 0, "h2": 0}),
        (3, 2, 100.0, {"h1": 2, "h2": 2, "h3": 2}, {"h1": 0, "h2": 0, "h3": -2}),
    ],
)
def test_which_slots_are_reserved_and_until_when(size, slots, ends_s, kept, left):
    """Free slots and those that come back first; slots with an unknown end, when the drain ends."""
    table = Table(hosts=(H1, H2, H3), gang_drain_s=100.0)
    for host, limits_s in ((H1, (50.0,)), (H2, (50.0, 80.0)), (H3, (0.0, 0.0))):
        for limit_s in limits_s:
            assert len(table.submit(only=host, limit_s=limit_s)) == 1
    table.submit(only=H1, limit_s=50.0)
    assert table.gang(size, slots=slots) == []
    plan = table.life.queues.plan
    assert (plan.ends_s, plan.kept, plan.left) == (ends_s, kept, left)


def test_all_tasks_of_a_gang_say_what_they_wait_for():
    table = Table(hosts=(H1,))
    table.submit(slots=2)
    table.submit(slots=2)
    table.gang(2)
    assert table.why(3) == "other jobs are ahead of it"
    assert table.why(4) == "waiting in line with job 3_0 of its gang"

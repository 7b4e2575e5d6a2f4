"""A host that comes, goes or changes costs what changes, whatever waits."""

from random import Random

import pytest

from lbd.config.dispatch import MODES
from lbd.dispatch.core.discipline import ONLY_LINE, HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import TIERED, make
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.servers import Server
from lbd.model import Facts, HostId, JobId, Needs

HOSTS, JOBS = 20, 300
LIMIT = "lbd.dispatch.core.queues.CHECKS_MAX"


def host(number, *, opened=0, **resources):
    facts = Facts(("linux",), tuple((name, most, 0) for name, most in resources.items()))
    return HostSlots(HostId(f"h{number}"), 4, opened, facts=facts)


def needing(name, amount):
    return Needs(resources=((name, amount),))


class Cluster:
    """Hosts without free slots, of which only h1 has `a`, and jobs each of another shape."""

    def __init__(self, mode="fcfs"):
        self.queues = Queues(make(mode, (5.0,) if mode in TIERED else ()))
        self.rng, self.jobs = Random(1), 0
        self.come(1, a=JOBS)
        for number in range(2, HOSTS + 1):
            self.come(number)

    def come(self, number, **given):
        return self.queues.host_is(host(number, **given), 0.0, self.rng)

    def go(self, number):
        return self.queues.host_gone(HostId(f"h{number}"), 0.0, self.rng)

    def submit(self, count, **given):
        for amount in range(1, count + 1):
            self.jobs += 1
            values = {key: value(amount) for key, value in given.items()}
            job = QueuedJob(JobId(str(self.jobs)), **values)
            self.queues.arrived(job, 0.0, self.rng)

    def turns(self):
        """Has later turns go on with what was left; returns how many and what has started."""
        count, starts = 0, []
        while self.queues.is_moving:
            starts += self.queues.tick(0.0, self.rng)
            count += 1
        return count, starts

    def order(self, line=ONLY_LINE):
        return [int(waiter.id) for waiter in self.queues.lines[line].order()]


@pytest.fixture
def looks(monkeypatch):
    found, is_enough = [], Server.is_enough
    monkeypatch.setattr(Server, "is_enough", lambda *given: found.append(1) or is_enough(*given))
    return found


SHAPES = {
    "what no host has": {"needs": lambda n: needing("zz", n)},
    "what one host has": {"needs": lambda n: needing("a", n)},
    "hosts that are not there": {"only": lambda n: HostId(f"x{n}")},
    "gangs of what no host has": {
        "gang": lambda n: 2,
        "array": lambda n: (n + 1) // 2,
        "needs": lambda n: needing("zz", (n + 1) // 2),
    },
}


@pytest.mark.parametrize("shape", SHAPES)
def test_jobs_of_many_shapes_are_compared_with_the_host_that_changes_alone(looks, shape):
    """60,000 jobs that each needed another amount of what no host had, and 100 hosts, froze the
    dispatcher for 5 s whenever any host came or went, and for 20 s once theirs went on."""
    cluster = Cluster()
    cluster.submit(JOBS, **SHAPES[shape])
    looks.clear()
    cluster.go(2)
    assert len(looks) == 0, "no job waits because it could go there"
    cluster.come(2)
    assert len(looks) <= JOBS
    looks.clear()
    cluster.come(3, opened=1)
    assert len(looks) == 0, "it offers what it did"


def test_jobs_whose_host_goes_are_compared_with_each_other_offer_once(looks):
    """Hosts that offer the same, as most do, answer alike."""
    cluster = Cluster()
    cluster.submit(JOBS, needs=lambda n: needing("a", n))
    looks.clear()
    cluster.go(1)
    assert len(looks) <= 3 * JOBS
    assert cluster.order() == []
    cluster.come(1, a=JOBS // 2)
    assert cluster.order() == list(range(1, JOBS // 2 + 1))


def test_a_new_job_is_compared_with_each_offer_once(looks):
    cluster = Cluster()
    cluster.submit(JOBS, needs=lambda n: needing("zz", n))
    assert len(looks) <= 2 * JOBS


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", ["needs", "only"])
def test_where_very_many_jobs_move_they_do_so_in_turns(mode, shape, monkeypatch):
    """All of 100,000 jobs that one host alone could take moved in one step, whenever it came or
    went; others were not heard meanwhile."""
    values = {"needs": lambda n: needing("a", n), "only": lambda n: HostId("h1")}
    cluster = Cluster(mode)
    monkeypatch.setattr(LIMIT, JOBS // 3)
    monkeypatch.setattr("lbd.dispatch.core.queues.MOVED_AT_ONCE", 10)
    cluster.submit(JOBS, **{shape: values[shape]})
    waiting = sum(line.jobs for line in cluster.queues.lines.values())
    for change in (lambda: cluster.go(1), lambda: cluster.come(1, a=JOBS)):
        change()
        before = sum(line.jobs for line in cluster.queues.lines.values())
        assert 0 < before < waiting, "a part of them has moved"
        assert cluster.turns()[0] >= 3
        after = sum(line.jobs for line in cluster.queues.lines.values())
        assert after in (0, waiting)
    lines = [line for line, there in cluster.queues.lines.items() if there.jobs]
    assert [cluster.order(line) for line in lines] == [list(range(1, JOBS + 1))]


def test_jobs_start_and_come_while_others_move(monkeypatch):
    cluster = Cluster()
    cluster.submit(JOBS, needs=lambda n: needing("b", n))
    monkeypatch.setattr(LIMIT, 50)
    [start] = cluster.come(3, b=JOBS, opened=1)
    assert start.job.id == "1"
    checks = cluster.queues._checks
    cluster.come(5, c=1)
    assert cluster.queues._checks == checks, "what is left costs no other host its time"
    cluster.submit(1)
    [start] = cluster.queues.ended(start.job.id, 0.0, cluster.rng)
    assert start.job.id == "2"
    assert cluster.turns()[0] > 3
    assert cluster.order() == list(range(3, JOBS + 2))


@pytest.mark.parametrize("mode", MODES)
def test_a_host_that_is_back_has_its_jobs_while_very_many_of_another_move(mode, monkeypatch):
    """They waited two minutes, behind 300,000 jobs of one user whose host had gone and come."""
    cluster = Cluster(mode)
    cluster.submit(1, needs=lambda _: needing("b", 1))
    cluster.submit(JOBS, only=lambda _: HostId("h1"))
    monkeypatch.setattr(LIMIT, 100)
    monkeypatch.setattr("lbd.dispatch.core.queues.MOVED_AT_ONCE", 10)
    cluster.go(1)
    cluster.queues.tick(0.0, cluster.rng)
    cluster.come(1, a=JOBS)
    starts = cluster.come(3, b=1, opened=1)
    starts += [one for _ in range(3) for one in cluster.queues.tick(0.0, cluster.rng)]
    assert [one.job.id for one in starts] == ["1"]
    assert cluster.queues.is_moving


@pytest.mark.parametrize("mode", MODES)
def test_a_line_may_be_left_by_all_while_its_jobs_are_looked_at(mode, monkeypatch):
    """It was forgotten, and to come to it then ended the dispatcher."""
    cluster = Cluster(mode)
    cluster.submit(JOBS, needs=lambda n: needing("a", n))
    monkeypatch.setattr(LIMIT, 50)
    cluster.go(1)
    assert cluster.queues.is_moving
    for number in range(1, JOBS + 1):
        cluster.queues.ended(JobId(str(number)), 0.0, cluster.rng)
    cluster.turns()
    assert not any(line.jobs for line in cluster.queues.lines.values())


def test_a_gang_that_may_go_to_more_hosts_again_is_not_set_aside_with_those_that_may_not(
    monkeypatch,
):
    cluster = Cluster()
    for number in range(4, HOSTS + 1):
        cluster.go(number)
    barred = frozenset({HostId("h3")})
    cluster.submit(1)
    for first in (2, 4):
        cluster.submit(
            2, gang=lambda _: 2, slots=lambda _: 4, barred=lambda _: barred,
            array=lambda _, by=first: by,
        )  # fmt: skip
    free = dict.fromkeys(map(JobId, "23"), frozenset[HostId]())
    cluster.queues.unbar_gang(free, 0.0, cluster.rng)
    cluster.go(2)
    cluster.turns()
    assert cluster.queues.aside.keys() == {"4"}
    assert cluster.order() == [1, 2]


def test_a_host_that_comes_and_goes_without_end_fills_no_memory(monkeypatch):
    monkeypatch.setattr("lbd.dispatch.core.backlog.EMPTY_MIN", 10)
    cluster = Cluster()
    cluster.submit(JOBS, only=lambda n: HostId("h2") if n > 1 else None)
    for _ in range(20):
        cluster.go(2)
        cluster.come(2)
    line = cluster.queues.lines[ONLY_LINE]
    listed = sum(len(one.rows._ids) + len(one.rows._late) for one in line._groups.values())
    assert listed <= 3 * JOBS


@pytest.mark.parametrize("seed", range(20))
def test_when_all_has_been_looked_at_all_wait_where_they_would_have_at_once(seed, monkeypatch):
    """Hosts may change again before jobs have moved."""
    draw, events, found = Random(seed), [], {}
    for _ in range(60):
        number, amount, gang = draw.randint(1, 5), draw.randint(0, 9), draw.randint(0, 3)
        events.append(
            draw.choice([
                ("come", number, amount), ("go", number, 0), ("submit", number, amount),
                ("ended", draw.randint(1, 99), 0), ("gang", number, gang), ("all", number, amount),
            ])
        )  # fmt: skip
    for most in (1, 7, 10**9):
        monkeypatch.setattr(LIMIT, most)
        cluster = Cluster()
        queues = cluster.queues
        for what, number, amount in events:
            if what == "come":
                cluster.come(number, **({"a": amount} if amount else {}))
            elif what == "all":
                hosts = [host(n, a=amount) for n in range(1, number + 1)]
                queues.hosts_are(hosts, 0.0, cluster.rng)
            elif what == "go":
                cluster.go(number)
            elif what == "ended":
                queues.ended(JobId(str(number)), 0.0, cluster.rng)
            elif what == "submit":
                cluster.submit(3, needs=lambda n, by=amount: needing("a", n + by))
                cluster.submit(1, only=lambda _, by=number: HostId(f"h{by}"))
            elif amount:
                first = cluster.jobs + 1
                cluster.submit(
                    2, gang=lambda _: 2, array=lambda _, by=first: by,
                    slots=lambda _, by=amount: by, needs=lambda _, by=number: needing("a", by),
                )  # fmt: skip
        cluster.turns()
        gangs = {one.number for one in queues.gangs.leaders()}  # parked, whenever their turn came
        order = [n for n in cluster.order() if not queues.registry[JobId(str(n))].kind.gang]
        waiting = gangs | {one.number for one in queues.registry.values() if one.line is not None}
        found[most] = order, waiting, queues.aside.keys()
    assert found[1] == found[7] == found[10**9]


def test_many_that_return_to_a_line_do_not_have_it_sorted_each_time(monkeypatch):
    """2,000 jobs that returned among 40,000 took 2 s in one step."""
    cluster, sorts = Cluster(), []
    cluster.go(1)
    cluster.submit(JOBS, only=lambda n: HostId("h1") if n % 2 else None)
    monkeypatch.setattr("lbd.dispatch.core.backlog.Rows._sort", lambda _: sorts.append(1))
    cluster.come(1)
    assert len(sorts) == 0
    monkeypatch.undo()
    assert cluster.order() == list(range(1, JOBS + 1))


def test_an_array_whose_tasks_have_all_stepped_aside_returns_to_its_own_place():
    """Not to that which it has while others of it wait."""
    cluster = Cluster()
    cluster.submit(2, array=lambda _: 1, only=lambda _: HostId("h1"))
    cluster.submit(2)
    [start] = cluster.come(1, a=JOBS, opened=1)
    assert start.job.id == "1"
    assert cluster.order() == [3, 4, 2], "the array has taken its turn"
    for _ in range(100):
        cluster.go(1)
        assert cluster.order() == [3, 4]
        cluster.come(1, a=JOBS)
        assert cluster.order() == [2, 3, 4]
    [heap] = cluster.queues.lines[ONLY_LINE]._flows.values()
    assert len(heap) < 100, "its former places are forgotten"

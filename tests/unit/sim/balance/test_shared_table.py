"""What a simulated host knows: as much as with its own table, in less memory."""

import tracemalloc

import pytest

from lbd.config.schema import ALGORITHMS, LimConfig
from lbd.lim.core.table import Table
from lbd.model import HostId, JobId
from lbd.sim.balance.engine import Engine
from lbd.sim.balance.runs import jobs_of, placement_of
from lbd.sim.balance.setup import Setup
from lbd.sim.balance.shared_table import TOLD_MAX, Board, SharedTable
from lbd.sim.balance.workload import WORKLOADS
from lbd.testing.builders import member, sample, vector

NAMES = ("h1", "h2", "h3", "h4")
SMOOTHING_S = 4.0


class Both:
    """A private table beside one that shares the board; both must show the same."""

    def __init__(self) -> None:
        params = LimConfig()
        members = [member(name) for name in NAMES]
        self.board = Board(members, params, SMOOTHING_S)
        self.shared = SharedTable(members[0], params, SMOOTHING_S, self.board)
        self.plain = Table(members[0], params, SMOOTHING_S, now_s=0.0)
        for other in members[1:]:
            self.plain.add(other, listed=True, now_s=0.0)

    def broadcast(self, name, number, load, now_s):
        said = sample(name, number, vector(load))
        self.board.record(said, now_s)
        if name != "h1":
            self.plain.record(said, now_s)

    def confirm(self, name, number, load, age_s, now_s):
        said = sample(name, number, vector(load))
        self.board.confirm([said], age_s, now_s)
        if name != "h1":
            self.plain.confirm([said], age_s, now_s)

    def told(self, name, number, load, now_s):
        for table in (self.plain, self.shared):
            table.record(sample(name, number, vector(load)), now_s)

    def charge(self, name, job, now_s):
        for table in (self.plain, self.shared):
            table.charge(HostId(name), JobId(job), now_s)

    def discharge(self, job):
        for table in (self.plain, self.shared):
            table.discharge(JobId(job))

    def check(self, now_s):
        self.shared.take_in(now_s)
        shown, expected = (t.view(None, now_s) for t in (self.shared, self.plain))
        assert list(shown.hosts) == list(expected.hosts)
        assert shown.hosts == expected.hosts
        assert shown.me == expected.me
        assert self.shared.others_alive(now_s) == self.plain.others_alive(now_s)


def test_it_shows_what_a_private_table_would():
    both = Both()
    both.told("h1", 1, 2.0, 0.0)
    for name in NAMES[1:]:
        both.broadcast(name, 1, 0.5, 1.0)
    both.check(1.0)
    both.charge("h2", "a", 1.5)
    both.charge("h3", "b", 1.5)
    both.check(1.5)
    both.told("h4", 3, 7.0, 2.0)  # in answer to a question
    both.broadcast("h4", 2, 0.1, 2.5)  # and an older broadcast arrives after it
    both.check(2.5)
    both.broadcast("h2", 2, 0.9, 3.0)  # the charge begins to fade
    both.check(3.0)
    both.discharge("a")
    both.broadcast("h4", 4, 0.2, 3.5)
    both.check(3.5)
    both.discharge("b")
    both.check(4.0)


def test_a_free_core_that_only_this_host_was_told_of_is_not_forgotten():
    both = Both()
    for name in NAMES[1:]:
        both.broadcast(name, 1, 2.0, 1.0)
    both.check(1.0)
    both.told("h2", 2, 0.0, 2.0)
    both.check(2.0)
    both.broadcast("h2", 3, 2.0, 3.0)
    both.check(3.0)
    assert both.shared.view(None, 3.0).hosts["h2"].free_at_s == 2.0
    both.broadcast("h2", 4, 0.0, 4.0)
    both.check(4.0)
    assert set(both.shared._own) == {"h1"}


def test_a_confirmed_load_is_newer_than_an_answer_before_it_and_fades_charges():
    both = Both()
    for name in NAMES:
        both.broadcast(name, 1, 0.5, 1.0)
    both.check(1.0)
    both.charge("h2", "a", 1.5)
    both.told("h3", 2, 7.0, 2.0)
    both.check(2.0)
    for name in NAMES:
        both.confirm(name, 1, 0.5, age_s=0.5, now_s=2.2)  # as of before the answer
    both.check(2.2)
    assert both.shared.view(None, 2.2).hosts["h3"].load_now == 7.0
    for name in NAMES:
        both.confirm(name, 1, 0.5, age_s=0.5, now_s=3.0)
    both.check(3.0)
    assert both.shared.view(None, 3.0).hosts["h3"].load_now == 0.5
    assert both.shared.view(None, 3.0).hosts["h2"].charged < 0.5


def test_reports_and_charges_of_a_host_age_there_too():
    both = Both()
    for name in NAMES[1:]:
        both.broadcast(name, 1, 0.5, 1.0)
    both.charge("h2", "a", 1.5)
    both.told("h4", 2, 7.0, 2.0)
    params = both.plain.params
    for passed_s in (0.0, params.stale_after_s, params.down_after_s):
        for news_s in (1.0, 2.0):
            both.check(news_s + passed_s + 0.1)
    assert not both.shared.view(None, 100.0).hosts["h4"].alive


def ran(hosts, algorithm, duration_s):
    setup = Setup(WORKLOADS["berkeley"], hosts=hosts, utilisation=0.8, duration_s=duration_s)
    engine = Engine(setup)
    engine.placement = placement_of(engine, algorithm, "1 0")
    jobs = jobs_of(setup, "1 0")
    engine.run(jobs)
    return engine


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "NOLB"])
def test_a_host_keeps_a_bounded_number_of_answers(algorithm):
    tables = [host.state.table for host in ran(100, algorithm, 6.0).placement.hosts]
    shared = [table for table in tables if isinstance(table, SharedTable)]
    assert len(shared) >= 99
    assert max(len(table._own) for table in shared) <= TOLD_MAX + 1
    assert max(len(table._views) for table in shared) <= TOLD_MAX + 20


@pytest.mark.parametrize("algorithm", ["GLOBAL", "LOWEST"])
def test_memory_grows_with_the_hosts_and_not_their_square(algorithm):
    def bytes_of(hosts):
        tracemalloc.start()
        try:
            engine = ran(hosts, algorithm, 2.0)
            assert engine.handled
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert bytes_of(240) < 5 * bytes_of(60)  # 4 times the hosts; with their square it would be 16

"""Gangs whose tasks need more from their hosts than slots."""

import pytest

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.gangs.gang_room import assigned
from lbd.dispatch.core.records import Begin
from lbd.dispatch.core.registry import Entry
from lbd.model import Facts, JobId, Needs
from tests.unit.dispatch.core.test_queues import Table as Queue
from tests.unit.dispatch.gangs import H1, H2, H3, Table, of_kind

GPU = Needs((("gpu", 1),))
BOTH = Needs((("gpu", 2),))
GIB = 1 << 30


def facts(gpus=2, used=0, features=("linux",), memory=0):
    return Facts(features, (("gpu", gpus, used),) if gpus else (), memory, 0)


def table_of(**hosts):
    """Returns a table with these hosts of four slots, and what each of them has."""
    table = Table(hosts=(), gang_drain_s=100.0)
    for name, found in hosts.items():
        table.host(name, 4, facts=found)
    return table


def places(actions):
    return sorted(begin.host for begin in of_kind(Begin, actions))


def given(table):
    servers = table.life.queues.servers_by_host
    return {name: server.given["gpu"] for name, server in servers.items() if server.given}


def test_it_starts_only_where_its_needs_are_met_with_no_more_tasks_than_they_allow():
    table = table_of(h1=facts(gpus=0), h2=facts(), h3=facts(gpus=1))
    assert places(table.gang(3, needs=GPU)) == [H2, H2, H3]


def test_the_features_of_all_its_hosts_count():
    table = table_of(h1=facts(), h2=facts(features=("big", "linux")), h3=facts())
    assert places(table.gang(3, needs=Needs(features=("big",)))) == [H2] * 3
    assert places(table.gang(3, needs=Needs(not_features=("big",)))) == [H1, H1, H3]


def test_memory_is_counted_for_all_tasks_of_a_host_together():
    table = table_of(h1=facts(memory=5 * GIB), h2=facts(memory=3 * GIB))
    assert places(table.gang(3, needs=Needs(memory_bytes=2 * GIB))) == [H1, H1, H2]


def test_the_resources_of_its_tasks_are_free_when_they_have_ended():
    table = table_of(h1=facts(), h2=facts())
    begins = table.running(2, needs=BOTH)
    assert places(begins) == [H1, H2]
    assert table.gang(4, needs=GPU) == []
    table.ended(begins[0])
    assert places(table.ended(begins[1])) == [H1, H1, H2, H2]


def test_a_refused_gang_gives_back_all_its_resources():
    table = table_of(h1=facts(), h2=facts())
    first, second = table.gang(2, needs=BOTH)
    table.refused(second)
    assert given(table) == {H1: 2}  # until the first one has ended, too
    table.refused(first)
    assert given(table) == {}
    table.now_s += 10.0
    table.life.tick(*table.when)
    begins = [*table.host(H1, 4, facts=facts()), *table.host(H2, 4, facts=facts())]
    assert places(begins) == [H1, H2]
    assert given(table) == {H1: 2, H2: 2}


def test_the_slots_of_each_task_are_said_beside_its_other_needs():
    table = table_of(h1=facts())
    table.gang(3, needs=GPU, slots=2)
    said = "needs room for 3 tasks together, each with 2 slots and a gpu; the hosts it may use have"
    assert table.why(2).startswith(said)


def test_a_gang_that_no_hosts_can_ever_hold_says_how_many_tasks_they_can():
    table = table_of(h1=facts(), h2=facts(gpus=1))
    assert table.gang(4, needs=GPU) == []
    said = "needs room for 4 tasks together, each with a gpu; the hosts it may use have room for"
    assert table.why(2) == f"{said} 3"
    assert places(table.host(H3, 4, facts=facts(gpus=1))) == [H1, H1, H2, H3]


def test_a_need_that_no_host_meets_is_reported_as_for_a_job():
    table = table_of(h1=facts(gpus=0))
    assert table.gang(2, needs=GPU) == []
    assert table.why(1) == "h1: no gpu; it starts once a host has what it needs"


def test_resources_are_reserved_for_it_as_slots_are():
    table = table_of(h1=facts(), h2=facts())
    (holder,) = table.submit(needs=GPU)
    assert holder.host in (H1, H2)
    assert table.gang(4, needs=GPU) == []
    said = "needs room for 4 tasks together, each with a gpu, and has room for 3; other jobs wait"
    assert table.why(2).startswith(said)
    assert len(table.submit()) == 1  # a slot is free besides the reserved ones
    assert table.submit(needs=GPU) == []  # but no gpu
    assert places(table.ended(holder)) == [H1, H1, H2, H2]


def test_a_short_job_may_use_a_reserved_resource_if_it_returns_it_in_time():
    table = table_of(h1=facts(), h2=facts())
    table.submit(needs=GPU, limit_s=50.0)
    assert table.gang(4, needs=GPU) == []
    assert table.submit(needs=GPU, limit_s=60.0) == []
    (short,) = table.submit(needs=GPU, limit_s=40.0)
    assert short.job == "7"
    assert "room is expected by 50" in table.why(2)


def test_another_gang_beside_it_gets_what_is_left_of_a_resource():
    table = table_of(h1=facts(gpus=3), h2=facts())
    (holder,) = table.submit(needs=BOTH, only=H2)
    assert table.gang(2, needs=BOTH) == []
    assert table.gang(2, needs=GPU) == []
    assert places(table.gang(1, needs=GPU)) == [H1]
    assert places(table.ended(holder)) == [H1, H2]


def test_a_job_that_does_not_need_the_reserved_resource_may_stay_longer():
    table = table_of(h1=facts(gpus=4))
    table.submit(needs=Needs((("gpu", 3),)), limit_s=50.0)
    assert table.gang(1, needs=BOTH) == []
    assert len(table.submit(needs=GPU)) == 1  # at 50 s four are free: two reserved, two left


@pytest.mark.parametrize("barred", [frozenset(), frozenset({H2})])
def test_the_places_of_a_host_that_claims_any_number_are_counted_not_written_down(barred):
    """A host with 65,535 slots made each gang's start cost 5 ms, and 12 s where it was barred for
    one of a thousand tasks."""
    queue = Queue()
    for name in ("h1", "h2", "h3"):
        queue.host(name, 1)
    h1, h2, h3 = queue.queues.servers[1]
    jobs = [QueuedJob(JobId(str(n)), barred=barred if n == 3 else frozenset()) for n in range(4)]
    tasks = [Entry(job, n, 0.0, 1) for n, job in enumerate(jobs)]
    placed = assigned(tasks, [(h1, 1), (h2, 10**15), (h3, 1)])
    where = [placed[job.id].name for job in jobs]
    assert where == (["h2", "h3", "h2", "h1"] if barred else ["h1", "h2", "h3", "h2"])


def test_the_task_with_the_fewest_options_chooses_first():
    queue = Queue()
    for name in ("h1", "h2", "h3"):
        queue.host(name, 1)
    places = [(server, 1) for server in queue.queues.servers[1]]

    def found(*barred):
        jobs = [QueuedJob(JobId(str(n)), barred=frozenset(b)) for n, b in enumerate(barred)]
        placed = assigned([Entry(job, n, 0.0, 1) for n, job in enumerate(jobs)], places)
        return placed and [placed[job.id].name for job in jobs]

    assert found((), ()) == ["h1", "h2"]
    assert found((), (H2, H3)) == ["h2", "h1"]
    assert found((), (H3,), (H2, H3)) == ["h3", "h2", "h1"]
    assert found((), (), (), ()) is None

import os

from lbd.load import scopes
from lbd.load.process_table import TaskStat
from lbd.load.procfs import TICKS_PER_S
from lbd.load.scopes import JobsScope, Root, Tally


def task(state=b"S", parent=1, ticks=0, started=100):
    return TaskStat(state, parent, False, ticks, 1, started)


def test_tally_counts_states():
    counts = Tally().count([(5, task(b"R")), (6, task(b"R")), (7, task(b"D")), (8, task(b"S"))])
    assert (counts.running, counts.blocked) == (2, 1)


def test_tally_adds_up_cpu_time_used_under_observation():
    tally = Tally()
    tally.count([(5, task(ticks=500))])
    assert tally.used_s == 0.0  # used before we looked
    tally.count([(5, task(ticks=530)), (6, task(ticks=20, started=200))])
    assert tally.used_s == 50 / TICKS_PER_S
    # number 5 was reused: everything that the new process used is new
    tally.count([(5, task(ticks=10, started=300))])
    assert tally.used_s == 60 / TICKS_PER_S


def sort_out(scope, tasks, named=()):
    scope._sort_out(dict(tasks), set(named))
    return set(scope._inside)


def test_a_tree_is_followed_by_parents():
    scope = JobsScope("test", set)
    tasks = {
        10: task(parent=1, started=1),
        11: task(parent=10, started=2),
        12: task(parent=11, started=2),  # same tick as its parent
        20: task(parent=1, started=3),
        21: task(parent=20, started=4),
    }
    assert sort_out(scope, tasks, named={10}) == {10, 11, 12}


def test_an_orphan_of_a_tree_stays_in_it():
    scope = JobsScope("test", set)
    sort_out(scope, {10: task(parent=1), 11: task(parent=10)}, named={10})
    assert sort_out(scope, {11: task(parent=1)}) == {10, 11}
    assert sort_out(scope, {11: task(parent=1), 12: task(parent=11)}) == {10, 11, 12}


def test_a_reused_pid_is_an_unrelated_process():
    scope = JobsScope("test", set)
    sort_out(scope, {10: task(started=1)}, named={10})
    assert sort_out(scope, {10: task(started=9)}) == set()


def test_jobs_scope_without_jobs_reads_nothing():
    counts = JobsScope("test", set).read()
    assert (counts.running, counts.blocked) == (0, 0)


def test_jobs_scope_sees_this_process_as_a_job():
    scope = JobsScope("test", set)
    scope.add("j1", Root(os.getpid(), None))
    assert scope.read().running >= 1
    scope.remove("j1")
    assert scope.read().running >= 1  # still there, though its job is reported to have ended


def test_own_daemons_are_left_out():
    scope = JobsScope("test", lambda: {os.getpid()})
    scope.add("j1", Root(os.getpid(), None))
    assert os.getpid() not in dict(scope._processes())
    container = scopes.ContainerScope("test", lambda: {os.getpid()})
    assert os.getpid() not in dict(container._processes())


def test_auto_says_why():
    chosen = scopes.choose("auto", set)
    expected = "host" if scopes.in_initial_pid_namespace() else "container"
    assert chosen.name == expected
    assert chosen.reason.startswith("auto: ")
    for name in ("host", "container", "jobs"):
        assert scopes.choose(name, set).name == name

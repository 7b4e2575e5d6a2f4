import tracemalloc

import pytest

from lbd.dispatch.core.estimates import Estimates
from lbd.model import JobId
from tests.unit.dispatch.core.test_cutoffs import row
from tests.unit.dispatch.core.test_queues import Table


def learnt(*runs, most=100):
    known = Estimates(most)
    for command, cpu_s in runs:
        known.learn([row(command=command, cpu_s=cpu_s)])
    return known


def test_the_same_command_line_counts_before_its_kind():
    known = learnt((b"./fit\x001", 1.0), (b"./fit\x002", 9.0))
    assert known.of("u", b"./fit\x001") == 1.0
    assert known.of("u", b"./fit\x003") == pytest.approx(5.0)
    assert known.of("u", b"./other") is None
    assert known.of("v", b"./fit\x001") is None, "another user's fit is another program"


def test_the_most_recent_runs_count_most():
    known = learnt(*[(b"x", 1.0)] * 20, *[(b"x", 10.0)] * 5)
    assert 6.0 < known.of("u", b"x") < 8.0


def test_runs_that_were_cut_short_do_not_count():
    known = Estimates()
    known.learn([row(cause="timeout"), row(cpu_s=None), row(cause="")])
    assert len(known) == 0


def test_the_memory_of_estimates_is_bounded():
    known = learnt(*((b"prog%d" % n, 1.0) for n in range(100)), most=10)
    assert len(known) == 10
    assert known.of("u", b"prog99") == 1.0
    assert known.of("u", b"prog1") is None


def test_a_command_that_runs_again_is_not_forgotten_first():
    runs = [(b"prog%d" % n, 1.0) for n in range(5)]
    known = learnt(*runs, runs[0], (b"other", 1.0), most=10)
    assert known.of("u", b"prog0") == 1.0
    assert known.of("u", b"prog1") is None


def test_long_commands_are_known_by_a_number():
    """Twenty thousand commands of four megabytes each would take all the memory of a dispatcher."""
    known = Estimates()
    tracemalloc.start()
    try:
        for n in range(20):
            known.learn([row(command=b"%d\0" % n + bytes(1 << 20), cpu_s=float(n))])
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 1 << 20
    assert known.of("u", b"7\0" + bytes(1 << 20)) == 7.0


def test_a_job_without_an_estimate_counts_as_the_mean_of_those_with_one():
    table, found = Table(), []
    for number, (estimate_s, slots) in enumerate(
        [(None, 1), (4.0, 1), (None, 1), (8.0, 2), (None, 3)]
    ):
        table.arrive(f"j{number}", estimate_s=estimate_s, slots=slots)
        found.append(table.queues.registry[JobId(f"j{number}")].work_s)
    assert found == [0.0, 4.0, 4.0, 16.0, 18.0]

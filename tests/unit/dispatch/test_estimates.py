import pytest

from lbd.dispatch.estimates import Estimates
from tests.unit.dispatch.test_tuning import row


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


def test_the_last_runs_count_most():
    known = learnt(*[(b"x", 1.0)] * 20, *[(b"x", 10.0)] * 5)
    assert 6.0 < known.of("u", b"x") < 8.0


def test_what_was_cut_short_says_nothing():
    known = Estimates()
    known.learn([row(cause="timeout"), row(cpu_s=None), row(cause="")])
    assert len(known) == 0


def test_it_is_bounded():
    known = learnt(*((b"prog%d" % n, 1.0) for n in range(100)), most=10)
    assert len(known) == 10
    assert known.of("u", b"prog99") == 1.0
    assert known.of("u", b"prog1") is None

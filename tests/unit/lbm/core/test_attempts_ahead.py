import pytest

from lbd.lbm.core.attempts_ahead import AHEAD_MAX, FIRST_AT, WAIT_S, Ahead


def after(*seconds, ahead_s=0.05):
    ahead = Ahead(ahead_s)
    for one_s in seconds:
        ahead.ran(one_s)
    return ahead


def test_nothing_is_sent_ahead_before_the_duration_of_attempts_is_known():
    assert after(*[0.001] * (FIRST_AT - 1)).depth(2) == 0
    assert after(*[0.005] * FIRST_AT).depth(2) == 20


def test_as_many_are_sent_ahead_as_end_within_the_time_allowed():
    assert after(*[0.1] * 20).depth(1) == 0
    assert after(*[0.01] * 20).depth(1) == 5
    assert after(*[0.0001] * 20).depth(16) == AHEAD_MAX
    assert after(*[0.001] * 20, ahead_s=0.0).depth(2) == 0


def test_the_first_attempts_count_alike():
    durations = [0.011, 0.029] * (FIRST_AT // 2) + [0.02] * (FIRST_AT % 2)
    assert after(*durations).depth(4) == after(*reversed(durations)).depth(4) == 10


def test_one_long_attempt_stops_it_at_once_and_short_ones_bring_it_back():
    ahead = after(*[0.002] * 50)
    assert ahead.depth(1) > 20
    ahead.ran(60.0)
    assert ahead.depth(1) == 0
    for _ in range(80):
        ahead.ran(0.002)
    assert ahead.depth(1) > 5


def test_an_attempt_that_waited_in_vain_stops_sending_ahead():
    ahead = after(*[0.002] * 50)
    ahead.waited()
    assert ahead.depth(1) == 0
    assert ahead.depth(4) < 4 * 0.05 / WAIT_S + 1


def test_the_dispatcher_is_told_of_significant_changes():
    ahead = after(*[0.002] * 50)
    assert ahead.has_changed(2)
    ahead.reported = ahead.depth(2)
    assert not ahead.has_changed(2)
    ahead.waited()
    assert ahead.has_changed(2)


@pytest.mark.parametrize(
    ("reported", "changed"), [(0, True), (9, True), (10, False), (40, False), (41, True)]
)
def test_a_change_is_significant_if_it_is_more_than_twofold(reported, changed):
    ahead = after(*[0.005] * FIRST_AT)
    assert ahead.depth(2) == 20
    ahead.reported = reported
    assert ahead.has_changed(2) == changed

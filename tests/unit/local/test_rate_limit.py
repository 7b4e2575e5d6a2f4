"""Honest bursts are not affected, floods are spread out, and the memory is bounded."""

from hypothesis import given
from hypothesis import strategies as st

from lbd.local.rate_limit import Rates

FOR_EVER_S = 1e9


def test_an_expensive_request_takes_several_turns():
    rates = Rates(rate_per_s=10, burst=20)
    assert rates.turn_s("h3", 0.0, 0.0, turns=15) == 0.0
    assert rates.turn_s("h3", 0.0, 0.0, turns=15) is None
    assert rates.turn_s("h3", 0.0, 1.0, turns=15) == 1.0
    assert rates.turn_s("h2", 0.0, 0.0) == 0.0


def test_a_burst_is_not_affected():
    rates = Rates(100, burst=200)
    assert all(rates.turn_s("h1", 0.0, 0.0) == 0.0 for _ in range(200))
    assert rates.turn_s("h1", 0.0, 0.0) is None


def test_a_flood_is_spread_out_and_another_client_is_served_at_once():
    rates = Rates(100, burst=10)
    waits = [rates.turn_s("h1", 0.0, FOR_EVER_S) for _ in range(1010)]
    assert abs(waits[-1] - 10.0) < 0.01
    assert rates.turn_s("h2", 0.0, 0.0) == 0.0


def test_refused_requests_are_not_counted():
    rates = Rates(1, burst=1)
    assert rates.turn_s("h1", 0.0, 0.0) == 0.0
    assert [rates.turn_s("h1", 0.0, 0.5) for _ in range(100)] == [None] * 100
    assert rates.turn_s("h1", 1.0, 0.0) == 0.0


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0.0, 1.0)), max_size=200))
def test_the_rate_is_kept_whatever_arrives(steps):
    """Up to any moment a key gets at most a burst and the rate since it began."""
    rates, now_s, turns = Rates(10, burst=5), 0.0, {}
    for key, pause_s in steps:
        now_s += pause_s
        if (wait_s := rates.turn_s(key, now_s, 1.0)) is not None:
            turns.setdefault(key, []).append(now_s + wait_s)
    for moments in turns.values():
        for last, at_s in enumerate(moments):
            for first in range(last):
                assert last - first <= 5 + 10 * (at_s - moments[first]) + 1e-6


def test_the_memory_is_bounded_and_keeps_the_busiest():
    rates = Rates(1, burst=1, max_keys=100)
    for _ in range(50):
        rates.turn_s("flood", 0.0, FOR_EVER_S)
    for number in range(1000):
        rates.turn_s(number, 0.0, FOR_EVER_S)
    assert len(rates) <= 100
    assert rates.turn_s("flood", 0.0, 0.0) is None

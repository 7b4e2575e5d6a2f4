"""Periodic work of a process happens at common moments, and once at each."""

import asyncio

import pytest
import uvloop

from lbd.process.wake_ups import EARLY_S, Alarm, next_moment, until_next_s


def test_all_timers_of_a_process_fire_together():
    wanted = {round(now_s + until_next_s(1.0, now_s), 6) for now_s in (50.1, 50.1004, 50.1049)}
    assert len(wanted) == 1
    assert 50.1 < wanted.pop() <= 51.1 + 2 * EARLY_S


@pytest.mark.parametrize("off_s", [-0.001, 0.0, 0.003, 0.4])
def test_a_timer_that_fires_early_or_late_is_set_for_the_next_period(off_s):
    at_s = 50.0 + until_next_s(1.0, 50.0)
    assert at_s + off_s + until_next_s(1.0, at_s + off_s) == pytest.approx(at_s + 1.0)


@pytest.mark.parametrize("now_s", [50.0, 50.19, 50.2, 51.7])
def test_moments_of_a_multiple_are_moments_of_the_period_too(now_s):
    at_s = now_s + until_next_s(1.0, now_s) - EARLY_S
    assert until_next_s(0.2, at_s - 0.1) == pytest.approx(0.1 + EARLY_S)


async def test_at_least_half_a_period_is_left_for_other_work():
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await next_moment(0.02)
    assert loop.time() - began_s >= 0.01


def test_an_alarm_may_be_set_for_as_short_a_time_as_one_likes():
    """uvloop runs what is due within half a millisecond at once, and such a timer has no time."""

    async def set_twice():
        alarm = Alarm()
        for seconds in (60.0, 2e-4, 1e-4, 0.0):
            alarm.set_in(seconds)
        await asyncio.wait_for(alarm.wait(), 20)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(set_twice())

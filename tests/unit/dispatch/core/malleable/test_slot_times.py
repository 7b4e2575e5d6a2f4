"""How long ended jobs held their slots."""

import pytest

from lbd.dispatch.core.malleable.slot_times import SlotTimes
from lbd.theory.lifetimes import OLDER_FEWEST


def test_the_first_long_jobs_after_many_short_ones_are_known_at_once():
    """Sixteen jobs of 40 s by a new user, after two hundred of half a second, were predicted to
    take minutes more the longer they had run: the lifetimes were still those of the short jobs."""
    times = SlotTimes()
    for n in range(200):
        times.ended(0.5 + n / 1000)
    before, _ = times.lifetimes()
    for n in range(OLDER_FEWEST):
        times.ended(40.0 + n / 10)
    lives, mean_s = times.lifetimes()
    assert before.left_s(0.5, 30.0) == pytest.approx(30.0), "older than all"
    assert lives.left_s(0.5, 30.0) == pytest.approx(10.0, abs=0.5)
    assert mean_s == pytest.approx(
        (200 * 0.6 + OLDER_FEWEST * 40.2) / (200 + OLDER_FEWEST), rel=0.01
    )
    times.ended(41.0)
    assert times.lifetimes()[0] is lives, "until some more have ended"


def test_lifetimes_beyond_a_cutoff_are_refitted_as_rarely():
    """A dispatcher refitted a thousand lifetimes for each submission, which was more than half of
    its work for one."""
    times = SlotTimes()
    for n in range(200):
        times.ended(1.0 + n / 10)
    whole, cut = times.lifetimes(), times.lifetimes(5.0)
    assert cut[1] < 5.0 < whole[1]
    times.ended(300.0)
    assert times.lifetimes(5.0) is cut
    assert times.lifetimes() is whole
    for _ in range(25):
        times.ended(1.0)
    assert times.lifetimes(5.0) is not cut
    assert times.lifetimes() is not whole

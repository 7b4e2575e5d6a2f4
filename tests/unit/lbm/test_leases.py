"""A host's end of the leases: it counts from when it sent the beat that was answered."""

from lbd.lbm.leases import BEATS_KEPT, Leases
from lbd.model import JobId

KEY = JobId("1"), 1


def test_an_attempt_is_granted_from_the_beat_it_is_anchored_to():
    leases = Leases()
    number = leases.beat(100.0)
    assert leases.take(KEY, number, 10.0, 105.0)
    assert leases.over(109.9) == []
    assert leases.over(110.0) == [KEY]


def test_an_order_that_came_too_late_is_not_taken():
    leases = Leases()
    number = leases.beat(100.0)
    assert not leases.take(KEY, number, 10.0, 110.0)
    assert not leases.take(KEY, number + 1, 10.0, 100.0), "of a beat that we did not send"
    assert leases.over(999.0) == []


def test_a_renewal_counts_from_its_own_beat_and_never_shortens():
    leases = Leases()
    first = leases.beat(100.0)
    leases.take(KEY, first, 10.0, 100.0)
    second = leases.beat(104.0)
    leases.renew(second, [KEY], 10.0)
    leases.renew(first, [KEY], 10.0)
    assert leases.until_s[KEY] == 114.0


def test_what_is_not_held_is_not_renewed():
    leases = Leases()
    leases.renew(leases.beat(1.0), [KEY], 10.0)
    assert leases.until_s == {}


def test_only_the_last_beats_are_remembered():
    leases = Leases()
    first = leases.beat(0.0)
    for second in range(BEATS_KEPT):
        leases.beat(float(second))
    assert not leases.take(KEY, first, 1e9, 1.0)

"""A host's side of the leases: it counts from when it sent the heartbeat that was answered."""

from lbd.lbm.core.leases import BEATS_KEPT, SOON_S, Leases
from lbd.model import JobId

KEY = JobId("1"), 1


def test_an_attempt_is_granted_from_the_heartbeat_it_is_anchored_to():
    leases = Leases()
    number = leases.heartbeat(100.0)
    assert leases.take(KEY, number, 10.0, 105.0)
    assert leases.until_s == {KEY: 110.0}


def test_an_order_that_came_too_late_is_refused():
    leases = Leases()
    number = leases.heartbeat(100.0)
    assert not leases.take(KEY, number, 10.0, 110.0)
    assert not leases.take(KEY, number + 1, 10.0, 100.0), "of a heartbeat that we did not send"
    assert leases.until_s == {}


def test_a_renewal_counts_from_its_own_heartbeat_and_never_shortens():
    leases = Leases()
    first = leases.heartbeat(100.0)
    leases.take(KEY, first, 10.0, 100.0)
    second = leases.heartbeat(104.0)
    leases.renew(second, [KEY], 10.0, 105.0)
    leases.renew(first, [KEY], 10.0, 105.5)
    assert leases.until_s[KEY] == 114.0
    assert leases.margins.total == (110.0 - 105.0) + (114.0 - 105.5), "what was left each time"


def test_an_attempt_that_is_not_held_is_not_renewed():
    leases = Leases()
    leases.renew(leases.heartbeat(1.0), [KEY], 10.0, 1.0)
    assert leases.until_s == {}


def test_a_released_attempt_is_not_renewed():
    leases = Leases()
    leases.take(KEY, leases.heartbeat(1.0), 10.0, 1.0)
    leases.drop(KEY)
    leases.drop(KEY)
    leases.renew(leases.heartbeat(2.0), [KEY], 10.0, 2.0)
    assert leases.until_s == {}


def test_only_the_last_heartbeats_are_remembered():
    leases = Leases()
    first = leases.heartbeat(0.0)
    for second in range(BEATS_KEPT):
        leases.heartbeat(float(second))
    assert not leases.take(KEY, first, 1e9, 1.0)


def test_a_heartbeat_that_does_not_name_the_keeper_is_soon_followed_by_another():
    """Until it is named, a dispatcher cannot tell what became of attempts of a killed LBM."""
    leases = Leases(lease_s=40.0)
    leases.heartbeat(5.0, is_whole=False)
    assert leases.heartbeat_due_s == 5.0 + SOON_S
    leases.heartbeat(6.0)
    assert leases.heartbeat_due_s == 16.0


def test_a_shorter_lease_takes_nothing_from_one_that_was_granted():
    """The keeper and its warden have the longer one, so the dispatcher is told what is left."""
    leases = Leases()
    leases.take(KEY, leases.heartbeat(0.0), 900.0, 0.0)
    leases.renew(leases.heartbeat(100.0), [KEY], 30.0, 100.0)
    assert leases.left_s(KEY, 100.0) == 800.0
    leases.renew(leases.heartbeat(890.0), [KEY], 30.0, 890.0)
    assert leases.left_s(KEY, 890.0) == 30.0
    assert leases.left_s(KEY, 921.0) == 0.0
    leases.drop(KEY)
    assert leases.left_s(KEY, 890.0) == 0.0

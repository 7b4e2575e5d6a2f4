import pytest

from lbd.dispatch.core.gangs.drains import Drain, Drains


@pytest.mark.parametrize(
    ("keeps", "now_s", "is_over"),
    [(True, 10.0, False), (True, 19.9, False), (True, 20.0, True),
     (False, 9.9, False), (False, 10.0, True)],
)  # fmt: skip
def test_a_drain_is_over_once_others_have_passed_for_as_long(keeps, now_s, is_over):
    assert Drain(0.0, 10.0, 10.0, keeps).is_over(now_s) is is_over


@pytest.mark.parametrize(
    ("now_s", "until_s"),
    [(0.0, 0.0), (7.0, 14.0), (10.0, 20.0), (17.0, 20.0), (20.0, 20.0), (39.0, 58.0)],
)
def test_after_a_gang_has_begun_others_pass_for_as_long_as_slots_were_kept(now_s, until_s):
    drain = Drain.first(0.0, 10.0)
    drain.gang_begins(now_s, 10.0)
    assert (drain.keeps, drain.until_s) == (False, until_s)
    drain.pass_to(until_s)
    assert (drain.keeps, drain.until_s) == (True, until_s + 10.0)


def test_drains_are_remembered_for_a_limited_number_of_users(monkeypatch):
    monkeypatch.setattr("lbd.dispatch.core.gangs.drains.USERS_KNOWN", 2)
    drains = Drains()
    first = [drains.of(user, 0.0, 10.0) for user in "abac"]
    assert first[0] is first[2]
    assert drains.of("a", 19.0, 10.0) is first[0]
    assert drains.of("b", 19.0, 10.0) is not first[1]
    assert drains.of("a", 20.0, 10.0) is not first[0]

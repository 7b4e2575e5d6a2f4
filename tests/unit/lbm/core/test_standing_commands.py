"""What the owner book records of suspended commands, and for whom that counts."""

import json
from random import Random

import pytest

from lbd.lbm.core import owner_book
from lbd.lbm.core.owner_book import Standing
from lbd.model import HostId, JobId
from tests.unit.lbm.core.test_owner_book import (
    NOON_S,
    book,
    clock,
    known,
    lived,
    rules,
    standing,
)


@pytest.mark.parametrize("by_verdict", [False, True])
def test_a_limited_number_is_tracked_at_once(monkeypatch, by_verdict):
    monkeypatch.setattr(owner_book, "STANDING_MAX", 5)
    made, now_s = lived([300.0] * 4)
    for number in range(7):
        one = standing(600.0 + number, job=f"j{number}")
        if by_verdict:
            assert made.verdict(one, rules(), now_s, 0, clock).until_s == now_s + 600.0 + number
        else:
            made.stands(one, now_s, moved=False)
    made.look(False, now_s + 100.0, 0)
    assert [one.cost_s for one in made.interruptions] == [600.0, 601.0, 602.0, 603.0, 604.0]


@pytest.mark.parametrize("seed", range(40))
def test_the_record_of_suspended_commands_matches_a_simple_model(seed):
    """`here` has the cost of each command that an owner's stay suspends, and when it was moved."""
    rng, made, now_s = Random(seed), book(), NOON_S
    since_s, here, expected = None, {}, []
    for _ in range(120):
        now_s += rng.choice((0.0, 1.0, 20.0, 61.0, 500.0))
        one = standing(rng.uniform(1.0, 100.0), job=rng.choice("abcde"))
        match rng.randrange(6):
            case 0 if since_s is None:
                made.look(True, now_s, 0)
                since_s = now_s
            case 0:
                made.look(False, now_s, 0)
                for cost_s, moved_s in here.values():
                    after_s = None if moved_s is None else moved_s - since_s
                    expected.append((now_s, now_s - since_s, cost_s, after_s))
                since_s, here = None, {}
            case 1 if rng.random() < 0.2:
                made.unwatched()
                since_s, here = None, {}
            case 2:
                made.gone(one.job)
                if here.get(one.job, (0.0, 0.0))[1] is None:
                    del here[one.job]
            case 3 | 4 | 5 if since_s is not None and one.job not in here:
                moved = rng.random() < 0.5
                made.stands(one, now_s, moved=moved)
                here[one.job] = one.cost_s, now_s if moved else None
        if since_s is not None:
            assert made.since_s == since_s
    found = [(one.ended_s, one.stay_s, one.cost_s, one.moved_after_s) for one in made.interruptions]
    assert found == [pytest.approx(one) for one in expected]
    again = book()
    again.read(json.loads(json.dumps(made.to_json(now_s))), now_s)
    assert again.interruptions == made.interruptions


@pytest.mark.parametrize(
    ("gang", "said"),
    [
        (("h3",), ""),
        (("h3", "h3"), ""),
        (("h3", "h5"), "; the owner is back at 1 of the 2 hosts of its gang"),
        (("h3", "h5", "new"), "; the owner is back at 1 of the 3 hosts of its gang"),
    ],
)
def test_for_a_gang_the_number_of_its_hosts_with_their_owner_back_is_reported(gang, said):
    """A host that the LIM does not know yet counts as one whose owner is away."""
    made, now_s = lived([300.0] * 4)
    known(made, {HostId("h3"): False, HostId("h5"): True}, True, Random(1), step=False,
                    room={HostId("h5"): len(gang)})  # fmt: skip
    one = Standing(JobId("j1"), 600.0, True, tuple(map(HostId, gang)))
    reason = made.verdict(one, rules(), now_s, 0, clock).reason
    assert f"; moving would lose 10m00s{said}; waiting until " in reason
    assert made.fits(one)
    made.elsewhere.room = {HostId("h5"): gang.count("h3") - 1}
    assert not made.fits(one)


def test_trials_are_made_once_a_step():
    once, often = book(), book()
    for number in range(400):
        away = {
            HostId(name): (number // 3 + turn) % 5 > 1 for turn, name in enumerate(("h1", "h3"))
        }
        once.cluster_is(away, True, Random(number), step=True)
        often.cluster_is(away, True, Random(number), step=False)
        often.cluster_is(away, True, Random(number), step=True)
    assert often.trials.rows() == once.trials.rows()
    assert often.trials.interruptions == once.trials.interruptions > 0

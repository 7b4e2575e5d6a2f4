"""What is learnt of a host's owner, what is decided from it, and what is stored."""

import json
import math
from dataclasses import replace
from random import Random

import pytest

from lbd.config.access import AdmissionConfig
from lbd.lbm.core.owner_book import KEPT, NOWHERE, OwnerBook, Standing
from lbd.lbm.core.owner_presence import FIXED, TOUCHED
from lbd.lbm.core.room_for_suspended import LASTING_LOOKS, RoomElsewhere
from lbd.model import HostId, JobId
from lbd.policy.wait_trials import FEWEST_WAITS

STEP_S, NOON_S = 60.0, 12 * 3600.0


def clock(unix_s):
    return f"{int(unix_s) // 3600:02d}:{int(unix_s) % 3600 // 60:02d}"


def book(**values):
    return OwnerBook(HostId("h3"), STEP_S, elsewhere=RoomElsewhere(others_free=True), **values)


def lived(stays_s, *, others_free=True):
    """Returns the book of an owner who had these stays, an hour apart, and has just come back."""
    made, now_s = book(), NOON_S
    for stay_s in stays_s:
        made.look(True, now_s, 0)
        made.look(False, now_s + stay_s, 0)
        now_s += stay_s + 3600.0
    made.look(True, now_s, 0)
    made.elsewhere.others_free = others_free
    return made, now_s


def known(made, away, others_free, rng, **more):
    """Feeds the book enough looks at the cluster."""
    for _ in range(LASTING_LOOKS):
        made.cluster_is(away, others_free, rng, **more)


def standing(cost_s=600.0, *, job="j1", is_movable=True):
    return Standing(JobId(job), cost_s, is_movable)


def rules(decide_by="work", **more):
    return AdmissionConfig(owner_idle_s=60.0, owner_is_back="decide", decide_by=decide_by, **more)


def test_steps_are_counted_individually_in_their_hour():
    made = book()
    for second in range(601):
        made.look(second >= 300, NOON_S + second, 5)
    off, left, on, stayed = made.history.hours[5]
    assert (off, left, on, stayed) == (5, 0, 5, 4)
    assert made.since_s == NOON_S + 300


def test_unobserved_time_is_not_counted():
    made = book()
    made.look(True, NOON_S, 5)
    made.look(False, NOON_S + 3600.0, 6)  # the machine was asleep
    assert sum(map(made.history.steps, range(168))) == 0
    made.look(False, NOON_S + 3660.0, 6)
    assert made.history.steps(6) == 1


def test_it_says_how_long_it_waits_and_then_moves():
    made, now_s = lived([300.0] * 4)
    verdict = made.verdict(standing(), rules(), now_s, 0, clock)
    assert not verdict.goes
    assert verdict.until_s == now_s + 600.0
    assert verdict.reason == (
        f"h3's owner came back at {clock(now_s)}; it is not known how long the owner will "
        f"stay; moving would lose 10m00s; waiting until {clock(now_s + 600)}, then moving"
    )
    early = made.verdict(standing(), rules(), now_s + 599.0, 0, clock)
    assert not early.goes
    late = made.verdict(standing(), rules(), now_s + 600.0, 0, clock)
    assert late.goes
    assert late.reason.endswith("; moving")


def test_a_time_in_the_near_future_includes_seconds():
    made, now_s = lived([300.0] * 4)
    reason = made.verdict(standing(12.0), rules(), now_s, 0, clock).reason
    soon = f"{clock(now_s + 12)}:{int(now_s + 12) % 60:02d}"
    assert reason.endswith(f"; waiting until {soon}, then moving")


def test_hosts_that_its_user_excludes_offer_no_room():
    """It would be ended here, and start nowhere."""
    made, now_s = lived([300.0] * 4)
    made.elsewhere.room = {HostId("h3"): 1, HostId("h5"): 1}
    for hosts, waits in ((("h5",), True), (("h3", "h9"), False)):
        one = replace(standing(), excluded=frozenset(map(HostId, hosts)))
        reason = made.verdict(one, rules(), now_s, 0, clock).reason
        assert reason.endswith(f"; {NOWHERE}") == waits
    gang = replace(standing(), gang=(HostId("h3"),))
    made.away = {HostId("h3"): False, HostId("h5"): True}
    assert made.fits(gang)
    assert not made.fits(replace(gang, excluded=frozenset({HostId("h5")})))


def test_it_says_when_such_hosts_are_free_again():
    rng = Random(3)
    made, now_s = lived([rng.expovariate(1 / 300) for _ in range(50)])
    verdict = made.verdict(standing(2520.0), rules(), now_s, 0, clock)
    assert not verdict.goes
    assert "the owner leaves within " in verdict.reason
    assert "8m36s; moving would lose 42m00s; waiting until the owner leaves" in verdict.reason


@pytest.mark.parametrize(
    ("one", "others_free", "said"),
    [
        (standing(0.0, is_movable=False), True, TOUCHED),
        (replace(standing(0.0, is_movable=False), is_fixed=True), True, FIXED),
        (standing(0.0), False, f"moving would lose 0s; {NOWHERE}"),
    ],
)
def test_a_command_that_cannot_be_moved_waits(one, others_free, said):
    made, now_s = lived([10_000.0] * 10, others_free=others_free)
    verdict = made.verdict(one, rules(), now_s, 0, clock)
    assert (verdict.goes, verdict.until_s) == (False, math.inf)
    assert verdict.reason.endswith(said)


def test_the_decision_is_made_again_once_a_step_and_when_things_change():
    made, now_s = lived([300.0] * 4)
    first = made.verdict(standing(), rules(), now_s, 0, clock)
    assert made.verdict(standing(), rules(), now_s + 59.0, 0, clock) is first
    assert made.verdict(standing(), rules(), now_s + 60.0, 0, clock) is not first
    made.elsewhere.others_free = False
    assert "no other host" in made.verdict(standing(), rules(), now_s + 61.0, 0, clock).reason
    printed = standing(is_movable=False)
    assert TOUCHED in made.verdict(printed, rules(), now_s + 62.0, 0, clock).reason


def test_a_timer_and_the_myopic_rule():
    made, now_s = lived([300.0] * 4)
    timer = rules("timer", decide_after_s=90.0)
    assert not made.verdict(standing(1e6), timer, now_s + 89.0, 0, clock).goes
    assert made.verdict(standing(1e6), timer, now_s + 90.0, 0, clock).goes
    made, now_s = lived([300.0] * 10)
    assert made.verdict(standing(59.0), rules("myopic"), now_s, 0, clock).goes
    dear = made.verdict(standing(61.0, job="j2"), rules("myopic"), now_s, 0, clock)
    assert (dear.goes, dear.until_s) == (False, math.inf)


def test_the_full_process_counts_the_other_hosts():
    made, now_s = lived([300.0] * 10)
    for away, cost_s, goes in (
        ({"h1": True, "h2": True, "h3": False}, 59.0, True),
        ({"h1": True, "h2": True, "h3": False}, 1e6, False),
        ({"h1": False, "h2": False, "h3": False}, 59.0, False),
    ):
        known(made, {HostId(name): one for name, one in away.items()}, True, Random(1), step=False)
        one = standing(cost_s, job=f"{away['h1']} {cost_s}")
        verdict = made.verdict(one, rules("optimal"), now_s, 0, clock)
        assert (verdict.goes, verdict.until_s == math.inf) == (goes, not goes)


GANG = tuple(map(HostId, ("h1", "h2", "h3", "h4")))


def of_gang(cost_s, *, away=(), room=9, stays_s=(300.0,) * 10, rules_=None, slots=1):
    """Returns h3's decision for one of four gang tasks, if `away`'s owners are back as well."""
    made, now_s = lived(stays_s)
    hosts = (*GANG, *map(HostId, ("h5", "h6", "h7", "h8", "h9")))
    still = {HostId("h3"), *map(HostId, away)}
    known(
            made,
        {host: host not in still for host in hosts}, True, Random(1), step=False,
        room={HostId("h5"): room},
    )  # fmt: skip
    one = Standing(JobId("j1"), cost_s, True, GANG, slots)
    return made.verdict(one, rules_ or rules("threshold"), now_s, 0, clock)


def test_for_a_gang_the_number_of_hosts_with_their_owner_back_counts():
    one, three = of_gang(900.0), of_gang(900.0, away=("h1", "h2"))
    assert one.reason.endswith("; the owner is back at 1 of the 4 hosts of its gang; waiting")
    assert (one.goes, one.until_s) == (False, math.inf)
    assert three.goes
    assert three.reason.endswith("at 3 of the 4 hosts of its gang; the whole gang starts again")


@pytest.mark.parametrize("decide_by", ["trials", "work", "threshold", "myopic", "optimal"])
def test_a_gang_that_has_just_started_is_moved_and_one_that_has_run_for_days_is_not(decide_by):
    assert of_gang(1.0, rules_=rules(decide_by)).goes
    assert not of_gang(1e6, rules_=rules(decide_by)).goes


def test_the_full_process_counts_how_many_other_hosts_a_gang_could_use():
    """With two, which would leave it nowhere to go, it waits where thresholds do not."""
    for others, decide_by, goes in (
        (2, "threshold", True),
        (2, "optimal", False),
        (6, "optimal", True),
    ):
        made, now_s = lived([300.0] * 10)
        names = [HostId(f"h{n}") for n in range(5, 5 + others)]
        away = dict.fromkeys((HostId("h1"), HostId("h3")), False) | dict.fromkeys(names, True)
        known(made, away, True, Random(1), step=False, room=dict.fromkeys(names, 1))
        one = Standing(JobId("j1"), 18 * STEP_S, True, (HostId("h1"), HostId("h3")))
        assert made.verdict(one, rules(decide_by), now_s, 0, clock).goes is goes


def test_a_gang_waits_if_the_others_have_no_room_for_the_suspended_tasks():
    there = of_gang(1.0, away=("h1",), room=4, slots=2)
    nowhere = of_gang(1.0, away=("h1",), room=3, slots=2)
    assert there.goes
    assert not nowhere.goes
    assert nowhere.reason.endswith("; other hosts have no room for these tasks: waiting")


def test_if_nothing_is_known_a_gang_waits_as_long_as_moving_costs():
    made, now_s = lived([300.0] * 3)
    known(made, {host: host != "h3" for host in GANG}, True, Random(1), step=False,
                    room={HostId("h4"): 1})  # fmt: skip
    one = Standing(JobId("j1"), 600.0, True, GANG)
    timer = rules("timer", decide_after_s=30.0)
    assert made.verdict(one, timer, now_s + 29.0, 0, clock).goes is False
    assert made.verdict(one, timer, now_s + 90.0, 0, clock).goes
    for after_s, goes in ((599.0, False), (660.0, True)):
        assert made.verdict(one, rules("trials"), now_s + after_s, 0, clock).goes is goes


def test_a_gang_of_hundreds_of_hosts_is_decided_at_once():
    made, now_s = lived([300.0] * 10)
    gang = tuple(HostId(f"h{n}") for n in range(1, 301))
    known(made, {host: host != "h3" for host in gang}, True, Random(1), step=False,
                    room={HostId("h4"): 1})  # fmt: skip
    for decide_by in ("work", "threshold", "optimal"):
        one = Standing(JobId(decide_by), 1e6, True, gang)
        assert not made.verdict(one, rules(decide_by), now_s, 0, clock).goes


def test_the_full_process_knows_nothing_before_any_stay_was_seen():
    made, now_s = lived([300.0] * 4)
    known(made, {HostId("h1"): True, HostId("h3"): False}, True, Random(1), step=False)
    verdict = made.verdict(standing(), rules("optimal"), now_s, 0, clock)
    assert verdict.until_s == now_s + 600.0


def test_trials_on_all_hosts_decide_once_enough_was_seen():
    """Every owner stays for two steps or for days: only two steps are worth waiting for."""
    made, now_s = lived([300.0] * 4)
    cost = standing(20 * STEP_S)
    assert made.verdict(cost, rules("trials"), now_s, 0, clock).until_s == now_s + 1200.0
    rng, here = Random(5), dict.fromkeys(("h1", "h2", "h3", "h4"), 0)
    for _ in range(6000):
        for name, left in here.items():
            comes = rng.choice((2, 2, 2, 500)) if rng.random() < 0.05 else 0
            here[name] = left - 1 if left else comes
        away = {HostId(name): not left for name, left in here.items()}
        made.cluster_is(away, True, rng, step=True)
    assert made.trials.interruptions >= FEWEST_WAITS
    again = book()
    again.read(json.loads(json.dumps(made.to_json(now_s))), now_s)
    asked = 1200.0, rules("trials"), now_s, 0
    assert again.left_s(*asked) == made.left_s(*asked)
    verdict = made.verdict(cost, rules("trials"), now_s + STEP_S, 0, clock)
    assert 2 * STEP_S <= verdict.until_s - now_s <= 5 * STEP_S


def test_suspended_commands_are_recorded_with_their_stay():
    made, now_s = lived([300.0] * 4)
    made.verdict(standing(600.0), rules(), now_s, 0, clock)
    made.verdict(standing(30.0, job="j2"), rules(), now_s, 0, clock)
    made.verdict(standing(30.0, job="j2"), rules(), now_s + 30.0, 0, clock)
    made.verdict(standing(5.0, job="j3"), rules(), now_s, 0, clock)
    made.verdict(standing(job="j4", is_movable=False), rules(), now_s, 0, clock)
    made.gone(JobId("j2"))  # as it was moved
    made.gone(JobId("j3"))  # killed by its user
    made.look(False, now_s + 100.0, 0)
    found = [(one.stay_s, one.cost_s, one.moved_after_s) for one in made.interruptions]
    assert found == [(100.0, 600.0, None), (100.0, 30.0, 30.0)]


@pytest.mark.parametrize(("moved", "after_s"), [(False, None), (True, 20.0)])
def test_simple_rules_are_recorded_as_well(moved, after_s):
    made, now_s = lived([300.0] * 4)
    for second in (20.0, 21.0):
        made.stands(standing(50.0), now_s + second, moved=moved)
        made.stands(standing(50.0, job="j2", is_movable=False), now_s + second, moved=moved)
    made.look(False, now_s + 100.0, 0)
    (found,) = made.interruptions
    assert (found.stay_s, found.cost_s, found.moved_after_s) == (100.0, 50.0, after_s)


def test_an_owner_who_came_and_left_at_once_is_recorded_too():
    made = book()
    stored = {**lived([300.0])[0].to_json(NOON_S), "stays_s": [0.0]}
    made.read(stored, NOON_S)
    assert list(made.history.stays_s) == [0.0]


def test_a_look_says_whether_a_step_has_passed():
    made, looks = book(), [0.0, 0.0, 1.0, STEP_S - 1.0, STEP_S, STEP_S, STEP_S + 1.0, 2 * STEP_S]
    passed = [made.look(False, NOON_S + at_s, 0) for at_s in looks]
    assert passed == [True, False, False, False, True, False, False, True]


def test_an_owner_present_before_a_restart_and_gone_after_it_counts_as_newly_arrived():
    (made, now_s), again = lived([300.0]), book()
    again.read(made.to_json(now_s + 100.0), now_s + 101.0)
    again.look(False, now_s + 102.0, 0)
    assert again.since_s == now_s + 102.0
    again.look(True, now_s + 110.0, 0)
    assert again.since_s == now_s + 110.0


def test_suspended_commands_are_forgotten_when_the_owner_is_no_longer_watched():
    made, now_s = lived([300.0])
    made.verdict(standing(), rules(), now_s, 0, clock)
    made.unwatched()
    for is_here, after_s in ((True, 1000.0), (False, 2000.0)):
        made.look(is_here, now_s + after_s, 0)
    assert not made.interruptions


def test_the_book_outlives_its_daemon():
    made, now_s = lived([300.0, 200.0] * 10)
    made.verdict(standing(), rules(), now_s, 0, clock)
    made.look(False, now_s + 100.0, 0)
    made.look(True, now_s + 200.0, 0)
    for second in range(0, 7200, 30):
        made.look(True, now_s + 200.0 + second, 9)
    saved_s = now_s + 7400.0
    stored = json.loads(json.dumps(made.to_json(saved_s)))
    again = book()
    again.read(stored, saved_s + 5.0)
    assert again.history.rows() == made.history.rows()
    assert again.history.stays_s == made.history.stays_s
    assert list(again.interruptions) == list(made.interruptions)
    again.look(True, saved_s + 6.0, 9)
    assert again.since_s == now_s + 200.0  # the same stay
    away = book()
    away.read(stored, saved_s + 3600.0)
    away.look(True, saved_s + 3600.0, 9)
    assert away.since_s == saved_s + 3600.0  # nobody knows what was in between


def test_steps_of_different_lengths_are_not_mixed_and_a_file_is_bounded():
    made, now_s = lived([300.0] * 300)
    for number in range(2 * KEPT):
        made.verdict(standing(job=f"j{number}"), rules(), now_s, 0, clock)
    made.look(False, now_s + 10.0, 0)
    stored = made.to_json(now_s)
    assert len(json.dumps(stored)) < 1 << 16
    other = OwnerBook(HostId("h3"), 2 * STEP_S)
    other.read(stored, now_s)
    assert not any(map(other.history.steps, range(168)))
    assert len(other.history.stays_s) == 200
    assert len(other.interruptions) == KEPT


ZERO = [[0, 0, 0, 0]] * 168


@pytest.mark.parametrize(
    "change",
    [
        None,
        {"version": 2},
        {"hours": ZERO[1:]},
        {"hours": [*ZERO[1:], [1, 2, 0, 0]]},
        {"hours": [*ZERO[1:], [1.5, 0, 0, 0]]},
        {"hours": "none"},
        {"stays_s": [-1.0]},
        {"stays_s": [1.0, True]},
        {"stays_s": [math.inf]},
        {"stays_s": 5},
        {"interruptions": [[1, -2, 3, None]]},
        {"interruptions": [[1, 2]]},
        {"interruptions": [[math.inf, 2, 3, None]]},
        {"interruptions": [[1, 2, 3, -1]]},
        {"interruptions": [[1, 2, 3, "soon"]]},
        {"interruptions": {}},
        {"trials": []},
        {"trials": {"rows": [[1, 2, 3]], "interruptions": 0}},
        {"trials": {"rows": [[1, 2, -3]] * 13, "interruptions": 0}},
        {"trials": {"rows": [[1, 2]] * 13, "interruptions": 0}},
        {"trials": {"rows": [[1, 2, 0.5]] * 13, "interruptions": 0}},
        {"trials": {"rows": [[1, 2, 3]] * 13, "interruptions": None}},
    ],
)
def test_damaged_data_is_not_believed(change):
    made = book()
    stored = [] if change is None else {**lived([300.0])[0].to_json(NOON_S), **change}
    with pytest.raises(ValueError, match=r"damaged|cannot read"):
        made.read(stored, NOON_S)
    assert not made.history.stays_s
    assert not made.interruptions

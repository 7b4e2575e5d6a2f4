import math
from dataclasses import replace

import pytest

from lbd.config.schema import LimConfig
from lbd.lim.core.table import Table, has_free_core, why_closed
from lbd.model import Closed, HostId, HostState, JobId
from lbd.policy.view import NO_SLOT
from lbd.testing.builders import member, sample, vector

H1, H2 = HostId("h1"), HostId("h2")
PARAMS = LimConfig(stale_after_s=12.0, down_after_s=30.0, avoid_s=5.0)


@pytest.fixture
def table():
    made = Table(member("h1"), PARAMS, 4.0, now_s=100.0)
    made.add(member("h2", 1), listed=True, now_s=100.0)
    made.record(sample("h1", 1), 100.0)
    return made


def closed(reason, opens=""):
    return replace(vector(accepting=False), closed=reason, opens=opens)


def why(table, now_s, name=H2):
    return table.view(None, now_s).hosts[name].why


def test_by_the_age_of_its_sample_a_host_is_up_then_late_then_down(table):
    assert table.state(H2, 100.0) == (HostState.DOWN, "not heard from yet")
    table.record(sample("h2", 1, age_s=2.0), 100.0)
    for now_s, state, reason in [
        (100.0, HostState.UP, ""),
        (109.9, HostState.UP, ""),
        (110.0, HostState.LATE, "late"),
        (127.9, HostState.LATE, "late"),
        (128.0, HostState.DOWN, "down"),
    ]:
        assert table.state(H2, now_s)[0] is state
        assert why(table, now_s) == reason
    table.record(sample("h2", 2), 130.0)
    assert table.state(H2, 130.0)[0] is HostState.UP


def test_our_own_load_is_that_of_our_view(table):
    assert Table(member("h1"), table.params, 4.0, 0.0).own_load() == math.inf
    own = replace(vector(0.5, cores=4.0, speed=2.0), slots_total=9)
    assert table.record(replace(sample("h1", 99), vector=own), 100.0)
    table.charge(table.me, "h1-1", 100.0)
    assert table.own_load() == table.own_view(100.0).load_now > 0.5


def test_a_late_host_that_is_confirmed_is_no_longer_late(table):
    for charged in (False, True):
        told = sample("h2", 1 + charged)
        table.record(told, 100.0)
        if charged:
            table.charge(H2, JobId("j"), 101.0)
        assert why(table, 113.0) == "late"
        table.confirm([told], 1.0, 113.0)
        assert why(table, 113.0) == ""
    assert table.charges(H2) < 1.0  # it has seen some of it
    before = table.charges(H2)
    table.confirm([told], 0.0, 114.0)
    assert table.charges(H2) < before


def test_a_late_message_of_the_centre_does_not_hide_what_the_host_had_reported(table):
    starting, accepting = vector(accepting=False), vector()
    table.record(sample("h2", 9, accepting), 100.0)
    table.confirm([sample("h2", 5, starting)], 0.1, 101.0)  # sent before, heard later
    assert why(table, 101.0) == why_closed(starting)
    table.record(sample("h2", 9, accepting, age_s=1.5), 101.5)  # as the centre has it now
    table.confirm([sample("h2", 9, accepting)], 0.1, 103.0)
    assert why(table, 103.0) == ""


def test_a_removed_host_leaves_no_charge_behind(table):
    table.record(sample("h2", 1), 100.0)
    table.charge(H2, JobId("j"), 100.0)
    table.remove(H2)
    assert (table.charged_jobs(), table.charged_host(JobId("j"))) == (0, None)
    assert table.discharge(JobId("j")) is None
    table.add(member("h2", 1), listed=True, now_s=101.0)
    assert table.charges(H2) == 0.0


@pytest.mark.parametrize(
    ("index", "cores", "speed", "free"),
    [(0.75, 2.0, 1.0, True), (0.76, 2.0, 1.0, False), (0.75, 2.0, 2.0, False),
     (0.375, 2.0, 2.0, True), (0.5, 1.0, 1.0, True)],
)  # fmt: skip
def test_a_core_counts_as_free_if_half_of_one_is(index, cores, speed, free):
    assert has_free_core(vector(index, cores, speed)) is free


def test_the_hosts_alive_are_those_that_views_show_alive(table):
    assert table.others_alive(100.0) == []
    table.record(sample("h2", 1, age_s=2.0), 100.0)
    table.add(member("h3", 2), listed=True, now_s=100.0)
    for now_s in (100.0, 110.0, 127.9, 128.0):
        views = table.view(None, now_s).hosts.values()
        seen = [host.name for host in views if host.alive and host.name != H1]
        assert table.others_alive(now_s) == seen == ([H2] if now_s < 128.0 else [])
    table.record(sample("h2", 2), 130.0)
    assert table.others_alive(130.0) == [H2]
    table.skewed(H2, "an old release")
    assert table.others_alive(130.0) == []


def test_a_host_that_was_never_heard_is_gone_only_after_a_while(table):
    silence_s = PARAMS.centre_silence_s
    assert not table.is_gone(H2, 100.0 + silence_s)
    assert table.is_gone(H2, 100.1 + silence_s)


def test_only_newer_samples_count_by_whatever_route(table):
    assert table.record(sample("h2", 5, vector(1.0)), 100.0)
    assert not table.record(sample("h2", 5, vector(2.0)), 101.0)
    assert not table.record(sample("h2", 4, vector(2.0)), 101.0)
    assert not table.record(sample("h9", 4), 101.0)  # an unknown host
    assert table.record(sample("h2", 1, vector(3.0), incarnation=2), 102.0)
    assert not table.record(sample("h2", 9, vector(4.0), incarnation=1), 103.0)
    assert table.entries[H2].sample.vector.index == 3.0


def test_when_a_core_was_last_reported_free(table):
    def free_at_s(number, tasks, now_s):
        table.record(sample("h2", number, vector(tasks / 2, cores=2.0), age_s=0.5), now_s)
        return table.view(None, now_s).hosts[H2].free_at_s

    assert free_at_s(1, 6.0, 100.0) == 99.5  # nothing is known of the time before
    assert free_at_s(2, 1.0, 101.0) == 100.5
    assert free_at_s(3, 1.9, 102.0) == 100.5  # two, minus a little because of the sampling
    assert free_at_s(4, 1.4, 103.0) == 102.5


def test_load_counts_charges_cores_and_speed(table):
    table.record(sample("h2", 1, vector(0.5, cores=4.0, speed=2.0, slots=(9, 0))), 100.0)
    table.charge(H2, JobId("a"), 100.0)
    table.charge(H2, JobId("b"), 100.0)
    seen = table.view(None, 100.0).hosts[H2]
    assert seen.load_now == pytest.approx(0.5 + 2 / 8)
    assert seen.load == pytest.approx(0.5 + 3 / 8)
    table.discharge(JobId("a"))
    assert table.view(None, 100.0).hosts[H2].load_now == pytest.approx(0.5 + 1 / 8)


def test_slots_are_used_up_by_picks_not_yet_in_a_sample(table):
    table.record(sample("h2", 1, vector(slots=(2, 1))), 100.0)
    assert why(table, 100.0) == ""
    table.charge(H2, JobId("a"), 100.5)
    assert why(table, 100.5) == NO_SLOT
    table.record(sample("h2", 2, vector(slots=(2, 1))), 101.0)  # it has ended there already
    assert why(table, 101.0) == ""


def test_a_slot_is_free_when_our_job_there_ends_not_with_the_next_sample(table):
    table.charge(H2, JobId("a"), 100.0)
    table.record(sample("h2", 1, vector(slots=(1, 1))), 100.5)
    assert why(table, 100.5) == NO_SLOT
    table.discharge(JobId("a"))
    assert why(table, 100.6) == ""
    table.charge(H2, JobId("b"), 100.7)
    assert why(table, 100.7) == NO_SLOT
    table.record(sample("h2", 2, vector(slots=(1, 1))), 100.8)  # which shows b
    assert why(table, 100.8) == NO_SLOT


def test_a_pick_that_no_sample_showed_frees_no_slot_of_others(table):
    table.record(sample("h2", 1, vector(slots=(2, 1))), 100.0)
    table.charge(H2, JobId("a"), 100.5)
    table.discharge(JobId("a"))
    table.charge(H2, JobId("b"), 100.7)
    assert why(table, 100.7) == NO_SLOT


def test_a_host_that_failed_is_avoided_for_a_while(table):
    table.record(sample("h2", 1), 100.0)
    table.avoid(H2, "connection refused", 101.0)
    assert why(table, 105.9) == "avoided: connection refused"
    assert why(table, 106.0) == ""


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"load": vector(accepting=False)}, "it does not accept commands now"),
        ({"load": closed(Closed.NO_LBM)}, "its LBM does not answer"),
        ({"load": closed(Closed.OWNER)}, "its owner is back"),
        ({"load": closed(Closed.STARTING)}, "its LBM has not started yet"),
        (
            {"load": closed(Closed.HOURS, "19:00")},
            "it accepts no commands until 19:00 (admission.when)",
        ),
        ({"drained": True}, "drained"),
        ({"load": vector(slots=(0, 0))}, NO_SLOT),
    ],
)
def test_why_a_host_may_not_be_picked(table, changed, reason):
    table.record(sample("h2", 1, **changed), 100.0)
    assert why(table, 100.0) == reason


def test_slots_do_not_restrict_commands_of_the_host_itself(table):
    table.record(sample("h1", 2, vector(slots=(0, 0), accepting=False)), 100.0)
    table.record(sample("h2", 1, vector(slots=(0, 0), accepting=False)), 100.0)
    assert why(table, 100.0, H1) == ""
    seen = table.view_from(H2, charges=1.5, centre=H1, now_s=100.0)
    assert seen.me.name == H2
    assert seen.me.why == ""
    assert seen.me.load_now == pytest.approx(1.5 / 2)
    assert (
        seen.hosts[H1].why == "it does not accept commands now"
    )  # for others this host is like any other


def test_a_host_that_left_is_down_until_it_is_heard_again(table):
    table.record(sample("h2", 1), 100.0)
    table.leave(H2)
    assert table.state(H2, 101.0) == (HostState.DOWN, "was stopped")
    assert why(table, 101.0) == "down"
    assert table.is_gone(H2, 101.0)
    table.record(sample("h2", 1, incarnation=2), 102.0)
    assert table.state(H2, 102.0)[0] is HostState.UP


def test_lost_charges_expire(table):
    table.record(sample("h2", 1), 100.0)
    table.charge(H2, JobId("a"), 100.0)
    table.expire_charges(131.0)
    assert table.charged_jobs() == 0
    assert table.view(None, 131.0).hosts[H2].load_now == 0.0


def test_a_host_without_a_free_slot_is_not_picked(table):
    table.record(sample("h2", 1, vector(slots=(2, 1))), 100.0)
    assert why(table, 100.0) == ""
    table.charge(H2, JobId("a"), 100.5)
    assert why(table, 100.5) == NO_SLOT
    table.record(sample("h2", 2, vector(slots=(2, 2))), 101.0)
    assert why(table, 101.0) == NO_SLOT


def test_our_own_silence_says_nothing_about_ourselves(table):
    """Picks for this host fade only with our own samples."""
    table.charge(H1, JobId("a"), 100.0)
    table.expire_charges(100.0 + 3 * PARAMS.exchange_period_s, silence_counts=True)
    assert table.charges(H1) == 1.0


def test_the_election_order_follows_joins_departures_and_ranks(table):
    table.add(member("h3", 3), listed=True, now_s=100.0)
    assert table.ranking() == [H1, H2, "h3"]
    table.update(member("h2", 5))
    assert table.ranking() == [H1, "h3", H2]
    table.remove(H2)
    assert table.ranking() == [H1, "h3"]


def test_without_a_list_the_best_rank_that_is_heard_counts():
    table = Table(member("h1", 9), PARAMS, 4.0, now_s=0.0)
    table.add(member("h2", 8), listed=False, now_s=0.0)
    assert table.ranking() == [H2, H1]
    table.rank(H2, 9)
    assert table.ranking() == [H2, H1]
    table.rank(H1, 7)
    assert table.ranking() == [H1, H2]


def test_different_releases_are_reported_once_and_never_for_this_host(table):
    table.record(sample("h2", 1), 100.0)
    assert why(table, 100.0) == ""
    assert table.skewed(H2, "old")
    assert why(table, 100.0) == "down"
    for name, text in ((H2, "old"), (H1, "old"), (HostId("h9"), "old")):
        assert not table.skewed(name, text)
    assert table.skewed(H2, "")


def test_changed_parameters_apply_to_earlier_samples(table):
    table.record(sample("h2", 1), 100.0)
    assert why(table, 105.0) == ""
    table.set_params(LimConfig(stale_after_s=3.0, down_after_s=30.0), 4.0, {})
    assert why(table, 105.0) == "late"


def test_this_host_is_never_gone(table):
    assert table.is_gone(H2, 1000.0)
    assert not table.is_gone(H1, 1000.0)


@pytest.mark.parametrize("silence_counts", [False, True])
def test_where_changes_are_reported_silence_counts_as_a_sample(table, silence_counts):
    table.record(sample("h2", 1), 100.0)
    table.charge(H2, JobId("j"), 100.0)
    table.expire_charges(100.0 + 20.0, silence_counts=silence_counts)
    assert (table.charges(H2) < 1.0) == silence_counts

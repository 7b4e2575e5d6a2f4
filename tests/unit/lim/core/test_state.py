"""What a LIM does on each event, beyond what the simulated clusters show."""

from dataclasses import replace

import pytest

from lbd.config.schema import LimConfig
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.model import HostId, HostState, JobId, Verdict
from lbd.testing.builders import lim_state, member, published, request, sample, vector
from tests.unit.lim.core.test_one_bad_host import (
    ALL,
    BAD,
    H1,
    H2,
    LIGHT,
    ME,
    NOW_S,
    hear,
    known,
    lim,
)

LATER_S = NOW_S + 1.0


def actions(state, sender, body, now_s=NOW_S):
    return state.handle(e.Received(m.Message("test", HostId(sender), 1, body)), now_s)


def why(state, name=H2):
    return state.table.view(None, NOW_S).hosts[name].why


def test_a_host_that_failed_is_avoided_and_reported():
    state = lim()
    said = state.handle(e.Trouble(H2, "broken"), NOW_S)
    assert said == [e.Log("host h2 is avoided for now: broken", warning=True, peer=H2)]
    assert why(state).startswith("avoided: ")


@pytest.mark.parametrize(
    ("to", "sent", "again"),
    [
        (H1, m.Report(sample("h4", 1), ()), True),
        (H2, m.Report(sample("h4", 1), ()), False),
        (H1, m.Probe(), False),
    ],
)
def test_a_report_that_the_centre_did_not_receive_is_sent_again(to, sent, again):
    state = lim()
    state.handle(e.Tick(), LATER_S)
    assert not state.owes_keepalive(LATER_S)
    assert state.handle(e.Undelivered(to, sent, "away"), LATER_S) == []
    assert state.owes_keepalive(LATER_S) == again


def test_incompatible_releases_are_reported_once():
    state = lim()
    first = e.Undelivered(H2, m.Probe(), "an old release", skewed=True)
    assert state.handle(first, NOW_S) == [e.Log("an old release", warning=True, peer="h2")]
    assert state.handle(e.Skewed(H2, "an old release"), NOW_S) == []
    assert state.table.state(H2, NOW_S) == (HostState.DOWN, "an old release")


def test_a_drained_host_stays_drained():
    state = lim()
    assert state.handle(e.SetDrained(True), NOW_S) == [e.SaveDrained(True), e.Log("drained")]
    assert state.next_due_s == NOW_S
    assert state.handle(e.SetDrained(True), NOW_S) == []
    assert state.own_sample(NOW_S).drained


def test_a_host_that_did_not_know_the_centre_is_sent_everything_once_it_does():
    """A restarted LIM learns of the others at once, not after a keep-alive."""
    state = lim(me="h1", params=LimConfig(), joined=ALL[1:])

    def said_to(name, now_s):
        return [
            one.body for one in state.handle(e.Tick(), now_s)
            if isinstance(one, e.Broadcast) and isinstance(one.body, m.Delta) and name in one.to
        ]  # fmt: skip

    assert said_to(H2, NOW_S + 1.0) == [], "that of before may have been refused"
    unknown = m.Message("test", H2, 1, m.Ack(unknown_sender=True))
    (hello,) = state.handle(e.Replied(H2, m.Ping(), unknown), NOW_S + 1.0)
    assert isinstance(hello.body, m.Hello)
    state.handle(e.Replied(H2, hello.body, replace(unknown, body=m.Ack())), NOW_S + 1.1)
    (again,) = said_to(H2, NOW_S + 2.0)
    assert (again.since, len(again.whole)) == (0, len(ALL))


def test_a_ping_is_answered():
    assert hear(lim(), "h2", m.Ping()) == m.Ack()


def test_settings_that_are_invalid_here_are_one_line():
    _, said = actions(lim(), "h2", m.Settings(5, "h2", "FROM-THE-FUTURE"))
    assert said.warning
    assert said.text.startswith("rejected settings from another host: ")


def test_a_host_drained_by_others_is_drained_and_can_undrain_itself():
    state = lim()
    done = actions(state, "h2", m.Settings(5, "h2", drains={ME: True, H2: True}))
    assert e.SaveDrained(True) in done
    assert state.drained
    assert state.settings.drains == {H2: True}
    (sent,) = (one for one in done if isinstance(one, e.Broadcast))
    assert (sent.body, set(sent.to)) == (state.settings, {HostId(n) for n in ALL} - {ME})


@pytest.mark.parametrize(
    ("before", "after", "departed"),
    [((2, 0), (1, 0), True), ((0, 2), (0, 1), True), ((1, 1), (1, 2), False)],
)
def test_the_end_of_a_job_is_a_departure(before, after, departed):
    state = lim()
    for local, foreign in (before, after):
        state.handle(e.LbmStatus(True, 8, jobs_local=local, jobs_foreign=foreign), NOW_S)
        if (local, foreign) == before:
            state.reservations.exchange(state.own_sample(NOW_S), NOW_S)
    assert state.reservations._departed == departed


def test_when_the_centre_leaves_the_next_one_starts_at_once_with_everything():
    state = lim("h2")
    state.handle(e.Tick(), NOW_S + 0.1)
    said = actions(state, "h1", m.Leave(), NOW_S + 0.2)
    assert e.Log("the load information centre is h2", peer=H2) in said
    assert state.next_due_s == NOW_S + 0.2
    (sent,) = (
        one
        for one in state.handle(e.Tick(), NOW_S + 0.2)
        if isinstance(one, e.Broadcast) and isinstance(one.body, m.Delta)
    )
    assert {one.host for _, one in sent.body.whole} == {HostId(n) for n in ALL} - {H1}


def test_the_centre_sends_nothing_about_a_host_that_is_down():
    state = lim("h1")
    late_s = NOW_S + state.in_force.lim.down_after_s
    state.handle(e.Sampled(vector(1.0).queues, 1.0, 1.0), late_s)
    assert [one.host for one in state._load_sender.samples_alive(late_s)] == [H1]


def test_a_granted_reservation_counts():
    state = lim()
    for taken in (False, True):
        body = m.ReserveReply(taken, sample("h2", 2))
        reply = m.Message("test", H2, 1, body)
        assert state.handle(e.Replied(H2, m.Reserve(sample("h4", 1)), reply), NOW_S) == []
        assert (H2 in state.reservations.made) == taken


def test_a_centre_asks_a_reporting_host_for_the_hello_that_it_missed():
    """The Hello came before the centre started, and only it says where the host is now."""
    state = lim_state("h1", others=("h2",), now_s=NOW_S)
    report = m.Report(sample("h2", 1))
    asked = e.Reply(m.Ack(unknown_sender=True, known_incarnation=1))
    assert actions(state, "h2", report) == [asked]
    assert state.table.entries[H2].sample == report.sample
    actions(state, "h2", m.Hello(member("h2"), False))
    assert actions(state, "h2", report) == [e.Reply(m.Ack())]


def test_a_host_that_is_not_the_centre_asks_no_reporting_host_for_a_hello():
    state = lim_state("h2", others=("h1", "h3"), now_s=NOW_S)
    assert actions(state, "h3", m.Report(sample("h3", 1))) == [e.Reply(m.Ack())]


def test_a_host_that_says_hello_is_told_our_load():
    state = lim()
    state.handle(e.Tick(), LATER_S)
    assert not state.owes_keepalive(LATER_S)
    hear(state, "h2", m.Hello(member("h2", 1, 2), wants_members=False), 2, now_s=LATER_S)
    assert state.owes_keepalive(LATER_S)
    assert state.next_due_s == LATER_S


def test_a_joined_host_that_was_lost_is_forgotten():
    state = lim(joined=("h9",))
    late_s = NOW_S + state.in_force.lim.forget_after_s + 1.0
    assert e.Log("host h9 is removed", peer="h9") in state.handle(e.Tick(), late_s)
    assert HostId("h9") not in state.table.entries


def test_a_host_that_sends_anything_is_not_lost():
    state = lim(joined=("h9",))
    late_s = NOW_S + state.in_force.lim.forget_after_s + 1.0
    assert isinstance(hear(state, "h9", m.Probe(), now_s=late_s - 1.0), m.ProbeReply)
    state.handle(e.Tick(), late_s)
    assert HostId("h9") in state.table.entries


def test_a_host_with_older_settings_is_sent_ours():
    state = lim()
    hear(state, "h2", m.Settings(5, "h2", "NOLB"))
    for version, sent in (((4, "h2"), [state.settings]), ((5, "h1"), [state.settings])):
        done = actions(state, "h1", published(settings=version))
        assert [one.body for one in done if isinstance(one, e.Send)] == sent
    done = actions(state, "h1", published(settings=(5, "h2")))
    assert not any(isinstance(one, e.Send) for one in done)
    (asked,) = (
        x for x in actions(state, "h1", published(settings=(6, "h1"))) if isinstance(x, e.Send)
    )
    assert isinstance(asked.body, m.Hello)


def test_only_what_outlives_all_lims_is_saved():
    state = lim()
    for settings, saved in (
        (m.Settings(5, "h2", "NOLB"), []),
        (m.Settings(6, "h2", "NOLB", saved={"lim.algorithm": "NOLB"}), ["lim.algorithm"]),
        (m.Settings(7, "h2", "GLOBAL", saved={"lim.algorithm": "NOLB"}), []),
        (m.Settings(8, "h2", "GLOBAL"), []),
    ):
        _, *done = actions(state, "h2", settings)
        writes = [one.settings for one in done if isinstance(one, e.SaveLasting)]
        assert [key for one in writes for key in one.saved] == saved
        assert len(writes) == (settings.counter in (6, 8))


def test_the_centre_is_told_which_of_its_jobs_have_ended():
    state = lim(params=LimConfig(algorithm="CENTRAL"))
    reply = m.CentreReply(Verdict.THERE, H2, "centre-lowest")
    state.placer.answered(request("j7"), H1, reply, NOW_S)
    state.handle(e.JobEnded(JobId("j7")), NOW_S)
    done = state.handle(e.Tick(), state.next_due_s)
    sent = [one.body for one in done if isinstance(one, e.Send | e.Broadcast)]
    assert [body.ended for body in sent if isinstance(body, m.Report)] == [(JobId("j7"),)]


def test_due_actions_are_done_on_time():
    state = lim()
    for _ in range(20):
        due_s = state.next_due_s
        state.handle(e.Tick(), due_s)
        assert state.next_due_s > due_s


@pytest.mark.parametrize("body", [m.Probe(), m.Members((), m.Settings()), m.Ack(known_version=3)])
def test_any_answer_to_a_publication_is_tolerated(body):
    state = lim("h1")
    delta = m.Delta(0, 1, 0, (0, ""))
    state.handle(e.Replied(H2, delta, m.Message("test", H2, 1, body)), NOW_S)


def test_a_new_host_asks_the_first_three_for_the_members():
    state = lim_state("h9", [f"h{number}" for number in range(1, 9)])
    asked = [one.body.wants_members for one in state.start()]
    assert asked == [True] * 3 + [False] * 5


def test_a_command_that_runs_elsewhere_is_charged_there():
    state = lim()
    state.handle(e.JobStarted(JobId("j"), H2), NOW_S)
    assert state.table.charged_host(JobId("j")) == H2
    state.handle(e.JobEnded(JobId("j")), NOW_S)
    assert state.table.charged_host(JobId("j")) is None


def greeted(state, now_s):
    return {one.to for one in state.membership.greet_again(now_s, state._rng)}


def test_hello_is_repeated_to_a_host_that_did_not_answer_restarted_or_is_silent():
    state = lim()
    assert greeted(state, NOW_S) == {H1, H2, HostId("h3")}
    for name in (H1, H2):
        reply = m.Message("test", name, 1, m.Ack())
        state.handle(e.Replied(name, m.Hello(state.membership.me, False), reply), NOW_S)
    assert greeted(state, NOW_S) == {HostId("h3")}
    hear(state, "h2", m.Hello(member("h2", 1, 2), wants_members=False), 2)
    assert greeted(state, NOW_S) == {H2, HostId("h3")}
    late_s = NOW_S + state.in_force.lim.down_after_s
    assert greeted(state, late_s) == {H1, H2, HostId("h3")}


def test_a_greeted_host_has_dropped_our_reservation_and_so_do_we():
    """Otherwise it never asked again, and no command ever came by that reservation."""
    state = lim(params=LimConfig(algorithm="RESERVE"))
    state.reservations.made |= {H1, H2}
    reply = m.Message("test", H2, 1, m.Ack())
    state.handle(e.Replied(H2, m.Hello(state.membership.me, False), reply), NOW_S)
    assert state.reservations.made == {H1}


def test_the_best_rank_that_is_heard_counts_where_no_list_says_otherwise():
    state = lim_state("h9", join="10.0.0.1:7901")
    ranked = [m.Hello(member(f"h{n}", 10 + n), wants_members=False) for n in (1, 2)]
    for hello in ranked:
        hear(state, hello.self.name, hello)
    assert state.table.ranking()[:2] == [H1, H2]
    hear(state, "h2", m.Hello(member("h2", 5), wants_members=False))
    assert state.table.ranking()[:2] == [H2, H1]
    state.membership.members_from([member("h1", 3)], NOW_S)
    assert state.table.ranking()[:2] == [H1, H2]


def test_a_host_that_left_is_not_readmitted_on_the_word_of_others():
    state = lim(joined=("h9",))
    actions(state, "h9", m.Leave(for_good=True))
    for incarnation, is_new in ((1, False), (2, True)):
        said = state.membership.members_from([member("h9", 0, incarnation)], NOW_S)
        assert [one.to for one in said] == ["h9"] * is_new


def test_a_full_table_is_reported():
    state = lim(params=LimConfig(max_hosts=5))
    first, full = state.membership.members_from([member("h8"), member("h9")], NOW_S)
    assert (first.to, full) == ("h8", e.Log("the table is full: lim.max_hosts", warning=True))


def test_a_report_that_its_name_is_taken_stops_no_lim_that_has_long_run():
    state = lim_state("h1", ("h1", "h2"))
    ack = m.Ack(error="taken", name_taken=True)
    late_s = state.in_force.lim.down_after_s
    assert state.membership.refused(H2, ack, late_s, is_proved=False) == [
        e.Log("refused by h2: taken", warning=True, peer=H2)
    ]
    (stop,) = state.membership.refused(H2, ack, late_s - 0.1, is_proved=False)
    assert isinstance(stop, e.Stop)


def test_a_host_that_asks_for_members_is_asked_once_per_keepalive():
    state, keepalive_s = lim(), LimConfig().keepalive_s
    asked = [
        len(state.membership.ask_members(H2, NOW_S + late_s))
        for late_s in (0.0, 0.5 * keepalive_s, keepalive_s, 1.1 * keepalive_s)
    ]
    assert asked == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("theirs", "after_hello", "higher"), [(0, True, False), (1, True, True), (1, False, False)]
)
def test_an_incarnation_is_raised_above_a_known_one(theirs, after_hello, higher):
    state = lim()
    found, said = state.membership.unknown_at(H2, theirs, after_hello)
    assert (found, state.membership.me.incarnation) == (higher, 2 if higher else 1)
    assert [one.to for one in said if isinstance(one, e.Send)] == [H2]


def test_it_joins_again_once_the_host_that_admitted_it_is_gone():
    state = lim_state("h9", join="10.0.0.1:7901")
    assert len(state.membership.join_again()) == 1
    hear(state, "h1", m.Hello(member("h1"), wants_members=False))
    state.membership.hello_answered(H1, HostId(""))
    assert state.membership.join_again() == []
    actions(state, "h1", m.Leave())
    assert len(state.membership.join_again()) == 1


def test_no_answer_about_the_load_of_another_host_is_believed():
    state = lim()
    before = known(state)
    lie = m.Message("test", BAD, 1, m.ReserveReply(True, sample("h2", 9, LIGHT)))
    state.handle(e.Replied(BAD, m.Reserve(sample("h4", 1)), lie), NOW_S)
    assert known(state) == before
    assert not state.reservations.made


def test_a_host_that_sends_anything_keeps_its_name_even_if_its_load_is_unknown():
    state = lim()
    later_s = NOW_S + state.in_force.lim.stale_after_s + 1.0
    hear(state, H2, m.Probe(), now_s=later_s)
    other = member("h2", 1, 5, address="10.9.9.9")
    assert hear(state, H2, m.Hello(other, False), 5, now_s=later_s).name_taken


@pytest.mark.parametrize("through", ["the centre", "a message"])
def test_a_machine_that_replaced_another_is_known_by_its_own_address(through):
    """What was heard of the new machine counted as life of the old one, so its Hello was refused
    for ever, and it was called at the old address."""
    state = lim()
    later_s = NOW_S + state.in_force.lim.stale_after_s + 1.0
    other = member("h2", 1, 5, address="10.9.9.9")
    if through == "the centre":
        state.table.record(sample("h2", 1, incarnation=5), later_s)
    else:
        hear(state, H2, m.Probe(), 5, now_s=later_s)
    assert not hear(state, H2, m.Hello(other, False), 5, now_s=later_s).name_taken
    assert state.table.entries[H2].member.lim_target == "10.9.9.9:7901"
    third = member("h2", 1, 6, address="10.8.8.8")
    assert hear(state, H2, m.Hello(third, False), 6, now_s=later_s).name_taken

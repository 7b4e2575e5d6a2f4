from dataclasses import replace
from random import Random

import pytest

from lbd.config.schema import LimConfig
from lbd.lim.core import messages as m
from lbd.lim.core.placement import ASK_AGAIN_S, Placer
from lbd.lim.core.reservations import Reservations
from lbd.lim.core.table import Table
from lbd.model import Candidate, HostId, JobId, Placement, Verdict
from lbd.policy.ranking import first_of_its_tie
from lbd.policy.view import Ask, Nowhere, Probe
from lbd.testing.builders import member, request, sample, vector

H1, H2, H3 = HostId("h1"), HostId("h2"), HostId("h3")


def placer(algorithm="GLOBAL", local=3.0):
    table = Table(member("h1"), LimConfig(algorithm=algorithm), 4.0, now_s=0.0)
    table.record(sample("h1", 1, vector(local)), 0.0)
    for name in ("h2", "h3"):
        table.add(member(name), listed=False, now_s=0.0)
        table.record(sample(name, 1, vector(0.5 if name == "h2" else 1.5)), 0.0)
    made = Placer(table, Reservations(table, Random(2)), Random(1))
    made.centre = H3
    return made


def decide(made, wish=None, now_s=0.0, dry=False):
    wish = wish or request()
    return made.settle(wish, made.next_step(wish, (), now_s), now_s, dry)


def test_a_pick_is_charged_and_counted_with_its_reason():
    made = placer()
    assert decide(made).host == H2
    assert made.table.charges(H2) == 1.0
    assert made.decisions == {"lowest": 1}


@pytest.mark.parametrize(("algorithm", "fades"), [("GLOBAL", True), ("LOWEST", False)])
def test_a_charge_on_a_host_that_reports_no_change_has_faded_by_the_next_placement(
    algorithm, fades
):
    made = placer(algorithm)
    made.table.charge(H2, JobId("a"), 0.0)
    made.next_step(request(), (), 2 * made.table.params.exchange_period_s + 1.0)
    assert (made.table.charges(H2) < 1.0) == fades


def test_a_dry_decision_is_neither_charged_nor_counted_and_shows_every_host():
    made = placer()
    found = decide(made, dry=True)
    assert len(found.candidates) == 3
    assert made.table.charged_jobs() == 0
    assert not made.decisions


def test_a_waiting_command_holds_no_charge():
    made = placer()
    decide(made)
    for name, number in (("h2", 2), ("h3", 2)):
        made.table.record(sample(name, number, vector(0.5, slots=(1, 1))), 1.0)
    found = decide(made, request(may_wait=True), now_s=1.0)
    assert found.verdict is Verdict.WAIT
    assert made.table.charged_jobs() == 0


def test_of_hosts_with_the_same_load_the_chosen_one_is_shown_first():
    """The arrow was at rank 2 of two hosts with the same load."""
    found = tuple(
        Candidate(name, load, 0.0, willing, "")
        for name, load, willing in (
            ("h1", 0.50, True), ("h2", 0.80, True), ("h3", 0.81, True), ("h4", 0.90, True),
            ("h5", 0.10, False),
        )
    )  # fmt: skip
    for chosen, order in (
        ("h1", "h1 h2 h3 h4 h5"), ("h3", "h1 h3 h2 h4 h5"), ("h4", "h1 h2 h3 h4 h5"),
        ("h5", "h1 h2 h3 h4 h5"), ("h6", "h1 h2 h3 h4 h5"),
    ):  # fmt: skip
        assert [one.name for one in first_of_its_tie(found, chosen)] == order.split()
    made, chosen = placer(), set()
    made.table.record(sample("h3", 2, vector(0.5)), 0.0)
    for _ in range(20):
        decision = decide(made, dry=True)
        chosen.add(decision.host)
        assert decision.candidates[0].name == decision.host
    assert chosen == {H2, H3}


@pytest.mark.parametrize("dry", [True, False])
def test_a_host_that_has_left_meanwhile_is_not_the_answer(dry):
    made = placer()
    made.table.remove(H2)
    picked = Placement(Verdict.THERE, H2, "lowest")
    found = made.settle(request(), picked, 0.0, dry)
    assert (found.verdict, found.host, found.reason) == (Verdict.HERE, H1, "host-left")


def test_a_probed_host_that_has_left_meanwhile_is_skipped():
    made = placer("LOWEST")
    reply = made.probed(H2, m.ProbeReply(sample("h2", 2)), 0.0)
    made.table.remove(H2)
    made.table.remove(H3)
    assert made.next_step(request(), (reply,), 0.0).reason == "no-peer"


@pytest.mark.parametrize("body", [None, m.Ack(unknown_sender=True), m.ProbeReply(sample("h3", 9))])
def test_a_probe_without_a_valid_answer(body):
    assert not placer("LOWEST").probed(H2, body, 0.0).answered


def test_the_choice_of_the_centre_is_followed():
    made = placer("CENTRAL")
    assert made.next_step(request(), (), 0.0) == Ask(H3)
    reply = made.answered(request(), H3, m.CentreReply(Verdict.THERE, H2, "centre-lowest"), 0.0)
    assert made.next_step(request(), (reply,), 0.0).host == H2
    assert len(reply.decision.candidates) == 3  # it is shown to people
    hidden = made.answered(replace(request(), shown=False), H3, m.CentreReply(None, H1, "no"), 0.0)
    assert (hidden.answered, hidden.decision.candidates) == (True, ())
    nowhere = made.answered(request(), H3, m.CentreReply(None, H1, "no-willing-host"), 0.0)
    assert nowhere.answered
    assert isinstance(made.next_step(request(), (nowhere,), 0.0), Nowhere)


def test_a_command_that_can_run_nowhere_is_counted():
    made = placer()
    nowhere = request(must_leave=True, excluded=("h2", "h3"))
    assert isinstance(decide(made, nowhere), Nowhere)
    assert made.decisions == {"nowhere": 1}


def test_a_centre_that_names_an_unknown_host_counts_as_silent():
    made = placer("CENTRAL")
    body = m.CentreReply(Verdict.THERE, HostId("h9"), "centre-lowest")
    assert not made.answered(request(), H3, body, 0.0).answered


def test_a_silent_centre_is_left_alone_for_a_while():
    made = placer("CENTRAL")
    made.answered(request(), H3, None, 10.0)
    assert made.next_step(request(), (), 10.1).reason == "centre-silent"
    assert made.next_step(request(), (), 10.0 + ASK_AGAIN_S) == Ask(H3)


def test_the_centre_takes_into_account_what_the_asking_host_knows_of_itself():
    made = placer("CENTRAL", local=0.1)
    ask = m.AskCentre(
        request().job, frozenset(), False, False, False, sample("h2", 2, vector(0.2)), charges=6.0
    )
    reply = made.decide_for(H2, ask, 0.0)
    # 0.2 of index and six picks on two cores are far above our load
    assert (reply.verdict, reply.host) == (Verdict.THERE, H1)
    assert made.table.charges(H1) == 1.0
    assert made.table.charges(H2) == 0.0


def test_a_tried_reservation_is_used_up_unless_the_decision_is_dry():
    made = placer("RESERVE")
    made.reservations.held[:] = [H2, H3]
    for dry, left in ((True, [H2, H3]), (False, [H2])):
        step = made.next_step(request(), (), 0.0, dry)
        assert isinstance(step, Probe)
        assert step.hosts == (H3,)
        assert made.reservations.held == left


@pytest.mark.parametrize(
    ("verdict", "host", "wish", "counts"),
    [
        (Verdict.THERE, H2, {}, True),
        (Verdict.THERE, H1, {}, False),  # that is here
        (Verdict.THERE, H2, {"excluded": ["h2"]}, False),
        (Verdict.HERE, H1, {}, True),
        (Verdict.HERE, H1, {"must_leave": True}, False),
        (Verdict.HERE, H1, {"excluded": ["h1"]}, False),
        (Verdict.WAIT, H2, {"may_wait": True}, True),
        (Verdict.WAIT, H2, {}, False),
        (Verdict.WAIT, HostId("h9"), {"may_wait": True}, False),
    ],
)
def test_an_answer_of_the_centre_counts_only_if_it_fits_the_request(verdict, host, wish, counts):
    reply = placer("CENTRAL").answered(request(**wish), H3, m.CentreReply(verdict, host, "x"), 0.0)
    assert reply.answered == counts
    assert (reply.decision is not None) == counts


def test_the_centre_learns_once_of_the_end_of_each_job_that_it_has_placed(monkeypatch):
    monkeypatch.setattr("lbd.lim.core.placement.ENDED_MAX", 2)
    made = placer("CENTRAL")
    names = [JobId(f"h1-{number}") for number in range(1, 5)]
    verdicts = (Verdict.THERE, Verdict.WAIT, Verdict.THERE, Verdict.THERE)
    for name, verdict in zip(names, verdicts, strict=True):
        wish = replace(request(may_wait=True), job=name)
        made.answered(wish, H3, m.CentreReply(verdict, H2, "x"), 0.0)
    for name in (*names, names[3], "h1-9"):
        made.job_ended(name)
    # the first is the oldest of more than two, and the second was not placed
    assert made.question(request(), sample("h1", 2), False).ended == (names[2], names[3])
    assert made.take_ended() == ()


def test_the_end_of_a_job_on_this_host_is_a_departure():
    made = placer(local=0.0)
    made.settle(request("j1"), Placement(Verdict.THERE, H2, "x"), 0.0, False)
    made.job_ended(JobId("j1"))
    assert not made.reservations._departed
    made.settle(request("j2"), Placement(Verdict.HERE, H1, "x"), 0.0, False)
    assert made.table.charges(H1) == 1.0
    made.job_ended(JobId("j2"))
    assert made.reservations._departed
    assert made.table.charged_jobs() == 0


@pytest.mark.parametrize("dry", [True, False])
def test_a_centre_charges_what_it_has_placed_until_it_learns_of_its_end(dry):
    made = placer("CENTRAL", local=0.1)
    ask = m.AskCentre(
        JobId("j"), frozenset(), True, False, dry, sample("h2", 2, vector(0.2)), charges=0.0
    )
    reply = made.decide_for(H2, ask, 0.0)
    assert (reply.verdict, reply.host, reply.reason) == (Verdict.THERE, H1, "centre-lowest")
    assert made.table.charges(H1) == (0.0 if dry else 1.0)
    told, of_h3 = frozenset((H2,)), sample("h3", 2, vector(9.0))
    made.decide_for(H3, replace(ask, sample=of_h3, excluded=told, ended=(JobId("j"),)), 0.0)
    assert made.table.charges(H1) == (0.0 if dry else 2.0), "another host's j is another job"
    nowhere = replace(ask, excluded=frozenset((H1, H3)), ended=(JobId("j"),))
    assert made.decide_for(H2, nowhere, 0.0).verdict is None
    assert made.table.charges(H1) == (0.0 if dry else 1.0)

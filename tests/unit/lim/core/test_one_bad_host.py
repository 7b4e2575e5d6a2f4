"""A compromised host with a valid certificate sends a LIM what it likes: no other host suffers.

Its certificate vouches for the sender's name (`rpc.lim_network`); `rpc.convert` lets through what
is well formed. What a LIM does with the rest is tested here. It is accepted that such a host lies
about its own load and drains hosts, and that it changes settings where nothing is signed
(`test_signed`).
"""

import math

import pytest

from lbd.config.fields import bounds_of
from lbd.config.schema import LimConfig
from lbd.errors import ConfigError, PeerError
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core.adaptive import Tuner
from lbd.lim.core.charges import CHARGES_MAX, ChargeBook
from lbd.lim.core.membership import INTRODUCED_MAX
from lbd.lim.core.placement import job_of
from lbd.lim.core.table import UNLISTED_RANK
from lbd.model import HostId, HostState, JobId, Placement, Verdict
from lbd.net import convert
from lbd.net.gen import lim_pb2 as pb
from lbd.policy.view import Reply
from lbd.testing.builders import lim_state, member, published, request, sample, vector
from lbd.testing.virtual_cluster import settled

H1, H2, BAD, ME = map(HostId, ("h1", "h2", "h3", "h4"))
ALL = ("h1", "h2", "h3", "h4")
NOW_S = 10.0
TOP = m.COUNTER_MAX
LIGHT = vector(0.0, slots=(8, 0))


def of_others(name):
    """Returns every kind of message that carries the load of a host, with that of `name`."""
    theirs = sample(name, 9, LIGHT, incarnation=7)
    return [
        m.Report(theirs, (JobId("h2-1"),)),
        m.AskCentre(JobId("j"), frozenset(), False, False, False, theirs, 0.0, (JobId("h2-1"),)),
        m.Reserve(theirs),
        published(theirs),
    ]


KINDS = (
    m.Hello(member("h3", 0, 9), wants_members=True),
    *of_others("h2"), *of_others("h3"), m.Unreserve(), m.Probe(), m.Drain(True), m.Leave(),
    m.Settings(5, "h3", "NOLB"), m.Members((member("h8"),), m.Settings(5, "h3", "NOLB")),
    m.ProbeReply(sample("h2", 9)), m.CentreReply(Verdict.THERE, BAD, "lowest"),
    m.ReserveReply(True, sample("h2", 9)), m.Ack(unknown_sender=True, known_incarnation=TOP),
)  # fmt: skip


def lim(me="h4", params=None, joined=()):
    """Returns a LIM that has heard of all hosts, and is loaded enough to take reservations."""
    state = lim_state(me, ALL, params or LimConfig(algorithm="RESERVE"))
    state.handle(e.Sampled(vector(3.0).queues, 3.0, 1.0), NOW_S)
    for name in ALL:
        if name != me:
            hear(state, name, m.Report(sample(name, 1, vector(1.0))))
    for name in joined:
        hear(state, name, m.Hello(member(name, 0, 1), wants_members=False))
    if me != "h1":
        hear(state, H1, published())  # h1 is the centre
    state.handle(e.Tick(), NOW_S)
    return state


def hear(state, sender, body, incarnation=1, cluster="test", now_s=NOW_S):
    """Returns the reply to the message."""
    message = m.Message(cluster, HostId(sender), incarnation, body)
    actions = state.handle(e.Received(message), now_s)
    (reply,) = (action.body for action in actions if isinstance(action, e.Reply))
    return reply


def known(state):
    """Returns everything that a LIM's decisions rest on."""
    return (
        {n: (x.member, x.sample, x.left) for n, x in state.table.entries.items()},
        state.settings, state.drained, state.centre, list(state.reservations.held),
        state.table.charged_jobs(), state.membership.me,
    )  # fmt: skip


@pytest.mark.parametrize("body", KINDS, ids=lambda body: type(body).__name__)
@pytest.mark.parametrize(
    ("sender", "cluster"), [("h3", "another"), ("h9", "test"), ("h4", "test")],
    ids=["of another cluster", "of a stranger", "in our own name"],
)  # fmt: skip
def test_what_is_not_of_a_host_of_ours_changes_nothing(sender, cluster, body):
    state = lim()
    before = known(state)
    reply = hear(state, sender, body, cluster=cluster)
    assert isinstance(reply, m.Ack)
    assert reply.unknown_sender or reply.error
    assert known(state) == before


@pytest.mark.parametrize("body", of_others("h2"), ids=lambda body: type(body).__name__)
def test_only_the_centre_is_believed_about_the_load_of_others(body):
    state = lim()
    before = known(state)
    reply = hear(state, BAD, body)
    assert not isinstance(reply, m.CentreReply | m.ReserveReply)
    assert known(state) == before


# -- numbers -------------------------------------------------------------------------------------

FLOATS = (
    "age_s", "index", "cpu_queue", "io_queue", "memory_queue", "utilisation", "cores", "speed",
)  # fmt: skip


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 1e30])
def test_no_absurd_number_gets_in(name, value):
    wire = pb.Sample(**{"host": "h3", "cores": 1, "speed": 1, name: value})
    with pytest.raises(PeerError, match="cannot be"):
        convert.sample(wire)


@pytest.mark.parametrize("name", ["incarnation", "number"])
def test_no_number_is_accepted_that_nothing_could_follow(name):
    values = {"host": "h3", "cores": 1, "speed": 1, name: TOP + 1}
    with pytest.raises(PeerError, match="cannot be"):
        convert.sample(pb.Sample(**values))


# -- making other hosts deaf, mute or blind -----------------------------------------------------


def test_a_lying_centre_does_not_make_us_deaf_to_a_host():
    """Others may report its restart; which messages are old, only the host itself may say."""
    state = lim()
    assert state.centre == H1
    hear(state, H1, published(sample("h2", TOP, incarnation=TOP)))
    assert isinstance(hear(state, H2, m.Probe()), m.ProbeReply)
    reply = hear(state, H2, m.Hello(member("h2", 1, incarnation=2), wants_members=False))
    assert reply == m.Ack()


@pytest.mark.parametrize("incarnation", [1, TOP])
def test_a_load_frozen_by_a_lying_centre_thaws(incarnation):
    state = lim()
    hear(state, H1, published(sample("h2", TOP, vector(0.0), incarnation=incarnation)))
    late_s = NOW_S + state.in_force.lim.stale_after_s
    for number, now_s in ((2, late_s), (3, late_s + 1.0)):
        hear(state, H1, published(sample("h2", number, vector(5.0))), now_s=now_s)
    assert state.table.entries[H2].sample.number == 3
    assert state.table.state(H2, late_s + 1.0) == (HostState.UP, "")


def test_an_older_sample_does_not_replace_a_newer_one():
    state = lim()
    newer, older = sample("h2", 9, vector(1.0)), sample("h2", 8, vector(5.0))
    for body in (newer, older, sample("h2", 99, incarnation=0)):
        hear(state, H1, published(body), now_s=NOW_S + 1.0)
    assert state.table.entries[H2].sample == newer


def test_a_restarted_host_is_not_shown_in_its_former_state():
    state = lim()
    hear(state, H2, m.Hello(member("h2", 1, incarnation=5), wants_members=False), 5)
    much_later_s = NOW_S + 1000.0
    for now_s in (NOW_S, much_later_s):
        hear(state, H1, published(sample("h2", 2)), now_s=now_s)
        assert state.table.entries[H2].sample.number == 1


def says_unknown(state, known, sent=None, now_s=NOW_S):
    sent = sent or m.Hello(state.membership.me, wants_members=False)
    ack = m.Message("test", BAD, 1, m.Ack(unknown_sender=True, known_incarnation=known))
    return state.handle(e.Replied(BAD, sent, ack), now_s)


def test_nobody_makes_us_mute_by_an_incarnation_that_none_can_follow():
    state = lim()
    assert [type(a.body) for a in says_unknown(state, TOP) if isinstance(a, e.Send)] == [m.Hello]
    assert state.membership.me.incarnation == 1
    says_unknown(state, 1000)
    assert state.membership.me.incarnation == state.own_sample(NOW_S).incarnation == 1001
    convert.decode(convert.encode(state.envelope(m.Probe())))


def test_a_host_that_claims_not_to_know_us_gets_few_hellos():
    state = lim()
    said = [a for _ in range(50) for a in says_unknown(state, state.membership.me.incarnation)]
    assert sum(isinstance(a, e.Send) for a in said) == INTRODUCED_MAX
    assert state.membership.me.incarnation <= 1 + INTRODUCED_MAX
    later_s = NOW_S + state.in_force.lim.keepalive_s
    state.handle(e.Tick(), later_s)
    assert says_unknown(state, 0, now_s=later_s)


def test_a_host_that_forgot_us_is_told_our_load_at_once():
    state = lim()
    state.handle(e.Tick(), NOW_S + 1.0)
    says_unknown(state, 0, m.Report(sample("h4", 1)), NOW_S + 1.0)
    assert state.owes_keepalive(NOW_S + 1.0)


# -- becoming the centre -------------------------------------------------------------------------


def test_no_host_goes_before_the_configured_ones():
    state = lim(joined=("a0",))
    hear(state, BAD, m.Hello(member("h3", 0), wants_members=False))
    known_of = m.Members((member("h3", 0), member("a0", 0), member("a1", 0)), m.Settings())
    reply = m.Message("test", BAD, 1, known_of)
    state.handle(e.Replied(BAD, m.Hello(state.membership.me, True), reply), NOW_S)
    hear(state, "a1", m.Hello(member("a1", 0), wants_members=False))
    assert state.table.ranking()[:4] == list(ALL)
    assert state.table.entries["a0"].member.rank == UNLISTED_RANK


def test_a_host_without_a_list_uses_the_ranks_of_others():
    state = lim_state("h9", join="10.0.0.1:7901")
    ranked = m.Members((member("h2", 1), member("h1", 0)), m.Settings())
    sent = m.Hello(state.membership.me, True)
    state.handle(e.Replied(HostId(""), sent, m.Message("test", H1, 1, ranked)), 1.0)
    assert state.table.ranking() == ["h1", "h2", "h9"]


# -- settings ------------------------------------------------------------------------------------


def test_settings_of_the_highest_number_blind_nobody():
    state = lim()
    hear(state, BAD, m.Settings(TOP, "h3", "NOLB"))
    assert state.in_force.lim.algorithm == "NOLB"
    with pytest.raises(ConfigError, match="settings is at its maximum"):
        state.handle(e.ChangeSettings("GLOBAL", {}), NOW_S)
    adaptive = {"lim.adaptive": 1.0}
    hear(
        state,
        BAD,
        m.Settings(TOP, "h9", "NOLB", adaptive, {"lim.min_gain": 0.5}, drains={ME: True}),
    )
    delta_sent = published(settings=state.settings.version)
    assert convert.decode(convert.encode(state.envelope(delta_sent))).body == delta_sent
    for second in range(5):
        state.handle(e.Tick(), NOW_S + second)


def test_a_centre_survives_settings_of_the_highest_number():
    """It just tunes nothing any more."""
    state = lim("h1", LimConfig(adaptive=True))
    hear(state, BAD, m.Settings(TOP, "h3", "NOLB"))
    for second in range(100):
        state.handle(e.Sampled(vector(9.0).queues, 9.0, 1.0), NOW_S + second)
        state.handle(e.Tick(), NOW_S + second)
    assert state.settings.counter == TOP


def test_settings_of_the_highest_number_that_drain_us_still_apply():
    state = lim()
    message = m.Message("test", BAD, 1, m.Settings(TOP, "h3", "NOLB", drains={ME: True}))
    actions = state.handle(e.Received(message), NOW_S)
    assert [action for action in actions if isinstance(action, e.Configure)]


def test_of_two_settings_of_one_version_the_first_counts():
    state = lim()
    hear(state, H2, m.Settings(3, "h2", "CENTRAL"))
    hear(state, BAD, m.Settings(3, "h2", "NOLB"))
    assert state.in_force.lim.algorithm == "CENTRAL"


def test_absurd_loads_leave_the_tuned_parameters_within_their_bounds():
    params, tuner = LimConfig(adaptive=True), Tuner()
    bounds = {
        item.name: bounds_of(item.metadata) for item in LimConfig.__dataclass_fields__.values()
    }
    for load in (0.0, 1.001):
        absurd = vector(1e9, cores=1e6, speed=1e6)
        absurd.utilisation = load
        for second in range(0, 400, 10):
            found = tuner.tune([absurd], params, {}, float(second))
        for name, value in found.params.items():
            low, high = (
                bounds[name.removeprefix("lim.")].low,
                bounds[name.removeprefix("lim.")].high,
            )
            assert low <= value <= high


# -- growing, and other hosts' jobs --------------------------------------------------------------


def test_a_full_table_takes_no_more_hosts_and_few_tombstones():
    state = lim(params=LimConfig(max_hosts=6), joined=("a0", "a1"))
    assert "full" in hear(state, "a2", m.Hello(member("a2"), wants_members=False)).error
    for number in range(50):
        hear(state, "a1", m.Leave(), number + 1)
        name = f"b{number}"
        hear(state, name, m.Hello(member(name), wants_members=False))
        hear(state, name, m.Leave())
        hear(state, "a1", m.Hello(member("a1", 0, number + 2), wants_members=False), number + 2)
    assert len(state.table.entries) == 6
    assert len(state.membership.tombstones) <= 6


def test_a_host_known_only_through_the_centre_is_alive_and_keeps_its_name():
    state = lim()
    later_s = NOW_S + state.in_force.lim.stale_after_s + 1.0
    hear(state, H1, published(sample("h2", 2)), now_s=later_s)
    other = member("h2", 1, 5, address="10.9.9.9")
    assert hear(state, H2, m.Hello(other, False), 5, now_s=later_s).name_taken


def test_a_host_cannot_end_the_jobs_of_others_at_the_centre():
    state = lim("h1", LimConfig(algorithm="CENTRAL"))
    own = sample("h2", 2, vector(5.0))
    ask = m.AskCentre(JobId("h2-1"), frozenset(), True, False, False, own, 0.0)
    assert hear(state, H2, ask).verdict is Verdict.THERE
    hear(state, BAD, m.Report(sample("h3", 2), (JobId("h2-1"),)))
    assert state.table.charged_host(job_of(H2, JobId("h2-1"))) is not None
    state.handle(e.JobStarted(JobId("h2-1"), H2), NOW_S)  # one of our own
    hear(state, H2, m.Report(sample("h2", 3), (JobId("h2-1"),)))
    assert state.table.charged_host(job_of(H2, JobId("h2-1"))) is None
    assert state.table.charged_host(JobId("h2-1")) == H2


def test_a_dry_question_charges_nobody():
    state = lim("h1", LimConfig(algorithm="CENTRAL"))
    ask = m.AskCentre(JobId("x"), frozenset(), True, False, True, sample("h2", 2), 0.0)
    assert hear(state, H2, ask).verdict is Verdict.THERE
    assert state.table.charged_jobs() == 0


def test_charges_are_bounded_in_number():
    book = ChargeBook()
    for number in range(CHARGES_MAX + 50):
        book.add(H2, JobId(f"x{number}"), 1.0)
    assert book.jobs() == len(book.of(H2)) == CHARGES_MAX


@pytest.mark.parametrize(
    ("verdict", "host", "asked", "taken"),
    [
        (Verdict.WAIT, "h1", {"may_wait": False}, False),
        (Verdict.WAIT, "h1", {"may_wait": True}, True),
        (Verdict.HERE, "h4", {"must_leave": True}, False),
        (Verdict.HERE, "h4", {"excluded": ["h4"]}, False),
        (Verdict.HERE, "h4", {}, True),
        (Verdict.THERE, "h2", {"excluded": ["h2"]}, False),
        (Verdict.THERE, "h4", {}, False),
        (Verdict.THERE, "h9", {}, False),
        (Verdict.THERE, "h2", {}, True),
    ],
)
def test_a_centre_is_not_obeyed_against_the_wishes_of_the_user(verdict, host, asked, taken):
    state = lim(params=LimConfig(algorithm="CENTRAL"))
    reply = m.CentreReply(verdict, HostId(host), "centre-lowest")
    found = state.placer.answered(request(**asked), H1, reply, NOW_S)
    assert isinstance(found, Reply)
    assert found.answered is taken
    assert isinstance(found.decision, Placement) is taken


# -- a cluster heals -----------------------------------------------------------------------------


def test_a_cluster_heals_when_a_lying_centre_is_gone():
    """h1 is the centre, and claims that every host has an extreme load, and new settings."""
    cluster = settled(5, 3)
    frozen = tuple(sample(name, TOP, LIGHT, incarnation=TOP) for name in ("h2", "h3", "h4", "h5"))
    for name in ("h2", "h3", "h4", "h5"):
        lie = m.Message(
            "test", H1, cluster["h1"].state.membership.me.incarnation, published(*frozen)
        )
        cluster[name].state.handle(e.Received(lie), cluster.now_s)
        cluster[name].seen._newest.clear()
    cluster.check_each_event = False  # a sample goes back, once
    cluster.crash("h1")
    cluster.run(LimConfig().down_after_s + 10)
    cluster.run_until(cluster.settled, 30, "the others see each other as they are")
    for host in cluster.alive():
        assert {
            x.sample.incarnation < TOP for x in host.state.table.entries.values() if x.sample
        } == {True}

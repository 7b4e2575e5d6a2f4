"""The centre's publication and the hosts' copies of it, over a wire that may lose messages."""

from dataclasses import replace
from random import Random

import pytest

from lbd.config.schema import LimConfig
from lbd.lim.core import messages as m
from lbd.lim.core.digest import mark_of
from lbd.lim.core.publication import Publication, silent_after_s, worth_refreshing
from lbd.lim.core.replica import Replica
from lbd.lim.core.table import Table
from lbd.model import HostId, HostState
from lbd.net import convert
from lbd.testing.builders import host, member, sample, vector

PARAMS = LimConfig()
H1, H2, H3, H4 = map(host, range(1, 5))
SETTINGS = m.Settings()


class Wire:
    """h1, the centre, and h2, over the real encoding. All share the clock `now_s`."""

    def __init__(self, hosts=4):
        self.now_s = 1000.0
        names = [host(number) for number in range(1, hosts + 1)]
        self.centre = Table(member("h1"), PARAMS, 4.0, self.now_s)
        self.table = Table(member("h2", 1), PARAMS, 4.0, self.now_s)
        self.publication, self.replica = Publication(), Replica(self.table)
        self.peer = member("h2", 1)
        for table in (self.centre, self.table):
            for rank, name in enumerate(names):
                if name != table.me:
                    table.add(member(name, rank), listed=True, now_s=self.now_s)
        self.numbers = dict.fromkeys(names, 0)
        for name in names:
            self.hears(name, 0.0)

    def hears(self, name, load, **more):
        """The centre receives this load of a host."""
        self.numbers[name] += 1
        told = sample(name, self.numbers[name], vector(load, **more))
        assert self.centre.record(told, self.now_s)

    def hear_all(self, *but):
        for name in self.numbers:
            if name not in but:
                self.hears(name, self.centre.entries[name].sample.vector.index)

    def period(self, changes=True):
        """Returns what this period publishes for h2, as it arrives there."""
        self.now_s += 1.0
        publication = self.publication
        refreshes = publication.is_due(self.now_s, PARAMS)
        publication.observe(self.centre.entries, self.now_s, PARAMS, changes, refreshes)
        sent = publication.deltas([self.peer], [], refreshes, SETTINGS, self.now_s, PARAMS)
        return [arrived(delta) for _, delta in sent]

    def hand_over(self, delta, believed=True, sender=H1):
        """Delivers the delta; returns what h2 claims to have."""
        message = m.Message("test", sender, 1, delta)
        return self.replica.take(message, delta, believed, self.now_s)

    def acknowledge(self, version, incarnation=1):
        self.publication.acknowledged(H2, incarnation, version)

    def exchange(self, changes=True):
        """Runs a period without losses; returns what was sent."""
        sent = self.period(changes)
        for delta in sent:
            self.acknowledge(self.hand_over(delta))
        return sent

    def load(self, name):
        return self.table.entries[name].sample.vector.index


def arrived(delta):
    return convert.decode(convert.encode(m.Message("test", H1, 1, delta))).body


@pytest.fixture
def wire():
    made = Wire()
    made.exchange()
    return made


def lines(delta):
    return len(delta.whole) + len(delta.loads)


def test_a_new_host_is_sent_everything_and_then_only_changes():
    wire = Wire()
    (first,) = wire.exchange()
    assert first.since == 0
    assert {found.host for _, found in first.whole} == {H1, H2, H3, H4}
    wire.hear_all()
    assert [lines(delta) for delta in wire.exchange()] == []
    wire.hears(H3, 1.5)
    (second,) = wire.exchange()
    assert (lines(second), len(second.loads)) == (1, 1)
    assert wire.load(H3) == 1.5


def test_unacknowledged_changes_are_sent_again(wire):
    wire.hears(H3, 1.5)
    (lost,) = wire.period()
    wire.hears(H4, 2.5)
    (again,) = wire.exchange()
    assert lost.since == again.since
    assert lines(again) == 2
    assert (wire.load(H3), wire.load(H4)) == (1.5, 2.5)


def test_a_delta_that_arrives_twice_or_late_changes_nothing(wire):
    wire.hears(H3, 1.5)
    (first,) = wire.period()
    wire.hears(H3, 0.0)
    (second,) = wire.period()
    known = wire.hand_over(second)
    assert wire.hand_over(first) == wire.hand_over(second) == known == second.version
    assert wire.load(H3) == 0.0


def test_a_drain_that_the_centre_knows_before_the_report_reaches_the_others(wire):
    """It asked the host itself, and publishes further periods before the host's report arrives."""
    drained = sample("h3", 2, vector(0.0))
    for now in (True, False):
        wire.centre.drained_there(H3, now)
        assert wire.centre.is_drained(wire.centre.entries[H3]) is now
        wire.exchange()
        drained = replace(drained, number=drained.number + 1, drained=now)
        wire.centre.record(drained, wire.now_s)
        wire.exchange()
        assert wire.table.is_drained(wire.table.entries[H3]) is now


def test_a_host_that_changes_more_than_its_load_is_introduced_again(wire):
    wire.hears(H3, 0.0, cores=8.0)
    sent = [delta for _ in range(6) for delta in wire.exchange()]  # with the next keep-alive
    assert [found.host for delta in sent for _, found in delta.whole] == [H3]
    assert wire.table.entries[H3].sample.vector.cores == 8.0


def test_unmentioned_hosts_stay_up_and_one_that_is_silent_goes_down():
    wire = Wire()
    for _ in range(40):
        wire.hear_all(H4)
        wire.exchange()
    state = {name: wire.table.state(name, wire.now_s)[0] for name in (H1, H3, H4)}
    assert state == {H1: HostState.UP, H3: HostState.UP, H4: HostState.DOWN}
    wire.hear_all()
    wire.exchange()
    assert wire.table.state(H4, wire.now_s)[0] is HostState.UP


def test_a_silent_host_costs_one_line_until_it_is_down_and_one_then():
    wire = Wire()
    wire.exchange()
    sent = []
    for _ in range(40):
        wire.hear_all(H4)
        sent += [delta for delta in wire.exchange() if lines(delta) or delta.gone]
    assert [(lines(delta), len(delta.silent), len(delta.gone)) for delta in sent] == [
        (1, 1, 0),
        (0, 0, 1),
    ]


def test_a_host_that_the_centre_has_forgotten_is_gone_and_new_when_it_is_back(wire):
    kept = wire.centre.entries.pop(H4)
    del wire.numbers[H4]
    (delta,) = wire.exchange()
    assert (lines(delta), len(delta.gone)) == (0, 1)
    wire.centre.entries[H4] = kept
    (delta,) = wire.exchange()
    assert [found.host for _, found in delta.whole] == [H4]


@pytest.mark.parametrize("earlier_s", [0.0, 0.5])
def test_a_host_is_gone_from_what_is_published_from_when_it_is_down(wire, earlier_s):
    wire.now_s = wire.centre.entries[H4].sampled_at_s + PARAMS.down_after_s - 1.0 - earlier_s
    wire.hear_all(H4)
    (delta,) = wire.exchange()
    is_down = wire.centre.state(H4, wire.now_s)[0] is HostState.DOWN
    assert len(delta.gone) == is_down == (earlier_s == 0.0)


def test_a_host_that_is_down_gets_a_sign_of_life_once_a_keep_alive(wire):
    def sent(now_s):
        deltas = wire.publication.deltas([], [H2], False, SETTINGS, now_s, PARAMS)
        return [(names, lines(delta)) for names, delta in deltas]

    once = [([H2], 0)]
    first_s = wire.now_s + 100.0
    later_s = (0.0, 0.1, PARAMS.keepalive_s - 0.1, PARAMS.keepalive_s, PARAMS.keepalive_s + 0.1)
    assert [sent(first_s + more_s) for more_s in later_s] == [once, [], [], once, []]


def test_a_confirmed_host_has_the_view_that_would_be_computed_for_it(wire):
    wire.table.charge(H3, "h2-1", wire.now_s)
    for changes in (True,) * 8 + (False,) * 12:
        wire.hear_all()
        wire.table.views(wire.now_s)
        wire.exchange(changes)
        views = wire.table.views(wire.now_s)
        for name, entry in wire.table.entries.items():
            if entry.sample is not None:
                charges = wire.table.charges(name)
                assert views[name] == wire.table._make_view(
                    entry, charges, wire.now_s, own=name == H2
                )
    assert wire.now_s - wire.table.entries[H3].sampled_at_s < PARAMS.keepalive_s + 2


def test_the_digest_is_the_one_other_releases_compute():
    lines = (
        (1, sample("h1", 7), False),
        (1, sample("h1", 7), True),
        (300, sample("h2", 1 << 40), False),
    )
    assert [mark_of(*line) for line in lines] == [1003896803, 3702088109, 2984617752]


def test_two_lines_that_exchange_their_numbers_change_the_digest():
    as_it_is = mark_of(1, sample("h1", 7), False) ^ mark_of(2, sample("h2", 8), False)
    exchanged = mark_of(1, sample("h1", 8), False) ^ mark_of(2, sample("h2", 7), False)
    assert as_it_is != exchanged


def test_a_host_that_claims_a_future_version_counts_as_having_none(wire):
    wire.acknowledge(m.COUNTER_MAX)
    sent = [wire.period() for _ in range(12)]
    whole = [delta for period in sent for delta in period if delta.since == 0]
    assert 1 <= len(whole) <= 3  # once a keep-alive


def test_a_host_whose_digest_never_matches_is_sent_everything_once_per_keepalive(wire):
    whole = 0
    for _ in range(20):
        for delta in wire.period():
            whole += delta.since == 0
            wire.acknowledge(wire.hand_over(replace(delta, digest=delta.digest ^ 1)))
    assert 1 <= whole <= 20 / PARAMS.keepalive_s + 1


def test_loads_of_hosts_that_were_never_introduced_are_ignored(wire):
    (load,) = (m.HostLoad(9, 1, 0.0, 0.0, vector().queues, 0.0, 0, 0, 0, 0),)
    lie = m.Delta(1, 9, 0, SETTINGS.version, loads=(load,))
    assert wire.hand_over(lie) == 0
    for _ in range(8):
        wire.hears(H3, 1.5)
        wire.exchange()
    assert wire.load(H3) == 1.5


def test_a_host_that_acknowledges_what_was_never_sent_gets_everything_again(wire):
    wire.hears(H3, 1.5)
    wire.period()
    wire.acknowledge(wire.publication.version)  # it has not heard of h3
    wire.hears(H4, 2.0)
    for _ in range(8):
        wire.exchange()
    assert (wire.load(H3), wire.load(H4)) == (1.5, 2.0)


def test_a_restarted_host_is_sent_everything(wire):
    wire.peer = replace(wire.peer, incarnation=2)
    wire.replica = Replica(wire.table)
    wire.now_s += PARAMS.keepalive_s
    (delta,) = wire.period()
    assert delta.since == 0


def test_of_two_acting_centres_only_one_is_believed_until_the_other_is_the_centre():
    wire = Wire()
    wire.hears(H1, 1.0)
    wire.hears(H3, 1.5)
    (delta,) = wire.period()
    assert wire.hand_over(delta, believed=False) == delta.version
    assert wire.load(H1) == 1.0
    assert wire.table.entries[H3].sample is None
    wire.hand_over(delta, believed=True)
    assert wire.load(H3) == 1.5


@pytest.mark.parametrize("changes", [True, False])
def test_an_unknown_host_is_recorded_once_it_is_known(changes):
    """Also under an algorithm by which changes of loads are not reported, nor confirmed."""
    wire = Wire()
    wire.table.remove(H4)
    wire.exchange(changes)
    assert wire.replica.has_strangers
    wire.table.add(member("h4", 3), listed=True, now_s=wire.now_s)
    wire.hears(H3, 1.0, accepting=False)
    wire.exchange(changes)
    assert not wire.replica.has_strangers
    assert wire.load(H4) == 0.0


def test_an_invented_load_under_a_higher_number_is_corrected(wire):
    lie = sample("h3", m.COUNTER_MAX, vector(9.0))
    wire.table.record(lie, wire.now_s)
    for _ in range(round(PARAMS.keepalive_s) + 3):
        wire.hear_all()
        wire.exchange()
    assert wire.load(H3) == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_after_losses_duplicates_and_delays_the_copy_becomes_the_same(seed):
    rng, wire = Random(seed), Wire(8)
    delayed = []
    for step in range(150):
        name = rng.choice(list(wire.numbers))
        what = rng.random()
        if what < 0.1 and name not in (H1, H2):
            wire.centre.leave(name)
        elif what < 0.2 and wire.centre.entries[name].left:
            wire.centre.update(wire.centre.entries[name].member)
        wire.hears(name, rng.choice((0.0, 0.5, 2.0)), cores=rng.choice((2.0, 2.0, 4.0)))
        calm = step > 130
        for delta in wire.period(changes=calm or rng.random() < 0.8):
            fate = rng.random() if not calm else 0.0
            if fate < 0.5:
                wire.acknowledge(wire.hand_over(delta))
            elif fate < 0.7:
                wire.hand_over(delta)  # the answer is lost
            elif fate < 0.85:
                delayed.append(delta)
        if delayed and rng.random() < 0.3 and not calm:
            wire.acknowledge(wire.hand_over(delayed.pop(rng.randrange(len(delayed)))))
    copy = wire.replica._copies[H1]
    assert copy.version == wire.publication.version
    assert copy.digest == wire.publication.digest
    for line in wire.publication._lines.values():
        found = copy.lines[line.slot].sample
        assert (found.host, found.number) == (line.sample.host, line.sample.number)
        if found.host != H2:
            assert wire.load(found.host) == line.sample.vector.index, found.host


def test_the_state_of_hosts_is_forgotten_with_them(wire):
    wire.publication.forget(HostId("h2"))
    assert not wire.publication._has


@pytest.mark.parametrize(
    ("keepalive_s", "stale_after_s", "expected_s"), [(5.0, 100.0, 8.0), (5.0, 8.0, 6.0)]
)
def test_a_host_is_suspected_when_it_misses_a_report_and_before_it_is_late(
    keepalive_s, stale_after_s, expected_s
):
    params = LimConfig(keepalive_s=keepalive_s, exchange_period_s=1.0, stale_after_s=stale_after_s)
    assert silent_after_s(params) == expected_s


@pytest.mark.parametrize(
    ("changed", "is_worth"),
    [
        ({}, False), ({"index": 1.05}, False), ({"index": 1.06}, True), ({"index": 0.94}, True),
        ({"utilisation": 0.59}, False), ({"utilisation": 0.61}, True),
        ({"memory_available": 500 + 62}, False), ({"memory_available": 500 - 63}, True),
        ({"slots_used": 1}, True), ({"jobs_local": 1}, True), ({"jobs_foreign": 1}, True),
        ({"accepting": False}, True), ({"site": {"users": 2.0}}, True),
    ],
)  # fmt: skip
def test_what_a_keepalive_brings_back(changed, is_worth):
    old = replace(vector(1.0), utilisation=0.5, memory_total=1000, memory_available=500)
    new = sample("h2", 2, replace(old, **changed))
    params = replace(PARAMS, change_threshold=0.11)
    assert worth_refreshing(new, sample("h2", 1, old), params) is is_worth

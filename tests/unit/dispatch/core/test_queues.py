from collections import Counter
from random import Random

import pytest

from lbd.config.dispatch import MODES
from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.shares import Rules
from lbd.model import HostId, JobId


class Table:
    """A dispatcher driven in single words: `arrive("a")` returns what started where, as "a@h1"."""

    def __init__(self, mode="fcfs", cutoffs=(1.0, 10.0), conserving=False, seed=1, **rules):
        self.queues = Queues(make(mode, cutoffs, conserving), Rules(**rules))
        self.rng = Random(seed)
        self.now_s = 0.0
        self.cutoffs = {}

    def told(self, starts):
        self.cutoffs.update({start.job.id: start.cutoff_s for start in starts})
        return [f"{start.job.id}@{start.host}" for start in starts]

    def host(self, name, slots=1, **more):
        host = HostSlots(HostId(name), slots, **more)
        return self.told(self.queues.host_is(host, self.now_s, self.rng))

    def gone(self, name):
        return self.told(self.queues.host_gone(HostId(name), self.now_s, self.rng))

    def arrive(self, id_, **more):
        job = QueuedJob(JobId(id_), **more)
        return self.told(self.queues.arrived(job, self.now_s, self.rng))

    def __getattr__(self, event):  # ended, lost, cut_off
        handle = getattr(self.queues, event)
        return lambda name: self.told(handle(JobId(name), self.now_s, self.rng))


def test_fcfs_serves_in_order():
    table = Table()
    assert table.arrive("a") == []
    assert table.host("h1") == ["a@h1"]
    assert (table.arrive("b"), table.arrive("c")) == ([], [])
    assert table.ended("a") == ["b@h1"]
    assert table.host("h2") == ["c@h2"]


def test_a_lost_job_returns_to_its_old_place():
    table = Table()
    table.host("h1")
    for name in "abc":
        table.arrive(name)
    assert table.gone("h1") == []
    assert table.host("h2") == ["b@h2"]  # what a was doing on h1 is not known yet
    assert table.lost("a") == []
    assert table.ended("b") == ["a@h2"]


def test_the_head_is_not_passed_by_a_smaller_job():
    table = Table()
    table.host("h1", 2)
    assert table.arrive("a") == ["a@h1"]
    assert (table.arrive("wide", slots=2), table.arrive("small")) == ([], [])
    assert table.ended("a") == ["wide@h1"]
    assert table.ended("wide") == ["small@h1"]


def test_a_job_too_large_for_every_host_steps_aside():
    table = Table()
    table.host("h1", 2)
    assert table.arrive("huge", slots=3) == []
    assert table.arrive("a") == ["a@h1"]
    assert table.host("h2", 3) == ["huge@h2"]


def test_when_hosts_change_jobs_of_a_kind_that_none_can_take_are_looked_at_once(monkeypatch):
    """A host that kept changing its slots took up all of a dispatcher's time."""
    table = Table()
    for n in range(1, 200):
        table.arrive(f"{n}", slots=4, user="ann" if n % 2 else "bob")
    looks, put = [], Queues._put
    monkeypatch.setattr(Queues, "_put", lambda *given: looks.append(1) or put(*given))
    table.host("h1", slots=2)
    assert len(looks) <= 2
    assert table.host("h1", slots=4) == ["1@h1"]
    assert table.ended("1") == ["2@h1"]


def test_the_host_with_the_lowest_load_starts_it_and_its_new_jobs_count():
    table = Table()
    table.host("h1", 4, load=0.6)
    table.host("h2", 4, load=0.5)
    found = [table.arrive(name)[0] for name in "abcd"]
    assert found == ["a@h2", "b@h1", "c@h2", "d@h1"]
    table.host("h2", 4, load=0.1)
    assert table.arrive("e") == ["e@h2"]


def test_a_host_may_open_fewer_slots_than_it_has():
    table = Table()
    table.host("h1", 4, open_slots=1)
    assert table.arrive("a") == ["a@h1"]
    assert table.arrive("wide", slots=2) == []  # it fits the host, so it waits for it
    assert table.host("h1", 4, open_slots=2) == []
    assert table.host("h1", 4, open_slots=3) == ["wide@h1"]
    assert table.host("h1", 4, open_slots=0) == []
    assert table.arrive("b") == []


def test_a_job_that_ran_before_a_new_dispatcher_keeps_its_slot():
    table = Table()
    table.queues.found_running(QueuedJob(JobId("old")), HostId("h1"), 0.0)
    table.host("h1")
    assert table.arrive("a") == []
    assert table.ended("old") == ["a@h1"]


def test_cancelling_the_head_lets_the_next_go():
    table = Table()
    table.host("h1", 2)
    table.arrive("a")
    table.arrive("wide", slots=2)
    table.arrive("b")
    assert table.ended("wide") == ["b@h1"]


@pytest.mark.parametrize("mode", MODES)
def test_a_job_is_recorded_only_once(mode):
    table = Table(mode)
    table.arrive("a")
    with pytest.raises(ValueError, match="job a"):
        table.arrive("a")
    for event in ("ended", "lost", "cut_off"):
        assert getattr(table, event)("nobody") == []


# Dispatch on arrival


def test_random_is_fair_to_slots():
    table = Table("random")
    table.host("h1")
    table.host("h2", 3)
    for i in range(2000):
        table.arrive(f"j{i}")
    there = sum((e.host or e.line) == "h2" for e in table.queues.registry.values())
    assert 1400 < there < 1600


def test_shortest_queue_counts_running_and_waiting_by_slots():
    table = Table("shortest-queue")
    table.host("h1")
    table.host("h2", 2)
    for i in range(3):
        table.arrive(f"j{i}")
    assert {e.host for e in table.queues.registry.values()} == {"h1", "h2"}
    for i in range(3, 6):
        table.arrive(f"j{i}")
    counts = Counter(e.host or e.line for e in table.queues.registry.values())
    assert counts == {"h1": 2, "h2": 4}


def test_least_work_uses_estimates_and_subtracts_what_has_run():
    table = Table("least-work")
    table.host("h1")
    table.host("h2")
    first = table.arrive("long", estimate_s=100.0)[0][-2:]
    other = "h2" if first == "h1" else "h1"
    assert table.arrive("short", estimate_s=60.0) == [f"short@{other}"]
    table.now_s = 50.0  # 50 left there, 10 here
    table.arrive("x", estimate_s=20.0)
    assert table.queues.registry[JobId("x")].line == other
    table.arrive("y", estimate_s=1.0)  # 50 against 30
    assert table.queues.registry[JobId("y")].line == other
    table.arrive("unknown")  # counts as (100+60+20+1)/4
    assert table.queues.registry[JobId("unknown")].work_s == pytest.approx(181 / 4)


def test_a_job_that_waited_for_a_departed_host_joins_another():
    table = Table("round-robin")
    table.host("h1")
    table.host("h2")
    for name in "abcd":
        table.arrive(name)
    assert table.gone("h1") == []
    assert table.ended("b") == ["c@h2"]  # c came before d, though it had waited for h1
    assert table.gone("h2") == []
    assert table.host("h3") == ["d@h3"]


# Tiers


def tags(*tiers, **more):
    table = Table("tags", **more)
    for number, tier in enumerate(tiers, 1):
        table.host(f"h{number}", tiers=tier if isinstance(tier, tuple) else (tier,))
    return table


def test_tags_kills_at_the_cutoff_and_restarts_in_the_next_tier():
    table = tags(1, 2, 3)
    assert (table.arrive("a"), table.cutoffs["a"]) == (["a@h1"], 1.0)
    assert table.arrive("b") == []
    assert table.cut_off("a") == ["b@h1", "a@h2"]
    assert table.cutoffs["a"] == 10.0
    assert (table.cut_off("a"), table.cutoffs["a"]) == (["a@h3"], None)


def test_a_job_that_may_not_restart_goes_to_the_last_tier_at_once():
    table = tags(1, 2, 3)
    assert table.arrive("a", may_restart=False) == ["a@h3"]
    assert table.cutoffs["a"] is None
    assert table.arrive("b", may_restart=False) == []  # with two hosts idle


def test_a_lost_job_starts_again_in_its_own_tier():
    table = tags(1, 2, 3)
    table.arrive("a")
    table.cut_off("a")
    assert table.lost("a") == ["a@h2"]


def test_a_host_of_two_tiers_serves_the_lower_first():
    table = tags((1, 2), 3)
    table.arrive("a")
    assert table.cut_off("a") == ["a@h1"]  # now in tier 2, nobody else there
    assert (table.arrive("b"), table.arrive("c")) == ([], [])
    assert table.cut_off("a") == ["b@h1", "a@h2"]
    assert table.cut_off("b") == ["c@h1"]
    assert table.ended("c") == ["b@h1"]


def test_several_hosts_of_a_tier_serve_one_line():
    table = tags(1, 1, 2, 3)
    assert sorted(table.arrive("a") + table.arrive("b")) in (["a@h1", "b@h2"], ["a@h2", "b@h1"])
    assert table.arrive("c") == []


def test_work_conserving_lends_an_idle_host_to_a_lower_tier():
    table = tags(1, 2, 3, conserving=True)
    assert table.arrive("a") == ["a@h1"]  # its own host first
    (start,) = table.arrive("b")
    assert start in ("b@h2", "b@h3")
    assert table.cutoffs["b"] == 1.0  # the lower tier's
    table.arrive("c")
    assert table.arrive("d") == []
    assert len(table.cut_off("a")) == 1  # d continues: h1 serves tier 1 before tier 2


@pytest.mark.parametrize(
    ("gone", "host", "cutoff"), [("h1", "h2", 1.0), ("h2", "h3", 10.0), ("h3", "h2", None)]
)
def test_the_nearest_tier_stands_in_for_one_without_hosts(gone, host, cutoff):
    table = tags(1, 2, 3)
    table.gone(gone)
    tier = int(gone[1])
    assert table.arrive("a", tier=tier) == [f"a@{host}"]
    assert table.cutoffs["a"] == cutoff


def test_a_wide_job_starts_in_the_first_tier_that_has_room_for_it():
    table = tags(1, 3)
    table.host("h9", 4, tiers=(2,))
    assert table.arrive("wide", slots=4) == ["wide@h9"]
    assert table.cutoffs["wide"] == 10.0
    assert table.cut_off("wide") == []  # tier 3 has one slot: it steps aside
    assert table.host("h8", 4, tiers=(3,)) == ["wide@h8"]


def test_when_a_wide_head_leaves_its_slots_are_free_for_others_again():
    """h1 was reserved for it, against the job of the other tier."""
    table = Table("tags")
    table.host("h1", 2, tiers=(1, 2, 3))
    assert table.arrive("a") == ["a@h1"]
    assert table.arrive("wide", slots=2) == []
    assert table.arrive("b", tier=2) == []
    assert table.ended("wide") == ["b@h1"]


def test_a_wide_head_that_starts_elsewhere_frees_its_reserved_slots():
    table = Table("tags")
    table.host("h1", 2, tiers=(1, 2))
    table.host("h2", 2, tiers=(1,))
    table.host("h3", 1, tiers=(3,))
    table.arrive("a", tier=2)
    table.arrive("b")
    assert table.arrive("wide", slots=2) == []
    assert table.arrive("c", tier=2) == []  # h1 is reserved for wide
    assert table.ended("b") == ["wide@h2", "c@h1"]


def test_sita_e_sorts_by_estimate_and_kills_nobody():
    table = Table("sita-e")
    for tier in (1, 2, 3):
        table.host(f"h{tier}", tiers=(tier,))
    assert table.arrive("a", estimate_s=1.0) == ["a@h1"]
    assert table.arrive("b", estimate_s=1.5) == ["b@h2"]
    assert table.arrive("c", estimate_s=11.0) == ["c@h3"]
    assert table.arrive("d") == []  # unknown: the last tier
    assert table.ended("c") == ["d@h3"]
    assert set(table.cutoffs.values()) == {None}


def changed(table, cutoffs, **tiers):
    table.queues.discipline.cutoffs_s = cutoffs
    starts = table.queues.rules_changed(tiers.get, table.now_s, table.rng)
    return table.told(starts)


def test_new_cutoffs_apply_to_waiting_jobs_not_to_running_ones():
    table = Table("tags", (1.0,))
    table.queues.discipline.cutoffs_s = ()
    table.host("h1")
    table.host("h2")
    for name in "ab":
        table.arrive(name)
    for name in "cd":
        table.arrive(name)
    table.arrive("x", may_restart=False)
    assert table.cutoffs == {"a": None, "b": None}
    assert changed(table, (1.0,), h1=(1,), h2=(2,)) == []
    running = {"a", "b"}
    on_h1 = next(n for n in running if table.queues.registry[n].host == "h1")
    (on_h2,) = running - {on_h1}
    assert table.ended(on_h2) == ["x@h2"], "it may not restart: to the last tier"
    assert table.ended(on_h1) == ["c@h1"]
    assert (table.cutoffs["x"], table.cutoffs["c"]) == (None, 1.0)
    assert table.cut_off("c") == ["d@h1"]
    assert changed(table, (), h1=(1,), h2=(1,)) == [], "c waits in the only line now"
    assert table.ended("d") == ["c@h1"]
    assert table.cutoffs["c"] is None


@pytest.mark.parametrize("mode", ["tags", "sita-e"])
@pytest.mark.parametrize(
    ("cutoffs", "said"), [((), "two tiers"), ((2.0, 1.0), "above 0: 2, 1"), ((1.0, 1.0), "increas"),
                          ((0.0, 1.0), "above 0"), ((float("nan"),), "above 0")]
)  # fmt: skip
def test_cutoffs_that_do_not_form_tiers_are_refused(mode, cutoffs, said):
    with pytest.raises(ValueError, match=said):
        make(mode, cutoffs)


def after_one_of_an_array(**host):
    """h1 may be sent jobs ahead, and a job of array 7 has ended there."""
    table = Table()
    table.host("h1", **host)
    table.arrive("0", array=7)
    table.ended("0")
    return table


def test_jobs_of_an_array_are_sent_ahead_where_short_ones_of_it_ended():
    table = after_one_of_an_array(ahead=2)
    sent = [table.arrive(name, array=7) for name in "abcd"]
    assert sent == [["a@h1"], ["b@h1"], ["c@h1"], []]
    assert table.host("h2") == ["d@h2"], "but rather where a slot is free"
    assert table.arrive("e", array=7) == []
    assert table.ended("d") == ["e@h2"]
    assert table.ended("a") == []


def test_other_jobs_are_not_sent_ahead():
    for more in ({}, {"array": 8}, {"array": 7, "may_restart": False}):
        table = after_one_of_an_array(ahead=2)
        table.arrive("a", array=7)
        assert table.arrive("b", **more) == []


def test_no_job_is_sent_ahead_past_a_wide_job():
    table = after_one_of_an_array(slots=2, ahead=4)
    table.arrive("a", array=7)
    assert table.arrive("b", slots=2, array=7) == []
    assert table.arrive("c", array=7) == []

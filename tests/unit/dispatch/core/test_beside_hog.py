"""A host whose slots one user's commands hold is not closed to the queue's jobs of others."""

from lbd.dispatch.core import heaps
from lbd.dispatch.core.backlog import Backlog
from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.queues import LOOKED_AT
from lbd.dispatch.core.waiting_line import Waiting
from lbd.model import Facts, HostId, JobId, Needs
from tests.unit.dispatch.core.test_queues import Table

HOGGED = {"slots": 4, "open_slots": 0, "hog": "ann", "beside_hog": 1}


def hogged(**rules):
    table = Table(**rules)
    assert table.host("h1", **HOGGED) == []
    return table


def test_a_job_of_another_user_starts_though_no_slot_is_open():
    """Jobs of everybody else waited for as long as one user's commands held all slots."""
    table = hogged()
    assert table.arrive("a", user="bob") == ["a@h1"]
    assert table.arrive("b", user="bob") == []  # there is room for one
    assert table.arrive("c", user="cid") == []
    assert table.ended("a") == ["b@h1"]
    assert table.ended("b") == ["c@h1"]


def test_waiting_jobs_start_once_the_host_says_so():
    table = Table()
    table.host("h1", 4, open_slots=0)
    assert table.arrive("a", user="bob", only="h1") == []
    assert table.arrive("b", user="bob") == []
    assert table.host("h1", **HOGGED) == ["a@h1"]
    assert table.host("h1", **HOGGED | {"beside_hog": 2}) == ["b@h1"]
    assert table.host("h1", **HOGGED) == []
    assert table.queues.hosts["h1"].used == 2
    assert (table.ended("a"), table.ended("b")) == ([], [])


def test_neither_the_hog_nor_an_unknown_user_gets_more():
    table = hogged()
    assert table.arrive("a", user="ann") == []
    assert table.arrive("b", user="") == []
    assert table.host("h1", 4, open_slots=1) == ["a@h1"]


def test_a_job_does_not_start_so_before_the_host_has_what_it_needs():
    table = Table()
    table.host("h1", **HOGGED, facts=Facts(("linux",), (("gpu", 1, 1),)))
    assert table.arrive("a", user="bob", needs=Needs((("gpu", 1),))) == []
    assert table.host("h1", **HOGGED, facts=Facts(("linux",), (("gpu", 1, 0),))) == ["a@h1"]


def test_the_hogs_jobs_at_the_head_do_not_keep_others_out():
    table = hogged()
    for number in range(50):
        assert table.arrive(f"a{number}", user="ann", array=7) == []
    assert table.arrive("b", user="bob") == ["b@h1"]
    assert table.arrive("c", user="bob") == []
    assert table.host("h1", 4, open_slots=2) == ["a0@h1"]  # b has the other one
    assert table.ended("b") == ["c@h1"]  # the array and the others take turns
    assert table.ended("a0") == ["a1@h1"]


def test_a_host_that_has_gone_takes_none_and_is_forgotten():
    table = hogged()
    assert table.gone("h1") == []
    assert table.arrive("a", user="bob") == []
    assert not table.queues.hogged
    assert table.host("h1", **HOGGED) == ["a@h1"]


def test_no_other_users_head_is_passed():
    table = hogged()
    assert table.arrive("wide", user="cid", slots=2) == []
    assert table.arrive("b", user="bob") == []
    assert table.host("h2", 2) == ["wide@h2", "b@h1"]


def test_a_head_that_started_so_lets_the_next_ones_start():
    table = Table()
    table.host("h1", 4, open_slots=0)
    assert table.host("h2", 2) == []
    assert table.arrive("a", user="bob", only="h1") == []
    assert table.arrive("b", user="bob") == []
    assert table.host("h1", **HOGGED) == ["a@h1", "b@h2"]


def test_limits_hold_there_as_well():
    table = hogged(user_slots=1)
    table.host("h2", 1)
    assert table.arrive("a", user="bob") == ["a@h2"]
    assert table.arrive("b", user="bob") == []
    assert table.arrive("c", user="cid") == ["c@h1"]


def test_a_free_slot_is_better_than_a_place_beside_the_hog():
    table = hogged()
    table.host("h2", 1, load=9.0)
    assert table.arrive("a", user="bob") == ["a@h2"]
    assert table.arrive("b", user="bob") == ["b@h1"]


def test_a_host_that_is_gone_or_has_no_hog_any_more_offers_nothing():
    table = hogged()
    assert table.gone("h1") == []
    assert table.arrive("a", user="bob") == []
    assert table.host("h1", 4, open_slots=0) == []
    assert table.queues.hogged == {}


def test_whatever_the_discipline_another_users_job_starts():
    for mode in ("least-work", "shortest-queue", "round-robin", "random", "tags"):
        table = Table(mode)
        table.host("h1", **HOGGED)
        assert table.arrive("a", user="ann", estimate_s=1.0) == []
        assert table.arrive("b", user="bob", estimate_s=1.0) == ["b@h1"], mode


def test_a_million_of_the_hogs_jobs_are_not_looked_at_with_each_that_arrives(monkeypatch):
    """Each arrival took 0.8 ms, so an array of a million held up the dispatcher for minutes."""
    table, looks, in_turn = hogged(), [], Waiting.in_turn
    monkeypatch.setattr(Waiting, "in_turn", lambda *given: looks.append(1) or in_turn(*given))
    for number in range(300):
        table.arrive(f"a{number}", user="ann")
    assert len(looks) == 1
    assert table.arrive("wide", user="bob", slots=2) == []
    assert len(looks) == 1
    for number in range(201):
        table.queues.ended(JobId(f"a{number}"), 0.0, table.rng)
    assert len(looks) == 1
    assert table.arrive("b", user="cid") == []  # behind the wide one
    assert table.ended("wide") == ["b@h1"]


def test_who_waits_for_a_limit_comes_in_once_that_allows_it():
    table = hogged(user_slots=1)
    table.host("h2", 1)
    assert table.arrive("b1", user="bob") == ["b1@h2"]
    assert table.arrive("a1", user="ann") == []
    assert table.arrive("b2", user="bob") == []
    table.queues.host_is(HostSlots(HostId("h2"), 1, open_slots=0), 0.0, table.rng)
    assert table.ended("b1") == ["b2@h1"]


def test_a_host_with_endless_room_beside_a_hog_gets_it_bit_by_bit(monkeypatch):
    """One heartbeat of a host that lied held up the dispatcher for 24 s, with 6,000 jobs waiting,
    so that commands on other hosts lost their leases."""
    table, looks, in_turn = Table(), [], Waiting.in_turn
    table.host("h1", 1, open_slots=0)
    table.arrive("a", user="ann")
    for number in range(2 * LOOKED_AT):
        table.arrive(f"b{number}", user="bob")
    monkeypatch.setattr(Waiting, "in_turn", lambda *given: looks.append(1) or in_turn(*given))
    lie = {"slots": 1, "open_slots": 0, "hog": "ann", "beside_hog": 60_000}
    assert [len(table.host("h1", **lie)) for _ in range(4)] == [LOOKED_AT - 1] * 2 + [2, 0]
    assert len(looks) == 4


def test_jobs_that_have_started_beside_a_hog_are_not_looked_at_again(monkeypatch):
    """Behind a job of the hog's, each start of another user's looked at all that had started before
    it: of an array of 8,000 short tasks the last took 4 ms each, as long as 500 without a hog."""
    table, looks, find = hogged(), [], Backlog.find
    assert table.arrive("1", user="ann") == []
    for number in range(2, 2002):
        table.arrive(f"{number}", user="bob", array=2)
    for number in range(2, 1900):
        assert table.ended(f"{number}") == [f"{number + 1}@h1"]
    monkeypatch.setattr(Backlog, "find", lambda *given: looks.append(1) or find(*given))
    for number in range(1900, 2000):
        assert table.ended(f"{number}") == [f"{number + 1}@h1"]
    assert len(looks) < 100 * 300


def test_nor_are_those_that_waited_for_something_else_before(monkeypatch):
    table, looks, push = hogged(), [], heaps.heappush
    assert table.arrive("9000", user="ann") == []
    for number in range(1000, 3000):  # not in the order of arrival
        table.arrive(f"{number}", user="bob", array=1000 * (number % 2))
    for started in range(1990):
        if started == 1890:
            monkeypatch.setattr(heaps, "heappush", lambda *given: looks.append(1) or push(*given))
        (job,) = table.queues.hosts[HostId("h1")].running
        assert table.ended(job)
    assert len(looks) < 100 * 500

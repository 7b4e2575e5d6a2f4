"""Gangs that restart elsewhere as a whole because the owner of one of their hosts is back."""

import pytest

from lbd.dispatch.core.gangs.gang import STAYS
from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Fate, Signal
from lbd.model import GANG_MOVES, GANG_SHOWN, REGROUP, Closed
from tests.unit.dispatch.gangs import H1, H2, H3, LOST, OK, Table, of_kind


def test_a_host_whose_owner_is_back_restarts_the_whole_gang():
    table = Table()
    begins = table.running(3)
    table.still(begins[1], GANG_MOVES)
    stops = of_kind(Signal, table.life.tick(*table.when))
    assert [(one.job, one.stop_reason) for one in stops] == [(one.job, REGROUP) for one in begins]
    assert not table.life.tick(*table.when)  # it happens only once
    killed = Ending(Cause.SIGNALLED, None, 15)
    (first,) = of_kind(Changed, table.ended(begins[0], killed))
    assert (first.fate, first.ending.reason) == (Fate.CANCELLED, "its whole gang starts again")
    (asker,) = of_kind(Changed, table.ended(begins[1], killed))
    assert asker.fate is Fate.EVICTED
    assert "h" in asker.ending.reason
    again = of_kind(Begin, table.ended(begins[2], killed))
    assert [one.attempt for one in again] == [2, 2, 2]
    assert [live.crashes for live in table.life.jobs.values()] == [0, 0, 0]  # no host is at fault
    assert not table.life.tick(*table.when)


def may_not_restart(table):
    return table.running(2, may_restart=False)


def named_their_host(table):
    return table.running(2, only=H2)


def was_shown(table):
    begins = table.running(2)
    table.still(begins[1], GANG_SHOWN, stopped=False)
    return begins


def one_has_ended(table):
    begins = table.running(2)
    table.ended(begins[1], OK)
    return begins


@pytest.mark.parametrize("of", [may_not_restart, named_their_host, was_shown, one_has_ended])
def test_gangs_that_may_not_restart_stay_suspended_and_say_so(of):
    table = Table()
    begins = of(table)
    table.still(begins[0], GANG_MOVES)
    assert table.life.tick(*table.when) == []
    assert table.life.jobs[begins[0].job].reason.endswith(f"; {STAYS}")


def test_a_host_that_no_longer_asks_is_not_waited_for():
    table = Table()
    begins = table.running(2)
    table.still(begins[0], GANG_MOVES)
    table.still(begins[0], stopped=False)
    assert table.life.tick(*table.when) == []


def test_a_new_dispatcher_first_hears_from_all_hosts_what_was_shown():
    table = Table()
    begins = table.running(2)
    table.life.hosts.more_until_s = 10.0
    table.still(begins[0], GANG_MOVES)
    assert table.life.tick(*table.when) == []
    table.still(begins[1], GANG_SHOWN, stopped=False)
    table.now_s = 11.0
    assert table.life.tick(*table.when) == []
    table = Table()
    table.still(table.running(2)[0], GANG_MOVES)
    table.now_s = 11.0
    assert len(of_kind(Signal, table.life.tick(*table.when))) == 2


@pytest.mark.parametrize(
    ("size", "wanted", "stays"),
    [(1, GANG_MOVES, False), (1, "", False), (1, GANG_SHOWN, False),
     (0, GANG_MOVES, False), (2, GANG_MOVES, True)],
)  # fmt: skip
def test_the_reason_its_host_gives_is_shown_for_a_suspended_job(size, wanted, stays):
    """`size` 0 means no gang, 2 a gang that may not restart."""
    table = Table()
    begins = table.running(2, may_restart=size != 2) if size else table.submit()
    if not size:
        table.begun(begins[0])
    table.still(begins[0], wanted)
    said = f"{begins[0].host}'s owner came back at 14:02"
    assert table.life.jobs[begins[0].job].reason == f"{said}; {STAYS if stays else 'moves'}"


# A host whose owner is always back


def moves(table, begins, of):
    """Those hosts ask for a move of their tasks; all end. Returns what begins then."""
    for one in begins:
        table.ready(one)
    for one in begins:
        table.begun(one)
    for one in begins:
        if one.host in of:
            table.still(one, GANG_MOVES)
    actions = table.life.tick(*table.when)
    if of:
        assert len(of_kind(Signal, actions)) == len(begins)
    killed = Ending(Cause.SIGNALLED, None, 15)
    return of_kind(Begin, [action for one in begins for action in table.ended(one, killed)])


def test_a_gang_is_given_back_so_often_and_then_starts_on_the_others():
    """It began again five times a second, without end."""
    table = Table(hosts=(H1, H3), slots=1)
    begins = table.gang(2)
    for _ in range(5):
        begins = moves(table, begins, {H3})
        assert {one.host for one in begins} == {H1, H3}, "at once"
    assert table.host(H2, 1) == []
    begins = moves(table, begins, {H3})
    assert {one.host for one in begins} == {H1, H2}
    assert moves(table, begins, {H1, H2}) == [], "each that asked is barred"


def test_where_there_is_no_other_host_it_waits_longer_each_time_whatever_that_says():
    table = Table(hosts=(H3,))
    begins = of_kind(Begin, table.gang(2))
    for _ in range(5):
        begins = moves(table, begins, {H3})
        assert len(begins) == 2, "at once"
    for number, pause_s in enumerate((10.0, 20.0, 40.0), 6):
        assert moves(table, begins, {H3}) == []
        said = f"h3: gave it back; {number} attempts have ended so"
        assert table.why(1).endswith(said)
        for rules in (1, 2):
            table.life.owner_rules(H3, rules, table.now_s)
        table.now_s += pause_s - 0.1
        assert table.life.tick(*table.when) == []
        table.now_s += 0.1
        begins = of_kind(Begin, table.life.tick(*table.when))
        assert len(begins) == 2


def test_in_the_end_it_is_held_until_somebody_releases_it():
    table = Table(hosts=(H3,), attempts_max=3)
    begins = of_kind(Begin, table.gang(2))
    for _ in range(2):
        begins = moves(table, begins, {H3})
    assert moves(table, begins, {H3}) == []
    said = "held: its hosts gave it back 3 times, the last one was h3"
    assert {live.held for live in table.life.jobs.values()} == {said}
    begins = of_kind(Begin, table.life.release(begins[1].job, *table.when))
    assert len(begins) == 2
    assert len(moves(table, begins, {H3})) == 2, "it counts from the beginning"


def test_tasks_that_a_host_which_is_shut_down_has_lost_count_once_for_each_start():
    table = Table(hosts=(H3,), crash_limit=2)
    begins = of_kind(Begin, table.gang(2))
    for _ in range(2):
        for one in begins:
            table.ready(one)
        for one in begins:
            table.begun(one)
        table.life.host_gone(H3, *table.when, Closed.STOPPING)
        for one in begins:
            table.ended(one, LOST)
        begins = of_kind(Begin, table.host(H3))
        assert len(begins) == 2
    for one in begins:
        table.begun(one)
    table.life.host_gone(H3, *table.when, Closed.STOPPING)
    for one in begins:
        table.ended(one, LOST)
    assert of_kind(Begin, table.host(H3)) == [], "a host that says so again and again waits"
    table.now_s = 10.0
    assert len(of_kind(Begin, table.life.tick(*table.when))) == 2

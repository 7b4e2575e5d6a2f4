"""What the LIM reports of owners: to `lbctl status`, and to an LBM that decides whether to move."""

from dataclasses import replace

import pytest

from lbd.errors import ConfigError
from lbd.lbm.lim_report import facts_in
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.socket_values import drain_reason, lbm_status, owners, status
from lbd.model import Closed, Facts, HostId
from lbd.testing.builders import lim_state, sample, vector

NOW_S = 10.0
NAMES = ("h1", "h2", "h3")


def lim(**others):
    """The LIM of h1, whose owner is present; `others` are the vectors of other hosts."""
    state = lim_state("h1", NAMES)
    state.handle(e.LbmStatus(accepting=False, slots_total=2, owner="here"), NOW_S)
    state.handle(e.Sampled(vector(0.5).queues, 0.5, 0.1), NOW_S)
    for name, said in others.items():
        report = m.Message("test", HostId(name), 1, m.Report(sample(name, 1, said)))
        state.handle(e.Received(report), NOW_S)
    return state


AWAY, HERE = replace(vector(), owner="away"), replace(vector(accepting=False), owner="here")
FULL = vector(slots=(2, 2))


@pytest.mark.parametrize(
    ("h2", "h3", "away", "room"),
    [
        (AWAY, HERE, {"h1": False, "h2": True, "h3": False}, {"h2": 2}),
        (HERE, HERE, {"h1": False, "h2": False, "h3": False}, {}),
        (FULL, HERE, {"h1": False, "h2": True, "h3": False}, {}),
        (vector(), FULL, {"h1": False, "h2": True, "h3": True}, {"h2": 2}),
    ],
)
def test_an_lbm_learns_which_owners_are_away_and_where_there_is_room(h2, h3, away, room):
    found = owners(lim(h2=h2, h3=h3), NOW_S)
    assert found == {"away": away, "others_free": bool(room), "room": room}


def test_on_request_an_lbm_learns_what_hosts_with_room_have():
    facts = Facts(("linux",), (("gpu", 2, 1),), 8, 4)
    found = owners(lim(h2=replace(AWAY, facts=facts), h3=HERE), NOW_S, with_facts=True)
    assert facts_in(found) == {"h2": facts}
    assert facts_in({"facts": {"h2": {"features": "b a", "resources": ""}, "h3": 5}}) == {
        "h3": Facts()
    }
    assert facts_in({"facts": 1}) == facts_in({}) == {}


def test_a_host_that_was_never_heard_counts_for_nothing():
    assert owners(lim(), NOW_S) == {"away": {"h1": False}, "others_free": False, "room": {}}


def test_status_shows_each_owner():
    shown = {row["name"]: row["owner"] for row in status(lim(h2=AWAY), NOW_S)["hosts"]}
    assert shown == {"h1": "here", "h2": "away", "h3": None}


def test_a_revoked_host_is_not_up_however_recent_its_report():
    rows = status(lim(h2=AWAY), NOW_S, revoked={HostId("h2")})["hosts"]
    assert [(row["state"], row["revoked"]) for row in rows[:2]] == [("up", False), ("down", True)]


def test_a_replaced_host_is_down_until_its_new_daemons_are_heard():
    row = status(lim(h2=AWAY), NOW_S, replaced={HostId("h2")})["hosts"][1]
    assert (row["state"], row["revoked"]) == ("down", False)
    assert row["why_down"].startswith("it has a new certificate, but its daemons have not")


def test_status_shows_memory_as_memory():
    heard = replace(vector(), memory_total=8 << 30, memory_available=3 << 30)
    shown = {row["name"]: row["memory"] for row in status(lim(h2=heard), NOW_S)["hosts"]}
    known = {"total": 8 << 30, "available": 3 << 30, "for_jobs": None, "given": 0}
    assert shown == {"h1": None, "h2": known, "h3": None}


@pytest.mark.parametrize(
    ("closed", "known"),
    [(Closed.UNSAID, True), (Closed.HOURS, True), (Closed.STARTING, False), (Closed.NO_LBM, False)],
)
def test_what_runs_on_a_host_is_known_once_its_lbm_has_told_its_lim(closed, known):
    heard = replace(vector(), closed=closed)
    shown = {row["name"]: row["jobs_known"] for row in status(lim(h2=heard), NOW_S)["hosts"]}
    assert shown["h2"] == known
    assert shown["h3"] is False, "which was never heard"


@pytest.mark.parametrize(
    ("given", "taken"), [("disk\n sdb", "disk sdb"), (None, ""), ("\x1b[2J", "?[2J")]
)
def test_a_reason_is_one_printable_line(given, taken):
    assert drain_reason({"reason": given}) == taken


def test_a_reason_that_is_too_long_is_refused():
    with pytest.raises(ConfigError, match="--reason: longer than 160 characters"):
        drain_reason({"reason": "x" * 161})


@pytest.mark.parametrize(("said", "taken"), [("here", "here"), ("asleep", ""), (None, "")])
def test_only_possible_states_of_an_owner_are_accepted(said, taken):
    request = {"accepting": True, "owner": said}
    counts = dict.fromkeys(("slots_total", "slots_used", "local", "foreign"), 0)
    assert lbm_status(request | counts).owner == taken


def test_why_a_host_accepts_no_commands_is_shown_as_its_lbm_says_it():
    counts = dict.fromkeys(("slots_total", "slots_used", "local", "foreign"), 2)
    said = lbm_status({"accepting": False, "closed": Closed.ALONE.value, **counts})
    state = lim_state("h1", NAMES)
    assert status(state, NOW_S)["hosts"][0]["why_closed"] == "its LBM has not started yet"
    state.handle(said, NOW_S)
    assert status(state, NOW_S)["hosts"][0]["why_closed"].endswith("if it had one)")


@pytest.mark.parametrize(
    ("set_gib", "total_gib", "available_gib"), [(0, 8, 3), (2, 2, 2), (6, 6, 3), (16, 16, 3)]
)
def test_memory_limited_by_the_owner_counts_as_the_total(set_gib, total_gib, available_gib):
    heard = replace(
        vector(), memory_total=8 << 30, memory_available=3 << 30,
        facts=Facts(memory_total=set_gib << 30),
    )  # fmt: skip
    shown = {row["name"]: row["memory"] for row in status(lim(h2=heard), NOW_S)["hosts"]}["h2"]
    assert (shown["total"], shown["available"]) == (total_gib << 30, available_gib << 30)

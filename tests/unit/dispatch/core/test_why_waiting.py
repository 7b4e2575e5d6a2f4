"""Why a pending job waits, in words for its user."""

from dataclasses import replace
from random import Random

import pytest

from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.malleable.decision import Head, Hold
from lbd.dispatch.core.malleable.heads import Asked
from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.core.records import Cause, Ending
from lbd.dispatch.core.shares import Rules
from lbd.dispatch.core.why_waiting import (
    _short,
    stuck_reason,
    waiting_reason,
)
from lbd.model import Closed, Facts, HostId, JobId, Needs

DICE = Random(1)


def table(*hosts, **rules):
    life = Lifecycle(make("fcfs", ()), Terms(), Rules(**rules))
    for host in hosts:
        life.host_is(HostSlots(HostId(host), 1), 0.0, DICE)
    return life


def submit(life, name, **more):
    life.submitted([QueuedJob(JobId(name), **more)], 0.0, DICE)


def reason(life, name):
    entry = life.queues.registry.get(JobId(name))
    place = Forecast(life.queues).places.of(entry, 0.0) if entry else None
    return waiting_reason(life, life.jobs[JobId(name)], place)


def test_the_reasons():
    life = table("h1")
    submit(life, "1")
    assert reason(life, "1") == "starting on h1"
    life.begun(HostId("h1"), JobId("1"), 1)
    assert reason(life, "1") == ""
    for name in ("2", "3", "4"):
        submit(life, name)
    assert reason(life, "2") == "next, as soon as a slot is free on h1"
    assert reason(life, "3") == "1 job is ahead of it"
    assert reason(life, "4") == "2 jobs are ahead of it"
    life.hold(JobId("3"), "held by ann", 0.0, DICE)
    assert reason(life, "3") == "held by ann"
    submit(life, "5", only=HostId("h9"))
    assert reason(life, "5") == "no host named h9 is known; it starts if one joins"
    life.hosts.more_until_s = 9.0
    just = "has not connected yet, as the dispatcher has just started"
    assert waiting_reason(life, life.jobs[JobId("5")], None, str, 8.0) == f"h9 {just}"
    life.hosts.more_until_s = 0.0
    submit(life, "6", slots=2)
    assert reason(life, "6") == "it needs 2 slots on one host; the largest host has 1"
    submit(life, "7", barred=frozenset({HostId("h1")}))
    assert reason(life, "7") == "all hosts that accept jobs now are excluded (-x): h1"
    submit(life, "8", slots=2, only=HostId("h1"))
    assert reason(life, "8") == "it needs 2 slots on h1, which has 1"
    for name in ("5", "6", "7", "8"):
        assert stuck_reason(life, JobId(name)) == reason(life, name)
    for name in ("1", "2", "3", "no such job"):
        assert stuck_reason(life, JobId(name)) == ""
    life.host_gone(HostId("h1"), 0.0, DICE)
    assert reason(life, "2") == "no host accepts jobs: 1 host out of contact"
    assert stuck_reason(life, JobId("2")) == ""


def test_opening_hours_are_shown_with_their_end():
    life = table("h2")
    submit(life, "1", only=HostId("h1"))
    life.host_gone(HostId("h1"), 0.0, DICE, Closed.HOURS, "19:00")
    assert reason(life, "1") == (
        "it may run only on h1 (-H), which accepts no jobs now: "
        "it accepts no commands until 19:00 (admission.when)"
    )
    life.host_gone(HostId("h2"), 0.0, DICE, Closed.HOURS, "19:00")
    assert reason(life, "1") == "no host accepts jobs: 2 hosts closed until 19:00 (admission.when)"


def test_why_no_host_at_all_accepts_jobs():
    life = table()
    submit(life, "1")
    assert reason(life, "1").endswith(": none has connected since the dispatcher started")
    life.host_gone(HostId("h1"), 0.0, DICE, Closed.OWNER)
    assert reason(life, "1") == "no host accepts jobs: the owner is back on 1 host"
    life.host_gone(HostId("h2"), 0.0, DICE, Closed.OWNER)
    for name in ("h3", "h4"):
        life.host_gone(HostId(name), 0.0, DICE, Closed.DRAINED)
    life.host_gone(HostId("h5"), 0.0, DICE)
    why = "the owner is back on 2 hosts, 2 hosts drained, 1 host out of contact"
    assert reason(life, "1") == f"no host accepts jobs: {why}"
    life.host_is(HostSlots(HostId("h1"), 1), 0.0, DICE)
    assert reason(life, "1") == "starting on h1"


def test_who_drained_the_hosts_is_named():
    drains = ["drained by ann since 17:30: {disk}", *(f"drained by bob since {n}" for n in "1234")]
    life = table("h1", "h2")
    life.host_gone(HostId("h1"), 0.0, DICE, Closed.DRAINED, drains[0])
    submit(life, "1", only=HostId("h1"))
    said = f"it may run only on h1 (-H), which accepts no jobs now: {drains[0]}"
    assert reason(life, "1") == said
    submit(life, "2", barred=frozenset({HostId("h2")}))
    said = f"all hosts that accept jobs now are excluded (-x): h2; h1: {drains[0]}"
    assert reason(life, "2") == said
    for name in ("h2", "h3"):
        life.host_gone(HostId(name), 0.0, DICE, Closed.DRAINED, drains[1])
    said = f"no host accepts jobs: 1 host {drains[0]}, 2 hosts {drains[1]}"
    assert reason(life, "1") == said
    for number, drain in enumerate(drains):
        life.host_gone(HostId(f"h{number}"), 0.0, DICE, Closed.DRAINED, drain)
    assert reason(life, "1") == "no host accepts jobs: 5 hosts drained"


def test_hosts_that_its_user_excluded_are_named_when_it_waits_for_the_others():
    life = table("h1", "h2", "h3")
    for name in ("1", "2", "3"):
        submit(life, name)
    submit(life, "4", barred=frozenset({HostId("h1"), HostId("h3"), HostId("h9")}))
    said = "next, as soon as a slot is free on h2; h1, h3: excluded (-x)"
    assert reason(life, "4") == said
    life.jobs.keep(replace(life.jobs[JobId("4")], attempt=1))  # it may have been requeued
    assert reason(life, "4") == said
    life.jobs.keep(replace(life.jobs[JobId("4")], forgot=True))
    assert reason(life, "4") == said.replace("-x", "-x, or it could not begin there")


def test_hosts_with_the_same_problem_are_named_together():
    life = table()
    for name, gpus in (("h1", 1), ("h2", 2), ("h3", 1)):
        there = Facts(("linux",), (("gpu", gpus, gpus),))
        life.host_is(HostSlots(HostId(name), 1, facts=there), 0.0, DICE)
    submit(life, "1", needs=Needs((("gpu", 1),)))
    lacking = "h1, h3: its gpu is in use; h2: both gpus in use"
    assert reason(life, "1") == f"next, as soon as it can have a gpu; {lacking}"


def test_hosts_that_accept_no_jobs_now_are_named_if_none_of_the_others_will_do():
    life = table("h1", "h2")
    life.host_gone(HostId("h3"), 0.0, DICE, Closed.DRAINED)
    life.host_gone(HostId("h4"), 0.0, DICE)
    submit(life, "1", barred=frozenset({HostId("h1"), HostId("h2"), HostId("h4")}))
    said = "all hosts that accept jobs now are excluded (-x): h1, h2; h3: drained"
    assert reason(life, "1") == said
    submit(life, "2", slots=2)
    said = "it needs 2 slots on one host; the largest host has 1; h3: drained; h4: out of contact"
    assert reason(life, "2") == said
    for name in ("h1", "h2"):
        life.host_is(HostSlots(HostId(name), 1, facts=Facts(("linux",))), 0.0, DICE)
    submit(life, "3", needs=Needs((("gpu", 1),)))
    said = (
        "h1, h2: no gpu; h3: drained; h4: out of contact; it starts once a host has what it needs"
    )
    assert reason(life, "3") == said


def test_the_reason_for_the_end_of_the_last_attempt_is_not_repeated():
    life = table("h1", "h3")
    submit(life, "1", only=HostId("h3"))
    refused = Ending(Cause.REFUSED, reason="drained")
    life.refused(HostId("h3"), JobId("1"), 1, "drained", refused, 0.0, DICE)
    life.host_gone(HostId("h3"), 0.0, DICE, Closed.DRAINED)
    said = "it may run only on h3 (-H), which accepts no jobs now: drained"
    assert reason(life, "1") == said
    life.jobs[JobId("1")].reason, life.jobs[JobId("1")].over = "h3: no keeper", (1, "lost")
    assert reason(life, "1") == f"{said}; h3: no keeper"


def test_only_what_is_missing_now_is_waited_for():
    life = table()
    there = Facts(("linux",), (("gpu", 1, 1), ("disk", 2, 0)), 4 << 30, 0)
    life.host_is(HostSlots(HostId("h1"), 1, facts=there), 0.0, DICE)
    submit(life, "1", needs=Needs((("disk", 1), ("gpu", 1)), ("linux",), memory_bytes=2 << 30))
    assert reason(life, "1") == "next, as soon as it can have a gpu; h1: its gpu is in use"


def test_that_no_host_has_so_much_memory_is_said_once():
    life = table()
    for name, total in (("h1", 4), ("h2", 8)):
        there = Facts(("linux",), (), total << 30, 0)
        life.host_is(HostSlots(HostId(name), 1, facts=there), 0.0, DICE)
    submit(life, "1", needs=Needs(memory_bytes=9 << 30))
    said = (
        "no host has 9.0G of memory; the largest has 8.0G; it starts once a host has what it needs"
    )
    assert reason(life, "1") == said


def test_only_hosts_that_it_may_use_are_named():
    life = table("h1", "h2")
    for name in ("1", "2"):
        submit(life, name)
    submit(life, "3", only=HostId("h2"))
    assert reason(life, "3") == "next, as soon as a slot is free on h2"


def test_that_no_host_takes_jobs_is_said_at_once():
    """`lbrun -d` printed its id and nothing else while all hosts were drained."""
    life = table("h1")
    life.host_gone(HostId("h1"), 0.0, DICE, Closed.DRAINED, "drained by ann since 17:30")
    submit(life, "1")
    said = "no host accepts jobs: 1 host drained by ann since 17:30"
    assert stuck_reason(life, JobId("1")) == said


def test_a_job_is_stuck_until_a_host_fits_it():
    life = table("h1", "h2")
    life.host_gone(HostId("h2"), 0.0, DICE)
    submit(life, "1", only=HostId("h2"))
    assert (
        stuck_reason(life, JobId("1"))
        == "it may run only on h2 (-H): h2 is out of contact; it begins when h2 is back"
    )
    life.host_gone(HostId("h2"), 0.0, DICE, Closed.OWNER)
    said = "it may run only on h2 (-H), which accepts no jobs now: its owner is back"
    assert stuck_reason(life, JobId("1")) == said
    life.host_is(HostSlots(HostId("h2"), 1), 0.0, DICE)
    assert stuck_reason(life, JobId("1")) == ""
    for name in ("h1", "h2"):
        life.host_gone(HostId(name), 0.0, DICE, Closed.DRAINED)
    submit(life, "2")
    assert stuck_reason(life, JobId("2")) == "no host accepts jobs: 2 hosts drained"


def test_the_largest_host_is_named():
    life = table("h1")
    life.host_is(HostSlots(HostId("h2"), 3), 0.0, DICE)
    submit(life, "1", slots=4)
    assert reason(life, "1") == "it needs 4 slots on one host; the largest host has 3"


def test_hosts_that_give_the_queue_no_slot_are_named_with_their_reason():
    life = table("h1")
    submit(life, "1")
    for name in ("h1", "h2", "h3", "h4"):
        closed = HostSlots(HostId(name), 1, open_slots=0, closed="too much load")
        life.host_is(closed, 0.0, DICE)
    submit(life, "2")
    assert "h1, h2" in reason(life, "2")
    assert "too much load" in reason(life, "2")


def test_of_many_hosts_four_are_named():
    life = table("h1", "h2", "h3", "h4")
    for name in ("1", "2", "3", "4", "5"):
        submit(life, name)
    assert reason(life, "5") == "next, as soon as a slot is free on h1, h2, h3, h4"
    life.host_is(HostSlots(HostId("h5"), 1), 0.0, DICE)
    for name in ("6", "7"):
        submit(life, name)
    assert reason(life, "6").endswith("on h1, h2, h3, h4 or 1 more")


def test_a_head_lacks_something_only_if_each_host_with_slots_lacks_it():
    life = table()
    for name, gpus in (("h1", 1), ("h2", 1), ("h3", 0)):
        facts = Facts(("linux",), (("gpu", 1, 0),) if gpus else ())
        life.host_is(HostSlots(HostId(name), 2, facts=facts), 0.0, DICE)
    gpu = {"needs": Needs((("gpu", 1),))}
    servers = life.queues.servers[1]

    def short(**more):
        return [one.name for one in _short(QueuedJob(JobId("x"), **more), servers)]

    assert short(**gpu) == []
    submit(life, "1", only=HostId("h1"), **gpu)
    assert short(**gpu) == []
    submit(life, "2", only=HostId("h2"), **gpu)
    assert short(**gpu) == ["h1", "h2"]
    assert short() == []
    submit(life, "3", only=HostId("h2"))
    assert short(**gpu) == ["h1"]  # the other lacks slots as well


@pytest.mark.parametrize(("host", "where"), [(None, "a host"), (HostId("h2"), "h2")])
def test_a_head_that_holds_out_says_what_for(host, where):
    life = table("h1")
    for name in ("1", "2"):
        submit(life, name)
    hold = Hold(4, host, 9.0, Head(), "")
    life.queues.heads.asked[1] = Asked(JobId("2"), hold, 0, 9.0, 9.0, 4, 9)
    assert reason(life, "2") == f"it could start on fewer slots, but is waiting for 4 on {where}"


@pytest.mark.parametrize(
    ("slots", "said"),
    [
        (1, "needs 4 slots together; the hosts it may use have 3"),
        (2, "needs 4 × 2 slots together; the hosts it may use have 2"),
        (3, "needs 4 × 3 slots together; the hosts it may use have 3"),
    ],
)
def test_a_gang_that_is_too_large_says_what_it_needs_and_what_exists(slots, said):
    life = table()
    life.host_is(HostSlots(HostId("h1"), 3), 0.0, DICE)
    tasks = [QueuedJob(JobId(f"{n}"), slots, array=1, array_index=n, gang=4) for n in range(1, 5)]
    life.submitted(tasks, 0.0, DICE)
    assert reason(life, "1") == said


def test_hosts_that_are_set_aside_are_named():
    life = Lifecycle(make("fcfs", ()), Terms(host_failures=1, aside_s=60.0))
    for name in ("h1", "h2"):
        life.host_is(HostSlots(HostId(name), 1), 0.0, DICE)
    submit(life, "1", only=HostId("h1"))
    submit(life, "2")
    refused = Ending(Cause.LOST, reason="no pipes")
    life.refused(HostId("h1"), JobId("1"), 1, "keeper", refused, 0.0, DICE)
    life.host_gone(HostId("h2"), 0.0, DICE, Closed.DRAINED)
    submit(life, "3")
    said = "no host accepts jobs: 1 host drained, set aside after failures: h1"
    assert reason(life, "3") == said
    life.host_gone(HostId("h1"), 0.0, DICE, Closed.STOPPING)
    life.host_gone(HostId("h1"), 0.0, DICE)
    assert reason(life, "3") == "no host accepts jobs: 1 host drained, 1 host was stopped"
    life.host_is(HostSlots(HostId("h2"), 1), 0.0, DICE)
    submit(life, "4", barred=frozenset({HostId("h2")}))
    assert reason(life, "4").endswith("; h1: was stopped")


def test_a_job_of_a_user_at_the_limit_says_so():
    life = table("h1", "h2", user_slots=1)
    for name in ("1", "2"):
        submit(life, name, user="ann")
    assert reason(life, "2") == "ann's jobs hold 1 slot; the limit per user is 1"

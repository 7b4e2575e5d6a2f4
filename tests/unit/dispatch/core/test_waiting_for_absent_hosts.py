"""What is said of jobs whose hosts are silent or were stopped."""

from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.records import Cause, Ending, Live
from lbd.dispatch.core.why_waiting import out_of_contact, silent_arrays, waiting_reason
from lbd.model import Closed, HostId, JobId
from tests.unit.dispatch.core.test_why_waiting import DICE, reason, submit, table


def test_a_job_on_a_silent_host_says_how_long_that_may_last():
    life = table("h1", "h2")
    submit(life, "1", only=HostId("h1"))
    submit(life, "2", only=HostId("h2"), may_restart=False)
    for name, host in (("1", "h1"), ("2", "h2")):
        life.begun(HostId(host), JobId(name), 1)
        life.sending(JobId(name), 1, 0.0)

    def at(name, now_s):
        return waiting_reason(life, life.jobs[JobId(name)], now_s=now_s)

    assert at("1", 8.0) == ""  # it is heard every 7.5 s
    back = "it starts again when h1 is back, as it may run on no other host"
    assert at("1", 20.0) == f"h1 not heard of for 20s; if that lasts 12s more, {back}"
    assert at("2", 20.0) == "h2 not heard of for 20s; is lost in 12s if that lasts"
    life.heartbeat(HostId("h1"), [(JobId("1"), 1)], 21.0)
    assert at("1", 22.0) == ""
    life.heartbeat(HostId("h2"), [], 21.0)  # it is back, and does not have the attempt
    assert at("2", 22.0) == "attempt 1 may still run on h2; is lost in 10s if it does not report"


def test_nor_does_one_start_again_elsewhere_if_all_others_are_excluded():
    life = table("h1", "h2")
    submit(life, "1", barred=frozenset({HostId("h2")}))
    life.begun(HostId("h1"), JobId("1"), 1)
    life.sending(JobId("1"), 1, 0.0)
    said = waiting_reason(life, life.jobs[JobId("1")], now_s=20.0)
    assert said.endswith("it starts again when h1 is back, as it may run on no other host")


def test_a_silent_host_with_a_longer_lease_from_before_is_waited_for():
    """It read as heard from until the last half minute."""
    life = Lifecycle(make("fcfs", ()), Terms(inherited_s=900.0))
    job = QueuedJob(JobId("1"))
    life.restored(Live(job, 1), (1, HostId("h1"), 1, True, 1, None), 0.0, DICE)
    said = waiting_reason(life, life.jobs[JobId("1")], now_s=20.0)
    assert said == "h1 not heard of for 20s; starts again in 15m26s if that lasts"


def test_a_job_to_be_ended_on_a_silent_host_is_not_said_to_have_ended():
    life = table("h1")
    submit(life, "1")
    life.begun(HostId("h1"), JobId("1"), 1)
    life.sending(JobId("1"), 1, 0.0)
    life.kill(JobId("1"), 0, 3.0, DICE)
    assert out_of_contact(life, JobId("1"), 3.0, has_line=True) == ""
    said = "h1 not heard of for 3s; counts as ended in 30s if that lasts"
    assert out_of_contact(life, JobId("1"), 3.0, has_line=False) == said
    said = "h1 not heard of for 20s; counts as ended in 12s if that lasts"
    assert out_of_contact(life, JobId("1"), 20.0, has_line=True) == said
    assert out_of_contact(life, JobId("2"), 20.0, has_line=True) == ""  # pending, so it has ended


def test_an_array_names_its_silent_host():
    life = table("h1", "h2")
    submit(life, "1", array=1, only=HostId("h1"))
    submit(life, "2", array=1)
    submit(life, "3", array=3)
    for name, host in (("1", "h1"), ("2", "h2")):
        life.begun(HostId(host), JobId(name), 1)
        life.sending(JobId(name), 1, 0.0)
    life.heartbeat(HostId("h1"), [(JobId("1"), 1)], 20.0)
    said = "h2 not heard of for 20s; starts again in 12s if that lasts"
    assert silent_arrays(life, 20.0) == {1: said}


def test_a_job_for_a_host_that_was_drained_and_stopped_begins_again_once_it_is_undrained():
    """It was said to begin when the host is back, and then that the host was stopped."""
    life = table("h1", "h2")
    submit(life, "1", only=HostId("h2"))
    life.begun(HostId("h2"), JobId("1"), 1)
    drain = "drained by root since 19:08: new kernel"
    life.host_gone(HostId("h2"), 0.0, DICE, Closed.DRAINED, drain)
    life.host_gone(HostId("h2"), 0.0, DICE, Closed.STOPPING)
    lost = Ending(Cause.LOST, reason="h2 was stopped")
    life.ended(HostId("h2"), JobId("1"), 1, lost, 0.0, DICE)
    life.host_gone(HostId("h2"), 0.0, DICE)
    said = "h2 was stopped; it begins again when h2 is back, unless it is drained then"
    assert reason(life, "1") == f"it may run only on h2 (-H): {said}"
    life.host_gone(HostId("h2"), 0.0, DICE, Closed.DRAINED, drain)
    now = f"it may run only on h2 (-H), which accepts no jobs now: {drain}"
    assert reason(life, "1") == f"{now}; its last attempt ended when h2 was stopped"
    life.host_is(HostSlots(HostId("h2"), 0), 0.0, DICE)
    life.host_gone(HostId("h2"), 0.0, DICE)
    assert "drained" not in reason(life, "1")


def test_a_job_for_a_host_that_was_stopped_begins_again_when_it_is_back():
    life = table("h1", "h2")
    submit(life, "1", only=HostId("h2"))
    life.begun(HostId("h2"), JobId("1"), 1)
    life.host_gone(HostId("h2"), 0.0, DICE, Closed.STOPPING)
    given_up = Ending(Cause.LOST, reason="h2 was stopped")
    again = life.ended(HostId("h2"), JobId("1"), 1, given_up, 0.0, DICE)[0]
    assert again.ending.reason == "h2 was stopped; the job begins again"
    life.host_gone(HostId("h2"), 0.0, DICE)
    said = "it may run only on h2 (-H): h2 was stopped; it begins again when h2 is back"
    assert reason(life, "1") == said
    submit(life, "2", only=HostId("h2"))
    assert reason(life, "2") == said.replace("begins again", "begins")
    life.host_gone(HostId("h1"), 0.0, DICE)
    assert reason(life, "1").startswith(
        "no host accepts jobs: 1 host out of contact, 1 host was stopped"
    )
    life.host_is(HostSlots(HostId("h2"), 0), 0.0, DICE)
    life.host_gone(HostId("h2"), 0.0, DICE)
    assert reason(life, "2") == "no host accepts jobs: 2 hosts out of contact"


def test_a_job_that_was_only_refused_by_a_host_has_not_begun_there():
    """It was said to begin again, and that the host, which was gone, had no free slot."""
    life, h2 = table("h1", "h2"), HostId("h2")
    submit(life, "1", only=h2)
    life.refused(h2, JobId("1"), 1, "slot", Ending(Cause.REFUSED, reason="no free slot"), 0.0, DICE)
    assert reason(life, "1").endswith("h2: no free slot")
    life.host_gone(h2, 0.0, DICE)
    out = "it may run only on h2 (-H): h2 is out of contact; it begins when h2 is back"
    assert reason(life, "1") == out
    life.host_gone(h2, 0.0, DICE, Closed.DRAINED, "drained by root since 19:08")
    now = "it may run only on h2 (-H), which accepts no jobs now: drained by root since 19:08"
    assert reason(life, "1") == now

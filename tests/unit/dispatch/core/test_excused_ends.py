"""No host has a job begin without end by saying of each attempt that its end, or that it refuses
it, is nobody's fault."""

import pytest

from lbd.dispatch.core.lifecycle import NO_CHECKPOINTS
from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Fate
from lbd.model import REQUEUE, Closed, JobState
from tests.unit.dispatch.core.test_lifecycle import H1, Table

FULL = Ending(Cause.LOST, reason="filled up")

# H1 says of each attempt what makes its job begin again, and counts as no crash
LIES = {
    "its owner is back": Ending(Cause.EVICTED, reason="its owner is back"),
    "it was requeued, which nobody asked for": Ending(Cause.SIGNALLED, 143, stop_reason=REQUEUE),
    "it is shut down": Ending(Cause.LOST, reason="shut down"),
    "it stopped at a checkpoint": Ending(Cause.CHECKPOINT, 85),
    "it was cut off, without a cutoff": Ending(Cause.CUT, 137, 9),
}


def begun_in_an_hour(table, lie, ending):
    """How many attempts of a job H1 begins in an hour in which it says this of each at once."""
    count, actions = 0, table.submit("1", only=H1)
    for _ in range(3600):
        for _ in range(100):  # as often as it likes
            begins = [one for one in actions if isinstance(one, Begin)]
            if not begins:
                break
            count += 1
            (begin,) = begins
            table.life.begun(begin.host, begin.job, begin.attempt)
            if lie == "it is shut down":
                table.life.host_gone(H1, *table.when, Closed.STOPPING)
            actions = table.ended(begin, ending)
            actions += table.life.host_is(table.slots, *table.when)
        table.now_s += 1.0
        actions = table.life.tick(*table.when)
    return count


@pytest.mark.parametrize("lie", LIES)
def test_a_host_that_gives_a_job_back_again_and_again_gets_it_less_and_less_often(lie):
    table = Table()
    table.slots = table.life.hosts.known[H1].slots
    count = begun_in_an_hour(table, lie, LIES[lie])
    assert 5 <= count < 20, "those of the first moment, then after 10 s, 20 s, and so on"


def test_what_takes_no_checkpoints_is_lost_by_a_host_that_says_it_stopped_at_one():
    """A job that may not restart, and had begun, ran a second time elsewhere."""
    table = Table()
    begin = table.begin("1", may_restart=False, takes_checkpoints=False)
    table.life.begun(begin.host, "1", begin.attempt)
    changed, *more = table.ended(begin, Ending(Cause.CHECKPOINT, 85))
    assert (changed.state, changed.fate) == (JobState.LOST, Fate.LOST)
    assert changed.reason.startswith(NO_CHECKPOINTS)
    assert not any(isinstance(one, Begin) for one in more)


def test_meanwhile_the_job_runs_elsewhere():
    table = Table(crash_limit=1)
    begins = [table.begin("1")]
    for _ in range(2):
        _, begin, _ = table.ended(begins[-1], LIES["its owner is back"])
        begins.append(begin)
    assert begins[2].host != begins[1].host


def test_in_the_end_it_is_held_with_the_reason_until_somebody_releases_it():
    table = Table(attempts_max=3)
    begin = table.begin("1", only=H1)
    for _ in range(2):
        _, begin, _ = table.ended(begin, LIES["its owner is back"])
    changed, *_ = table.ended(begin, LIES["its owner is back"])
    assert isinstance(changed, Changed)
    assert changed.fate is Fate.EVICTED
    assert changed.reason == "held: its hosts gave it back 3 times, the last one was h1"
    (again,) = [one for one in table.life.release(begin.job, *table.when) if isinstance(one, Begin)]
    changed, again, _ = table.ended(again, LIES["its owner is back"])
    assert isinstance(again, Begin), "it counts from the beginning"


def test_a_pause_between_two_losses_does_not_have_them_forgotten():
    """A host that refuses for lack of files between losses had its job begin without end."""
    table = Table(crash_limit=2, aside_s=1.0)
    lost, away = Ending(Cause.LOST, reason="lost"), Ending(Cause.LOST, reason="no files")
    begin = table.begin("1", only=H1)
    _, begin, _ = table.ended(begin, lost)
    table.life.refused(begin.host, begin.job, begin.attempt, "files", away, *table.when)
    table.now_s = 5.0
    (begin,) = [one for one in table.life.tick(*table.when) if isinstance(one, Begin)]
    changed, *_ = table.ended(begin, lost)
    assert (changed.crashes, changed.reason) == (2, "held: its attempts were lost 2 times (lost)")


def offered_and_refused(table, phase, actions, times, *, stops=False):
    """How many attempts H1 refuses, while it says that it has slots as often as it likes; and what
    follows the last time. `stops`: before it refuses them it says that it is shut down."""
    sent = 0
    for _ in range(times):
        begins = [one for one in actions if isinstance(one, Begin)]
        sent += len(begins)
        if stops:
            table.life.host_gone(H1, *table.when, Closed.STOPPING)
        for one in begins:
            table.life.refused(H1, one.job, one.attempt, phase, FULL, *table.when)
        table.now_s += 0.01
        table.life.heartbeat(H1, [], table.now_s)
        actions = table.life.tick(*table.when)
        actions += table.life.host_is(table.slots, *table.when)
    return sent, actions


@pytest.mark.parametrize(
    ("phase", "stops"), [("slot", False), ("drained", False), ("late", False), ("slot", True)]
)
def test_a_host_that_offers_slots_in_vain_again_and_again_is_asked_less_and_less_often(
    phase, stops
):
    table = Table()
    table.slots = table.life.hosts.known[H1].slots
    table.life.heartbeat(H1, [], 0.0)
    actions = table.submit("1", only=H1)
    sent, actions = offered_and_refused(table, phase, actions, times=10, stops=stops)
    assert sent == 10, "that may happen"
    sent, _ = offered_and_refused(table, phase, actions, times=36_000, stops=stops)
    assert 10 < sent < 25, "in six minutes: some at first, then after 10 s, 20 s, and so on"


def test_it_is_no_use_to_leave_the_cluster_and_join_again():
    table = Table()
    slots = table.slots = table.life.hosts.known[H1].slots
    actions, sent = table.submit("1", only=H1), 0
    for _ in range(100):  # in six minutes
        table.life.heartbeat(H1, [], table.now_s)
        count, _ = offered_and_refused(table, "slot", actions, times=60)
        sent += count
        table.life.host_gone(H1, *table.when)
        table.life.hosts_removed([H1], *table.when)
        table.now_s += 3.0
        actions = table.life.host_is(slots, *table.when)
    assert 10 < sent < 30, "some at first, then after 10 s, 20 s, and so on"


def test_what_it_offered_in_vain_is_forgotten_once_an_attempt_has_begun():
    table = Table()
    table.slots = table.life.hosts.known[H1].slots
    table.life.heartbeat(H1, [], 0.0)
    actions = table.submit("1", only=H1)
    for number in ("2", "3", "4"):
        sent, actions = offered_and_refused(table, "slot", actions, times=15)
        assert sent == 15
        (begin,) = actions
        table.life.begun(H1, begin.job, begin.attempt)
        table.ended(begin, Ending(Cause.EXITED, 0))
        actions = table.submit(number, only=H1)
    assert not table.life.hosts.aside()

"""Restart, back-off and stopping, decided without processes or clocks."""

import pytest

from lbd.config.schema import UpConfig
from lbd.process.supervise import (
    END_GRACE_S,
    Abandon,
    Abort,
    Finish,
    Kill,
    Ready,
    Say,
    Start,
    Supervisor,
    Terminate,
)

CONFIG = UpConfig(restart_backoff_s=0.5, restart_backoff_max_s=30.0, stop_timeout_s=10.0)


@pytest.fixture
def running():
    """Returns a supervisor that started both daemons at time 0."""
    supervisor = Supervisor(CONFIG, ("lim", "lbm"))
    assert supervisor.tick(0.0) == [Start("lim"), Start("lbm")]
    return supervisor


def deeds(actions):
    return [action for action in actions if not isinstance(action, Say)]


def words(actions):
    return [action.text for action in actions if isinstance(action, Say)]


def test_nothing_to_do_while_both_run(running):
    assert running.tick(5.0) == []
    assert running.next_due_s() is None


def test_the_pause_doubles_up_to_its_limit(running):
    now_s = 0.0
    pauses = []
    for _ in range(9):
        assert words(running.exited("lim", 1, now_s))
        due_s = running.next_due_s()
        pauses.append(due_s - now_s)
        assert running.tick(due_s - 0.01) == []
        assert running.tick(due_s) == [Start("lim")]
        now_s = due_s
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_a_long_life_shortens_the_pause_again(running):
    running.exited("lim", 1, 1.0)
    running.tick(1.5)
    running.exited("lim", 1, 2.0)
    assert running.next_due_s() == 3.0
    running.tick(3.0)
    running.exited("lim", -9, 33.0)
    assert running.next_due_s() == 33.5


def test_a_daemon_that_makes_way_is_followed_at_once(running):
    for now_s in (1.0, 2.0, 3.0):
        running.ready("lbm")
        assert words(running.exited("lbm", 3, now_s)) == ["lbm makes way for its successor"]
        assert running.tick(now_s) == [Start("lbm")]


def test_a_daemon_that_was_never_ready_does_not_make_way(running):
    running.exited("lbm", 3, 1.0)
    assert running.next_due_s() == 1.5


def test_the_other_daemon_keeps_running(running):
    running.exited("lbm", -9, 1.0)
    assert running.tick(1.5) == [Start("lbm")]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (-9, "lim was killed by signal 9; restarting it in 0.5 s"),
        (1, "lim ended with exit status 1; restarting it in 0.5 s"),
        (0, "lim ended with exit status 0; restarting it in 0.5 s"),
    ],
)
def test_one_line_says_how_it_ended(running, status, text):
    assert running.exited("lim", status, 1.0) == [Say(text)]


def test_an_invalid_configuration_is_not_retried(running):
    assert "rejects its configuration" in words(running.exited("lim", 2, 1.0))[0]
    assert deeds(running.tick(1.0)) == [Terminate("lbm")]
    running.exited("lbm", 0, 1.2)
    assert deeds(running.tick(1.2)) == [Finish(2)]


def test_without_an_address_from_the_start_everything_stops_and_may_be_tried_again(running):
    assert "no address to listen on" in words(running.exited("lim", 4, 6.0))[0]
    running.tick(6.0)
    running.exited("lbm", 0, 6.2)
    assert deeds(running.tick(6.2)) == [Finish(1)]


def test_an_address_that_is_lost_later_is_tried_again(running):
    running.exited("lbm", -9, 60.0)
    running.tick(60.5)
    assert words(running.exited("lbm", 4, 65.6)) == [
        "lbm ended with exit status 4; restarting it in 1 s"
    ]


def test_a_configuration_that_became_invalid_later_leaves_the_other_daemon_alone(running):
    running.exited("lbm", -9, 60.0)
    running.tick(60.5)
    assert words(running.exited("lbm", 2, 60.6)) == [
        "lbm ended with exit status 2; restarting it in 1 s"
    ]


def test_if_both_reject_their_configuration_it_finishes_once(running):
    running.exited("lim", 2, 1.0)
    running.exited("lbm", 2, 1.0)
    assert deeds(running.tick(1.0)) == [Finish(2)]
    assert running.tick(1.1) == []


def test_the_lbm_stops_before_the_lim(running):
    running.stop()
    assert deeds(running.tick(1.0)) == [Terminate("lbm")]
    assert running.tick(2.0) == []
    assert running.exited("lbm", 0, 3.0) == [Say("lbm stopped")]
    assert deeds(running.tick(3.0)) == [Terminate("lim")]
    running.exited("lim", 0, 4.0)
    assert deeds(running.tick(4.0)) == [Finish(0)]


def test_a_daemon_that_does_not_stop_is_killed(running):
    running.stop()
    running.tick(1.0)
    assert running.next_due_s() == 11.0
    assert running.tick(10.9) == []
    assert deeds(running.tick(11.0)) == [Kill("lbm")]
    assert words(running.exited("lbm", -9, 11.1)) == ["lbm was killed by signal 9"]
    assert deeds(running.tick(11.1)) == [Terminate("lim")]


def test_a_daemon_that_term_ends_during_its_start_has_stopped(running):
    running.stop()
    running.tick(1.0)
    assert words(running.exited("lbm", -15, 1.1)) == ["lbm stopped"]
    # it was sent to the whole group
    assert words(running.exited("lim", -15, 1.1)) == ["lim stopped"]


def test_a_daemon_waiting_for_its_restart_is_not_started_twice(running):
    running.exited("lbm", -9, 1.0)
    running.stop()
    assert deeds(running.tick(1.1)) == [Terminate("lim")]
    running.exited("lim", 0, 1.2)
    assert deeds(running.tick(9.0)) == [Finish(0)]


def test_leftover_processes_are_ended_then_killed(running):
    running.exited("lbm", -9, 1.0)
    running.stop()
    running.tick(1.1, orphans=1)
    running.exited("lim", 0, 1.2)
    assert deeds(running.tick(1.2, orphans=1)) == [Terminate("")]
    assert running.tick(5.0, orphans=1) == []
    assert deeds(running.tick(11.2, orphans=1)) == [Kill("")]
    assert deeds(running.tick(11.3, orphans=0)) == [Finish(0)]


def test_a_repeated_request_to_stop_has_no_effect(running):
    running.stop()
    running.tick(1.0)
    running.stop()
    assert running.tick(2.0) == []


def test_readiness_of_both_is_reported_once(running):
    assert running.ready("lim") == []
    assert running.ready("lbm") == [Ready()]
    assert running.ready("lbm") == []
    running.exited("lbm", -9, 1.0)
    running.tick(2.0)
    assert running.ready("lbm") == [], "nor when it is started again"


def test_a_daemon_that_makes_way_before_it_is_ready_waits_as_others_do(running):
    running.ready("lbm")
    running.exited("lbm", -9, 1.0)
    assert running.tick(2.0) == [Start("lbm")]
    assert "restarting it in" in words(running.exited("lbm", 3, 2.1))[0]


def test_a_daemon_that_never_fed_a_watchdog_is_not_assumed_to_hang(running):
    assert running.tick(1000.0) == []


def test_a_daemon_that_falls_silent_is_aborted_then_killed_then_restarted(running):
    running.alive("lim", 10.0)
    running.alive("lim", 20.0)
    assert running.next_due_s() == 50.0
    assert running.tick(49.9) == []
    (said, abort) = running.tick(50.0)
    assert "lim hangs" in said.text
    assert abort == Abort("lim")
    running.alive("lim", 50.5)  # it was on its way; too late
    assert running.next_due_s() == 51.0
    assert running.tick(51.0) == [Kill("lim")]
    assert words(running.exited("lim", -9, 51.1))
    assert running.tick(51.6) == [Start("lim")]
    assert running.tick(2000.0) == []


def test_silence_during_the_stop_is_handled_by_the_stop(running):
    running.alive("lbm", 1.0)
    running.stop()
    assert Terminate("lbm") in running.tick(2.0)
    assert running.next_due_s() == 12.0


def test_a_watchdog_of_zero_is_off():
    supervisor = Supervisor(UpConfig(watchdog_s=0.0), ("lim",))
    supervisor.tick(0.0)
    supervisor.alive("lim", 1.0)
    assert supervisor.next_due_s() is None


def test_a_leaving_daemon_that_the_kernel_keeps_is_followed_all_the_same(running):
    running.ready("lbm")
    running.leaving("lbm", 1.0)
    assert running.tick(1.0) == []
    assert running.next_due_s() == 1.0 + END_GRACE_S
    actions = running.tick(1.0 + END_GRACE_S)
    assert deeds(actions) == [Abandon("lbm")]
    assert "does not end" in words(actions)[0]
    assert running.tick(1.0 + END_GRACE_S) == [Start("lbm")]
    assert running.next_due_s() is None


def test_a_daemon_that_leaves_and_ends_is_not_abandoned(running):
    running.ready("lbm")
    running.leaving("lbm", 1.0)
    running.exited("lbm", 3, 1.1)
    assert running.tick(1.1) == [Start("lbm")]
    assert running.tick(60.0) == []


def test_who_hangs_and_cannot_be_killed_is_followed_by_the_next(running):
    running.alive("lbm", 0.0)
    now_s = CONFIG.watchdog_s
    assert deeds(running.tick(now_s)) == [Abort("lbm")]
    now_s = running.next_due_s()
    assert deeds(running.tick(now_s)) == [Kill("lbm")]
    now_s = running.next_due_s()
    assert deeds(running.tick(now_s)) == [Abandon("lbm")]
    assert deeds(running.tick(running.next_due_s())) == [Start("lbm")]


def test_a_stop_waits_for_nobody_whom_the_kernel_cannot_end(running):
    running.stop()
    assert deeds(running.tick(1.0)) == [Terminate("lbm")]
    assert deeds(running.tick(running.next_due_s())) == [Kill("lbm")]
    actions = running.tick(running.next_due_s())
    assert deeds(actions) == [Abandon("lbm"), Terminate("lim")]
    now_s = running.next_due_s() - 1.0
    running.exited("lim", 0, now_s)
    deeds(running.tick(now_s, orphans=1))
    done = []
    while not done:
        now_s = running.next_due_s()
        done = [a for a in running.tick(now_s, orphans=1) if isinstance(a, Finish)]
    assert now_s < 60.0


def test_an_additional_daemon_is_started_and_stops_before_those_that_need_it(running):
    running.want("dispatcher", "lbm", 1.0)
    running.want("dispatcher", "lbm", 1.0)
    assert running.tick(1.0) == [Start("dispatcher")]
    assert running.next_due_s() is None
    running.stop()
    assert deeds(running.tick(2.0)) == [Terminate("lbm")]
    running.exited("lbm", 0, 2.1)
    assert deeds(running.tick(2.1)) == [Terminate("dispatcher")]
    running.want("metrics", "lbm", 2.2)  # too late
    assert "metrics" not in running.daemons


def test_a_failed_configuration_of_an_additional_daemon_affects_no_other(running):
    running.want("dispatcher", "lbm", 1.0)
    running.tick(1.0)
    assert [running.ready("lim"), running.ready("lbm")] == [[], [Ready()]]
    assert deeds(running.exited("dispatcher", 2, 1.1)) == []
    assert (running.stopping, running.tick(1.6)) == (False, [Start("dispatcher")])

"""Forecasts for arrays with a target, in words."""

import math

import pytest

from lbd.console.figures import NONE, Clock
from lbd.console.forecasts import target_lines, target_phrase

CLOCK = Clock(1000.0, utc=True)
TARGET = {"kind": "deadline", "by": 1060.0}


@pytest.mark.parametrize(
    ("job", "shown"),
    [
        ({"target": TARGET | {"expected_end": 1034.0}}, "deadline 00:17:40; ends in ~34s"),
        ({"target": TARGET | {"expected_end": 990.0}}, "deadline 00:17:40; ends in ~0s"),
        ({"target": TARGET}, "deadline 00:17:40; end not known"),
        ({"target": TARGET, "finished": 900.0}, ""),
        ({"target": None}, ""),
    ],
)
def test_in_a_list_a_target_is_shown_briefly(job, shown):
    assert target_phrase(job, CLOCK) == shown


@pytest.mark.parametrize(
    ("finished", "shown"),
    [(None, ""), (1180.0, "; missed by 2m"), (1030.0, "; met by 30s")],
)
def test_once_it_has_ended_the_difference_is_shown(finished, shown):
    (line,) = target_lines({"target": TARGET, "finished": finished}, CLOCK)
    assert line == f"deadline 00:17:40{shown or ' (in 1m)'}"


@pytest.mark.parametrize(
    ("job", "shown"),
    [
        ({"state": "cancelled", "tasks": {"done": 15, "cancelled": 25}}, "25 tasks were cancelled"),
        ({"state": "failed", "tasks": {"done": 39, "lost": 1}}, "1 task was lost"),
        ({"state": "cancelled"}, "it was cancelled"),
        ({"state": "failed", "tasks": {"failed": 4}}, "4 of 4 tasks failed"),
        ({"state": "failed", "tasks": {"failed": 1, "done": 0}}, "1 of 1 task failed"),
    ],
)
def test_a_target_is_not_met_by_tasks_that_were_cancelled(job, shown):
    (line,) = target_lines({"target": TARGET, "finished": 1030.0} | job, CLOCK)
    assert line == f"deadline 00:17:40; not met: {shown}"
    (late,) = target_lines({"target": TARGET, "finished": 1180.0} | job, CLOCK)
    assert late.endswith("; missed by 2m")


def test_of_a_target_that_was_met_the_failed_tasks_are_said():
    job = {"finished": 1030.0, "state": "failed", "tasks": {"done": 17, "failed": 3}}
    (line,) = target_lines({"target": TARGET} | job, CLOCK)
    assert line == "deadline 00:17:40; met by 30s, but 3 of 20 tasks failed"


def test_an_interval_of_zero_width_is_not_shown():
    ends = {"expected_end": 1030.0, "expected_end_90": [1030.0, 1030.0]}
    lines = target_lines({"target": TARGET | ends}, CLOCK)
    assert lines[1] == "expected 00:17:10 (in about 30s)"
    soon = target_lines(
        {"target": TARGET | {"expected_end": 1000.4, "expected_end_90": [1, 2]}}, CLOCK
    )
    assert soon[1].startswith("expected 00:16:40 (in less than 1s)")
    ends["expected_end_90"] = [1020.0, 1040.0]
    lines = target_lines({"target": TARGET | ends}, CLOCK)
    assert lines[1] == "expected 00:17:10 (in about 30s) (likely 00:17:00 to 00:17:20)"


@pytest.mark.parametrize(
    ("left_s", "shown"), [(81.0, "1m20s"), (84.0, "1m20s"), (98.0, "1m40s"), (4000.0, "1h10m")]
)
def test_the_end_of_an_array_is_one_figure_on_one_screen(left_s, shown):
    """It was ~1m24s in the list, and 1m21s or 1m22s below."""
    job = {"target": TARGET | {"expected_end": 1000.0 + left_s, "expected_end_90": [990.0, 5000.0]}}
    assert target_phrase(job, CLOCK).endswith(f"; ends in ~{shown}")
    assert f" (in about {shown}) (likely " in target_lines(job, CLOCK)[1]


@pytest.mark.parametrize(
    ("running", "left", "said"),
    [
        (0, 19, "up to 4 (none has a slot, 19 not ended)"),
        (1, 20, "up to 4 (1 has a slot, 20 not ended)"),
        (4, 19, "4 (4 have slots, 19 not ended)"),
        (3, 3, "4 (3 have slots, 3 not ended)"),
    ],
)
def test_an_array_of_which_fewer_run_is_not_said_to_run_at_once(running, left, said):
    counts = {"tasks_running": running, "tasks_left": left}
    target = TARGET | {"tasks_at_once": 4, "why": "as many", **counts}
    assert target_lines({"target": target}, CLOCK)[-1] == f"at once  {said}: as many"


@pytest.mark.parametrize("by", [math.nan, math.inf, 1e300, None])
def test_a_time_that_cannot_be_is_left_out(by):
    (line,) = target_lines({"target": TARGET | {"by": by}}, CLOCK)
    assert line == f"deadline {NONE}"

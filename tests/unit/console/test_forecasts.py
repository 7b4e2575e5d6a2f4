"""Forecasts for arrays with a target, in words."""

import pytest

from lbd.console.figures import Clock
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
    assert line == "deadline 00:17:40 (in 1m)" + shown


def test_an_interval_of_zero_width_is_not_shown():
    ends = {"expected_end": 1030.0, "expected_end_90": [1030.0, 1030.0]}
    lines = target_lines({"target": TARGET | ends}, CLOCK)
    assert lines[1] == "expected 00:17:10 (in 30s)"
    ends["expected_end_90"] = [1020.0, 1040.0]
    lines = target_lines({"target": TARGET | ends}, CLOCK)
    assert lines[1] == "expected 00:17:10 (in 30s) (likely 00:17:00 to 00:17:20)"

"""Texts about an array as a whole."""

from statistics import fmean

import pytest

from lbd.text.array_phrases import (
    FailedTask,
    Pace,
    about,
    end_line,
    ended_of,
    failed_line,
    interrupted_line,
    progress_line,
)

BAD = [FailedTask(7, "failed", 1, 0, "exited"), FailedTask(9, "failed", 137, 9, "signalled"),
       FailedTask(11, "failed", 124, 0, "timeout"), FailedTask(12, "lost")]  # fmt: skip


@pytest.mark.parametrize(
    ("states", "failed", "line"),
    [
        ({"done": 12}, [], ""),
        ({"done": 10, "failed": 2}, BAD[:2], "2 of 12 tasks failed: 7 (exit 1), 9 (signal 9)"),
        ({"failed": 1}, BAD[:1], "1 of 1 task failed: 7 (exit 1)"),
        (
            {"done": 7, "failed": 1, "lost": 1, "cancelled": 1},
            BAD[2:],
            "2 of 10 tasks failed: 11 (time limit), 12 (lost); 1 was cancelled",
        ),
        ({"done": 1, "cancelled": 2}, [], "2 of 3 tasks were cancelled"),
        (
            {"failed": 100},
            [FailedTask(n, "failed", 1) for n in range(8)],
            "100 of 100 tasks failed: "
            + ", ".join(f"{n} (exit 1)" for n in range(8))
            + " and 92 more",
        ),
    ],
)
def test_the_end(states, failed, line):
    assert failed_line(states, failed) == line


def test_the_end_of_an_interrupted_array():
    states = {"done": 3, "failed": 5, "cancelled": 4}
    assert interrupted_line(states, 4, 3) == (
        "interrupted: 3 done, 5 failed (4 by the interrupt), 4 cancelled (3 never started)"
    )


def test_progress():
    states = {"done": 412, "failed": 2, "lost": 1, "running": 19, "suspended": 1, "pending": 565}
    line = "412/1000 done, 3 failed, 20 running"
    assert progress_line(states, None) == line
    assert progress_line(states, 250.0) == f"{line}, about 4 min"
    states |= {"pending": 544, "held": 21}
    assert progress_line(states, 250.0) == f"{line}, 21 held, about 4 min"
    assert ended_of(states) == (415, 979)  # the held ones say nothing about the time left


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.1, "1 s"), (42.3, "42 s"), (89.0, "89 s"), (100.0, "2 min"), (5000.0, "83 min"),
     (9000.0, "2 h"), (200_000.0, "2 d")],
)  # fmt: skip
def test_a_time_in_one_unit(seconds, text):
    assert about(seconds) == f"about {text}"


def test_cancelled_tasks_say_nothing_of_the_others():
    states = {"pending": 5, "running": 1, "done": 1, "cancelled": 33}
    assert ended_of(states) == (1, 7)
    assert end_line(*ended_of(states), 1, 3.0).startswith("in about 11 s, a rough guess from ")


def test_the_end_of_tasks_that_run_in_rounds_is_not_late_on_average():
    """Running tasks were taken to have done nothing: twenty tasks of 6 s on four slots were said to
    end 30 % too late on average, and 12 s after their begin to end 30 s too late."""
    off_s = []
    for at_s in range(7, 30):
        ended = at_s // 6 * 4
        line = end_line(ended, 20, 4, at_s)
        assert ("rough guess" in line) == (ended < 10)
        off_s.append(float(line.split()[2]) - (30 - at_s))
    assert abs(fmean(off_s)) < 2.0
    assert max(off_s) < 10.0


def test_the_rest_is_assumed_to_take_as_long_as_what_has_ended_since_the_first_look():
    pace = Pace()
    assert pace.left_s(10, 110, 5, 5.0) is None
    assert pace.left_s(10, 110, 5, 9.0) is None
    assert pace.left_s(20, 110, 5, 15.0) == 90.0
    assert pace.left_s(20, 110, 5, 25.0) == 80.0
    assert pace.left_s(20, 110, 5, 200.0) == 0.0
    assert pace.left_s(21, 110, 5, 215.0) == 89 * 210 / 11
    assert pace.left_s(110, 110, 0, 99.0) is None


def test_before_a_round_of_tasks_has_ended_nothing_is_said():
    """The first to end of four was taken for all: it said four times as long as it took."""
    pace = Pace()
    found = [pace.left_s(ended, 21, 4, 4.0 + ended) for ended in range(5)]
    assert found == [None, None, None, None, 17.0]
    last = Pace()  # with the last tasks all end soon
    assert [last.left_s(ended, 3, 3 - ended, 10.0 * ended) for ended in range(3)] == [
        None, None, 10.0,
    ]  # fmt: skip


def test_time_in_line_is_none_of_its_tasks():
    pace = Pace()
    assert [pace.left_s(0, 20, 0, at_s) for at_s in (0.0, 600.0)] == [None, None]
    assert pace.left_s(0, 20, 4, 605.0) is None
    assert pace.left_s(4, 20, 4, 615.0) == 40.0


def test_nor_is_the_end_said_before_a_round_of_tasks_has_ended():
    assert end_line(3, 20, 4, 9.0) == "not known before as many tasks have ended as run at once"
    assert end_line(4, 20, 4, 9.0).startswith("in about 23 s, a rough guess")
    assert end_line(0, 3, 0, 9.0).startswith("not known before")

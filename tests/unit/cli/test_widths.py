"""On a terminal no line is wider than the screen; without one nothing is broken or cut."""

import io
import os
import sys
import termios

import pytest

from lbd.cli import lbctl, main
from lbd.console.output import PAINTED, shown_width
from tests.unit.cli.canned import JOB

PLACED = {
    "verdict": "here", "host": "h1", "reason": "below-threshold", "algorithm": "GLOBAL",
    "asked_on": "h1", "load_here": 0.02, "local_threshold": 0.7, "min_gain": 0.1,
    "candidates": [{"name": "h1", "load": 2.02, "age_s": 0.1, "willing": True, "why": ""}],
}  # fmt: skip
ELIGIBLE = {
    "eligible": False, "reason": "short", "key": "gcc -c", "runs": 3, "cpu_s": 0.02,
    "why": "its CPU time was too short to make it worth moving", "measured": 1e9,
    "threshold_s": 0.3,
}  # fmt: skip
TAGS = {
    "mode": "tags", "source": "solved", "objective": "slowdown", "work_conserving": True,
    "load": 0.5, "reason": "solved again once there are 40 more jobs on record than now",
    "tiers": [{"tier": n, "cutoff_s": 60.0, "hosts": ["h1", "h2"], "slots": 4} for n in (1, 2)],
    "fit": {"k": 1.0, "p": 1e6, "alpha": 1.0, "jobs": 1000, "ks_distance": 0.05, "good": True,
            "arrival_rate_per_s": 0.01, "mean_s": 30.0},
}  # fmt: skip
WAITS = {**JOB, "state": "pending", "command": ["python3", "fit.py", *(["--more"] * 20)],
         "reason": "no host has the free slots that it needs, so it waits"}  # fmt: skip


class Terminal(io.StringIO):
    """What is printed, and the descriptor of a terminal of that width."""

    def __init__(self, columns):
        super().__init__()
        self._fds = os.openpty()
        termios.tcsetwinsize(self._fds[1], (24, columns))

    def fileno(self):
        return self._fds[1]

    def isatty(self):
        return True

    def close(self):
        for fd in self._fds:
            os.close(fd)
        super().close()


COMMANDS = [
    (lbctl, ["explain", "gcc", "-c", "x.c"]),
    (lbctl, ["eligible", "gcc", "-c", "x.c"]),
    (lbctl, ["jobs", "--all", "--format", "id,state,command,reason"]),
    (lbctl, ["tags", "show"]),
    (lbctl, ["tags", "solve", "--alpha=1", "--mean=3000", "--max=1e10", "--load=0.5", "--hosts=4"]),
    (
        main,
        ["sim", "balance", "--hosts=2", "--duration=60s", "--replications=1", "--algorithm=NOLB"],
    ),
    (main, ["sim", "target", "--tasks=8", "--replications=10", "--workers=1"]),
    (main, ["sim", "dispatch", "--jobs=2000"]),
]


@pytest.fixture
def shown(daemon, monkeypatch):
    daemon("lim", place=PLACED)
    answers = {"queue.tags": TAGS, "eligible": ELIGIBLE, "jobs": {"jobs": [WAITS], "missing": []}}
    daemon("lbm", explain=PLACED, **answers)
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "xterm")

    def run(program, words, stream):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", stream)
            assert program.main(words) == 0
        return stream.getvalue().splitlines()

    return run


@pytest.mark.parametrize(
    ("program", "words"),
    COMMANDS,
    ids=lambda words: " ".join(words[:2]) if isinstance(words, list) else "",
)
def test_no_line_wraps(shown, program, words):
    for columns in (40, 60, 80):
        with Terminal(columns) as stream:
            lines = shown(program, words, stream)
        assert lines
        assert [line for line in lines if shown_width(line) > columns] == []
        if program is main:  # tables of figures
            assert [line for line in lines if "…" in line] == []


@pytest.mark.parametrize(
    ("columns", "titles", "left"),
    [
        (60, "MODE SLOWDOWN 95 % P99 WAITING S",
         "RESPONSE S, LONGEST S, WASTED S, UTILISATION"),
        (80, "MODE SLOWDOWN 95 % P99 WAITING S RESPONSE S LONGEST S", "WASTED S, UTILISATION"),
        (90, "MODE SLOWDOWN 95 % P99 WAITING S RESPONSE S LONGEST S WASTED S", "UTILISATION"),
        (200, "MODE SLOWDOWN 95 % P99 WAITING S RESPONSE S LONGEST S WASTED S UTILISATION", ""),
    ],
)  # fmt: skip
def test_columns_for_which_there_is_no_room_are_named(shown, columns, titles, left):
    """The widest went last and silently, after most of the figures."""
    words = ["sim", "dispatch", "--jobs=2000", "--hosts=8"]
    with Terminal(columns) as stream:
        lines = shown(main, words, stream)
    plain = [PAINTED.sub("", line) for line in lines]
    (heading,) = [line for line in plain if line.startswith("MODE ")]
    assert " ".join(heading.split()) == titles
    said = f"left out: {left} (use a wider terminal or a pipe)"
    assert (said in " ".join(" ".join(lines).split())) == bool(left), lines
    assert "left out" not in "".join(shown(main, words, io.StringIO()))


def test_a_listing_of_fields_is_whole_in_a_pipe(shown):
    (_, line) = shown(lbctl, ["jobs", "--all", "--format", "command,reason"], io.StringIO())
    assert line == f"{' '.join(WAITS['command'])}  {WAITS['reason']}"
    first = shown(lbctl, ["explain", "gcc", *["-c"] * 60], io.StringIO())[0]
    assert first.endswith(", algorithm GLOBAL")

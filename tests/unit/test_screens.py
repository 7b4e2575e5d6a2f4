"""The captured screens: up to date, never wider than the terminal, with the essential contents."""

import re

import pytest

from deploy.screens import __main__ as screens
from lbd.console.output import PAINTED, Page, Paint, width

WIDTHS = (20, 33, 40, 60, 79, 80, 81, 100, 132, 160, 240)


def test_the_captures_are_what_the_programs_draw():
    assert screens.outdated() == [], "run: .venv/bin/python deploy/screens, and look at them"


def test_an_outdated_capture_is_noticed(tmp_path, monkeypatch):
    for path, text in screens.files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setattr(screens, "ROOT", tmp_path)
    assert screens.main(["--check"]) == 0
    wrong = screens.TEXTS / "status-80.txt"
    (tmp_path / wrong).write_text("something else\n")
    assert screens.outdated() == [str(wrong)]
    assert screens.main(["--check"]) == 1


def test_every_screen_is_on_the_page():
    assert set(screens.ABOUT) == set(screens.SCREENS)


@pytest.mark.parametrize("name", screens.SCREENS)
def test_no_line_is_longer_than_the_terminal_is_wide(name):
    for columns in WIDTHS:
        for colours in (True, False):
            for line in screens.SCREENS[name](Page(Paint(colours), columns)):
                shown = "".join(PAINTED.split(line)[::2])
                assert width(shown) <= columns, (columns, shown)
                assert colours or "\x1b" not in line


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("status", ["HOST", "STATE", "BUSY", "LOAD", "MEMORY", "SLOTS"]),
        ("status-tiers", ["HOST", "STATE", "LOAD", "SLOTS", "TIER"]),
        ("jobs", ["ID", "USER", "STATE", "ON", "COMMAND", "WAITS"]),
        ("top-queue", ["ID", "STATE", "COMMAND", "WAITS"]),
        ("stats", ["JOBS", "FAILED", "RESPONSE", "WAITING", "SLOWDOWN", "MOVED"]),
        ("owners", ["HOST", "OWNER", "SINCE", "FREE WITHIN", "RULE"]),
        ("lab-status", ["HOST", "LIM", "LBM", "CUT FROM", "DISPATCHER"]),
    ],
)
def test_the_essential_contents_are_there_at_80_columns(name, kept):
    lines = screens.SCREENS[name](Page(Paint(on=False), 80))
    header = next(line for line in lines if re.search(r"\b(HOST|ID|JOBS)\b", line))
    assert [title for title in kept if title not in header] == []


@pytest.mark.parametrize("columns", [40, 80, 160])
def test_a_table_keeps_a_line_for_each_row(columns):
    page = Page(Paint(on=False), columns)
    jobs = screens.SCREENS["jobs"](page)
    assert len(jobs) == 1 + len(screens.cluster.JOBS)
    ids = [line.split()[0].partition("_")[0] for line in jobs[1:]]
    assert ids == [job["id"] for job in screens.cluster.JOBS]


def test_in_a_pipe_nothing_is_left_out_or_cut():
    lines = screens.SCREENS["status"](Page(Paint(on=False), None))
    header = next(line for line in lines if line.startswith("HOST"))
    titles = [title.lstrip(">") for title in header.split()]
    assert titles == ["HOST", "STATE", "LOAD", "CPU", "IO", "STALLED", "UTIL", "MEMORY", "CORES",
                      "SPEED", "SLOTS", "FROM", "FOREIGN", "TIER", "AGE", "ADDRESS"]  # fmt: skip
    assert "…" not in "\n".join(lines)


def test_hosts_that_do_not_answer_are_grey():
    lines = screens.SCREENS["status"](Page(Paint(on=True), 80))
    (late,) = [line for line in lines if "bora-6" in line]
    (up,) = [line for line in lines if "atlas-2" in line]
    assert late.count("\x1b[2m") > 4
    assert "\x1b[2m" not in up

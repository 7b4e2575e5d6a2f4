"""How a list of jobs shows their commands."""

import pytest

from lbd.cli.ctl.jobs.listing import hidden_lines, job_lines
from lbd.console.figures import Clock
from lbd.console.output import Page, Paint
from tests.unit.cli.canned import JOB

SIM = "/home/alice/projects/fluid/build/sim"


def shown(command, columns):
    job = {**JOB, "command": command}
    heading, line = job_lines([job], Clock(10.0), Page(Paint(on=False), columns))
    return line[heading.index("COMMAND") :]


@pytest.mark.parametrize(
    ("command", "columns", "text"),
    [
        ([SIM, "5"], 120, f"{SIM} 5"),
        ([SIM, "5"], 80, "…/sim 5"),
        ([SIM, "--steps", "1000", "--seed", "12345678901234"], 80, "…/sim --steps 1000 …"),
        (["sort", "/data/2026/a b.txt", "-o", "/out"], 80, "sort …/'a b.txt' -o…"),
        (["./sim", "5"], 80, "./sim 5"),
        ([f"/{'long/' * 12}sim", "5"], 200, "…/sim 5"),
        ([SIM, "5"], None, f"{SIM} 5"),
    ],
)
def test_a_command_that_does_not_fit_loses_directories_before_names(command, columns, text):
    assert shown(command, columns) == text


@pytest.mark.parametrize("columns", [160, 250])
def test_one_long_name_is_cut_before_other_columns(columns):
    """It took 40 of 160 columns, and commands and reasons were cut."""
    own = {**JOB, "name": "", "command": ["sh", "-c", "while :; do :; done # " + "x" * 9]}
    named = {**own, "id": "7", "name": "n" * 62, "state": "pending", "started": None, "host": "",
             "reason": "it needs 9 slots on one host at once"}  # fmt: skip
    lines = job_lines([own, named], Clock(10.0), Page(Paint(on=False), columns))
    assert lines[2].endswith(named["reason"])
    assert "x" * 9 in lines[2]
    assert ("n" * 39 + "…" in lines[2]) is (columns > 160)
    assert "n" * 19 + "…" in lines[2]


def test_whose_jobs_they_are_is_shown_beside_arrays_of_which_tasks_failed():
    """At 80 columns USER went first, and root could not see whose command to end."""
    tasks = {"failed": 15, "running": 2, "pending": 103}
    array = {
        **JOB, "name": "", "user": "rolf16", "id": "901", "array": "1-120",
        "waiting": "18,20,25,30-120",
        "tasks": tasks, "state": "running", "host": "", "command": ["sh", "-c", "sleep 5; exit 1"],
        "reason": "1 job is ahead of it", "started": 5.0,
    }  # fmt: skip
    own = {**array, "user": "rita16", "id": "1021", "array": "1-60", "waiting": "8-60",
           "tasks": {"failed": 5, "running": 2, "pending": 53},
           "reason": "next, as soon as a slot is free"}  # fmt: skip
    plain = {**JOB, "name": "", "user": "rolf16", "command": ["sleep", "30"]}
    lines = job_lines([plain, array, own], Clock(10.0), Page(Paint(on=False), 80))
    assert "USER" in lines[0]
    assert "15/120, 15 failed  " in lines[2]
    assert [line.split()[0] for line in lines[2:]] == ["901_[18,…]", "1021_[8-60]"]
    assert max(map(len, lines)) <= 80
    wide = job_lines([plain, array, own], Clock(10.0), Page(Paint(on=False), 160))
    assert "USER" in wide[0]
    assert "103 pending, 2 running, 15 failed" in wide[2]


def test_a_lost_job_ran_at_most_until_it_was_given_up():
    """Only its attempt had "≤32s", and the job 32s, though its host was off from the fifth second
    on."""
    lost = {**JOB, "state": "lost", "started": 100.0, "finished": 132.0, "reason": "contact with "
            "h2 was lost; it may have run in part and is not restartable"}  # fmt: skip
    _, line = job_lines([lost], Clock(200.0), Page(Paint(on=False), 200))
    assert " ≤32s " in line
    _, line = job_lines([lost | {"started": None}], Clock(200.0), Page(Paint(on=False), 200))
    assert "≤" not in line


def test_a_list_that_would_be_too_long_says_what_it_leaves_out():
    """With jobs of a thousand words each it had the newest 909 of 1,500, and did not say so."""
    assert hidden_lines({"unlisted": 591}) == [
        "591 older jobs of the queue left out: the list would be too long; name jobs by their ids "
        "(`lbctl jobs 1-500`)"
    ]
    assert hidden_lines({"unlisted": 0}) == []

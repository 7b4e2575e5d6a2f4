"""How a list of jobs shows their commands."""

import pytest

from lbd.cli.ctl.jobs.listing import job_lines
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

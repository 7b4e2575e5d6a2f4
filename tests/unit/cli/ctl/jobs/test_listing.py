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

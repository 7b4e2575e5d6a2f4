"""lbctl stats against canned answers of hosts."""

import json

import pytest

from lbd.cli import lbctl
from tests.unit.cli.canned import STATUS

ANSWER = {"lost": 0, "trouble": "", "user": None, "first": None, "by_user": [], "by_host": []}


def row(key, jobs):
    """As a host tells of it."""
    return [key, jobs, 0, 0, 0, 0.0, *[jobs, float(jobs), float(jobs)] * 3]


@pytest.fixture
def two_hosts(daemon):
    """Each leaves out some commands."""
    told = {"h1": [row("cc", 60), row("ls", 30)], "h2": [row("cc", 50)]}
    daemon("lim", status=STATUS)
    daemon(
        "lbm",
        stats=lambda request: {
            "ok": True, **ANSWER, "all": row("", 100), "by_command": told[request["of"]],
        },
    )  # fmt: skip


def test_jobs_of_commands_that_hosts_did_not_tell_of_are_counted(two_hosts, capsys):
    assert lbctl.main(["stats", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["jobs"] == 200
    assert [(one["command"], one["jobs"]) for one in found["by_command"]] == [
        ("cc", 110),
        ("ls", 30),
    ]
    assert found["left_out"]["by_command"] == 60


def test_the_table_says_so_too(two_hosts, capsys):
    assert lbctl.main(["stats"]) == 0
    assert "without 60 jobs of other commands: " in capsys.readouterr().out

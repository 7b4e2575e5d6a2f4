"""`lbctl eligible`, and what `explain` says of eligibility, against canned answers."""

import json
import os
import time

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl.eligible import age
from lbd.client.help import explain
from lbd.client.options import Options

KNOWN = {
    "key": "gcc -c", "eligible": True, "reason": "long", "why": "worth it", "list": None,
    "measure": False, "threshold_s": 0.05, "cpu_s": 1.5, "runs": 7, "measured": 1.7e9,
}  # fmt: skip
NEW = {**KNOWN, "key": "fit", "eligible": False, "reason": "new", "cpu_s": None, "runs": 0,
       "measured": None}  # fmt: skip
ALL = {
    "threshold_s": 0.05, "always": ["fit"], "never": [], "host_always": [], "host_never": ["x"],
    "commands": [
        {"key": "sed", "eligible": False, "reason": "short", "cpu_s": 0.002, "runs": 3,
         "measured": 1.7e9},
        {"key": "gcc -c", "eligible": True, "reason": "long", "cpu_s": 1.5, "runs": 7,
         "measured": 1.7e9},
    ],
}  # fmt: skip


def test_one_command_for_people(daemon, capsys):
    lbm = daemon("lbm", eligible=KNOWN)
    assert lbctl.main(["eligible", "gcc", "-c", "x.c"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "gcc -c x.c: under lbsh it may leave: worth it (long)"
    assert lines[2].startswith("CPU time      1.5s by 7 measured runs, the last ")
    assert lines[3] == "worth moving  from 50ms of CPU time (lim.job_threshold_s)"
    assert lbm.asked[0]["command"] == ["gcc", "-c", "x.c"]


def test_a_new_command_for_people(daemon, capsys):
    daemon("lbm", eligible=NEW)
    assert lbctl.main(["eligible", "true"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("true: under lbsh it stays here: ")
    assert "CPU time      not known" in out


@pytest.mark.parametrize(
    ("by", "why", "said"),
    [
        ("user", "your list keeps it here", "it stays here, under lbsh and lbrun"),
        ("host", "this host's owner keeps it here", "it stays here, under lbsh and lbrun"),
        ("built-in", "it starts other commands", "under lbsh it stays here"),
    ],
)
def test_what_a_list_keeps_here_lbrun_keeps_too(daemon, capsys, by, why, said):
    kept = {**KNOWN, "eligible": False, "reason": "never", "why": why, "list": by}
    daemon("lbm", eligible=kept)
    assert lbctl.main(["eligible", "gcc", "-o", "prog", "x.o"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"gcc -o prog x.o: {said}: {why} (never)"


@pytest.mark.parametrize(
    ("program", "said"),
    [("no-such-fit", "not found"), ("./no/fit", "No such file or directory")],
)
def test_a_program_that_does_not_exist_is_not_said_to_run(daemon, capsys, program, said):
    daemon("lbm", eligible=NEW)
    assert lbctl.main(["eligible", program]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"{program}: {said}; the exit status would be 127"


def test_all_for_people(daemon, capsys):
    daemon("lbm", eligible=ALL)
    assert lbctl.main(["eligible"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["always by your list: fit", "never by this host's list: x"]
    assert [line.split()[0] for line in lines[4:]] == ["COMMAND", "gcc", "sed"]
    assert lines[6].split()[1:4] == ["no", "2.0ms", "3"]


def test_a_command_with_no_history_says_so(daemon, capsys):
    daemon("lbm", eligible={**ALL, "commands": []})
    assert lbctl.main(["eligible"]) == 0
    assert capsys.readouterr().out.endswith("none of your commands has been measured yet\n")


def test_for_scripts(daemon, capsys):
    daemon("lbm", eligible=lambda request: {"ok": True, **(KNOWN if "command" in request else ALL)})
    assert lbctl.main(["eligible", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"schema": 1, **ALL}
    assert lbctl.main(["eligible", "--json", "gcc", "--json"]) == 0
    said = {"schema": 1, "command": ["gcc", "--json"], **KNOWN}
    assert json.loads(capsys.readouterr().out) == said


def test_the_lists_of_the_user_are_sent_along(daemon, capsys, tmp_path):
    with (tmp_path / "lbd.toml").open("a") as config:
        config.write('[eligibility]\nalways = ["fit"]\nnever = ["gcc -E"]\n')
    lbm = daemon("lbm", eligible=ALL)
    assert lbctl.main(["eligible"]) == 0
    asked = lbm.asked[0]
    assert (asked["always"], asked["never"]) == (["fit"], ["gcc -E"])


def test_explain_mentions_it(daemon, capsys):
    daemon("lim", place={"verdict": "here", "host": "h1", "reason": "no-peer", "algorithm": "NOLB"})
    daemon("lbm", eligible=NEW)
    assert lbctl.main(["explain", "fit"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Under lbsh it would stay here: ")


def test_lbrun_explain_mentions_it_only_to_scripts(daemon, capsys):
    daemon("lim", place={"verdict": "here", "host": "h1", "reason": "no-peer", "algorithm": "NOLB"})
    daemon("lbm", eligible=NEW)
    options = Options()
    options.command, options.values = ["fit"], {"config": os.environ["LBD_CONFIG"]}
    assert explain(options) == 0
    assert "lbsh" not in capsys.readouterr().out
    options.plain = {"json"}
    assert explain(options) == 0
    assert json.loads(capsys.readouterr().out)["eligibility"] == NEW


@pytest.mark.parametrize(
    ("ago_s", "shown"), [(-5, "0s"), (59, "59s"), (61, "1m"), (7200, "2h"), (86400 * 3, "3d")]
)
def test_age(ago_s, shown):
    assert age(time.time() - ago_s) == shown

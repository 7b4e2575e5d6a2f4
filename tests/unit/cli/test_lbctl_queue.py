"""`lbctl`'s commands on the queue, against canned answers: what they refuse, and when they end."""

import json
import math
import time

import pytest

from lbd.cli import lbctl, lbctl_queue
from tests.unit.cli.canned import JOB

AWAY = {"ok": False, "error": "the dispatcher on h1 cannot be reached", "code": "unavailable"}


@pytest.mark.parametrize("verb", ["job", "logs", "wait", "kill", "hold", "release", "requeue"])
@pytest.mark.parametrize("ids", ["0", "abc", "5-2", "9" * 30, "@you", ""])
def test_an_id_that_makes_no_sense_is_a_mistake_of_the_command_line(daemon, capsys, verb, ids):
    daemon("lbm")
    assert lbctl.main([verb, ids]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"{ids!r}" in err


@pytest.mark.parametrize("given", ["0", "-1", "x", "1.5"])
def test_an_attempt_that_makes_no_sense(daemon, capsys, given):
    daemon("lbm")
    assert lbctl.main(["logs", f"--attempt={given}", "3"]) == 2
    assert f"{given!r} is no attempt; the first is 1" in capsys.readouterr().err


def test_wait_ends_at_its_time_also_if_the_dispatcher_is_away(daemon, capsys):
    lbm = daemon("lbm", **{"queue.wait": lambda request: AWAY})
    began_s = time.monotonic()
    assert lbctl.main(["wait", "--timeout", "0.7s", "3"]) == 2
    assert 0.7 <= time.monotonic() - began_s < 5
    assert capsys.readouterr().err == "lbctl: the dispatcher on h1 cannot be reached\n"
    assert len(lbm.asked) > 1  # it was given time to come back


@pytest.mark.parametrize(("count", "said"), [(1, "1 job has"), (3, "3 jobs have")])
def test_wait_says_how_many_are_left(daemon, capsys, count, said):
    daemon("lbm", **{"queue.wait": {"open": count, "jobs": []}})
    assert lbctl.main(["wait", "--timeout", "0", "1-3"]) == 2
    assert capsys.readouterr().err == f"lbctl: {said} not ended yet\n"


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (["the dispatcher"], ["the dispatcher did not answer: no jobs of the queue are shown"]),
        (["h2", "h3"], ["these hosts did not answer: h2, h3"]),
        (
            ["h2", "the dispatcher"],
            [
                "these hosts did not answer: h2",
                "the dispatcher did not answer: no jobs of the queue are shown",
            ],
        ),
    ],
)
def test_no_jobs_is_not_said_where_not_all_have_answered(daemon, capsys, missing, said):
    daemon("lbm", jobs={"jobs": [], "missing": missing})
    assert lbctl.main(["jobs"]) == 0
    assert capsys.readouterr().err.splitlines() == [f"lbctl: {line}" for line in said]


def test_a_long_name_does_not_widen_everybodys_table(daemon, capsys):
    daemon("lbm", jobs={"jobs": [{**JOB, "name": "x" * 1000}, JOB], "missing": []})
    assert lbctl.main(["jobs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f" {'x' * 39}… " in lines[1]
    assert max(map(len, lines)) < 130


def test_a_name_of_many_lines_is_cut_where_it_is_long_as_shown(daemon, capsys):
    daemon("lbm", jobs={"jobs": [{**JOB, "name": "first" + " \n" * 50 + "last"}], "missing": []})
    assert lbctl.main(["jobs"]) == 0
    assert " first last " in capsys.readouterr().out


@pytest.mark.parametrize("command", [["jobs"], ["jobs", "3"], ["job", "3"], ["wait", "3"]])
def test_a_number_that_there_is_not_is_null_in_every_answer(daemon, capsys, command):
    found = {"jobs": [{**JOB, "cpu_s": math.nan}]}
    daemon("lbm", jobs=found, **{"queue.jobs": found, "queue.wait": {**found, "open": 0}})
    lbctl.main([*command, "--json"])
    told = json.loads(capsys.readouterr().out)
    (job,) = told if isinstance(told, list) else [told]
    assert (job["schema"], job["id"], job["cpu_s"]) == (1, "h1-7", None)


def test_logs_say_what_they_wait_for(daemon, capsys, monkeypatch):
    monkeypatch.setattr(lbctl_queue, "SILENT_S", 0.2)
    monkeypatch.setattr(lbctl_queue, "RETRY_FOR_S", 1.5)
    daemon("lbm", **{"queue.logs": lambda request: AWAY})
    assert lbctl.main(["logs", "3"]) == 1
    said = [f"lbctl: {AWAY['error']}; asked again for 1 s", f"lbctl: {AWAY['error']}"]
    assert capsys.readouterr().err.splitlines() == said


def test_a_labs_daemons_are_not_asked_to_make_way(tmp_path, monkeypatch, capsys):
    config = tmp_path / "h1" / "lbd.toml"
    config.parent.mkdir()
    config.write_text(f'# made by `lbd lab`\n[host]\nname = "h1"\nruntime_dir = "{tmp_path}"\n')
    monkeypatch.setenv("LBD_CONFIG", str(config))
    assert lbctl.main(["restart"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("lbctl: in a lab nobody starts daemons again; by hand: lbd lab kill h1 ")

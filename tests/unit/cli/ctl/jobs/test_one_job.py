"""What `lbctl job` says of one job: what its user gave, where its output is, and its attempts."""

import json

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl.jobs import queued_jobs, verbs
from lbd.console.figures import Clock
from lbd.console.output import Page, Paint
from lbd.console.plain_commands import attempts_of, details
from tests.unit.cli.ctl.jobs.test_queued_jobs import AWAY

GIVEN = {"directory": "/home/ann", "output": None, "error": None, "timeout_s": None,
         "memory_bytes": None, "idempotency_key": None, "may_restart": True, "slots_least": 1,
         "slots_most": 1, "priority": 0}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        ({}, ["in       /home/ann", "output   kept on h2: lbctl logs 12",
              "slots    1; priority 0"]),
        (
            {"output": "run.%j", "error": "err", "timeout_s": 90.0, "memory_bytes": 1 << 30,
             "max_rss_bytes": 3 << 28, "idempotency_key": "night", "may_restart": False,
             "slots_most": 4, "slots": 2, "priority": -3},
            ["output   /home/ann/run.12", "error    /home/ann/err",
             "slots    2 (1 to 4 asked for); priority -3",
             "limits   time 1m30s, memory 1.0G",
             "used     at most 768.0M of memory in one process",
             "again    never: --no-restart", "key      night"],
        ),
        (
            {"needs": {"resources": {"gpu": 1, "scratch": 50 << 30}, "features": ["big"],
                       "not_features": ["slow"], "memory_bytes": 1 << 30}},
            ["needs    gpu=1, scratch=50.0G, feature big, no feature slow"],
        ),
        ({"directory": None}, ["in       a directory of its own (--send, --fetch)"]),
    ],
    ids=["plain", "all", "needs", "staged"],
)  # fmt: skip
def test_a_job_is_shown_with_what_its_user_specified(daemon, capsys, more, lines):
    job = {"id": "12", "command": ["cc"], "user": "ann", "state": "done", "submitted": 1.0,
           "started": 2.0, "finished": 3.0, "host": "h2", **GIVEN, **more}  # fmt: skip
    daemon("lbm", **{"queue.jobs": {"jobs": [job]}})
    assert lbctl.main(["job", "12", "--utc"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line in lines] == lines
    assert [line.split()[0] for line in shown[-20:] if line[:4] in ("queu", "star", "ende")] == [
        "queued",
        "started",
        "ended",
    ]


def test_each_of_several_jobs_is_shown_as_it_is_alone(daemon, capsys, monkeypatch):
    """What their users gave, and where their outputs are, was left out without a word."""
    jobs = [
        {"id": name, "command": ["cc"], "user": "ann", "state": "done", "submitted": 1.0,
         "started": 2.0, "finished": 3.0, "host": "h2", "attempts": []}
        for name in ("12", "13", "14")
    ]  # fmt: skip

    def found(asked):
        ids = [one["id"] for one in jobs] if "12-14" in asked["ids"] else asked["ids"]
        given = GIVEN if len(ids) == 1 else {}
        return {"ok": True, "jobs": [{**one, **given} for one in jobs if one["id"] in ids]}

    daemon("lbm", **{"queue.jobs": found, "queue.logs": {}})
    alone = []
    for name in ("12", "13", "14"):
        assert lbctl.main(["job", name, "--utc"]) == 0
        alone.append(capsys.readouterr().out)
    assert "output   kept on h2: lbctl logs 13\n" in alone[1]
    for ids in (["12", "13", "14"], ["12-14"]):
        assert lbctl.main(["job", *ids, "--utc"]) == 0
        assert capsys.readouterr() == ("\n".join(alone), "")
    monkeypatch.setattr(queued_jobs, "FULL_MAX", 2)
    assert lbctl.main(["job", "12-14", "--utc"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("\n".join(alone[:2]))
    assert err == ("lbctl: only of the first 2 of these jobs all is shown; name fewer at a time\n")


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (
            "the output was kept on h2, which is no longer in this cluster, so it is lost",
            "was kept on h2, which is no longer in this cluster",
        ),
        (
            "h2: its output is not stored here, or no longer",
            "was kept on h2, which no longer has it",
        ),
        (
            "h2: its output was removed, because the disk was nearly full",
            "was kept on h2, which removed it because its disk was nearly full",
        ),
        ("cannot get output from h2: it does not answer", "kept on h2: lbctl logs 12"),
        ("", "kept on h2: lbctl logs 12"),
    ],
)
def test_output_that_is_gone_is_not_said_to_be_kept(daemon, capsys, refused, said):
    """Of a host that was replaced or forgotten it was still said."""
    job = {"id": "12", "command": ["cc"], "user": "ann", "state": "done", "submitted": 1.0,
           "started": 2.0, "finished": 3.0, "host": "h2", **GIVEN}  # fmt: skip
    answer = {"ok": not refused, "error": refused, "code": "unavailable"}
    lbm = daemon("lbm", **{"queue.jobs": {"jobs": [job]}, "queue.logs": lambda _: answer})
    assert lbctl.main(["job", "12"]) == 0
    assert f"output   {said}" in capsys.readouterr().out.splitlines()
    asked = len(lbm.asked)
    for still in ({"state": "running"}, {"output": "x"}, {"started": None}, {"array": "1-3"}):
        assert queued_jobs.with_lost_output(None, {**job, **still}) == {**job, **still}
    assert lbctl.main(["job", "12", "--json"]) == 0
    assert len(lbm.asked) == asked + 1, "in JSON it says no more than before"


@pytest.mark.parametrize(
    ("tier", "tiers", "shown"),
    [(1, {}, []), (1, {"h2": [1], "h3": [2]}, ["1"]), (2, {}, ["2"]), (1, None, ["1"])],
)
def test_attempts_have_a_tier_only_where_the_discipline_has_some(
    daemon, capsys, tier, tiers, shown
):
    """Under fcfs it was 1 in a pipe."""
    attempt = {"number": 1, "host": "h2", "tier": tier, "state": "done", "started": 2.0,
               "finished": 3.0, "exit_status": 0}  # fmt: skip
    job = {"id": "12", "command": ["cc"], "user": "ann", "state": "done", "submitted": 1.0,
           "started": 2.0, "finished": 3.0, "host": "h2", "attempts": [attempt]}  # fmt: skip
    status = {"ok": True, "mode": "fcfs", "tiers": tiers} if tiers is not None else AWAY
    daemon("lbm", **{"queue.jobs": {"jobs": [job]}, "queue.status": lambda _: status})
    assert lbctl.main(["job", "12"]) == 0
    heading, row = capsys.readouterr().out.splitlines()[-2:]
    assert heading.split()[:3] == ["NO", "HOST", "TIER"]
    assert row.partition("done")[0].split() == ["1", "h2", *shown]
    assert lbctl.main(["job", "12", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["attempts"]
    assert found["tier"] == tier


def test_an_array_says_why_tasks_could_not_be_started(daemon, capsys):
    """Only the exit status was shown, and the reason only of each task alone."""
    why = "cannot open the output file /out/{}: Permission denied"
    bad = [{"array_index": n, "state": "failed", "exit_status": 125, "reason": why.format(n)}
           for n in range(1, 7)]  # fmt: skip
    bad[2]["reason"] = bad[1]["reason"]
    bad[0] |= {"exit_status": 1, "reason": "said of a command that ran"}
    array = {"id": "12", "array": "1-6", "command": ["cc"], "tasks": {"failed": 6, "lost": 0},
             "failed": bad, "state": "failed", "submitted": 1.0, "started": 2.0, "user": "ann",
             **GIVEN}  # fmt: skip
    daemon("lbm", **{"queue.jobs": {"jobs": [array]}})
    assert lbctl.main(["job", "12"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("reason")]
    assert lines == [f"reason   task {n}: {why.format(n)}" for n in (2, 4, 5)]


@pytest.mark.parametrize("output", [None, "run.%a"])
def test_an_array_names_the_logs_of_what_failed(daemon, capsys, output):
    """The attempts in the answer are those of its first task."""
    array = {"id": "12", "array": "1-5", "command": ["cc"],
             "tasks": {"done": 4, "failed": 1, "lost": 0},
             "failed": [{"array_index": 3, "state": "failed", "exit_status": 1}], "state": "failed",
             "attempts": [{"number": 1, "host": "h2", "state": "done"}], "submitted": 1.0,
             "started": 2.0, "user": "ann", **GIVEN, "output": output}  # fmt: skip
    daemon("lbm", **{"queue.jobs": {"jobs": [array]}})
    assert lbctl.main(["job", "12"]) == 0
    shown = capsys.readouterr().out
    assert "failed   3 (exit 1); lbctl logs 12_3" in shown.splitlines()
    assert "HOST" not in shown
    where = f"/home/ann/{output}" if output else "of task N kept where it ran: lbctl logs 12_N"
    assert f"output   {where}" in shown.splitlines()


def test_where_a_command_was_typed_is_not_said_to_be_where_it_runs():
    """With --send it runs in a directory of its own."""
    lines = details({"directory": "/home/ann/w", "origin": "h1"}, Clock(0.0, True))
    assert lines[-1] == "from       /home/ann/w on h1"


def test_the_reason_for_the_placement_is_explained():
    lines = details({"reason": "lowest"}, Clock(0.0, True))
    assert lines[-1] == "placed     the best of the hosts that accept commands"
    lines = details({"reason": "no-gain; load with it: h3 1.20, h1 1.32"}, Clock(0.0, True))
    assert lines[-1] == (
        "placed     no host that accepts commands was clearly better; "
        "load with it: h3 1.20, h1 1.32"
    )
    assert details({"reason": "other"}, Clock(0.0, True))[-1] == "reason     other"
    killed = {"reason": "cancelled by ann@h1", "placed": "lowest"}
    assert details(killed, Clock(0.0, True))[-2:] == [
        "reason     cancelled by ann@h1",
        "placed     the best of the hosts that accept commands",
    ]
    attempts = [{"number": 1, "reason": "wanted"}, {"number": 1, "reason": "cancelled by ann@h1"}]
    assert [one["reason"] for one in attempts_of({"attempts": attempts})] == [
        "",
        "cancelled by ann@h1",
    ]


@pytest.mark.parametrize(("columns", "line"), [(80, True), (160, False)])
@pytest.mark.parametrize("name", ["12", "h1-2"])
def test_whose_job_it_was_is_shown_at_any_width(daemon, capsys, monkeypatch, name, columns, line):
    """At 80 columns root did not see whose command it had ended."""
    ended = {"id": name, "command": ["./simulate-the-weather", "--days", "31"], "user": "rolf17",
             "state": "cancelled", "origin": "h1", "host": "h2", "submitted": 1.0, "started": 2.0,
             "finished": 3.0, "cpu_s": 0.5, "exit_status": 143}  # fmt: skip
    daemon("lbm", **{"queue.jobs": {"jobs": [ended]}, "command.show": {"job": ended}})
    monkeypatch.setattr(verbs, "own_page", lambda: Page(Paint(on=False), columns))
    assert lbctl.main(["job", name]) == 0
    shown = capsys.readouterr().out.splitlines()
    said = [one for one in shown if one.startswith("user ")]
    assert ([one.split() for one in said], "USER" in shown[0]) == (
        ([["user", "rolf17"]], False) if line else ([], True)
    )
    if line:  # it is as far to the right as what is said of the others
        assert said[0].index("rolf17") == shown[3].index("./simulate")

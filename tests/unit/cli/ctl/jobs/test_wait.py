"""`lbctl wait`, on plain commands and on ids that do not exist, against canned answers."""

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl.jobs import wait_for
from lbd.console import plain_commands
from tests.unit.cli.canned import JOB


@pytest.mark.parametrize(
    ("states", "said"),
    [(["failed"], "job h1-7 failed: see `lbctl job h1-7`"),
     (["cancelled"], "job h1-7 was cancelled: see `lbctl job h1-7`"), (["done"], ""),
     (["done", "failed"], "1 of 2 failed: see `lbctl job h1-8`")],
)  # fmt: skip
def test_wait_says_how_plain_commands_ended(daemon, capsys, states, said):
    """It said that of the queue's jobs only."""
    ids = [f"h1-{7 + n}" for n in range(len(states))]
    jobs = dict(zip(ids, states, strict=True))
    daemon("lbm", **{"command.wait": lambda asked: ended(asked["id"], jobs[asked["id"]])})
    assert lbctl.main(["wait", *ids]) == bool(said)
    assert capsys.readouterr().err == (f"lbctl: {said}\n" if said else "")


def test_wait_counts_plain_and_queued_jobs_together_at_its_end(daemon, capsys):
    """The failed plain command was named first, but not counted: 1 of 9 failed."""
    states = {"done": 8, "failed": 1}
    queued = {"open": 0, "all_done": False, "states": states, "bad": ["2219"]}
    plain = lambda asked: ended(asked["id"], "failed")  # noqa: E731
    daemon("lbm", **{"command.wait": plain, "queue.wait": queued})
    assert lbctl.main(["wait", "2211", "2219", "h1-5"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "lbctl: job h1-5 failed: see `lbctl job h1-5`",
        "lbctl: 2 of 10 failed: see `lbctl jobs 2219 h1-5`",
    ]


def test_wait_on_a_terminal_says_that_plain_commands_are_done(daemon, capsys, monkeypatch):
    """It said so of jobs of the queue only."""
    monkeypatch.setattr(wait_for, "has_terminal", lambda: True)
    daemon("lbm", **{"command.wait": lambda asked: ended(asked["id"])})
    assert lbctl.main(["wait", "h1-7"]) == 0
    assert capsys.readouterr().err == "lbctl: job h1-7 is done\n"
    assert lbctl.main(["wait", "--json", "h1-7"]) == 0
    assert capsys.readouterr().err == ""


def test_wait_that_is_interrupted_says_that_the_jobs_go_on(daemon, capsys, monkeypatch):
    """^C ends the job of `lbrun -q`."""
    daemon("lbm", **{"queue.wait": {"open": 1, "jobs": []}})

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(wait_for.queued_jobs, "wait", interrupted)
    assert lbctl.main(["wait", "3"]) == 130
    assert capsys.readouterr().err == "lbctl: stopped waiting; what has not ended goes on\n"


def ended(id_, state="done"):
    return {"ok": True, "job": {**JOB, "id": id_, "state": state}, "open": False}


def test_a_plain_command_that_does_not_exist_is_named_and_the_others_are_waited_for(daemon, capsys):
    """It ended the wait at once."""
    missing = {"ok": False, "error": "no job h1-777", "code": "missing"}
    answer = lambda asked: missing if asked["id"] == "h1-777" else ended(asked["id"])  # noqa: E731
    queued = {"open": 0, "all_done": True, "jobs": []}
    lbm = daemon("lbm", **{"command.wait": answer, "queue.wait": queued})
    assert lbctl.main(["wait", "3", "h1-777", "h1-7"]) == 2
    assert capsys.readouterr().err == "lbctl: no job h1-777\n"
    assert {"queue.wait", "command.wait"} == {one["op"] for one in lbm.asked}


def test_a_plain_command_that_does_not_exist_hides_no_others(daemon, capsys):
    missing = {"ok": False, "error": "no job h1-777", "code": "missing"}
    shown = {"ok": True, "job": {**JOB, "id": "h1-7", "state": "done"}}
    answer = lambda asked: missing if asked["id"] == "h1-777" else shown  # noqa: E731
    listed = {"jobs": [{**JOB, "id": "h1-7"}], "missing": []}
    daemon("lbm", **{"command.show": answer, "jobs": listed})
    assert lbctl.main(["job", "h1-777", "h1-7"]) == 1
    out, err = capsys.readouterr()
    assert "h1-7 " in out
    assert err == "lbctl: no job h1-777\n"
    assert lbctl.main(["jobs", "h1-777", "h1-7"]) == 1
    out, err = capsys.readouterr()
    assert "h1-7 " in out
    assert err.startswith("lbctl: no job has the id 'h1-777'")


def test_jobs_says_of_anothers_plain_command_what_job_says(daemon, capsys):
    """It said that there was none, and proposed another."""
    denied = {"ok": False, "error": "permission denied: h1-4 is not yours", "code": "denied"}
    listed = {"jobs": [{**JOB, "id": "h1-7"}], "missing": []}
    daemon("lbm", **{"command.show": denied, "jobs": listed})
    for ids in (["h1-4"], ["h1-4", "h1-7"]):
        assert lbctl.main(["jobs", *ids]) == 1
        assert capsys.readouterr().err == "lbctl: permission denied: h1-4 is not yours\n"


def test_wait_gives_an_lbm_time_to_come_back(daemon, monkeypatch):
    monkeypatch.setattr(plain_commands, "PAUSE_S", 0.01)
    away = {"ok": False, "error": "h1, where h1-7 was started: its LBM cannot be reached",
            "code": "unavailable"}  # fmt: skip
    ended = {"ok": True, "job": {**JOB, "state": "done"}, "open": False}
    answers = iter((away, away, ended))
    lbm = daemon("lbm", **{"command.wait": lambda request: next(answers)})
    assert lbctl.main(["wait", "h1-7"]) == 0
    assert len(lbm.asked) == 3


def test_but_wait_waits_no_longer_than_its_timeout(daemon, capsys):
    away = {"ok": False, "error": "h1 is down", "code": "unavailable"}
    daemon("lbm", **{"command.wait": lambda request: away})
    assert lbctl.main(["wait", "--timeout", "0.1", "h1-7"]) == 2
    assert capsys.readouterr().err == "lbctl: h1 is down\n"


ABSENT = "no job 999, 998 in the queue"


def test_ids_that_do_not_exist_are_named_before_the_others_are_waited_for(daemon, capsys):
    """`lbctl wait 12 999` said nothing of 999 for as long as job 12 ran."""
    said = []

    def answer(question):
        said.append((question["patience_s"] > 0.0, capsys.readouterr().err))
        return {"ok": True, "open": 1 - len(said) // 3, "all_done": True, "absent": [ABSENT]}

    daemon("lbm", **{"queue.wait": answer})
    assert lbctl.main(["wait", "12", "999", "998"]) == 2
    assert said[:2] == [(False, ""), (True, f"lbctl: {ABSENT}\n")]


def test_wait_for_a_range_names_the_one_that_did_not_succeed(daemon, capsys):
    """It was: see `lbctl job 3-99`."""
    answer = {"open": 0, "all_done": False, "states": {"done": 9, "cancelled": 1}, "bad": ["5"]}
    daemon("lbm", **{"queue.wait": answer})
    assert lbctl.main(["wait", "3-99"]) == 1
    assert capsys.readouterr().err == "lbctl: 1 of 10 was cancelled: see `lbctl job 5`\n"

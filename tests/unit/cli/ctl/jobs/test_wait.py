"""`lbctl wait`, on plain commands, against canned answers."""

import pytest

from lbd.cli import lbctl
from lbd.console import plain_commands
from tests.unit.cli.canned import JOB


@pytest.mark.parametrize(
    ("states", "said"),
    [(["failed"], "job h1-7 failed: see `lbctl job h1-7`"),
     (["cancelled"], "job h1-7 was cancelled: see `lbctl job h1-7`"), (["done"], ""),
     (["done", "failed"], "1 of 2 failed: see `lbctl jobs h1-8`")],
)  # fmt: skip
def test_wait_says_how_plain_commands_ended(daemon, capsys, states, said):
    """It said that of the queue's jobs only."""
    ids = [f"h1-{7 + n}" for n in range(len(states))]
    jobs = iter(
        [{**JOB, "id": id_, "state": state} for id_, state in zip(ids, states, strict=True)]
    )
    daemon("lbm", **{"command.wait": lambda _: {"ok": True, "job": next(jobs), "open": False}})
    assert lbctl.main(["wait", *ids]) == bool(said)
    assert capsys.readouterr().err == (f"lbctl: {said}\n" if said else "")


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

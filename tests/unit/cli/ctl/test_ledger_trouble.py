"""What `lbctl` says while the ledger of the queue cannot be used, against canned answers."""

import json

from lbd.cli import lbctl
from lbd.cli.ctl.jobs import queued_jobs
from tests.unit.cli.canned import STATUS

UNRECORDED = (
    "the command has ended; it can be recorded once there is room on h1: /srv/ledger is full"
)


def test_wait_says_once_that_an_end_cannot_be_recorded(daemon, capsys):
    """It was silent until the disk was freed."""
    left = iter([1, 1, 0])

    def answer(_):
        return {"ok": True, "open": next(left), "unrecorded": UNRECORDED, "all_done": True}

    daemon("lbm", **{"queue.wait": answer})
    assert lbctl.main(["wait", "12"]) == 0
    assert capsys.readouterr().err == f"lbctl: {UNRECORDED}\n"


def test_wait_says_once_that_a_job_waits_for_room(daemon, capsys, monkeypatch):
    """It was silent, also if the disk became full while it waited."""
    monkeypatch.setattr(queued_jobs, "UNTAKEN_AFTER_S", 0.0)
    why = "it begins once there is room on h1: /srv/ledger is full"
    reasons = [why, "next, as soon as a slot is free on h2"]
    left = iter([1, 1, 0])

    def waited(_):
        return {"ok": True, "open": 1 if reasons else next(left), "all_done": True}

    def listed(_):
        return {"ok": True, "jobs": [{"id": "12", "state": "pending", "reason": reasons.pop()}]}

    daemon("lbm", **{"queue.wait": waited, "queue.jobs": listed})
    assert lbctl.main(["wait", "12"]) == 0
    assert capsys.readouterr().err == f"lbctl: job 12 waits: {why}\n"


def test_a_dispatcher_that_waits_for_its_ledger_says_so_in_status(daemon, tmp_path, capsys):
    """It was `no answer` though the dispatcher itself knew why."""
    with (tmp_path / "lbd.toml").open("a") as config:
        config.write('[dispatch]\nhost = "h1"\n')
    why = "waits: the disk of the ledger is full: free some space in /srv/ledger"
    silent = {"ok": False, "error": f"the dispatcher on h1 {why}", "code": "unavailable"}
    daemon("lim", status=STATUS)
    lbm = daemon("lbm", **{"queue.status": silent})
    lbm.answers["jobs"] = {"ok": True, "jobs": [], "missing": ["the dispatcher"]}
    assert lbctl.main(["status"]) == 0
    said = capsys.readouterr().out
    assert f"\ndispatcher on h1 {why}\n" in said
    assert "dispatcher on h1: it waits\n" in said
    assert lbctl.main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cluster"]["dispatcher_unknown"] == why
    assert lbctl.main(["jobs"]) == 1
    assert capsys.readouterr().err.startswith(f"lbctl: the dispatcher on h1 {why}: no jobs of the")

"""`lbctl wait` on jobs that no host takes."""

from lbd.cli import lbctl
from lbd.cli.ctl.jobs import queued_jobs


def test_wait_says_once_that_no_host_takes_a_job(daemon, capsys, monkeypatch):
    """It was silent for as long as that lasted."""
    monkeypatch.setattr(queued_jobs, "UNTAKEN_AFTER_S", 0.0)
    answers = iter([{"open": 2}, {"open": 2}, {"open": 0, "all_done": True}])
    why = "no host takes it now; h1: not bob"
    jobs = [{"id": "9", "state": "running", "reason": ""},
            *({"id": n, "state": "pending", "reason": why} for n in ("10", "11"))]  # fmt: skip
    waits = {"queue.wait": lambda question: {"ok": True, **next(answers)}}
    daemon("lbm", **waits, **{"queue.jobs": {"jobs": jobs}})
    assert lbctl.main(["wait", "10"]) == 0
    assert capsys.readouterr().err == f"lbctl: job 10 waits: {why}; so does 1 more\n"

"""`lbctl wait` for plain commands."""

import pytest

from lbd.cli import lbctl
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

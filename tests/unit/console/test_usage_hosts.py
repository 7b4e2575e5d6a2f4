"""What one host may take of the time in which all are asked about their ended jobs."""

import pytest

from lbd.cli.ctl import advise
from lbd.console import usage_hosts

ANSWER_S = 2.9  # an LBM waits 3 s for another


class SlowHost:
    """Says that it has more, one job at a time, and just in time."""

    def __init__(self, monkeypatch):
        self.now_s, self.number = 0.0, 0
        monkeypatch.setattr(usage_hosts, "monotonic", lambda: self.now_s)

    def lbm(self, question, _timeout_s):
        self.now_s += ANSWER_S
        self.number += 1
        if question["op"] == "history":
            return {"jobs": [[self.number, 1.0, 0.0, 1.0, 1.0, "cc", "h2", "h2", False]]}
        job = {"id": f"h2-{self.number}", "finished": 1e9 - self.number, "number": self.number}
        return {"jobs": [job], "more": True}


@pytest.fixture
def host(monkeypatch):
    return SlowHost(monkeypatch)


def test_a_host_that_answers_slowly_does_not_delay_a_long_history_for_minutes(host):
    """For `--limit 100000` it was asked 104 times, for five minutes."""
    found = usage_hosts.of_host(host, "h2", {}, 100_000)
    assert host.now_s < 70.0
    assert len(found.jobs) == host.number > 10
    assert found.more


def test_nor_advice_which_goes_by_what_it_has_sent(host, capsys):
    assert len(advise.history(host, "h2", 0.0)) == host.number > 10
    assert host.now_s < 70.0
    assert f"only its oldest {host.number} jobs are used" in capsys.readouterr().err

"""`lbctl advise` on a cluster of one host: nothing can be placed elsewhere, but jobs can wait."""

import json
import time
from argparse import Namespace

import pytest

from lbd.cli.ctl.advise import ONE_HOST, advise, reason_not
from lbd.config.schema import Config, LimConfig
from lbd.errors import ConfigError
from lbd.sim.advice import Day

DAY = Namespace(since=86400.0, json=False)


class OneHost:
    config = Config()

    def __init__(self, interrupted):
        row = [time.time() - 60.0, 1000.0, 10.0, None]
        self._answers = {"owners": {"interruptions": [row] * interrupted}, "history": {"jobs": []}}

    def lim(self, question, timeout_s=5.0):
        host = {"name": "h1", "state": "up", "cores": 4.0, "speed": 1.0}
        told = {"hosts": [host], "me": "h1", "cluster": {"algorithm": "GLOBAL"}}
        return told if question["op"] == "status" else {"value": 1.0}

    def lbm(self, question, timeout_s=5.0):
        return self._answers[question["op"]]

    def queue(self):
        return (), ""


def test_rules_for_owners_are_evaluated_all_the_same(capsys):
    assert advise(OneHost(10), DAY) == 0
    out, err = capsys.readouterr()
    assert out.startswith("\nWHEN AN OWNER IS BACK ")
    assert err == f"lbctl: {ONE_HOST}\n"
    assert advise(OneHost(10), Namespace(since=86400.0, json=True)) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["owners"]
    assert (found["verdict"], found["results"]) == ("one-host", [])


def test_it_is_refused_if_there_is_nothing_to_advise_on():
    with pytest.raises(ConfigError, match="one host"):
        advise(OneHost(0), DAY)


def test_what_is_worth_moving_is_said():
    """ "0 of them movable" was said of commands most of which had moved."""
    setup = Namespace(hosts=2, lim=LimConfig(job_threshold_s=0.05))
    day = Day(setup, 184, 0, 0, 86400.0, 0)
    said = "0 of them movable and worth moving, with more than 50ms of CPU time: too few"
    assert said in reason_not(day, 86400.0)

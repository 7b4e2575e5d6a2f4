"""The advice on how to start one more daemon."""

import os
import socket

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.console import starting
from lbd.console.daemons import Daemons
from lbd.console.starting import start_of_metrics

NEXT = "; the next start of `lbd up` starts it, too"


@pytest.fixture
def daemons(tmp_path):
    (tmp_path / "lim.sock").touch()
    return Daemons(Config(host=HostConfig(name="h1", runtime_dir=str(tmp_path))))


def test_beside_daemons_of_this_user_it_is_started_the_same_way(daemons):
    assert start_of_metrics(daemons) == f"lbd metrics{NEXT}"


def test_beside_daemons_of_an_account_it_is_started_as_that_account(daemons, monkeypatch):
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    monkeypatch.setattr(starting, "name_of", lambda uid: {own: "lbd"}[uid])
    assert start_of_metrics(daemons) == f"runuser -u lbd -- lbd metrics{NEXT}"


def test_beside_systemd_units_it_is_a_unit(daemons, tmp_path, monkeypatch):
    """Known by who listens: the pid file is readable by its owner only."""
    (tmp_path / "lim.sock").unlink()
    ours = os.getpid(), "lbd-lim.service"
    monkeypatch.setattr(starting, "is_of_unit", lambda *asked: asked == ours)
    with socket.socket(socket.AF_UNIX) as lim:
        lim.bind(str(tmp_path / "lim.sock"))
        lim.listen()
        assert start_of_metrics(daemons) == "systemctl enable --now lbd-metrics"

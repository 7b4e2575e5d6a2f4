"""Questions to daemons that do not run, or do not run yet."""

import os
import socket

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.console.daemons import Daemons
from lbd.errors import Unavailable
from lbd.local import starting
from lbd.local.json_socket import encode
from tests.unit.named_process import lbd_up_in


@pytest.fixture
def config(tmp_path):
    tmp_path.chmod(0o700)
    return Config(host=HostConfig(runtime_dir=str(tmp_path)))


@pytest.fixture
def lbd_up(tmp_path):
    with lbd_up_in(tmp_path) as process:
        yield process


class Listener:
    """A listener that starts to listen at the given attempt."""

    def __init__(self, first):
        self.first, self.attempts = first, 0

    def connect(self, path, timeout_s):
        self.attempts += 1
        if self.attempts < self.first:
            raise FileNotFoundError(2, "No such file or directory")
        ours, theirs = socket.socketpair()
        theirs.sendall(encode({"id": 1, "ok": True, "hosts": 3}))
        theirs.close()
        return ours


def test_a_daemon_that_is_being_started_is_waited_for(config, lbd_up, monkeypatch):
    monkeypatch.setattr(starting, "LOOK_S", 0.0)
    lim = Listener(first=4)
    assert Daemons(config, lim.connect).lim({"op": "status"}) == {"hosts": 3}
    assert lim.attempts == 4


def test_a_daemon_that_is_being_replaced_is_waited_for_although_none_runs_now(
    config, tmp_path, monkeypatch
):
    monkeypatch.setattr(starting, "LOOK_S", 0.0)
    (tmp_path / "lim.restarting").touch()
    assert Daemons(config, Listener(first=4).connect).lim({"op": "status"}) == {"hosts": 3}
    os.utime(tmp_path / "lim.restarting", (1.0, 1.0))  # and no daemon came
    with pytest.raises(Unavailable, match="lim is not running"):
        Daemons(config, Listener(first=2).connect).lim({"op": "status"})


def test_a_daemon_that_makes_no_progress_is_waited_for_once(config, lbd_up, monkeypatch):
    monkeypatch.setattr(starting, "LOOK_S", 0.0)
    monkeypatch.setattr(starting, "WAIT_S", 0.02)
    lim = Listener(first=10**9)
    daemons = Daemons(config, lim.connect)
    says = f"lim is starting or stopping \\(lbd up, pid {lbd_up.pid}\\) and does not answer yet"
    with pytest.raises(Unavailable, match=says):
        daemons.lim({"op": "status"})
    before = lim.attempts
    with pytest.raises(Unavailable, match="journalctl -u lbd-lim"):
        daemons.lim({"op": "status"})
    assert lim.attempts == before + 1


@pytest.mark.parametrize("pid", ["", "none", str(os.getppid()), "999999999"])
def test_if_nothing_starts_it_that_is_said_at_once(config, tmp_path, monkeypatch, pid):
    monkeypatch.setattr(starting, "COMMAND_BYTES", 4)  # shorter than pytest's own command line
    (tmp_path / "up.pid").write_text(pid)
    lim = Listener(first=2)
    with pytest.raises(Unavailable, match=r"lim is not running .* start it with: "):
        Daemons(config, lim.connect).lim({"op": "status"})
    assert lim.attempts == 1

"""A client waits, but not for long, for an LBM that is being started."""

import pytest

from lbd.client import lbrun, start_wait
from lbd.client.complaints import Trouble
from lbd.client.options import read_options
from lbd.client.start_wait import connect_once_started
from lbd.local import starting
from tests.unit.named_process import lbd_up_in


@pytest.fixture
def lbd_up(tmp_path, monkeypatch):
    monkeypatch.setattr(starting, "LOOK_S", 0.0)
    tmp_path.chmod(0o700)
    with lbd_up_in(tmp_path) as process:
        yield process


def connects(monkeypatch, *answers):
    left = list(answers)
    monkeypatch.setattr(start_wait, "connect", lambda _: left.pop(0) if left else None)


def test_a_client_waits_for_a_starting_lbm(tmp_path, lbd_up, monkeypatch):
    connects(monkeypatch, None, None, "a socket")
    assert connect_once_started([f"{tmp_path}/none", str(tmp_path)]) == ("a socket", "")


def test_but_it_does_not_wait_long(tmp_path, lbd_up, monkeypatch):
    monkeypatch.setattr(starting, "WAIT_S", 0.02)
    connects(monkeypatch)
    sock, why = connect_once_started([str(tmp_path)])
    assert sock is None
    assert why.startswith(f"this host's LBM is starting or stopping (lbd up, pid {lbd_up.pid}")


def test_if_nothing_starts_the_lbm_it_does_not_wait(tmp_path, lbd_up, monkeypatch):
    connects(monkeypatch)
    (tmp_path / "up.pid").write_text("999999999\n")
    sock, why = connect_once_started([str(tmp_path)])
    assert (sock, why) == (None, f"no lbm is running here (looked in {tmp_path})")


@pytest.mark.parametrize("words", [["-d"], ["-q"], ["-H", "h2"], ["--need", "gpu"]])
def test_a_command_that_needs_an_lbm_says_how_to_start_one(words, tmp_path, monkeypatch):
    config = tmp_path / "lbd.toml"
    config.write_text(f'[host]\nruntime_dir = "{tmp_path}"\n')
    monkeypatch.setenv("LBD_CONFIG", str(config))
    with pytest.raises(Trouble, match=r"^no lbm is running here .*; start it with: lbd up$"):
        lbrun.run(read_options([*words, "true"]))

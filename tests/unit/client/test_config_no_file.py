"""The clients do not wait for something at the path of lbd.toml that is not a regular file."""

import os

import pytest

from lbd.client.complaints import Trouble
from lbd.client.lbm_socket import find_runtime_dirs
from lbd.client.shell.shims import state_dir_of
from lbd.config.load import load
from lbd.errors import ConfigError


@pytest.fixture(params=["a FIFO", "a device without end"])
def config(request, tmp_path):
    path = tmp_path / "lbd.toml"
    if request.param == "a FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    return path


def test_lbrun_reports_it(config):
    with pytest.raises(Trouble, match="not a regular file"):
        find_runtime_dirs(str(config))


def test_lbsh_continues(config):
    assert state_dir_of(os.fsencode(config)) == b""


@pytest.mark.parametrize("text", ["host = 3 # runtime_dir", "[host]\nruntime_dir = 3"])
def test_an_invalid_path_is_one_line(tmp_path, text):
    path = tmp_path / "lbd.toml"
    path.write_text(text)
    with pytest.raises(Trouble, match="runtime_dir is not a string"):
        find_runtime_dirs(str(path))


def test_a_lab_that_no_longer_exists_is_reported(tmp_path, monkeypatch):
    """`lbd lab env` has set the variable; no program mentions just a file."""
    path = str(tmp_path / "h1/lbd.toml")
    monkeypatch.setattr("posix.environ", {b"LBD_CONFIG": path.encode()})
    monkeypatch.setenv("LBD_CONFIG", path)
    advice = r"; if it belonged to a lab that no longer exists, `unset LBD_CONFIG`$"
    with pytest.raises(Trouble, match=rf"^\$LBD_CONFIG {path}: No such file or directory{advice}"):
        find_runtime_dirs(None)
    with pytest.raises(ConfigError, match=rf"^\$LBD_CONFIG {path}: no such file{advice}"):
        load()
    with pytest.raises(Trouble, match=r"directory$"):
        find_runtime_dirs(path)

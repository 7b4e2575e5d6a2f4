"""`lbctl restart` against canned daemons."""

import os

import pytest

from lbd.cli import lbctl


@pytest.mark.parametrize("held", [None, "", "no pid\n", "-1\n"])
def test_without_a_pid_nobody_is_signalled(daemon, monkeypatch, tmp_path, capsys, held):
    """Process 0 would be the whole group of who called lbctl, -1 everybody."""
    signalled = []
    monkeypatch.setattr(os, "kill", lambda pid, number: signalled.append(pid))
    server = daemon("lim", status={})
    file = os.path.join(os.path.dirname(server.server_address), "lim.pid")
    if held is not None:
        with open(file, "w", encoding="ascii") as pid_file:
            pid_file.write(held)
    assert lbctl.main(["restart", "lim"]) == 1
    assert signalled == []
    assert file in capsys.readouterr().err

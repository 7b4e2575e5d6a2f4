"""Whose journal lines are in `lbctl bundle`."""

import os
from types import SimpleNamespace

import pytest

from lbd.cli.ctl.exports.bundle import NothingLogged, Parts, journal
from lbd.errors import Unavailable

SPY = """#!/bin/sh
printf '%s\\n' "$@"
"""


@pytest.fixture
def journalctl(tmp_path, monkeypatch):
    """Installs a journalctl that prints its arguments."""
    program = tmp_path / "journalctl"
    program.write_text(SPY)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.mark.parametrize("is_there", [True, False])
def test_lines_of_other_users_are_no_lines_of_the_daemons(tmp_path, journalctl, is_there):
    """Any user can write lines under any name, and the most recent lines are kept."""
    state = tmp_path if is_there else tmp_path / "none"
    config = SimpleNamespace(host=SimpleNamespace(state_dir=str(state)))
    *_, by_unit, plus, by_name, first, last = ["", *journal("lbd-lbm", config).splitlines()]
    if not is_there or not os.geteuid():
        by_unit, plus, by_name, first = plus, by_name, first, last
    assert by_unit == "_SYSTEMD_UNIT=lbd-lbm.service"  # the journal vouches for this field
    assert (plus, by_name) == ("+", "SYSLOG_IDENTIFIER=lbd-lbm")
    assert first == "_UID=0"
    assert last == (f"_UID={os.geteuid()}" if is_there else "_UID=0")


@pytest.mark.parametrize(("uid", "says"), [(0, NothingLogged), (1001, Unavailable)])
def test_an_empty_log_is_no_failure_for_root_who_may_read_all(tmp_path, monkeypatch, uid, says):
    program = tmp_path / "journalctl"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    config = SimpleNamespace(host=SimpleNamespace(state_dir=str(tmp_path)))
    parts = Parts([])
    parts.add_log("web", lambda: journal("lbd-web", config))
    assert (parts.silent, bool(parts.left_out)) == (["web"] if uid == 0 else [], uid != 0)
    with pytest.raises(says):
        journal("lbd-web", config)

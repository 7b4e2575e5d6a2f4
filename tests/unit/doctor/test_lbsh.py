"""What the doctor says of lbsh, whose shims are in the caller's home."""

import os

import pytest

from lbd.config.schema import Config
from lbd.doctor.checks import FAULT, OK
from lbd.doctor.this_host import lbsh_checks


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("LBD_CONFIG", raising=False)
    return tmp_path


def test_a_look_at_lbsh_writes_nothing(home):
    """It made a thousand links in the home of whoever asked."""
    found = next(lbsh_checks(Config()))
    assert (found.name, found.state) == ("lbsh", OK)
    assert found.says.startswith(f"it makes its shims in {home}")
    assert list(home.iterdir()) == []


def test_shims_that_others_may_write_are_a_fault(home):
    shims = home / f".local/state/lbd-shims-{os.uname().nodename}"
    shims.mkdir(parents=True)
    shims.chmod(0o777)
    found = next(lbsh_checks(Config()))
    says = f"no shims: {shims} is writable by others; remove it"
    assert (found.state, found.says) == (FAULT, says)
    assert list(shims.iterdir()) == []

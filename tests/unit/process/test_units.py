"""What a daemon says that its systemd unit keeps from writing."""

import errno
import os
from pathlib import Path

import pytest

from lbd.dispatch.ledger import sqlite
from lbd.errors import ConfigError
from lbd.process import units
from lbd.process.own_directory import make_own

OPENING = (
    "Read-only file system for lbd-lim.service: `systemctl edit lbd-lim`, [Service] "
    "ReadWritePaths={} (an existing directory of lbd's own)"
)


@pytest.fixture
def read_only(monkeypatch):
    """Makes this process one of a unit that may write nothing."""

    def refuse(path, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(units, "unit_of", lambda pid: "lbd-lim.service")
    monkeypatch.setattr(Path, "mkdir", refuse)


@pytest.mark.usefixtures("read_only")
async def test_a_directory_closed_by_the_unit_is_said_to_be(tmp_path):
    """It said `Read-only file system` of a directory that anybody else could write to."""
    place = tmp_path / "srv"
    with pytest.raises(ConfigError) as refused:
        make_own(place, "host.state_dir")
    assert OPENING.format(place) in str(refused.value)
    with pytest.raises(ConfigError) as refused:
        sqlite.SqliteLedger(place / "ledger.sqlite")
    assert str(refused.value) == f"dispatch.store {place}/ledger.sqlite: {OPENING.format(place)}"


def test_other_faults_and_other_processes_get_the_systems_words(monkeypatch, tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(units, "unit_of", lambda pid: "lbd-lim.service")
    assert units.why_not_written(full, tmp_path) == "No space left on device"
    monkeypatch.setattr(units, "unit_of", lambda pid: "")
    closed = OSError(errno.EROFS, "Read-only file system")
    assert units.why_not_written(closed, tmp_path) == "Read-only file system"

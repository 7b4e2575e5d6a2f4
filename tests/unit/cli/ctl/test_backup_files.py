"""Root's backup of the files in the daemons' own directory."""

import contextlib
import os
import signal
import sqlite3
import tarfile

import pytest

from lbd.cli.ctl import backup_files
from lbd.errors import ConfigError
from tests.unit.cli.ctl.test_backup import SETTINGS, host, lbctl

__all__ = ["host", "lbctl"]  # fixtures


@pytest.fixture
def daemons_own(host):
    """Gives the state directory to another account, which root backs up."""
    if os.geteuid() != 0:
        pytest.skip("becomes another account")
    for directory in (host.root, host.root.parent):
        directory.chmod(0o755)
    place = host.root
    while place != place.parent:  # pytest's own directories are closed to others
        place.chmod(place.stat().st_mode | 0o011)
        place = place.parent
    for path in (host.state, *host.state.rglob("*")):
        os.chown(path, 12345, 12345)
    return host.state


def in_backup(file, name):
    with tarfile.open(file) as tar:
        return tar.extractfile(name).read()


def test_roots_backup_has_what_the_daemons_have(daemons_own, lbctl, tmp_path):
    with contextlib.closing(sqlite3.connect(daemons_own / "ledger.sqlite")) as ledger:
        ledger.execute("PRAGMA journal_mode = WAL")
        ledger.execute("CREATE TABLE t (x)")
        ledger.execute("INSERT INTO t VALUES (7)")
        ledger.commit()
        for path in daemons_own.glob("ledger*"):
            os.chown(path, 12345, 12345)
        lbctl("backup", tmp_path / "b.tar")
    assert in_backup(tmp_path / "b.tar", "settings.json") == SETTINGS.encode()
    (tmp_path / "copy").write_bytes(in_backup(tmp_path / "b.tar", "ledger.sqlite"))
    with contextlib.closing(sqlite3.connect(tmp_path / "copy")) as copy:
        assert copy.execute("SELECT x FROM t").fetchall() == [(7,)]
    assert {path.stat().st_uid for path in daemons_own.glob("ledger*")} == {12345}


@pytest.mark.parametrize("name", ["settings.json", "ledger.sqlite"])
def test_the_daemons_lead_root_to_no_other_file(daemons_own, lbctl, tmp_path, name):
    """Nor can they make root wait for one that never answers."""
    secret = tmp_path / "secret"
    with contextlib.closing(sqlite3.connect(secret)) as database:
        database.execute("CREATE TABLE secret (x)")
    secret.chmod(0o600)
    (daemons_own / name).unlink(missing_ok=True)
    (daemons_own / name).symlink_to(secret)
    said = lbctl("backup", tmp_path / "b.tar", status=2).err
    assert str(daemons_own / name) in said
    assert said.count("\n") == 1
    assert not (tmp_path / "b.tar").exists()
    if name == "settings.json":
        (daemons_own / name).unlink()
        os.mkfifo(daemons_own / name)
        assert "not a file" in lbctl("backup", tmp_path / "b.tar", status=2).err


def test_a_directory_that_hangs_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(backup_files, "STALLED_S", 0.1)
    (tmp_path / "settings.json").touch()
    with pytest.raises(ConfigError, match=r"settings.json: it has not been read for .* given up"):
        backup_files.take(
            tmp_path / "settings.json", tmp_path / "copy", lambda target: signal.pause()
        )

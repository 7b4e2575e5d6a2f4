"""Root's backup of what the daemons have in their own directory."""

import contextlib
import os
import signal
import sqlite3
import tarfile

import pytest

from lbd.cli.ctl import backup_files
from lbd.errors import ConfigError
from lbd.load.process_table import task_of
from tests.unit.cli.ctl.test_backup import SETTINGS, host, lbctl

__all__ = ["host", "lbctl"]  # fixtures


@pytest.fixture
def daemons_own(host):
    """The state is in a directory of another account, which root backs up."""
    if os.geteuid() != 0:
        pytest.skip("becomes another account")
    for directory in (host.root, host.root.parent):
        directory.chmod(0o755)
    place = host.root
    while place != place.parent:  # pytest's own are closed to others
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
    """Nor to wait for one that never says anything."""
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


@pytest.mark.parametrize("says", [b"", b"a byte"])
def test_a_directory_that_hangs_is_given_up(tmp_path, monkeypatch, says):
    """Of a file server that is gone, or a file system of the daemons' own account; also if it says
    a little now and then."""
    monkeypatch.setattr(backup_files, "STALLED_S", 0.1)
    monkeypatch.setattr(backup_files, "LOOK_S", 0.05)
    hung = tmp_path / "pid"

    def write(target):
        hung.write_text(str(os.getpid()))
        os.write(target, says)
        signal.pause()

    (tmp_path / "settings.json").touch()
    with pytest.raises(ConfigError, match=r"settings.json: it has not been read for .* given up"):
        backup_files.take(tmp_path / "settings.json", tmp_path / "copy", write)
    while (task := task_of(int(hung.read_text()))) is not None and not task.has_ended:
        os.sched_yield()


def test_one_that_says_nothing_while_it_works_is_waited_for(tmp_path, monkeypatch):
    """As one that copies a large ledger."""
    monkeypatch.setattr(backup_files, "STALLED_S", 0.02)
    monkeypatch.setattr(backup_files, "LOOK_S", 0.01)
    reader, writer = os.pipe()
    looks = []

    def works_on(child):
        looks.append(child)
        if len(looks) == 6:
            os.write(writer, b"!")
        return len(looks)

    def write(target):
        os.read(reader, 1)
        os.write(target, b"all of it")

    (tmp_path / "ledger").touch()
    monkeypatch.setattr(backup_files, "cpu_ticks", works_on)
    backup_files.take(tmp_path / "ledger", tmp_path / "copy", write)
    assert (tmp_path / "copy").read_bytes() == b"all of it"


def test_how_long_a_child_has_worked_is_seen():
    if (child := os.fork()) == 0:
        while True:
            pass
    try:
        while not backup_files.cpu_ticks(child):
            os.sched_yield()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert backup_files.cpu_ticks(child) == 0

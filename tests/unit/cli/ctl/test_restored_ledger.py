"""`lbctl restore` where the ledger has a path of its own, and where a disk is missing."""

import os
import shutil

import pytest

from lbd.cli.ctl import backup_placing
from lbd.keeper.local_account import LocalUser
from lbd.process import written_disks
from tests.unit.cli.ctl.test_backup import host, jobs_in, lbctl, with_ledger

__all__ = ["host", "lbctl"]  # fixtures


@pytest.fixture
def disk(host, tmp_path):
    """Moves the ledger to a directory of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with_ledger(host, 5, 1000.0).rename(disk / "ledger.sqlite")
    store = f'[dispatch]\nstore = "sqlite://{disk}/ledger.sqlite"\n'
    host.config.write_text(host.config.read_text() + store)
    return disk


@pytest.fixture
def file(disk, host, lbctl, tmp_path):
    """A backup of a host that is then lost, with that directory."""
    lbctl("backup", tmp_path / "b.tar")
    host.lose()
    shutil.rmtree(disk)
    return tmp_path / "b.tar"


def run_as(monkeypatch, uid):
    account = LocalUser("lbd", uid, uid, (), "/", "/bin/sh")
    monkeypatch.setattr(backup_placing, "daemons_account", lambda config: account)


def test_on_a_new_machine_its_directory_is_made(lbctl, host, disk, file):
    """It failed half done: lbd.toml and the hosts were there, neither certificate nor ledger."""
    text = host.config.read_text()
    host.config.unlink()
    said = lbctl("restore", file).err
    assert f"made {disk}, which was missing; if it is to be a disk of its own, mount" in said
    assert jobs_in(disk / "ledger.sqlite") == (10_005, [(4, 1)])
    assert disk.stat().st_mode & 0o777 == 0o700
    assert host.config.read_text() == text
    assert host.authority.exists()
    assert host.files.exist()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_ledger_belongs_to_the_account_that_the_dispatcher_runs_as(
    lbctl, disk, file, monkeypatch
):
    run_as(monkeypatch, 12345)
    lbctl("restore", file)
    assert {path.stat().st_uid for path in (disk, disk / "ledger.sqlite")} == {12345}


@pytest.mark.skipif(os.geteuid() != 0, reason="another account than ours")
def test_a_directory_that_the_dispatcher_may_not_write_is_refused(
    lbctl, host, disk, file, monkeypatch
):
    """The ledger in it was root's, and the dispatcher could not start."""
    disk.mkdir()
    run_as(monkeypatch, 12345)
    before = host.files_there()
    said = lbctl("restore", file, status=2).err
    assert f"{disk} belongs to " in said
    assert "and the dispatcher runs as lbd; nothing is restored" in said
    assert f"first `chown lbd: {disk}`" in said
    assert host.files_there() == before
    assert not list(disk.iterdir())


@pytest.mark.parametrize("of", ["ledger", "state"])
def test_nothing_is_restored_below_a_disk_that_is_not_mounted(
    lbctl, host, disk, file, tmp_path, monkeypatch, of
):
    """Once it was mounted, what had been restored was hidden below it."""
    place = {"ledger": disk, "state": host.state}[of]
    (tmp_path / "fstab").write_text(f"/dev/sdb1 {place} auto nofail 0 2\n")
    monkeypatch.setattr(written_disks, "FSTAB", tmp_path / "fstab")
    said = lbctl("restore", file, status=2).err
    assert f"{place} is in /etc/fstab, but nothing is mounted there: `mount {place}`" in said
    assert not host.state.exists()
    assert not disk.exists()


def test_what_fails_half_done_says_what_is_done_and_can_be_run_again(
    lbctl, host, disk, file, monkeypatch
):
    (disk / "ledger.sqlite").mkdir(parents=True)  # no file can replace it
    monkeypatch.setattr(backup_placing, "daemons_account", lambda config: None)
    said = lbctl("restore", file, status=2).err
    assert "Is a directory; restored: the authority, the cluster's settings; not restored: " in said
    assert "not restored: the queue's ledger; once that is fixed, run this again" in said
    (disk / "ledger.sqlite").rmdir()
    assert "the queue's ledger" in lbctl("restore", file).out
    assert jobs_in(disk / "ledger.sqlite") == (10_005, [(4, 1)])


def test_what_would_keep_the_dispatcher_from_its_ledger_is_said(lbctl, disk, file, monkeypatch):
    """Drop-ins of units are not in the copy."""
    asked = []

    def barred(config, settings):
        asked.extend(settings)
        yield "dispatch.store: lbd-dispatcher may not write there", "systemctl edit it"

    monkeypatch.setattr("lbd.cli.ctl.backup.barred", barred)
    assert "may not write there; systemctl edit it" in lbctl("restore", file).err
    assert asked == ["dispatch.store"]

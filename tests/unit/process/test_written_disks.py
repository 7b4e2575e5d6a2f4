"""Which file systems the daemons write to."""

import threading
from pathlib import Path

import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import Config, HostConfig, StageConfig
from lbd.process import written_disks
from lbd.process.written_disks import (
    DiskLooks,
    besides_state,
    disk_metrics,
    disks_of,
    of_ledger,
    sqlite_file,
    unmounted,
    written,
)

SHM = "/dev/shm"


def test_each_is_named_once_by_its_first_use(tmp_path):
    places = {"state": tmp_path, "workdirs": tmp_path / "not/yet", "ledger": Path(SHM)}
    found = disks_of(places)
    assert list(found) == ["state", "ledger"]
    assert disks_of({"state": tmp_path / "not/yet"}).keys() == {"state"}
    shown = disk_metrics(found)
    assert [name for name, _ in shown["disk_free_bytes"]] == ["state", "ledger"]
    assert all(count >= 0 for rows in shown.values() for _, count in rows)


def test_a_file_server_that_is_gone_delays_nobody(tmp_path, monkeypatch):
    looks = DiskLooks({"state": tmp_path})
    known = looks.known()
    assert list(known) == ["state"]
    back, asked = threading.Event(), []

    def gone(places):
        asked.append(places)
        back.wait()
        return {}

    monkeypatch.setattr(written_disks, "disks_of", gone)
    assert [looks.known() for _ in range(3)] == [known] * 3
    assert len(asked) == 1
    back.set()


def test_where_no_thread_can_be_had_the_last_result_counts(tmp_path, monkeypatch):
    def none_left(_):
        raise RuntimeError("can't start new thread")

    looks = DiskLooks({"state": tmp_path})
    monkeypatch.setattr(threading.Thread, "start", none_left)
    assert looks.known() == {}
    monkeypatch.undo()
    assert list(looks.known()) == ["state"]


def test_the_disks_of_a_host(tmp_path):
    config = Config(
        host=HostConfig(name="h1", state_dir=str(tmp_path)), stage=StageConfig(root=SHM),
        dispatch=DispatchConfig(store=f"sqlite://{SHM}/ledger.sqlite"),
    )  # fmt: skip
    assert list(disks_of(written(config))) == ["state", "workdirs"]
    assert list(besides_state(config, of_ledger(config))) == ["ledger"]
    assert not of_ledger(Config(dispatch=DispatchConfig(store="postgresql://db/x")))
    assert not of_ledger(Config())


@pytest.mark.parametrize(
    ("store", "file"),
    [
        ("sqlite:///srv/lbd/ledger.sqlite", "/srv/lbd/ledger.sqlite"),
        ("sqlite:////srv/lbd/ledger.sqlite", "/srv/lbd/ledger.sqlite"),
        ("sqlite://ledger.sqlite", None),
        ("postgresql:///srv", None),
    ],
)
def test_a_whole_path_has_one_slash_before_it(store, file):
    found = sqlite_file(store)
    assert (None if found is None else str(found)) == file


@pytest.mark.parametrize(
    ("fstab", "mounted", "says"),
    [
        ("/dev/sdb1 /srv/lbd/ auto nofail 0 2", "/", "/srv/lbd"),
        ("/dev/sdb1 /srv/lbd auto nofail 0 2", "/srv/lbd", ""),
        ("# /dev/sdb1 /srv/lbd auto nofail 0 2\n\n/dev/sda1 / ext4 rw 0 1", "/", ""),
        ("/dev/sdb1 /srv auto\n/dev/sdb2 /srv/lbd auto", "/", "/srv"),
        ("/dev/sdb1 /srv/other auto\n/dev/sdb2 none swap sw 0 0", "/", ""),
    ],
)
def test_a_disk_of_fstab_that_is_not_mounted_is_known(tmp_path, monkeypatch, fstab, mounted, says):
    for name, text in (("FSTAB", fstab), ("MOUNTED", f"36 35 98:0 / {mounted} rw - ext4 x rw")):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(written_disks, name, tmp_path / name)
    assert unmounted("/srv/lbd") == says
    monkeypatch.setattr(written_disks, "FSTAB", tmp_path / "no/such")
    assert unmounted("/srv/lbd") == ""


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x85", "\xa0", "\u2028"])
def test_a_mount_point_that_a_user_has_named_hides_no_missing_disk(end, tmp_path, monkeypatch):
    fstab, mounted = tmp_path / "fstab", tmp_path / "mountinfo"
    fstab.write_text("# disks\n/dev/sdb1\t/srv/lbd\text4 defaults 0 2\n\n")
    mounted.write_text(
        f"1 0 0:30 / /home/ann/a{end}b{end}c rw - fuse.mine x rw\n", encoding="utf-8"
    )
    monkeypatch.setattr(written_disks, "FSTAB", fstab)
    monkeypatch.setattr(written_disks, "MOUNTED", mounted)
    assert unmounted("/srv/lbd/state") == "/srv/lbd"

"""The check of where working directories are."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lbd.config.schema import Config, HostConfig, StageConfig
from lbd.doctor.checks import FAULT, OK, WARN
from lbd.doctor.this_host import workdirs
from lbd.lbm.staging import workdir_root
from lbd.lbm.staging.workdir_root import WorkdirRoot
from tests.unit.mounts import mounted

pytestmark = pytest.mark.root


@pytest.fixture
def root(tmp_path, monkeypatch):
    place = tmp_path / "tmp"
    place.mkdir()
    place.chmod(0o1777)
    (place / "stage").mkdir()
    monkeypatch.setattr("lbd.process.written_disks.SHARED_WORKDIRS", str(place / "stage"))
    return place / "stage"


def config_of(root):
    host = HostConfig(name="h1", state_dir=str(root.parent.parent))
    return replace(Config(), host=host, stage=StageConfig(root=str(root)))


def made(config):
    used = WorkdirRoot(config.stage.root, "h1", config.host.state_dir)
    used.make()
    return used.path


def test_a_directory_that_another_user_has_made_first_is_named(root):
    config = config_of(root)
    assert [check.state for check in workdirs(config)] == [OK]
    os.chown(root, 2001, 2001)
    used = made(config)
    (found,) = workdirs(config)
    assert found.state == WARN
    assert found.says == f"{root} is owned by user 2001; working directories are in {used}"
    assert str(root) in found.fix
    os.chown(root, 0, 0)
    assert [check.state for check in workdirs(config)] == [OK]


def test_what_another_user_has_mounted_there_is_named(root, monkeypatch):
    """As one that says that root owns it, and one that root may not look into."""
    config = config_of(root)
    with mounted(root):
        assert [check.state for check in workdirs(config)] == [OK]
        monkeypatch.setattr(workdir_root, "file_system", lambda *_: "fuse")
        used = made(config)
        (found,) = workdirs(config)
        assert found.state == WARN
        assert f"{root} is a file system of its own where anybody may mount one" in found.says
        assert found.says.endswith(f"; working directories are in {used}")

    lstat = Path.lstat

    def barred(path):
        if path == root:
            raise PermissionError(13, "Permission denied")
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", barred)
    (found,) = workdirs(config)
    assert found.state == WARN
    assert found.says == f"{root}: Permission denied; working directories are in {used}"


def test_of_a_set_place_that_another_user_has_it_is_said_that_commands_are_refused(root):
    chosen = root.with_name("set")
    chosen.mkdir()
    os.chown(chosen, 2001, 2001)
    (found,) = workdirs(config_of(chosen))
    assert found.state == FAULT
    assert found.says == f"{chosen} is owned by user 2001; commands with files are refused here"


def test_one_that_does_not_answer_is_named(root, monkeypatch):
    monkeypatch.setattr(workdir_root, "LOOK_S", 0.05)
    monkeypatch.setattr(workdir_root, "fault_of", lambda *_: time.sleep(1))
    (found,) = workdirs(config_of(root))
    assert found.says.startswith(f"{root}/h1 does not answer; the LBM will use")


def test_where_the_caller_may_not_look_nothing_is_said(root):
    root.parent.chmod(0o700)
    os.seteuid(2001)
    try:
        assert not list(workdirs(config_of(root)))
    finally:
        os.seteuid(0)


def test_another_users_is_named_before_the_first_start(root):
    os.chown(root, 2001, 2001)
    (found,) = workdirs(config_of(root))
    assert found.state == WARN
    assert found.says == f"{root} is owned by user 2001; the LBM will use a directory beside it"

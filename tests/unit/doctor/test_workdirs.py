"""The check of where working directories are."""

import os
from dataclasses import replace

import pytest

from lbd.config.schema import Config, HostConfig, StageConfig
from lbd.doctor.checks import OK, WARN
from lbd.doctor.this_host import workdirs
from lbd.lbm.staging.workdir_root import WorkdirRoot


@pytest.mark.root
def test_a_directory_that_another_user_has_made_first_is_named(tmp_path):
    (tmp_path / "tmp").mkdir()
    root = tmp_path / "tmp/stage"
    host = HostConfig(name="h1", state_dir=str(tmp_path))
    config = replace(Config(), host=host, stage=StageConfig(root=str(root)))
    root.mkdir()
    assert [check.state for check in workdirs(config)] == [OK]
    os.chown(root, 2001, 2001)
    used = WorkdirRoot(str(root), "h1", str(tmp_path))
    used.make()
    (found,) = workdirs(config)
    assert found.state == WARN
    assert found.says == f"{root} is owned by user 2001; working directories are in {used.path}"
    assert str(root) in found.fix
    os.chown(root, 0, 0)
    assert [check.state for check in workdirs(config)] == [OK]

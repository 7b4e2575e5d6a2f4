"""What `lbd up`, as root, checks before it starts daemons that are not root."""

import os
import sys
from dataclasses import replace

import pytest

from lbd.cli.daemons.privilege import (
    check_program,
    daemons_account,
    hand_over,
    make_workdir_root,
    refuse_root,
)
from lbd.config.access import DaemonsConfig
from lbd.config.schema import Config, HostConfig, StageConfig
from lbd.errors import ConfigError
from lbd.keeper.local_account import LocalUser
from tests.unit.mounts import mounted

NOBODY = LocalUser("nobody", 65534, 65534)


@pytest.mark.root
def test_a_python_that_the_user_of_the_daemons_may_not_run_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("lbd.cli.daemons.privilege.PACKAGE_PARENT", "/usr")
    monkeypatch.setattr(sys, "executable", "/bin/sh")
    check_program(NOBODY)
    tmp_path.chmod(0o700)
    closed = tmp_path / "python"
    closed.symlink_to("/bin/sh")
    monkeypatch.setattr(sys, "executable", str(closed))
    with pytest.raises(ConfigError, match=r"nobody may not run .*daemons\.user"):
        check_program(NOBODY)


def config_of(tmp_path, user=""):
    run, state = str(tmp_path / "run"), str(tmp_path / "state")
    host = replace(HostConfig(), runtime_dir=run, state_dir=state)
    return Config(host=host, daemons=DaemonsConfig(user=user))


@pytest.mark.root
def test_daemons_are_root_only_if_configured(tmp_path, monkeypatch):
    monkeypatch.setattr("lbd.cli.daemons.privilege.DEFAULT", "no-such-user")
    with pytest.raises(ConfigError, match=r"daemons\.user: no user 'no-such-user'.*useradd"):
        daemons_account(config_of(tmp_path))
    with pytest.raises(ConfigError, match="no user 'missing' here"):
        daemons_account(config_of(tmp_path, "missing"))
    assert daemons_account(config_of(tmp_path, "root")) is None
    refuse_root(config_of(tmp_path, "root"), "lim")
    with pytest.raises(ConfigError, match="not as root; start it with `lbd up`"):
        refuse_root(config_of(tmp_path, "nobody"), "lim")
    root_again = LocalUser("toor", 0, 0)
    monkeypatch.setattr("lbd.cli.daemons.privilege.find_account", lambda _: root_again)
    with pytest.raises(ConfigError, match='toor is root; use "root"'):
        daemons_account(config_of(tmp_path, "toor"))


@pytest.mark.root
def test_only_files_of_the_directory_itself_are_handed_over(tmp_path):
    """The daemons' account may write in the runtime directory. A hard link to a file of root's does
    not make it theirs."""
    config = config_of(tmp_path)
    run, state = tmp_path / "run", tmp_path / "state"
    (state / "files").mkdir(parents=True)
    run.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("root's")
    (run / "lim.pid").write_text("1")
    (run / "up.pid").write_text("1")  # of a process that stays root
    (state / "files/one").write_text("")
    for place in (run, state):
        (place / "second").hardlink_to(victim)
        (place / "link").symlink_to(victim)
    hand_over(config, NOBODY)
    assert {path.stat().st_uid for path in (victim, run / "up.pid")} == {0}
    assert (run.stat().st_uid, run.stat().st_mode & 0o777) == (0, 0o775)
    owned = (run / "lim.pid", state, state / "files", state / "files/one")
    assert {path.stat().st_uid for path in owned} == {NOBODY.uid}


@pytest.mark.root
def test_a_directory_of_another_user_is_not_taken_over(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    os.chown(run, 2001, 2001)
    with pytest.raises(ConfigError, match=r"host\.runtime_dir .* is owned by user 2001"):
        hand_over(config_of(tmp_path), NOBODY)
    assert run.stat().st_uid == 2001


@pytest.mark.root
def test_what_a_user_has_mounted_there_stops_no_daemon(tmp_path, monkeypatch):
    shared = tmp_path / "lbd-stage"
    shared.mkdir()
    monkeypatch.setattr("lbd.cli.daemons.privilege.SHARED_WORKDIRS", str(shared))
    with mounted(shared, "mode=755,uid=2001"):
        said = make_workdir_root(config_of(tmp_path), NOBODY)
    assert said == f"{shared} cannot be moved out of the way: Device or resource busy"


@pytest.mark.root
def test_the_place_for_files_is_there_before_another_user_makes_it(tmp_path, monkeypatch):
    shared = tmp_path / "lbd-stage"
    monkeypatch.setattr("lbd.cli.daemons.privilege.SHARED_WORKDIRS", str(shared))
    config = config_of(tmp_path)
    assert make_workdir_root(config, NOBODY) == ""
    assert (shared.stat().st_uid, shared.stat().st_mode & 0o777) == (NOBODY.uid, 0o711)
    (shared / "kept").mkdir()
    assert make_workdir_root(config, NOBODY) == ""
    assert (shared / "kept").exists()
    os.chown(shared, 2001, 2001)
    assert f"{shared} belonged to user 2001" in make_workdir_root(config, NOBODY)
    assert shared.stat().st_uid == NOBODY.uid
    assert not (shared / "kept").exists()
    assert len(list(tmp_path.glob("lbd-stage.of-user-2001.*/kept"))) == 1
    shared.rmdir()
    shared.symlink_to(tmp_path)
    os.lchown(shared, 2001, 2001)
    assert f"{shared} belonged to user 2001" in make_workdir_root(config, NOBODY)
    assert shared.stat(follow_symlinks=False).st_uid == NOBODY.uid
    named = replace(config, stage=StageConfig(root=str(tmp_path / "named")))
    (tmp_path / "named").mkdir()
    os.chown(tmp_path / "named", 2001, 2001)
    assert make_workdir_root(named, NOBODY) == ""
    assert (tmp_path / "named").stat().st_uid == 2001

"""What remains of a lab's files after its removal: nothing of its own, everything else."""

import os
import signal
import subprocess

import pytest

from lbd.errors import LbdError
from lbd.lab import lab
from lbd.lab.lab import existing
from lbd.lab.plan import Plan
from lbd.lab.record import Process, Record, record_file, save
from lbd.lab.removal import down, remove_files
from lbd.load.process_table import task_of
from lbd.local.own_lab import MADE_BY

NOBODY = 65534


def test_an_unfinished_key_is_removed_too(tmp_path):
    (tmp_path / "h1").mkdir()
    (tmp_path / "h1/lbd.toml").write_text(f"{MADE_BY}\n")
    for name in ("key", "key.0123456789abcdef.new", "lock", "key.pem", "mine"):
        (tmp_path / name).touch()
    remove_files(tmp_path, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key.pem", "mine"]


def test_the_directory_above_goes_if_it_was_made_for_the_lab_and_is_empty(tmp_path):
    for made_above, others, stays in ((True, 0, False), (True, 1, True), (False, 0, True)):
        root = tmp_path / "above" / "lab"
        root.mkdir(parents=True)
        if others:
            (root.parent / "theirs").touch()
        plan = Plan(root, ("h1",), "none", "127.1.1", 0.0, "", (), allow_root=False)
        remove_files(root, Record(plan, made_root=True, made_above=made_above))
        assert root.parent.exists() == stays
        (root.parent / "theirs").unlink(missing_ok=True)


@pytest.mark.root
def test_root_believes_no_record_of_a_user(tmp_path):
    """Root takes down the lab of a user, whose record names others' files and processes."""
    theirs = tmp_path / "bob"
    theirs.mkdir()
    root = tmp_path / "lab"
    (root / "h1").mkdir(parents=True)
    (root / "h1/lbd.toml").write_text(f"{MADE_BY}\n")
    plan = Plan(root, ("h1", "../bob"), "none", "127.1.1", 0.0, "", (), allow_root=False)
    with subprocess.Popen(["sleep", "60"]) as bystander:
        named = {"h1": Process(bystander.pid, task_of(bystander.pid).started_ticks)}
        save(Record(plan, made_root=True, ready=True, processes=named))
        assert existing(root).plan == plan
        os.chown(record_file(root), NOBODY, NOBODY)
        with pytest.raises(LbdError, match="this lab belongs to"):
            lab.kill(root, "h1", "host", signal.SIGKILL)
        assert down(root)
        assert bystander.poll() is None
        bystander.kill()
    assert theirs.is_dir()
    assert not (root / "h1").exists()

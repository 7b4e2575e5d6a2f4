"""What remains of a lab's files after its removal: nothing of its own, everything else."""

import json

import pytest

from lbd.errors import LbdError
from lbd.lab.plan import Plan, cgroup_name
from lbd.lab.record import Record, load, record_file, save
from lbd.lab.removal import remove_files
from lbd.local.own_lab import MADE_BY


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


@pytest.mark.parametrize("name", ["/home/bob", "../bob", "h1/../../bob", "h0", ""])
def test_a_record_names_no_files_and_no_cgroups_but_the_labs(name, tmp_path):
    """Root takes down the lab of a user, who has written the record."""
    plan = Plan(tmp_path, ("h1",), "none", "127.1.1", 0.0, "", (), allow_root=False)
    save(Record(plan, made_root=True, cgroups=(f"/sys/fs/cgroup/{cgroup_name(tmp_path)}",)))
    assert load(tmp_path).plan == plan
    for key, value in (("plan", {"hosts": [name]}), ("cgroups", [f"/sys/fs/cgroup/{name}"])):
        body = json.loads(record_file(tmp_path).read_text())
        body[key] = {**body[key], **value} if key == "plan" else value
        record_file(tmp_path).write_text(json.dumps(body))
        with pytest.raises(LbdError, match="is not a lab's record"):
            load(tmp_path)
        save(Record(plan, made_root=True))

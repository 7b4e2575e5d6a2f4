"""What remains of a lab's files after its removal: nothing of its own, everything else."""

from lbd.lab.plan import Plan
from lbd.lab.record import Record
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

"""What remains of a lab's files after its removal: nothing of its own, everything else."""

from lbd.lab.plan import MADE_BY
from lbd.lab.removal import remove_files


def test_an_unfinished_key_is_removed_too(tmp_path):
    (tmp_path / "h1").mkdir()
    (tmp_path / "h1/lbd.toml").write_text(f"{MADE_BY}\n")
    for name in ("key", "key.0123456789abcdef.new", "lock", "key.pem", "mine"):
        (tmp_path / name).touch()
    remove_files(tmp_path, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key.pem", "mine"]

"""deploy/release in a repository of its own."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHANGES = "# Changes\n\n## Unreleased\n\n- New.\n\n## 0.1.0 (2026-01-02)\n\n- First.\n"
IDENTITY = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main")


@pytest.fixture
def tree(tmp_path):
    if not shutil.which("git"):
        pytest.skip("no git")
    (tmp_path / "deploy").mkdir()
    (tmp_path / "lbd").mkdir()
    shutil.copy(ROOT / "deploy/release", tmp_path / "deploy")
    (tmp_path / "lbd/__init__.py").write_text('"""lbd."""\n\n__version__ = "0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    git(tmp_path, "init", "--quiet")
    for name in ("user.name", "user.email"):
        git(tmp_path, "config", name, "x@x")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    git(tmp_path, "tag", "v0.1.0")
    return tmp_path


def git(tree, *words):
    words = ("git", "-C", tree, *IDENTITY, *words)
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def release(tree, *words):
    return subprocess.run([tree / "deploy/release", *words], capture_output=True, text=True)


def test_without_do_it_only_shows_what_it_would_make(tree):
    shown = release(tree, "minor")
    assert shown.returncode == 0, shown.stderr
    assert "Release 0.2.0" in shown.stdout
    assert "- New." in shown.stdout
    assert "- First." not in shown.stdout
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "tag") == "v0.1.0"


def test_version_changelog_commit_and_tag_agree(tree):
    done = release(tree, "0.1.1", "--do")
    assert done.returncode == 0, done.stderr
    assert '__version__ = "0.1.1"\n' in (tree / "lbd/__init__.py").read_text()
    changes = (tree / "CHANGELOG.md").read_text()
    empty, new, first = changes.split("\n## ")[1:]
    assert (empty, new.partition(" ")[0]) == ("Unreleased\n", "0.1.1")
    assert new.endswith(")\n\n- New.\n")
    assert first == "0.1.0 (2026-01-02)\n\n- First.\n"
    assert git(tree, "show", "--no-patch", "--format=%s", "v0.1.1^{commit}") == "Release 0.1.1"
    assert "- New." in git(tree, "tag", "--list", "-n9", "v0.1.1")
    assert git(tree, "status", "--porcelain") == ""
    again = release(tree, "patch")
    assert (again.returncode, again.stdout) == (1, "")
    assert "lists nothing" in again.stderr


def test_a_version_that_was_never_tagged_can_be_released(tree):
    git(tree, "tag", "--delete", "v0.1.0")
    assert release(tree, "0.1.0").returncode == 0


@pytest.mark.parametrize(
    ("version", "why"),
    [("0.1.0", "not newer"), ("0.0.9", "not newer"), ("1.2", "not a version"), ("v1", "not a")],
)
def test_a_wrong_version_is_refused(tree, version, why):
    said = release(tree, version, "--do")
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.startswith(f"deploy/release: {version}: {why}")


def test_a_changed_tree_is_refused(tree):
    (tree / "lbd/__init__.py").write_text('__version__ = "0.1.0"\n')
    said = release(tree, "minor", "--do")
    assert (said.returncode, said.stdout) == (1, "")
    assert "commit or put aside" in said.stderr

"""What a purge of the Debian package leaves, by its script with other paths."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy/debian/postrm"
TOOLS = ("cat", "find", "mkdir", "rm", "rmdir", "sh")  # none that touches this machine's units


@pytest.fixture
def purge(tmp_path):
    def run():
        tools = tmp_path / "tools"
        tools.mkdir(exist_ok=True)
        for tool in TOOLS:
            if not (tools / tool).exists():
                (tools / tool).symlink_to(shutil.which(tool))
        root = f"{tmp_path}/root/"
        script = re.sub(r"(?<![\w./])/(?=(?:var|run|etc|usr|opt)\b)", root, SCRIPT.read_text())
        done = subprocess.run(["sh", "-c", script, "postrm", "purge"], check=True,
                              env={"PATH": str(tools)}, capture_output=True, text=True)  # fmt: skip
        return done.stderr.replace(root, "/")

    return run


@pytest.fixture
def state(tmp_path):
    state = tmp_path / "root/var/lib/lbd"
    state.mkdir(parents=True)
    for name in ("hosts.json", "usage.sqlite"):
        (state / name).touch()
    return state


def test_the_note_of_a_ledger_elsewhere_stays(purge, state, tmp_path):
    """lbd installed there again began with an empty queue, though that ledger had jobs."""
    ledger = tmp_path / "disk/ledger.sqlite"
    ledger.parent.mkdir()
    ledger.touch()
    (state / "ledger.last").write_text(str(ledger))
    assert purge() == (
        f"lbd: kept {ledger}; to remove the cluster's authority and queue for good: "
        f"rm -r /var/lib/lbd* {ledger}*\n"
    )
    assert [path.name for path in state.iterdir()] == ["ledger.last"]


@pytest.mark.parametrize("is_there", [True, False])
def test_that_of_the_usual_ledger_goes_and_the_ledger_stays(purge, state, is_there):
    if is_there:
        (state / "ledger.sqlite").touch()
    (state / "ledger.last").write_text(str(state / "ledger.sqlite"))
    said = purge()
    if is_there:
        assert "lbd: kept /var/lib/lbd/ledger.sqlite; to remove" in said
        assert said.endswith("rm -r /var/lib/lbd*\n")
        assert [path.name for path in state.iterdir()] == ["ledger.sqlite"]
    else:
        assert (said, state.exists()) == ("", False)


def test_what_has_just_been_removed_is_not_named_to_be_removed(purge, state, tmp_path):
    """`rm` complained that there is no such directory."""
    debconf = tmp_path / "root/usr/share/debconf/confmodule"
    debconf.parent.mkdir(parents=True)
    debconf.write_text(
        "db_input() { :; }; db_go() { :; }; db_purge() { :; }; db_get() { RET=true; }"
    )
    ledger = tmp_path / "ledger.sqlite"
    ledger.touch()
    (state / "ledger.last").write_text(str(ledger))
    assert purge().endswith(f"authority and queue for good: rm -r {ledger}*\n")
    assert not state.exists()

"""deploy/setup, with a Python that does nothing: warnings about closed places, and next steps."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTHING = "#!/bin/sh\nexit 0\n"


@pytest.fixture
def home():
    """Makes a directory like /root, but accessible; pytest's own directories are not."""
    if os.geteuid() != 0:
        pytest.skip("needs root: nobody else sets up for others")
    path = Path(tempfile.mkdtemp(prefix="lbd-t-setup-"))
    path.chmod(0o755)
    (path / "lbd/deploy").mkdir(parents=True)
    shutil.copy(ROOT / "deploy/setup", path / "lbd/deploy")
    (path / "lbd/pyproject.toml").touch()
    yield path
    shutil.rmtree(path)


def script(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(NOTHING)
    path.chmod(0o755)


def said(home):
    done = subprocess.run([home / "lbd/deploy/setup"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if "other users" in line]


def test_a_place_that_others_may_not_enter_is_reported_once(home):
    script(home / "lbd/.venv/bin/python")
    assert said(home) == []
    home.chmod(0o700)
    (home / "lbd/.venv/.lbd-source").unlink()
    (line,) = said(home)
    assert line.startswith("deploy/setup: note: other users cannot use this .venv, since they may")
    assert f" {home}; setup goes on. " in line
    assert said(home) == [], "nothing was done"


def test_a_python_that_others_cannot_reach_is_reported(home):
    script(home / "own/python3")
    (home / "own").chmod(0o700)
    (home / "lbd/.venv/bin").mkdir(parents=True)
    (home / "lbd/.venv/bin/python").symlink_to(home / "own/python3")
    (line,) = said(home)
    assert f"may not enter {home}/own, where its Python is; setup goes on. " in line
    assert line.endswith(": rm -r .venv; PYTHON=/usr/bin/python3 deploy/setup")


def test_the_last_line_says_how_to_use_it(home):
    script(home / "lbd/.venv/bin/python")
    done = subprocess.run([home / "lbd/deploy/setup"], capture_output=True, text=True, timeout=60)
    _, _, typed = done.stderr.splitlines()[-1].partition("in this shell: ")
    found = subprocess.run(
        ["/bin/sh", "-c", f"{typed}; command -v python"], capture_output=True, text=True, timeout=60
    )
    assert found.stdout == f"{home}/lbd/.venv/bin/python\n"


def test_the_warning_comes_before_anything_is_installed(home):
    script(home / "lbd/.venv/bin/python")
    home.chmod(0o700)
    done = subprocess.run([home / "lbd/deploy/setup"], capture_output=True, text=True, timeout=60)
    assert "other users" in done.stderr.partition("installing")[0]


def test_quickstart_names_the_option_that_it_does_not_have():
    quickstart = ROOT / "deploy/quickstart"
    done = subprocess.run([quickstart, "--foo"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no option --foo; see deploy/quickstart --help" in done.stderr
    asked = subprocess.run([quickstart, "--help"], capture_output=True, text=True, timeout=60)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert "see it work" in asked.stdout

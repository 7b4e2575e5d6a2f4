"""How the caller is told to get the daemons to run."""

import os

import pytest

from lbd.config.load import SYSTEM_DIRS
from lbd.local import own_lab, starting
from lbd.local.own_lab import MADE_BY
from lbd.local.starting import how_to_start

SYSTEM_DIR = SYSTEM_DIRS[0]
OWN = "/run/user/1000/lbd"
UNIT, UP = "systemctl start lbd.target", "lbd up"
ASK, START = "ask an administrator to start it with: ", "start it with: "


@pytest.mark.parametrize(
    ("has_units", "uid", "dirs", "says"),
    [
        (True, 0, [SYSTEM_DIR], START + UNIT),
        (True, 1000, [SYSTEM_DIR], ASK + UNIT),
        (True, 1000, [OWN, SYSTEM_DIR], ASK + UNIT),
        (True, 1000, [OWN], START + UP),
        (True, 0, [OWN], START + UP),
        (False, 0, [SYSTEM_DIR], START + UP),
        (False, 1000, [SYSTEM_DIR], ASK + UP),
        (False, 1000, [OWN, SYSTEM_DIR], START + UP),
    ],
)
def test_the_advice_fits_the_installation_and_the_user(
    has_units, uid, dirs, says, tmp_path, monkeypatch
):
    unit = tmp_path / "lbd.target"
    if has_units:
        unit.touch()
    monkeypatch.setattr(starting, "SYSTEMD", str(tmp_path))
    monkeypatch.setattr(starting, "UNITS", ("/nowhere/lbd.target", str(unit)))
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert how_to_start(dirs) == says


def test_units_without_systemd_as_in_a_container_start_nothing(tmp_path, monkeypatch):
    (tmp_path / "lbd.target").touch()
    monkeypatch.setattr(starting, "SYSTEMD", str(tmp_path / "none"))
    monkeypatch.setattr(starting, "UNITS", (str(tmp_path / "lbd.target"),))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert how_to_start([SYSTEM_DIR]) == START + UP


@pytest.mark.parametrize("user", [True, False])
def test_a_lab_starts_its_hosts_itself(user, tmp_path, monkeypatch):
    """The lab would not know of what `lbd up` starts."""
    monkeypatch.setattr(own_lab, "default_runtime_dir", lambda: str(tmp_path))
    root = tmp_path / ("lab" if user else "my lab")
    (root / "h2/run").mkdir(parents=True)
    assert how_to_start([str(root / "h2/run")]) == START + UP
    (root / "h2/lbd.toml").write_text(f"{MADE_BY}\n\n[host]\n")
    said = "lbd lab start h2" if user else f"lbd lab start h2 --dir '{root}'"
    assert how_to_start([str(root / "h2/run")]) == START + said

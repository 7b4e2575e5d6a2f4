"""The systemd units."""

import re
import subprocess
from pathlib import Path

import pytest

RUN_PROGRAM = 0o755

UNITS = sorted((Path(__file__).parents[2] / "deploy/systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_output_before_the_log_is_open_has_the_name_of_the_daemon_in_the_journal(unit):
    assert f"\nSyslogIdentifier={unit.stem}\n" in unit.read_text()


@pytest.mark.parametrize("job", ["stop", "restart", ""])
def test_the_lbm_is_told_whether_it_is_stopped_or_restarted(tmp_path, job):
    """Both come as one signal; only systemd knows which it is."""
    unit = next(unit for unit in UNITS if unit.stem == "lbd-lbm").read_text()
    line = re.search(r"^ExecStop=-/bin/sh -c '(.*)'$", unit, re.MULTILINE)[1]
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(f"#!/bin/sh\necho '2364 '$3 {job or 'nop'} running\n")
    systemctl.chmod(RUN_PROGRAM)
    line = line.replace("%n", "lbd-lbm.service").replace("/run/lbd", str(tmp_path))
    path = f"{tmp_path}:/usr/bin:/bin"
    for main, is_marked in (("", False), ("12", job == "stop")):  # "": it has ended by itself
        environment = {"PATH": path, "MAINPID": main}
        subprocess.run(["/bin/sh", "-c", line], env=environment, check=False)
        assert (tmp_path / "lbm.stopping").exists() == is_marked

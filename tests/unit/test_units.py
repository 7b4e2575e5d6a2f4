"""The systemd units."""

import re
from pathlib import Path

import pytest

from lbd.errors import EXIT_NOT_HERE

UNITS = sorted((Path(__file__).parents[2] / "deploy/systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_output_before_the_log_is_open_has_the_name_of_the_daemon_in_the_journal(unit):
    assert f"\nSyslogIdentifier={unit.stem}\n" in unit.read_text()


def test_the_lbm_is_told_by_the_signal_whether_it_is_stopped_or_restarted():
    """So nothing must be asked while the host goes down."""
    unit = next(unit for unit in UNITS if unit.stem == "lbd-lbm").read_text()
    lines = unit.splitlines()
    assert "RestartKillSignal=SIGUSR2" in lines
    assert not [line for line in lines if line.startswith(("KillSignal=", "ExecStop="))]


def test_the_lbm_stops_before_the_dispatcher_that_it_reports_to():
    unit = next(unit for unit in UNITS if unit.stem == "lbd-lbm").read_text()
    assert "lbd-dispatcher.service" in after(unit)


def test_a_dispatcher_on_a_host_without_the_queue_is_neither_failed_nor_started_again():
    """`systemctl --failed` named it for ever on a host whose queue another one had taken over."""
    lines = next(unit for unit in UNITS if unit.stem == "lbd-dispatcher").read_text().splitlines()
    for name in ("SuccessExitStatus", "RestartPreventExitStatus"):
        (found,) = (line for line in lines if line.startswith(f"{name}="))
        assert str(EXIT_NOT_HERE) in found.partition("=")[2].split()


@pytest.mark.parametrize("name", ["lbd-lim", "lbd-lbm", "lbd-dispatcher"])
def test_jobs_come_to_a_host_that_has_its_network_file_systems(name):
    """A queued job that may run only there would fail for want of its directory."""
    unit = next(unit for unit in UNITS if unit.stem == name).read_text()
    assert {"remote-fs.target", "autofs.service"} <= {*after(unit)}


def after(unit: str) -> list[str]:
    return " ".join(re.findall(r"^After=(.*)$", unit, re.MULTILINE)).split()

"""The systemd units."""

from pathlib import Path

import pytest

UNITS = sorted((Path(__file__).parents[2] / "deploy/systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_output_before_the_log_is_open_has_the_name_of_the_daemon_in_the_journal(unit):
    assert f"\nSyslogIdentifier={unit.stem}\n" in unit.read_text()

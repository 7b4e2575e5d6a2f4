"""The units of systemd."""

from pathlib import Path

import pytest

UNITS = sorted((Path(__file__).parents[2] / "deploy/systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_what_a_daemon_says_before_its_log_is_open_has_its_name_in_the_journal(unit):
    assert f"\nSyslogIdentifier={unit.stem}\n" in unit.read_text()

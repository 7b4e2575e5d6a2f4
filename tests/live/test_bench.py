"""The benches start, measure and report JSON; no test judges the figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import assert_nothing_left

pytestmark = pytest.mark.alone

ROOT = Path(__file__).resolve().parents[2]


def test_a_quick_run_gives_json():
    command = [sys.executable, ROOT / "tests/bench/run.py", "--quick", "--only", "local", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode in (0, 1), result.stderr  # 1: short of a target, on a busy machine
    found = json.loads(result.stdout)
    assert found["failures"] == {}
    (row,) = found["rows"]
    assert row["ours"]["runs"] == row["rival"]["runs"] > 0
    assert row["ratio"] == row["ours"]["median"] / row["rival"]["median"] > 0
    assert row["verdict"] in ("ok", "SHORT")
    assert not Path(found["directory"]).exists()
    assert_nothing_left(Path(found["directory"]) / "lab")

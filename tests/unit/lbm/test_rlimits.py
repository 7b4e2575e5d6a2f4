"""Limits of a child, in a process that may keep them."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
from lbd.lbm.rlimits import lower
own, asked = map(int, sys.argv[1:])
if own:
    resource.setrlimit(resource.RLIMIT_DATA, (own // 2, own))
lower(resource.RLIMIT_DATA, asked)
print(*resource.getrlimit(resource.RLIMIT_DATA))
"""
GIB = 1 << 30


@pytest.mark.parametrize(
    ("own", "asked", "kept"),
    [(4 * GIB, 2 * GIB, 2 * GIB), (2 * GIB, 4 * GIB, 2 * GIB), (0, 2 * GIB, 2 * GIB)],
)
def test_never_above_ones_own(own, asked, kept):
    seen = subprocess.check_output(
        [sys.executable, "-c", SCRIPT, str(own), str(asked)], text=True, timeout=20
    )
    assert seen.split() == [str(kept)] * 2

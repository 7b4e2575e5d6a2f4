"""The date of the source, which the manual pages bear.

It is what $SOURCE_DATE_EPOCH says, else that of the commit, else today's. A source distribution has
no commits, so it brings the date in a file: the wheel that is made from it is the same on any day.
"""

import contextlib
import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IN_SDIST = "deploy/describe/source_date"  # of UNIX seconds


def date_of_source() -> float:
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        return float(epoch)
    with contextlib.suppress(OSError, ValueError):
        return float((ROOT / IN_SDIST).read_text())
    asked = ["git", "-C", ROOT, "log", "-1", "--format=%ct"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError, ValueError):
        return float(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    return time.time()

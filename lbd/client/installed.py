"""Finds the `lbrun` that a Python program starts."""

import os
import shutil
import sysconfig

from lbd.errors import Unavailable


def lbrun_program() -> str:
    """Looks on PATH, then beside this Python. Raises Unavailable."""
    scripts = sysconfig.get_path("scripts")
    found = shutil.which("lbrun") or shutil.which("lbrun", path=scripts)
    if found is None:
        raise Unavailable(f"no lbrun on PATH nor in {scripts}: is lbd installed there?")
    return os.path.abspath(found)

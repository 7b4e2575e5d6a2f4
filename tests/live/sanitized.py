"""Our C programs built with the address and undefined-behaviour sanitizers.

The programs' tests run these too. A complaint ends the program with a report, so a test that
compares its status and its output fails.
"""

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from lbd.process.self_start import PACKAGE_PARENT
from tests.live.cluster import PREFIX, clients_path, compile_front

# Fortified calls would hide from the sanitizers what they look for.
FLAGS = ["-U_FORTIFY_SOURCE", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
BUILDS = ("compiled", "sanitized")


def need(program):
    """The program if it could be built; otherwise skips the test, or fails it in CI."""
    if not program.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no {program.name}: no compiler")
    return program


def python_client(name):
    """The Python client to which the compiled one hands over."""
    installed = Path(clients_path(), f"{name}-python")
    return installed if installed.exists() else Path(clients_path(), name)


@functools.cache
def programs():
    """A directory with `lbrun`, `lbsh` and `spare`; removed with that of the clients."""
    made = Path(tempfile.gettempdir(), f"{PREFIX}bin-{os.getpid()}", "sanitized")
    made.mkdir(parents=True, exist_ok=True)
    if shutil.which("cc") is not None:
        compile_front(made / "lbrun", python_client("lbrun"), *FLAGS)
        compile_("lbd/client/c/lbsh.c", made / "lbsh", *FLAGS)
        compile_("lbd/keeper/spare.c", made / "spare", *FLAGS)
    return made


def compile_(source, program, *flags):
    """Compiles as the installer does."""
    client = f'-DPYTHON_CLIENT="{python_client("lbsh")}"'
    root = Path(PACKAGE_PARENT)
    subprocess.run([root / "deploy/compile", root / source, program, client, *flags], check=True)
    return program

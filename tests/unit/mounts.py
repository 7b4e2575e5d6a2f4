"""A file system of its own, for tests that run as root."""

import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def mounted(place, options="mode=755"):
    mounting = ("mount", "-t", "tmpfs", "-o", options, "tmpfs", place)
    if subprocess.run(mounting, capture_output=True).returncode:
        pytest.skip("needs to mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)

"""The command that installs a missing library: lbd is in no index, so its extras have no name."""

import shlex
import sys

from lbd.text.install_line import install_line, lacks


def test_it_is_for_the_python_that_runs_us():
    words = shlex.split(install_line("asyncpg>=0.30,<1"))
    assert words == [sys.executable, "-m", "pip", "install", "asyncpg>=0.30,<1"]


def test_the_libraries_are_named():
    said = lacks("this", ["jinja2", "uvicorn"])
    assert said == f"this needs jinja2, uvicorn: {sys.executable} -m pip install jinja2 uvicorn"

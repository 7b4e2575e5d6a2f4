"""Another user has left modules in the directory where a program is started, such as /tmp: the
Python programs that we start there import none of them."""

import json
import subprocess
import sys

import pytest

from tests.live.cluster import client_environment

SECONDS = 60
TRAP = "import os\nopen(os.environ['TRAP'], 'a').write(__name__ + ' ')\n"
EXECUTOR = """
import json, os, lbd
with lbd.Executor(slots=1) as executor:
    print(json.dumps(executor.submit(os.getcwd).result()))
"""
SBATCH = """
from lbd.slurm.program import run
run("sbatch")
"""


@pytest.fixture
def somewhere(tmp_path):
    """A directory with an `lbd` of another user's and modules that ours import."""
    place = tmp_path / "shared"
    for name in ("lbd", "lbd/python", "lbd/client"):
        (place / name).mkdir(parents=True)
        (place / name / "__init__.py").write_text(TRAP)
    for name in ("json", "subprocess", "typing", "lbd/python/worker", "lbd/client/lbrun"):
        (place / f"{name}.py").write_text(TRAP)
    return place


def run(program, place):
    sprung = place.parent / "sprung"
    # no daemons: the commands run here
    around = client_environment(TRAP=str(sprung), XDG_RUNTIME_DIR=str(place.parent / "none"))
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=place, env=around,
        input="#!/bin/sh\ntrue\n", capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert not sprung.exists(), sprung.read_text() + done.stderr
    return done


def test_a_worker_imports_nothing_from_where_the_program_is(somewhere):
    done = run(EXECUTOR, somewhere)
    assert json.loads(done.stdout) == str(somewhere), done.stderr


def test_sbatch_imports_nothing_from_where_it_is_called(somewhere):
    said = run(SBATCH, somewhere).stderr
    assert said.startswith("sbatch: error: no lbm is running here")

"""A step of a job: its files, and its share of the job's slots."""

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile

import pytest

from lbd.slurm.options import LET_BE, SlurmError
from lbd.slurm.step import SCRIPT, TURN, file_name, lock

STEP = [sys.executable, "-c", "import sys; from lbd.slurm.srun import run; run(sys.argv[1:])"]
JOB = {"SLURM_JOB_ID": "12_7", "LBD_JOB_ID": "12_7", "LBD_SLOTS": "2", "LBD_HOST": "h2",
       "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "7"}  # fmt: skip


@pytest.fixture
def job(monkeypatch):
    """We are its first process, with its script open."""
    with tempfile.TemporaryFile() as script:
        for name, value in (JOB | {SCRIPT: f"/proc/{os.getpid()}/fd/{script.fileno()}"}).items():
            monkeypatch.setenv(name, value)
        yield script


def step(*words):
    return subprocess.Popen([*STEP, *words], stdin=subprocess.PIPE)


def status_of(*words):
    return subprocess.run([*STEP, *words], check=False).returncode


@contextlib.contextmanager
def held(job, *places):
    """Once others hold them."""
    for byte in places:
        while lock(job.fileno(), byte):
            lock(job.fileno(), byte, fcntl.F_UNLCK)
    yield


def test_exclusive_steps_wait_for_free_slots_of_their_job(job, tmp_path, monkeypatch):
    monkeypatch.setenv(LET_BE, "exclusive")  # of a job
    log = tmp_path / "log"
    with (
        step("--exclusive", "-c2", "sh", "-c", f"read go; echo first >>{log}") as both,
        held(job, TURN + 1, TURN + 2),
        step("--exclusive", "-n1", "sh", "-c", f"echo second >>{log}") as other,
        held(job, TURN),
    ):
        assert not log.exists()
        both.communicate(b"go\n")
        other.communicate()
        assert (both.returncode, other.returncode) == (0, 0)
    assert log.read_text() == "first\nsecond\n"


def test_a_step_has_its_files(job, tmp_path):
    (tmp_path / "in").write_text("what is in it\n")
    words = ["-D", str(tmp_path), "-i", "in", "-o", "out.%j.%t", "sh", "-c", "cat; echo bad >&2"]
    assert status_of(*words) == 0
    assert (tmp_path / "out.12_7.0").read_text() == "what is in it\nbad\n"
    words = [
        "-D",
        str(tmp_path),
        "--open-mode=append",
        "-o",
        "out.12_7.0",
        "-e",
        "none",
        "sh",
        "-c",
        "pwd >&2; echo x",
    ]
    assert status_of(*words) == 0
    assert (tmp_path / "out.12_7.0").read_text() == "what is in it\nbad\nx\n"


def test_names_of_files(job, monkeypatch):
    assert file_name("output", "%x.%A_%a.%N.%J.100%%", "fit") == "fit.12_7.h2.12_7.0.100%"
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(SlurmError, match=r"^--output %j: %j is not supported by lbd here$"):
        file_name("output", "%j", "fit")

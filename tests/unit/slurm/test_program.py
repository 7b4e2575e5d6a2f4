"""The common parts of the Slurm commands: their start, version and errors."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_each_command_has_a_version(option):
    program = f"import sys; from lbd.slurm.program import run; sys.argv[1:] = ['{option}']; "
    done = subprocess.run(
        [sys.executable, "-c", program + "run('squeue')"], capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("slurm of lbd\n", 0)


def test_they_start_without_heavy_modules():
    """Workflow managers call them again and again."""
    heavy = "asyncio", "grpc", "google", "argparse"
    probe = (
        "import sys; from lbd.slurm import sacct, squeue, sbatch, scancel, program;"
        f" print(*[name for name in {heavy!r} if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert said.stdout.split() == []


@pytest.mark.parametrize("name", ["sbatch", "squeue", "scancel"])
def test_commands_that_are_run_by_the_hundred_import_little(name):
    heavy = {"dataclasses", "typing", "pathlib", "subprocess", "argparse", "asyncio", "inspect"}
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}; sys.argv[1:] = ['--help']; import os;"
        f"os._exit = lambda status: print(sorted({heavy!r} & sys.modules.keys()), status);"
        f"from lbd.slurm.program import run; run({name!r})"
    )
    done = subprocess.run([sys.executable, "-IS", "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[] 0", done


def test_an_error_is_one_printable_line():
    program = (
        "import sys; from lbd.slurm.program import run; sys.argv[1:] = ['a\x1b\\nb']; run('sbatch')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == "sbatch: error: Unable to open file a? b: No such file or directory\n"

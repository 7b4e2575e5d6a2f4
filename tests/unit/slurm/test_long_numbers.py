"""Numbers of thousands of digits, of which Python makes none, in scripts of others."""

import pytest

from lbd.slurm import scancel, scontrol
from lbd.slurm.options import SlurmError
from lbd.slurm.sbatch import GRAMMAR, lbrun_words, signal_words
from lbd.slurm.script import in_script

LONG = "9" * 5000


@pytest.mark.parametrize(
    "line",
    [f"--begin=now+{LONG}days", f"-c {LONG}", f"--gpus={LONG}", f"--gres=gpu:{LONG}",
     f"--mem={LONG}", f"--time=1:{LONG}"],
)  # fmt: skip
def test_one_in_a_script_is_refused_in_a_line(line):
    with pytest.raises(SlurmError):
        lbrun_words(in_script(f"#!/bin/sh\n#SBATCH {line}\n", "s.sh", [], GRAMMAR), "s.sh")


@pytest.mark.parametrize("signal", [f"B:{LONG}", f"B:USR1@{LONG}"])
def test_and_so_is_one_of_a_signal(signal):
    with pytest.raises(SlurmError):
        signal_words({"signal": signal})


@pytest.mark.parametrize("priority", [LONG, "--5"])
def test_and_for_other_programs(priority):
    with pytest.raises(SlurmError, match="Unknown job signal"):
        scancel.signal_of(LONG)
    with pytest.raises(SlurmError, match="update priority is not supported"):
        scontrol.update(["jobid=1", f"priority={priority}"])

"""Scripts of users other than the daemons' account, in a temporary directory that everybody may
write."""

import pwd
import subprocess
import tempfile

import pytest

from lbd.slurm.script import LAUNCH
from lbd.text.job_phrases import LAUNCHER
from tests.live.test_users import ANN, as_user

pytestmark = pytest.mark.root

# Steps are counted as the last line does it.
SCRIPT = """#!/bin/sh
echo "$1"; ls "$TMPDIR"; cat
touch -d @7 $SLURM_LBD_SCRIPT && stat -Lc '%u %h %Y' $SLURM_LBD_SCRIPT
"""


def test_a_script_leaves_nothing_that_another_user_could_exchange(queue_lab):
    values = "interpreter=/bin/sh option= input=/dev/null signal= after="
    with tempfile.TemporaryDirectory() as shared:
        subprocess.run(["chmod", "777", shared], check=True)
        variables = ("-e", f"SBATCH_LAUNCH={values}\n{LAUNCH}", "-e", f"TMPDIR={shared}")
        words = (*as_user(ANN), "lbrun", "-q", *variables, *LAUNCHER, "job.sh", "word")
        done = queue_lab.run("h1", *words, input=SCRIPT)
    assert (done.stdout, done.stderr) == (f"word\n{pwd.getpwnam(ANN).pw_uid} 0 7\n", "")

"""Commands in a host of the lab, on terminals of every kind."""

import os
import pty
import subprocess
import sys

ASK = "from lbd.lab.enter import attached; raise SystemExit(attached(['sh', '-c', 'exit 7']))"


def test_a_command_runs_on_a_terminal_that_controls_another_session():
    """As under `su USER -c`: the quick start ended with a traceback."""
    ours, its = pty.openpty()
    words = [sys.executable, "-c", ASK]
    done = subprocess.run(
        words, stdin=its, stdout=its, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    os.close(ours)
    os.close(its)
    assert (done.returncode, done.stderr) == (7, "")

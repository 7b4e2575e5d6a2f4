"""An interrupt while a program is being imported."""

import signal
import subprocess
import sys

import pytest

IMPORTED = "import time; print('ready', flush=True); time.sleep(60)"
RUNNING = """import time
def main(_argv):
    try:
        print('ready', flush=True); time.sleep(60)
    except KeyboardInterrupt:
        return 130
"""


def interrupted(folder, program):
    """Returns the status and standard error of a program that is interrupted once it is ready."""
    (folder / "program.py").write_text(program)
    script = f"import sys; sys.path.append({str(folder)!r})\n"
    script += "from lbd.cli import start; sys.exit(start.run('program'))"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout.readline() == "ready\n"
        started.send_signal(signal.SIGINT)
        return started.wait(), started.stderr.read()


@pytest.mark.parametrize(
    ("program", "status"), [(IMPORTED, -signal.SIGINT), (RUNNING, 130)], ids=["imported", "running"]
)
def test_it_leaves_no_traceback(tmp_path, program, status):
    assert interrupted(tmp_path, program) == (status, "")

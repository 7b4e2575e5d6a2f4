"""Which part of a worker's standard error is shown."""

import os

from lbd.python.worker_process import WorkerProcess


def test_the_last_lines_of_lbrun_are_not_shown():
    process = WorkerProcess(["true"], os.environ, 1 << 20)
    assert process.said(b"of a function\nlbrun: slow\n") == b"of a function\n"
    assert process.said(b"no end of line") == b"lbrun: slow\nno end of line"
    assert process.said(b"\nlbrun: lost contact with h1\nlbrun: not run again\n") == b"\n"
    process.finish()

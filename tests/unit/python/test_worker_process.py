"""Which part of a worker's standard error is shown."""

import os
import select

import pytest

from lbd.python.worker_process import ERRORS_KEPT_BYTES, WorkerProcess, end_of


def test_the_last_lines_of_lbrun_are_not_shown():
    process = WorkerProcess(["true"], os.environ, 1 << 20)
    assert process.said(b"of a function\nlbrun: slow\n") == b"of a function\n"
    assert process.said(b"no end of line") == b"lbrun: slow\nno end of line"
    assert process.said(b"\nlbrun: lost contact with h1\nlbrun: not run again\n") == b"\n"
    process.finish()


def test_a_host_that_says_such_lines_without_end_fills_no_memory():
    process = WorkerProcess(["true"], os.environ, 1 << 20)
    said = b"".join([b"lbrun: %d\n" % number for number in range(10_000)])
    came = b"".join(process.said(said[at : at + 1000]) for at in range(0, len(said), 1000))
    assert said.startswith(came)
    assert len(said) - len(came) <= ERRORS_KEPT_BYTES
    long = b"lbrun: " + bytes(1 << 20)
    assert len(process.said(long)) > 0
    process.finish()


@pytest.mark.parametrize(
    ("printed", "had_tasks", "words"),
    [
        ("echo hello from 0 >&2", True, ""),
        ("echo lbrun: h1 is lost >&2; echo hello >&2", True, "h1 is lost"),
        ("echo No module named lbd >&2", False, "No module named lbd"),
    ],
)
def test_what_a_task_prints_is_not_why_its_worker_ended(printed, had_tasks, words):
    process = WorkerProcess(["sh", "-c", printed], os.environ, 1 << 20)
    select.select([process.end_seen], [], [])
    process.read_errors()
    assert process.last_words(had_tasks=had_tasks) == words
    process.finish()


@pytest.mark.parametrize(
    ("status", "said"),
    [(-9, "ended by signal 9"), (137, "ended by signal 9"), (1, "exit status 1")],
)
def test_how_a_worker_ended(status, said):
    assert end_of(status) == said

"""Shared by the tests of the command-line contract: where a command may run, what is printed."""

import contextlib
import json
import os
import re
import sys
import threading

import psutil
import pytest

from tests.live.cluster import wait_until

PYTHON = (sys.executable, "-I", "-S")  # starts in 15 ms; the jobs of these tests are made of it

# The three ways in which a command comes to run: where the caller asked for it, where the LIM
# answered, or on another host.
WHERE = {"stay": ("--local",), "asked": (), "away": ("-H", "h2")}
everywhere = pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)


def assert_one_line(text, program="lbrun", *parts):
    """Checks that `text` is one line that starts with the program's name and contains `parts`."""
    text = text if isinstance(text, str) else text.decode("utf-8", "replace")
    assert re.fullmatch(rf"{re.escape(program)}\b[^\n]*: [^\n]+\n", text), text
    assert not [part for part in parts if part not in text], text


def read_status(path):
    """Reads the status file once its writer has finished it."""
    return json.loads(path.read_text())


def shell_status(returncode):
    """The status as $? shows it: a command that lbrun execs into dies of its signal itself."""
    return returncode if returncode >= 0 else 128 - returncode


def alive(pid):
    """Whether a process runs. A zombie does not, once all its threads have ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            ended = stat.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
        return not ended or len(os.listdir(f"/proc/{pid}/task")) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def assert_gone(pids, timeout_s=90.0):
    """Waits until none of the processes runs any more."""
    pids = list(pids)
    wait_until(
        lambda: not any(alive(pid) for pid in pids),
        f"processes {pids} gone", timeout_s, lambda: [pid for pid in pids if alive(pid)],
    )  # fmt: skip


def numbers_in(path, count):
    """`count` numbers, one a line, from a file that is still being written; else nothing."""
    text = path.read_text() if path.exists() else ""
    numbers = [int(line) for line in text.splitlines()]
    return numbers if text.endswith("\n") and len(numbers) >= count else None


@contextlib.contextmanager
def bounded(job, seconds=30):
    """Kills `job` and its children if the block takes too long, so that reads return."""
    late = threading.Event()

    def end():
        late.set()
        kill_tree(job.pid)

    watch = threading.Timer(seconds, end)
    watch.start()
    try:
        yield
        assert not late.is_set(), f"nothing within {seconds} s"
    finally:
        watch.cancel()
        watch.join()


def kill_tree(pid):
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


# Prints each signal it gets, one a line, until its standard input tells it to stop. It uses a
# wake-up pipe, since a Python handler does not run if its signal comes just before a blocking read.
TELL = """
import os, select, signal, sys
wake, woken = os.pipe2(os.O_NONBLOCK)
signal.set_wakeup_fd(woken)
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), lambda *_: None)
os.write(1, b"ready\\n")
while True:
    ready, _, _ = select.select([0, wake], [], [])
    if wake in ready:
        for number in os.read(wake, 100):
            os.write(1, (signal.Signals(number).name + "\\n").encode())
    if 0 in ready and not os.read(0, 1):
        break
"""

"""What the tests of the command-line contract share: where a command may run, and what is said."""

import contextlib
import json
import os
import re
import sys
import threading

import psutil
import pytest

from tests.live.cluster import wait_until

PYTHON = (sys.executable, "-I", "-S")  # starts in 15 ms; what the jobs of these tests are made of

# The three ways a command comes to run: by the caller's wish, by the LIM's answer, on another host.
WHERE = {"stay": ("--local",), "asked": (), "away": ("-H", "h2")}
everywhere = pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)


def assert_one_line(text, program="lbrun", *parts):
    """One line that starts with the program's name and says `parts`."""
    text = text if isinstance(text, str) else text.decode("utf-8", "replace")
    assert re.fullmatch(rf"{re.escape(program)}\b[^\n]*: [^\n]+\n", text), text
    assert not [part for part in parts if part not in text], text


def read_status(path):
    """The status file, once its writer is done with it."""
    return json.loads(path.read_text())


def shell_status(returncode):
    """As $? shows it: a command that lbrun has become dies of its signal itself."""
    return returncode if returncode >= 0 else 128 - returncode


def alive(pid):
    """Does it run? A zombie does not, once all its threads have ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            ended = stat.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
        return not ended or len(os.listdir(f"/proc/{pid}/task")) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def assert_gone(pids, timeout_s=90.0):
    """None of them runs any more, soon."""
    pids = list(pids)
    wait_until(
        lambda: not any(alive(pid) for pid in pids),
        f"processes {pids} gone", timeout_s, lambda: [pid for pid in pids if alive(pid)],
    )  # fmt: skip


def numbers_in(path, count):
    """`count` whole lines of numbers in a file that is being written, else nothing."""
    text = path.read_text() if path.exists() else ""
    numbers = [int(line) for line in text.splitlines()]
    return numbers if text.endswith("\n") and len(numbers) >= count else None


@contextlib.contextmanager
def bounded(job, seconds=30):
    """Kills `job` and what it started if what is inside takes too long, so that reads return."""
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


# Names each signal it gets, one a line, until told to stop on standard input. By a wake-up pipe: a
# Python handler does not run if its signal comes just before a blocking read.
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

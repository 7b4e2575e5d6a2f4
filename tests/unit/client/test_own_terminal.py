"""A terminal for a command that runs here, whose caller has none."""

import contextlib
import signal
import subprocess
import sys

import pytest

from tests.live.cluster import wait_until

RUN = (
    "import os, sys; from lbd.client.local.own_terminal import run_in_terminal;"
    "words = [os.fsencode(word) for word in sys.argv[1:]];"
    "sys.exit(run_in_terminal(words, dict(os.environb), print))"
)


def run(*command, text=""):
    return subprocess.run(
        [sys.executable, "-c", RUN, *command], input=text, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("script", "text", "status", "printed"),
    [
        ("test -t 0 && test -t 1 && tty >/dev/null && exit 5", "", 5, ""),
        ("test -t 2 || echo no >&2", "", 0, "no\n"),
        ("kill -TERM $$", "", -signal.SIGTERM, ""),
        ("cat >/dev/null", "", 0, ""),
        ("stty -echo; echo go; cat", "", 0, "go\n"),
        ("sleep 60 & echo left", "", 0, "left\n"),
    ],
)
def test_the_command_runs_as_on_a_terminal(script, text, status, printed):
    result = run("sh", "-c", script, text=text)
    assert (result.returncode, result.stdout + result.stderr) == (status, printed)


@pytest.mark.parametrize("text", ["line\n", "half", "one\nand a half"])
def test_the_end_of_the_input_ends_the_input_there(text):
    result = run("sh", "-c", "cat | wc -c", text=text)
    assert result.returncode == 0
    assert result.stdout.rstrip().endswith(str(len(text)))  # after the echo of the input


def test_a_missing_program_is_reported():
    result = run("no-such-command")
    assert (result.returncode, result.stderr) == (127, "")
    assert result.stdout.strip() == "[Errno 2] not found"


@contextlib.contextmanager
def running(script):
    command = [sys.executable, "-c", RUN, "sh", "-c", script]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.stdout.close()
        process.kill()
        process.wait()


def test_a_signal_is_passed_on():
    with running("trap 'exit 7' USR1; echo on; while :; do sleep 0.05; done") as process:
        assert process.stdout.readline() == b"on\r\n"
        process.send_signal(signal.SIGUSR1)
        assert process.wait(timeout=90) == 7


def test_a_reader_that_goes_away_ends_the_command():
    with running("while :; do echo more; done") as process:
        assert process.stdout.readline() == b"more\r\n"
        process.stdout.close()
        wait_until(lambda: process.poll() is not None, "it has ended")

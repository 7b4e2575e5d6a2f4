"""Commands in a host of the lab, on terminals of every kind."""

import os
import pty
import subprocess
import sys

import pytest

from lbd.lab import enter
from tests.live.terminal import INTERRUPT, PROMPT, STOP, Terminal

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


HERE = f"{sys.executable} -I -S {enter.__file__} /"


@pytest.fixture
def shell():
    """An interactive shell outside, whose commands run in a host."""
    environment = {**os.environ, "PS1": f"{PROMPT} ", "LC_ALL": "C.UTF-8", "HISTFILE": ""}
    for name in ("PROMPT_COMMAND", "VIRTUAL_ENV", "BASH_ENV"):
        environment.pop(name, None)
    bash = "env", "--default-signal", "bash", "--norc", "--noprofile", "-i"
    with Terminal(bash, environment) as found:  # the tests may run where ^C is ignored
        found.wait_for(PROMPT)
        found.run("bind 'set enable-bracketed-paste off'")
        yield found


def stop(shell, command):
    shell.line(f"{HERE} {command}")
    shell.wait_for("begun")
    shell.send(STOP)
    shell.wait_for("Stopped")


def test_a_stopped_command_that_goes_on_in_the_background_leaves_the_shell_its_terminal(shell):
    """It took it, so the shell read no more, and ended."""
    stop(shell, """sh -c 'echo be""gun; sleep 1000'""")
    shell.run("bg")
    assert "Running" in shell.run("jobs")
    shell.run("kill %1")
    assert "still here" in shell.run("wait; echo still here")


def test_a_background_command_reads_the_terminal_once_it_is_in_the_foreground(shell):
    stop(shell, """sh -c 'echo be""gun; sleep 0.5; read a; echo got $a'""")
    shell.run("bg")
    shell.line("fg")
    shell.send("this\n")  # a line whether bash has switched the terminal over or not
    shell.wait_for("got this")
    shell.wait_for(shell.at_prompt)


def test_a_command_that_is_interrupted_ends_the_loop_around_it(shell):
    shell.line(f"""for n in 1 2; do {HERE} sh -c 'echo be""gun; sleep 1000'; done""")
    shell.wait_for("begun")
    shell.send(INTERRUPT)
    shell.wait_for(shell.at_prompt)
    assert "130" in shell.run("echo $?")
    assert shell.text().count("begun") <= 1

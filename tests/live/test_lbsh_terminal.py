"""lbsh at a prompt: all that belongs to the shell stays the shell's."""

import os
import re
import shutil
from functools import partial

import pytest
from terminal import END, INTERRUPT, PROMPT, STOP, Terminal

from tests.live.cluster import Lab

LAB = partial(Lab.up, 2)
RC = f"""
PS1='{PROMPT} '
HISTFILE=~/history
alias greet='echo hello from an alias'
"""


@pytest.fixture
def home(tmp_path):
    """The home of a user whose login shell is bash."""
    (tmp_path / ".bashrc").write_text(RC)
    # As on many systems: a login reads a file that sets PATH again.
    (tmp_path / ".bash_profile").write_text(f". ~/.bashrc\nPATH={os.environ['PATH']}\n")
    (tmp_path / ".inputrc").write_text("set enable-bracketed-paste off\n")
    return tmp_path


def start(lab, home, *words, shell="/bin/bash"):
    environment = lab.environment("h1", HOME=str(home), SHELL=shell, LC_ALL="C.UTF-8")
    for name in ("PROMPT_COMMAND", "VIRTUAL_ENV", "BASH_ENV", "LBD_SHELL", "ENV"):
        environment.pop(name, None)
    environment["ENV"] = str(home / ".bashrc")  # for shells other than bash
    made = Terminal(lab.command("h1", *(words or ("lbsh",))), environment, cwd=home)
    try:
        made.wait_for(PROMPT)
    except BaseException:
        made.close()
        raise
    return made


@pytest.fixture
def prompt(lab, home):
    with start(lab, home) as shell:
        yield shell


def test_it_is_the_users_shell_with_shims_first(prompt):
    assert prompt.run("echo $0 ${-//[^i]/} $BASHPID$$ | sed 's/[0-9]//g'") == "/bin/bash i"
    assert re.match(r"/.*/lbd-shims-.*/\d+/gcc$", prompt.run("type -p gcc"))
    assert prompt.run('[ "${PATH%%:*}" = "$LBD_SHIMS" ]; echo $?') == "0"


def test_aliases_and_history(prompt, home):
    assert prompt.run("greet") == "hello from an alias"
    prompt.send("\x1b[A\r")  # the up key
    prompt.wait_for(lambda: prompt.text().count("hello from an alias") == 2, "it again")
    prompt.line("exit")
    prompt.process.wait(30)
    assert "greet\n" in (home / "history").read_text()


def test_job_control(prompt):
    prompt.line("perl -e 'sleep 100'")  # a program that has a shim
    prompt.settle()
    prompt.send(STOP)
    prompt.wait_for("Stopped")
    assert re.search(r"\[1\]\+ +Stopped .*perl", prompt.run("jobs"))
    assert re.search(r"\[1\]\+ perl", prompt.run("bg"))
    assert re.search(r"\[1\]\+ +Running .*perl", prompt.run("jobs"))
    prompt.screen.reset()
    prompt.line("fg")
    prompt.settle()
    prompt.send(INTERRUPT)
    prompt.wait_for(prompt.at_prompt, "the prompt")
    assert prompt.run("echo $?") == "130"
    assert prompt.run("jobs") == ""


def test_a_command_at_the_terminal_owns_the_terminal(prompt):
    prompt.line("python3 -q")
    prompt.wait_for(">>>")
    prompt.line("import sys, os; print(os.isatty(0), os.get_terminal_size().columns, 6*7)")
    prompt.wait_for("True 160 42")
    prompt.send(END)
    prompt.wait_for(prompt.at_prompt, "the prompt")


def test_it_ends_as_the_shell_does(lab, home):
    for keys, status in (("exit 7\r", 7), (END, 0)):
        with start(lab, home) as shell:
            shell.send(keys)
            assert shell.process.wait(30) == status


@pytest.mark.parametrize("words", [("lbsh", "-l"), ("bash", "-c", "exec -l lbsh")])
def test_a_login_whose_profile_sets_path_again(lab, home, words):
    with start(lab, home, *words) as shell:
        assert shell.run("shopt login_shell").split() == ["login_shell", "on"]
        assert shell.run('[ "${PATH%%:*}" = "$LBD_SHIMS" ]; echo $?') == "0"
        assert shell.run("echo ${PROMPT_COMMAND-unset}") == "unset"


@pytest.mark.parametrize("name", ["dash", "zsh"])
def test_another_login_shell(lab, home, name):
    if shutil.which(name) is None:
        pytest.skip(f"no {name} here")
    (home / ".zshrc").write_text(f"PS1='{PROMPT} '\n")
    with start(lab, home, shell=shutil.which(name)) as shell:
        found = shell.run("ps -o comm= -p $$; command -v gcc")
        assert name in found
        assert "lbd-shims" in found


def test_a_login_shell_that_is_lbsh_itself(lab, home):
    """SHELL names lbsh, as /etc/passwd may: then lbsh runs bash."""
    lbsh = shutil.which("lbsh", path=lab.environment("h1")["PATH"])
    with start(lab, home, shell=lbsh) as shell:
        assert shell.run("echo ${BASH_VERSION:+bash}") == "bash"

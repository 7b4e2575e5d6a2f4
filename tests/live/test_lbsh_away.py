"""Commands that leave a host by lbsh: from make, xargs and cron, with pipes, signals and
jobserver."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.cluster import FAST, Lab, wait_until
from tests.live.lbsh_programs import make_commands

pytestmark = pytest.mark.alone

AWAY = ('eligibility.always=["where", "sorted"]', "lim.local_threshold=0.0", "lim.min_gain=0.0")
BUSY = Path(__file__).with_name("busy.py")


@pytest.fixture
def commands(tmp_path):
    return make_commands(tmp_path)


@pytest.fixture(scope="module")
def generous():
    """A lab where eligible commands leave h1, which is busy."""
    lab = Lab.up(3, "none", settings=(*FAST, *AWAY, "lbm.slots=8"))
    argv = ("lbrun", "--local", sys.executable, "-I", "-S", BUSY, "processes", "3")
    busy = lab.popen("h1", *argv, start_new_session=True)
    try:
        lab.wait_until(lambda: load_of_h1(lab) > 0.7, "h1 is seen to be busy", 30)
        yield lab
    finally:
        os.killpg(busy.pid, signal.SIGKILL)
        busy.wait()
        lab.down()


def load_of_h1(lab):
    return next(h["index"] for h in lab.ask("h1", "lim", "status")["hosts"] if h["name"] == "h1")


@pytest.fixture
def away(commands):
    commands("where", 'echo "$LBD_HOST ${LBD_SHIMS-none} $PATH"')
    commands("sorted", "sort")
    return commands


@pytest.mark.parametrize("text", ["where", "where; :", "where | cat", "x=$(where); echo $x"])
def test_an_eligible_command_leaves_without_the_shims(generous, away, text):
    env = {"PATH": f"{away.path}:{generous.environment('h1')['PATH']}"}
    result = generous.run("h1", "lbsh", "-c", text, env=env, check=True, cwd=away.directory)
    host, shims, path = result.stdout.split(None, 2)
    assert host in ("h2", "h3"), generous.run("h1", "lbctl", "eligible", "where").stdout
    assert shims == "none"
    assert "lbd-shims" not in path


def test_pipes_statuses_and_signals_of_commands_that_left(generous, away):
    away("sized", "wc -c")
    away("dies", "kill -KILL $$")
    env = {"PATH": f"{away.path}:{generous.environment('h1')['PATH']}"}
    script = "seq 5 -1 1 | sorted | tr '\\n' ' '; dies; echo $?; fails; echo $?"
    result = generous.run("h1", "lbsh", "-c", script, env=env, cwd=away.directory)
    assert result.stdout == "1 2 3 4 5 137\n3\n", result.stderr


@pytest.mark.parametrize("tool", ["make", "xargs", "env", "cron"])
def test_used_as_the_shell_of_other_programs(generous, away, tool):
    env = {"PATH": f"{away.path}:{generous.environment('h1')['PATH']}"}
    (away.directory / "Makefile").write_text("all:\n\t@where\n\t@where >file && cat file\n")
    lbsh = shutil.which("lbsh", path=env["PATH"])
    calls = {
        "make": ["make", "-s", "SHELL=lbsh"],
        "xargs": ["sh", "-c", "echo 1 2 | xargs -n1 lbsh -c where"],
        "env": ["env", "-i", f"PATH={env['PATH']}", "HOME=/root", "LBD_CONFIG=" + str(
            generous.paths("h1").config), "lbsh", "-c", "where; where"],
        "cron": ["env", "-i", "HOME=/root", f"SHELL={lbsh}", f"PATH={env['PATH']}",
                 f"LBD_CONFIG={generous.paths('h1').config}", "sh", "-c",
                 '"$SHELL" -c "where; where"'],
    }  # fmt: skip
    result = generous.run("h1", *calls[tool], env=env, check=True, cwd=away.directory)
    hosts = [line.split()[0] for line in result.stdout.splitlines()]
    assert len(hosts) == 2, result
    assert set(hosts) <= {"h2", "h3"}, result


def test_an_interrupt_ends_make_and_the_commands_it_sent_away(generous, away):
    away("where", "echo started; exec sleep 100")
    env = {"PATH": f"{away.path}:{generous.environment('h1')['PATH']}"}
    (away.directory / "Makefile").write_text("all: a b\na b:\n\t@where\n")
    before = len(generous.jobs_alive())
    make = generous.popen(
        "h1", "make", "-s", "-j2", "SHELL=lbsh", env=env, cwd=away.directory, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    for _ in range(2):
        assert make.stdout.readline() == "started\n"
    os.killpg(make.pid, signal.SIGINT)
    make.communicate(timeout=90)
    assert make.returncode in (2, -signal.SIGINT)
    wait_until(lambda: len(generous.jobs_alive()) == before, "no process is left")


# -- make's jobserver


JOBS = """
all: a b c d
a b c d:
	@where $@
sub: ; +@$(MAKE) -s all
asks: ; +@asks
"""


@pytest.fixture
def makes(tmp_path):
    """A Makefile and two programs: one prints where it runs, one asks for a job's slot."""
    programs = tmp_path / "bin"
    programs.mkdir()
    where = '#!/bin/sh\necho "$1 $LBD_HOST ${MAKEFLAGS+flags} ${MAKELEVEL}"\n'
    (programs / "where").write_text(where)
    # As gcc -flto=jobserver or cargo do it.
    (programs / "asks").write_text(
        "#!/usr/bin/env python3\n"
        "import os, re\n"
        "found = re.search(r'--jobserver-(?:auth|fds)=(\\S+)', os.environ['MAKEFLAGS']).group(1)\n"
        "if found.startswith('fifo:'):\n"
        "    take = give = os.open(found[5:], os.O_RDWR)\n"
        "else:\n"
        "    take, give = map(int, found.split(','))\n"
        "token = os.read(take, 1)\n"
        "os.write(give, token)\n"
        "print('a slot', os.environ['LBD_HOST'])\n"
    )
    for program in programs.iterdir():
        program.chmod(0o755)
    (tmp_path / "Makefile").write_text(JOBS)
    return tmp_path


def run_make(lab, makes, *words):
    path = f"{makes}/bin:{lab.environment('h1')['PATH']}"
    result = by_lbsh_in(lab, makes, path, "make", "-s", *words, "SHELL=lbsh")
    assert "jobserver" not in result.stderr, result.stderr
    return result.stdout.splitlines()


def by_lbsh_in(lab, directory, path, *words):
    result = lab.run("h1", *words, cwd=directory, env={"PATH": path}, timeout=60)
    assert result.returncode == 0, result
    return result


@pytest.mark.parametrize("goal", ["all", "sub"])
def test_a_jobserver_does_not_confuse_commands_that_leave(generous, makes, goal):
    lines = [line.split() for line in run_make(generous, makes, "-j3", goal)]
    assert sorted(line[0] for line in lines) == ["a", "b", "c", "d"]
    assert {line[1] for line in lines} <= {"h2", "h3"}, lines


def test_a_command_that_runs_here_keeps_the_jobserver(generous, makes):
    assert run_make(generous, makes, "-j3", "asks") == ["a slot h1"]

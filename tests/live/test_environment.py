"""Which part of the caller's environment a command finds, here and on another host."""

from functools import partial

import pytest

from tests.live.cluster import Lab

GIVEN = {
    "DISPLAY": ":7", "SSH_AUTH_SOCK": "/tmp/agent", "GITHUB_TOKEN": "secret", "PLAIN": "kept",
    "HOUSE_RULE": "stays", "XDG_RUNTIME_DIR": "/run/user/7", "OWN_TOKEN": "allowed",
}  # fmt: skip
DENIED = {"DISPLAY", "SSH_AUTH_SOCK", "GITHUB_TOKEN", "XDG_RUNTIME_DIR"}


LAB = partial(Lab.up, 2, "none", "--mode", "fcfs", "--set", 'environment.allow=["OWN_*"]')


def seen(lab, *options, **more):
    result = lab.run("h1", "lbrun", *options, "env", "-0", env={**GIVEN, **more}, check=True)
    return dict(item.split("=", 1) for item in result.stdout.split("\0")[:-1])


def test_denied_variables_do_not_leave(lab):
    there = seen(lab, "-H", "h2")
    assert {name for name in GIVEN if name not in there} == DENIED
    assert {there[name] for name in GIVEN.keys() - DENIED} == {"kept", "stays", "allowed"}


@pytest.mark.parametrize("options", [(), ("--local",), ("-H", "h1")])
def test_a_command_that_runs_here_keeps_everything(lab, options):
    assert seen(lab, *options).items() >= GIVEN.items()


def test_the_caller_has_the_last_word(lab):
    there = seen(lab, "-H", "h2", "-e", "GITHUB_TOKEN", "-e", "DISPLAY=far:0", "-e", "NOT_SET")
    assert (there["GITHUB_TOKEN"], there["DISPLAY"]) == ("secret", "far:0")
    assert not {"SSH_AUTH_SOCK", "NOT_SET"} & there.keys()


def test_verbose_names_the_withheld_variables(lab):
    result = lab.run("h1", "lbrun", "-v", "-H", "h2", "true", env=GIVEN)
    said = result.stderr.partition("; variables withheld (environment.deny): ")[2]
    assert set(said.strip(" )\n").split(", ")) >= DENIED
    assert "secret" not in result.stderr


@pytest.mark.parametrize("option", ["-d", "-q"])
def test_verbose_names_them_of_queued_jobs_too(lab, option):
    """It said nothing, and a script's job failed far away for want of its key."""
    result = lab.run("h1", "lbrun", "-v", option, "true", env=GIVEN)
    said = result.stderr.partition(": variables withheld (environment.deny): ")[2]
    assert set(said.splitlines()[0].split(", ")) >= DENIED
    assert "withheld" not in lab.run("h1", "lbrun", option, "true", env=GIVEN).stderr


@pytest.mark.parametrize("options", [("-H", "h2"), ("--local",), ()])
def test_a_clean_environment(lab, options):
    basic = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ"}
    found = seen(lab, *options, "--clean-env", "-e", "PLAIN", "-e", "GITHUB_TOKEN", "-e", "NEW=1",
                 TZ="UTC", LC_TIME="C", LANG="C")  # fmt: skip
    own = {name for name in found if not name.startswith(("LBD_", "LC_"))}
    assert own <= basic | {"PLAIN", "GITHUB_TOKEN", "NEW"}
    assert {"PATH", "TZ", "LANG", "PLAIN", "GITHUB_TOKEN", "NEW"} <= own
    assert found["LC_TIME"] == "C"


# Limits, as ulimit shows them


@pytest.mark.parametrize("options", [("-H", "h2"), ("--local",)])
@pytest.mark.parametrize("limit", ["-n 99", "-c 0", "-f 4096", "-s 4096", "-t 300"])
def test_ulimit(lab, options, limit):
    letter = limit.split()[0]
    script = f'ulimit -S {limit}; exec "$@"'
    words = ["bash", "-c", script, "bash", "lbrun", *options, "bash", "-c", f"ulimit -S {letter}"]
    assert lab.run("h1", *words).stdout.strip() == limit.split()[1]


def test_limits_and_niceness_bite_there(lab, tmp_path):
    script = 'ulimit -f 1; exec lbrun -H h2 sh -c "head -c 100000 /dev/zero > $1/big"'
    result = lab.run("h1", "bash", "-c", script, "bash", tmp_path)
    assert result.returncode != 0
    assert (tmp_path / "big").stat().st_size == 1024
    script = "ulimit -t 1; exec lbrun -H h2 sh -c 'while :; do :; done'"
    result = lab.run("h1", "bash", "-c", script)
    assert result.returncode in (-24, -9, 128 + 24, 128 + 9)


# make


MAKEFILE = """
all: one two three four
one two three four:
\t+@$(RUN) sh -c 'echo "$@ $$MAKEFLAGS"'
sub:
\t+@$(RUN) $(MAKE) -f inner
"""
INNER = """
all: a b
a b:
\t@echo $@ on $$LBD_HOST; sleep 0.1
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "inner").write_text(INNER)
    return tmp_path


def test_a_parallel_make_runs_elsewhere(lab, tree):
    result = lab.run("h1", "lbrun", "-H", "h2", "make", "-j4", "RUN=", cwd=tree)
    assert (result.returncode, result.stderr) == (0, "")
    lines = sorted(result.stdout.splitlines())
    assert [line.split()[0] for line in lines] == ["four", "one", "three", "two"]
    assert all("--jobserver-auth=" in line for line in lines)


@pytest.mark.parametrize("more", [(), ("--timeout", "60")])
def test_a_command_that_runs_here_keeps_the_jobserver(lab, tree, more):
    run = " ".join(["RUN=lbrun", "--local", *more])
    result = lab.run("h1", "make", "-j2", "sub", run, cwd=tree)
    assert (result.returncode, "warning" in result.stderr) == (0, False), result.stderr
    assert sorted(line for line in result.stdout.splitlines() if " on " in line) == [
        "a on h1", "b on h1"
    ]  # fmt: skip


def test_a_command_that_leaves_ignores_the_jobserver(lab, tree):
    result = lab.run("h1", "make", "-j2", "sub", "RUN=lbrun -H h2", cwd=tree)
    assert (result.returncode, result.stderr) == (0, "")
    assert [line for line in result.stdout.splitlines() if " on " in line] == [
        "a on h2", "b on h2"  # one by one, in order
    ]  # fmt: skip
    result = lab.run("h1", "make", "-j2", "one", "RUN=lbrun -H h2", "X=1 2", cwd=tree)
    assert result.stdout == "one  -- X=1\\ 2 RUN=lbrun\\ -H\\ h2\n"


def test_a_caller_can_ask_for_more_jobs_there(lab, tree):
    run = "RUN=lbrun -H h2 $(MAKE) -j2 -f inner; :"
    result = lab.run("h1", "make", "-j2", "sub", run, cwd=tree)
    assert (result.returncode, "warning" in result.stderr) == (0, False), result.stderr

"""lbrun inside what lbrun placed: each level as if it had been typed on the host it runs on."""

import os
import shutil
import signal
import subprocess
from functools import partial

import pytest
from cluster import FAST, Lab
from contract import assert_gone, assert_one_line, bounded, numbers_in, shell_status

# A command that waits for room which only an outer level could free gives up soon.
LAB = partial(Lab.up, 3, settings=(*FAST, "lim.hold_limit_s=2.0"))


# The options of each lbrun of a chain, and the host and origin of the last.
CHAINS = {
    "two hosts": ((("-H", "h2"), ("-H", "h3")), "h3", "h2"),
    "three hosts": ((("-H", "h2"), ("-H", "h3"), ("-H", "h2")), "h2", "h3"),
    "back home": ((("-H", "h2"), ("-H", "h1")), "h1", "h2"),
    "round and home": ((("-H", "h2"), ("-H", "h3"), ("-H", "h1")), "h1", "h3"),
    "stays there": ((("-H", "h2"), ("--local",)), "h2", "h2"),
    "there again": ((("-H", "h2"), ("-H", "h2")), "h2", "h2"),
    "from here": ((("--local",), ("-H", "h2")), "h2", "h1"),
    "all here": ((("--local",), ("--local",), ("--local",)), "h1", "h1"),
    "asked, then told": (((), (), ("-H", "h3")), "h3", None),
    "never where it is": ((("-H", "h2"), ("--remote", "-x", "h1")), "h3", "h2"),
}
chains = pytest.mark.parametrize(("chain", "host", "origin"), CHAINS.values(), ids=CHAINS)

# The options of each lbrun of a chain that passes through several levels.
AWAY = (("-H", "h2"), ("-H", "h3"))


def words(chain, *command):
    """lbrun OPTIONS lbrun OPTIONS … COMMAND."""
    return [word for options in chain for word in ("lbrun", *options)] + list(map(str, command))


@chains
def test_each_level_knows_where_it_is(lab, chain, host, origin):
    result = lab.run("h1", *words(chain, "env"))
    assert (result.returncode, result.stderr) == (0, "")
    seen = dict(line.split("=", 1) for line in result.stdout.splitlines() if line[:4] == "LBD_")
    assert seen["LBD_HOST"] == host
    assert origin in (None, seen["LBD_ORIGIN"])
    assert seen["LBD_JOB_ID"].startswith(seen["LBD_ORIGIN"])


@chains
def test_streams_and_status_pass_every_level(lab, chain, host, origin):
    script = "cat; echo to-stderr >&2; exit 7"
    data = bytes(range(256)) * 1000
    result = lab.run("h1", *words(chain, "sh", "-c", script), input=data, text=False)
    assert (result.returncode, result.stderr) == (7, b"to-stderr\n")
    assert result.stdout == data


@pytest.mark.parametrize(("ending", "status"), [("exit 125", 125), ("kill -TERM $$", 143),
                                                ("kill -KILL $$", 137), ("exit 0", 0)])  # fmt: skip
def test_an_ending_is_the_same_after_two_hosts(lab, ending, status):
    result = lab.run("h1", *words(AWAY, "sh", "-c", ending))
    assert (shell_status(result.returncode), result.stderr) == (status, "")


def test_a_failure_of_the_inner_one_is_reported_once(lab):
    result = lab.run("h1", *words([("-H", "h2"), ("-H", "h9")], "true"))
    assert (result.returncode, result.stdout) == (125, "")
    assert_one_line(result.stderr, "lbrun", "h9")
    result = lab.run("h1", *words(AWAY, "/no/such/command"))
    assert (result.returncode, result.stdout) == (127, "")
    assert_one_line(result.stderr, "lbrun", "/no/such/command")


def test_surroundings_pass_every_level(lab, tmp_path):
    chain = (("-H", "h2", "-e", "FIRST=one"), ("-H", "h3", "-e", "SECOND=two words"))
    script = 'pwd; umask; echo "$FIRST, $SECOND, $THIRD"; printf "%s\n" "$@"'
    arguments = ["", "two words", "*", "--", "-H"]
    result = lab.run(
        "h1", "sh", "-c", 'umask 027; exec "$@"', "sh",
        *words(chain, "sh", "-c", script, "sh", *arguments), cwd=tmp_path, env={"THIRD": "3"},
    )  # fmt: skip
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        str(tmp_path), "0027", "one, two words, 3", *arguments,
    ]  # fmt: skip


def test_every_level_is_a_job_of_its_own(lab):
    inner = "lbrun -H h3 --name inner-level sh -c 'echo $LBD_JOB_ID'"
    script = f"echo $LBD_JOB_ID; {inner}; echo $LBD_JOB_ID"
    result = lab.run("h1", "lbrun", "-H", "h2", "--name", "outer-level", "sh", "-c", script)
    outer, inside, outer_again = result.stdout.split()
    assert outer == outer_again != inside
    jobs = {job["id"]: job for job in lab.lbctl_json("h2", "jobs", "--all")}
    shown = [(jobs[key]["name"], jobs[key]["origin"], jobs[key]["host"]) for key in (outer, inside)]
    assert shown == [("outer-level", "h1", "h2"), ("inner-level", "h2", "h3")]


@pytest.mark.parametrize("options", [(), ("-H", "h2"), ("--remote",), ("--local",)])
@pytest.mark.parametrize("levels", [3, 6])
def test_lbrun_lbrun_lbrun(lab, options, levels):
    result = lab.run("h1", *words([options] + [()] * (levels - 1), "sh", "-c", "exit 3"))
    assert (result.returncode, result.stdout, result.stderr) == (3, "", "")


@pytest.mark.parametrize("options", [(), ("--local",), ("--remote",)])
def test_endless_levels_come_to_an_end(lab, options):
    """As many levels as anybody could mean work; a senseless number ends with one line."""
    result = lab.run("h1", *words([options] * 100, "true"))
    assert (result.returncode, result.stdout) == (125, "")
    assert_one_line(result.stderr)
    assert not lab.jobs_alive()


def test_slots_held_by_outer_levels_do_not_block_inner_ones_for_ever(lab):
    """Each level waits for the one inside it, so the innermost runs, or is refused in one line."""
    slots = lab.ask("h2", "lbm", "status")["slots"]["total"]
    result = lab.run("h1", *words(AWAY * (slots + 1), "echo", "ran"))
    if result.returncode == 125:
        assert_one_line(result.stderr)
    else:
        assert (result.returncode, result.stdout, result.stderr) == (0, "ran\n", "")


def test_a_command_that_has_moved_twice_stays(lab):
    """lbrun inside lbrun cannot be passed to and fro, whatever the load."""
    lab.run("h1", "lbctl", "param", "local_threshold", "0", check=True)
    lab.run("h1", "lbctl", "param", "min_gain", "0", check=True)
    try:
        for _ in range(5):
            script = "lbrun sh -c 'lbrun sh -c \"echo \\$LBD_HOST\"'"
            result = lab.run("h1", *words(AWAY, "sh", "-c", script))
            assert (result.returncode, result.stdout, result.stderr) == (0, "h3\n", "")
    finally:
        lab.run("h1", "lbctl", "param", "local_threshold", "0.7", check=True)
        lab.run("h1", "lbctl", "param", "min_gain", "0.1", check=True)


def test_commands_started_by_a_moved_command_are_spread_again(lab, tmp_path):
    each = f'echo $LBD_HOST >{tmp_path}/$1.part; mv {tmp_path}/$1.part {tmp_path}/$1; read x <"$2"'
    script = 'for i in 1 2 3 4 5 6; do lbrun sh -c "$1" sh $i "$2" & done; wait'
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    outer = ("lbrun", "-H", "h2", "sh", "-c", script, "sh", each, gate)
    with lab.popen("h1", *outer) as job, bounded(job, 25):
        lab.wait_until(lambda: len(list(tmp_path.glob("[1-6]"))) == 6, "all six run", 20)
        opened = os.open(gate, os.O_RDWR)
        os.write(opened, b"\n" * 6)
        assert job.wait(20) == 0
        os.close(opened)
    hosts = [(tmp_path / str(number)).read_text().strip() for number in range(1, 7)]
    assert len(set(hosts)) >= 2, hosts


# Ends


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_the_end_of_the_outermost_ends_all(lab, number, tmp_path):
    pids = tmp_path / "pids"
    script = f"echo $$ >>{pids}; sleep 600 & echo $! >>{pids}; wait"
    with lab.popen("h1", *words(AWAY, "sh", "-c", script)) as job, bounded(job, 40):
        found = lab.wait_until(lambda: numbers_in(pids, 2), "the inner command runs")
        job.send_signal(number)
        assert shell_status(job.wait(30)) == 128 + number
    assert_gone(found)


def test_a_time_limit_of_the_outermost_ends_all(lab, tmp_path):
    pids = tmp_path / "pids"
    chain = (("-H", "h2", "--timeout", "2"), ("-H", "h3"))
    result = lab.run("h1", *words(chain, "sh", "-c", f"echo $$ >{pids}; exec sleep 600"))
    assert result.returncode == 124
    assert_one_line(result.stderr, "lbrun", "2 s")
    assert_gone(numbers_in(pids, 0) or [])


# A script that takes the place of a program


def put_shim(directory, name, text):
    directory.mkdir(exist_ok=True)
    shim = directory / name
    shim.write_text(f"#!/bin/sh\n{text}\n")
    shim.chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}"}


def path_with(lab, environment):
    return {"PATH": f"{environment['PATH'].partition(':')[0]}:{lab.environment('h1')['PATH']}"}


@pytest.mark.parametrize("inside", ["", "-H h2", "--remote", "--local"])
def test_a_script_that_calls_lbrun_of_its_own_name(lab, inside, tmp_path):
    environment = put_shim(tmp_path / "bin", "sort", f'exec lbrun {inside} sort "$@"')
    for first in (("sort",), ("lbrun", "sort"), ("lbrun", "-H", "h2", "sort")):
        result = lab.run("h1", *first, env=path_with(lab, environment), timeout=40)
        assert (result.returncode, result.stdout) == (125, "")
        assert_one_line(result.stderr)
    assert not lab.jobs_alive()


@pytest.mark.parametrize("inside", ["", "-H h3", "--remote", "--local"])
def test_a_script_that_calls_the_real_program(lab, inside, tmp_path):
    real = shutil.which("sort")
    environment = put_shim(tmp_path / "bin", "sort", f'exec lbrun {inside} {real} "$@"')
    for first in (("sort",), ("lbrun", "sort"), ("lbrun", "-H", "h2", "sort")):
        result = lab.run("h1", *first, "-r", input="a\nc\nb\n", env=path_with(lab, environment))
        assert (result.returncode, result.stdout, result.stderr) == (0, "c\nb\na\n", "")


MAKEFILE = """
OBJECTS = main.o p1.o p2.o p3.o p4.o p5.o p6.o
program: $(OBJECTS)
\t$(CC) -o $@ $(OBJECTS)
%.o: %.c
\t$(CC) -c -o $@ $<
"""


@pytest.mark.parametrize("outside", [(), ("-H", "h2"), ("--remote",)])
def test_make_inside_lbrun_with_lbrun_before_the_compiler(lab, outside, tmp_path):
    if not (shutil.which("make") and shutil.which("gcc")):
        pytest.skip("make and gcc are needed")
    names = [f"p{number}" for number in range(1, 7)]
    for number, name in enumerate(names):
        (tmp_path / f"{name}.c").write_text(f"int {name}(void) {{ return {number}; }}\n")
    calls = " + ".join(f"{name}()" for name in names)
    declared = "".join(f"int {name}(void);\n" for name in names)
    (tmp_path / "main.c").write_text(f"{declared}int main(void) {{ return {calls}; }}\n")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    make = ("lbrun", *outside, "make", "-s", "-j4", "CC=lbrun gcc")
    result = lab.run("h1", *make, cwd=tmp_path, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert subprocess.run([tmp_path / "program"], timeout=120, check=False).returncode == 15
    (tmp_path / "p3.c").write_text("int p3(void) { nonsense; }\n")
    result = lab.run("h1", *make, cwd=tmp_path, timeout=60)
    assert result.returncode == 2
    assert "p3.c" in result.stderr

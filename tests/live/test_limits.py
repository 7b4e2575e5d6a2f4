"""What commands may use, each alone and all together, and how lbd reports a breach."""

import functools
import glob
import os
import sys

import pytest

from lbd.keeper.limits.cgroups import name_of
from tests.live.cluster import FAST

PYTHON = (sys.executable, "-IS", "-c")
HUNGRY = "b = bytearray(300 << 20); print(len(b))"
MIB = 1 << 20


@pytest.fixture
def limits(reloaded):
    """limits(key=value, …): sets h2's limits."""
    return functools.partial(reloaded, "limits")


def ways(lab):
    """How h2 enforces each limit: {"memory": "cgroup1", …}."""
    told = lab.ask("h2", "lbm", "status")["limits"]
    return dict(way.split("=") for way in told.split())


def need_cgroup(lab, controller):
    if not ways(lab)[controller].startswith("cgroup"):
        give_up = pytest.fail if os.environ.get("CI") and os.geteuid() == 0 else pytest.skip
        give_up(f"no {controller} cgroup can be written here")


def on_h2(lab, *command):
    return lab.run("h1", "lbrun", "-H", "h2", *command)


def shell_status(lab, command):
    """The exit status as a shell sees it."""
    return lab.run("h1", "sh", "-c", f"{command}; echo $?").stdout.split()[-1]


def test_over_its_memory(two):
    need_cgroup(two, "memory")
    result = on_h2(two, "--mem", "100M", *PYTHON, HUNGRY)
    assert (result.returncode, result.stdout) == (-9, "")
    assert result.stderr == "lbrun: h2: killed: over its memory limit of 100.0M\n"
    program = f"lbrun -H h2 --mem 100M {sys.executable} -IS -c '{HUNGRY}' 2>&1"
    assert shell_status(two, program) == "137"


def test_a_child_over_the_memory_of_the_command(two):
    need_cgroup(two, "memory")
    script = f"{sys.executable} -IS -c '{HUNGRY}' || exit 3"
    result = on_h2(two, "--mem", "100M", "sh", "-c", script)
    assert result.returncode == -9
    assert "over its memory limit of 100.0M" in result.stderr


def test_a_command_that_succeeds_without_a_child_that_was_over_its_memory(two):
    """It had the answer of a run of which half was missing, and no word of that."""
    need_cgroup(two, "memory")
    result = on_h2(two, "--mem", "100M", "sh", "-c", f"{sys.executable} -IS -c '{HUNGRY}'; :")
    killed = "killed: over its memory limit of 100.0M\n"
    if result.returncode:  # cgroup 2 kills them together
        assert (result.returncode, result.stderr) == (-9, f"lbrun: h2: {killed}")
    else:
        assert result.stderr.endswith(f"lbrun: h2: one of the command's processes was {killed}")


def test_the_owner_allows_less(two, limits):
    need_cgroup(two, "memory")
    limits(job_memory_bytes=100 * MIB)
    for options in ((), ("--mem", "1G")):
        result = on_h2(two, *options, *PYTHON, HUNGRY)
        assert result.returncode == -9
        assert "over its memory limit of 100.0M (limits.job_memory_bytes)" in result.stderr
    assert on_h2(two, *PYTHON, "print(1)").stdout == "1\n"


def test_all_commands_together(two, limits):
    need_cgroup(two, "memory")
    limits(memory_bytes=100 * MIB)
    result = on_h2(two, *PYTHON, HUNGRY)
    assert result.returncode == -9
    assert "(limits.memory_bytes)" in result.stderr


def test_processes(two, limits):
    need_cgroup(two, "pids")
    limits(job_processes=5)
    script = "for i in 1 2 3 4 5 6 7 8; do sleep 1 & done; wait"
    result = on_h2(two, "sh", "-c", script)
    assert result.returncode != 0
    assert "fork" in result.stderr.lower()
    assert on_h2(two, "sh", "-c", "sleep 0 & sleep 0 & wait").returncode == 0


def test_cores(two, limits):
    """A busy loop gets no more than its share of wall time."""
    need_cgroup(two, "cpu")
    limits(cpus=0.2)
    busy = (
        "import time, os\nbegan = time.monotonic()\n"
        "while time.monotonic() - began < 1.5: pass\n"
        "used = sum(os.times()[:2]); print(used / (time.monotonic() - began) < 0.5)"
    )
    assert on_h2(two, *PYTHON, busy).stdout == "True\n"


def test_weight(two, limits):
    limits(cpu_weight=20)
    result = on_h2(two, "sh", "-c", "nice; cat /proc/self/cgroup")
    nice, *groups = result.stdout.splitlines()
    if ways(two)["cpu"] == "nice":
        assert int(nice) > os.nice(0)
    else:
        assert int(nice) == os.nice(0)
        assert any("cpu" in group and "/lbd-" in group for group in groups) or "0::" in groups[-1]


def test_the_doctor_says_how_limits_are_enforced(two):
    result = two.run("h2", "lbctl", "doctor", "--json")
    assert f"memory by {ways(two)['memory']}" in result.stdout


def test_no_group_is_left(make_lab):
    name = "limits.job_memory_bytes=100000000", "limits.job_processes=50", "limits.cpu_weight=50"
    lab = make_lab(2, settings=(*FAST, *name))
    mine = functools.partial(groups, name_of_h2(lab))
    of_keeper = mine()
    assert of_keeper
    for _ in range(3):
        assert on_h2(lab, "true").returncode == 0
    lab.wait_until(lambda: mine() <= of_keeper, "the groups of jobs are gone", see=mine)
    lab.kill("h2", "lbm", "TERM")
    lab.wait_until(lambda: not mine(), "those of the keeper are gone", see=mine)


def groups(name):
    """The groups of one keeper: those of other tests' keepers come and go meanwhile."""
    return {
        group
        for inside in (name, f"{name}/job-*")
        for group in glob.glob(f"/sys/fs/cgroup/**/{inside}", recursive=True)
        if "/unified/" not in group or "job-" not in group
    }


def name_of_h2(lab):
    """The name under which h2's keeper makes its groups."""
    return name_of(str(lab.paths("h2").run))

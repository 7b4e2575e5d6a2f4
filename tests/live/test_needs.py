"""What a command needs of its host (resources, features, memory), at once and through the queue."""

import os
import signal
from functools import partial

import pytest

from tests.live import restarting
from tests.live.cluster import Lab

SETTINGS = (*restarting.SETTINGS, "dispatch.lease_s=8", "lim.hold_limit_s=60", "lbm.kill_grace_s=4")
SHOW = 'echo "$LBD_HOST $LBD_RESOURCE_GPU $CUDA_VISIBLE_DEVICES"'
# Prints what it was given, and ends once it may.
HOLD = f'{SHOW} >"got.$1.new"; mv "got.$1.new" "got.$1"; until [ -e "end.$1" ]; do sleep 0.05; done'


LAB = partial(
    Lab.up, 2, "none", "--mode", "fcfs",
    "--host-set", "h2:resources.gpu=2", "--host-set", 'h2:host.features=["big"]',
    settings=SETTINGS,
)  # fmt: skip


def run(lab, *words, **options):
    return lab.run("h1", "lbrun", *words, timeout=60, **options)


def used(lab):
    hosts = {host["name"]: host for host in lab.lbctl_json("h1", "status")["hosts"]}
    return hosts["h2"]["resources"]["gpu"]["used"]


@pytest.mark.parametrize("front", ["lbrun", "lbrun-python"])
@pytest.mark.parametrize("queue", [(), ("-q",)])
def test_a_command_runs_where_its_needs_are_met_and_learns_what_it_was_given(lab, front, queue):
    words = (*queue, "--need", "gpu=2", "--feature", "big", "sh", "-c", SHOW)
    assert lab.run("h1", front, *words, timeout=60).stdout == "h2 0,1 0,1\n"
    lab.wait_until(lambda: used(lab) == 0, "nothing is held")
    if queue:
        said = lab.run("h1", "lbctl", "logs", "--daemons", "last", check=True).stdout
        assert "attempt 1: got gpu 0,1" in said


def test_no_resource_is_given_twice_even_across_a_restart_of_the_lbm(lab, tmp_path):
    """A command that runs where it was typed, one from another host and one from the queue share
    two GPUs, two of them at a time; meanwhile the LBM makes way for its successor."""

    def started(name, *words):
        lab.popen(name[:2], "lbrun", *words, "sh", "-c", HOLD, "sh", name, cwd=tmp_path)

    def got(name):
        path = tmp_path / f"got.{name}"
        return lab.wait_until(lambda: path.read_text() if path.exists() else "", name).split()[1]

    started("h2-here", "--need", "gpu")
    got("h2-here")
    started("h1-away", "--need", "gpu")
    assert sorted((got("h2-here"), got("h1-away"))) == ["0", "1"]
    lab.wait_until(  # h1 hears of it in the next period
        lambda: (
            "both gpus in use"
            in lab.run("h1", "lbrun", "--explain", "--need", "gpu", "true", check=True).stdout
        ),
        "both are seen to be taken",
    )
    restarting.restart(lab, "h2")
    started("h1-queued", "-q", "--need", "gpu")
    lab.wait_until(
        lambda: "both gpus in use" in lab.lbctl_json("h1", "job", "last")["reason"], "it waits"
    )
    (tmp_path / "end.h2-here").touch()
    assert got("h1-queued") == got("h2-here")
    for name in ("h1-away", "h1-queued"):
        (tmp_path / f"end.{name}").touch()
    lab.wait_until(lambda: used(lab) == 0, "nothing is held")


STUBBORN = "trap '' TERM; echo $$ >pid.new; mv pid.new pid; while :; do sleep 0.1; done"


def test_resources_of_an_ending_command_are_not_given_again_after_its_lbm_was_killed(lab, tmp_path):
    """The command ignores TERM, so it has its GPUs until its keeper kills it."""
    words = ("--need", "gpu=2", "sh", "-c")
    lab.popen("h1", "lbrun", *words, STUBBORN, cwd=tmp_path)
    path = tmp_path / "pid"
    pid = int(lab.wait_until(lambda: path.read_text() if path.exists() else "", "it runs"))
    os.kill(int((lab.paths("h2").run / "lbm.pid").read_text()), signal.SIGKILL)
    lab.start("h2", "lbm")
    look = f"kill -0 {pid} 2>&1 || true; echo $CUDA_VISIBLE_DEVICES"
    following = run(lab, *words, look)
    assert following.stdout.splitlines()[-1] == "0,1", following.stderr
    assert "o such process" in following.stdout
    lab.wait_until(lambda: used(lab) == 0, "nothing is held")


def test_resources_of_a_command_outside_the_keeper_are_not_given_again_after_an_lbm_was_killed(
    lab, tmp_path
):
    """No keeper knows the command: its client's process has become the command."""
    lab.popen("h2", "lbrun", "--need", "gpu=2", "sh", "-c", HOLD, "sh", "own", cwd=tmp_path)
    lab.wait_until(lambda: (tmp_path / "got.own").exists(), "it runs")
    os.kill(int((lab.paths("h2").run / "lbm.pid").read_text()), signal.SIGKILL)
    lab.start("h2", "lbm")
    lab.popen("h1", "lbrun", "--need", "gpu=2", "sh", "-c", HOLD, "sh", "next", cwd=tmp_path)
    shown = lab.run("h2", "lbrun", "--explain", "--need", "gpu", "true", check=True).stdout
    assert "both gpus in use" in shown
    assert not (tmp_path / "got.next").exists()
    (tmp_path / "end.own").touch()
    lab.wait_until(lambda: (tmp_path / "got.next").exists(), "the next one has its turn")
    (tmp_path / "end.next").touch()
    lab.wait_until(lambda: used(lab) == 0, "nothing is held")


def test_a_hosts_resources_change_without_a_restart(lab):
    def totals():
        hosts = {host["name"]: host for host in lab.lbctl_json("h1", "status")["hosts"]}
        return hosts["h2"]["resources"]["gpu"]["total"], hosts["h2"]["features"]

    config = lab.paths("h2").config
    before = config.read_text()
    config.write_text(before.replace("gpu = 2", "gpu = 3").replace('["big"]', '["big", "new"]'))
    try:
        lab.run("h2", "lbctl", "reload", check=True)
        lab.wait_until(lambda: totals()[0] == 3 and "new" in totals()[1], "h1 has heard of it")
        got = run(lab, "--need", "gpu=3", "--feature", "new", "sh", "-c", SHOW)
        assert got.stdout == "h2 0,1,2 0,1,2\n", got.stderr
    finally:
        config.write_text(before)
        lab.run("h2", "lbctl", "reload", check=True)
    lab.wait_until(lambda: totals()[0] == 2, "as it was")


def test_needs_that_no_host_meets_are_refused_at_once_or_queued_with_a_line(lab):
    now = run(lab, "--need", "gpu=3", "true")
    assert (now.returncode, now.stderr) == (
        125, "lbrun: no suitable host: none has what it needs (h1: no gpu, h2: has 2 gpus, not 3)\n"
    )  # fmt: skip
    queued = run(lab, "-d", "--feature", "huge", "true")
    assert queued.returncode == 0
    assert "h1, h2: no feature huge; it starts once a host has what it needs" in queued.stderr
    for words in (("--need", "gpu=3"), ("--feature", "huge")):
        found = lab.lbctl_json("h1", "predict", *words)
        assert (found["how"], found["choices"]) == (
            "no host that accepts jobs now has what it needs", []
        )  # fmt: skip
    assert lab.lbctl_json("h1", "predict", "--need", "gpu=2")["predicted_wait_s"] == 0
    run(lab, "--need", "gpu=0", "true").stderr.index("an amount must be above 0")
    lab.run("h1", "lbctl", "kill", queued.stdout.strip(), check=True)


def test_the_names_of_resources_are_set_for_all_hosts(lab):
    name = "cluster.resources"
    lab.run("h2", "lbctl", "config", "set", name, '["gpu", "tape"]', "--cluster", check=True)
    try:

        def refusal():
            return run(lab, "-d", "--need", "tapes", "true").stderr

        lab.wait_until(
            lambda: 'did you mean "tape"?' in refusal(), "the dispatcher has it", see=refusal
        )
        assert run(lab, "-q", "--need", "gpu", "true").returncode == 0
        refused = lab.run("h1", "lbctl", "config", "set", "resources.tapes", "1")
        assert (refused.returncode, "(cluster.resources)" in refused.stderr) == (2, True)
    finally:
        lab.run("h1", "lbctl", "config", "set", name, "--unset", "--cluster", check=True)


def test_queued_jobs_wait_for_memory_that_others_were_given(lab, tmp_path):
    total = lab.lbctl_json("h1", "status")["hosts"][1]["memory"]["for_jobs"]
    half = f"{total // 2 >> 20}M"
    words = ("-d", "-H", "h2", "--mem", half, "sh", "-c", HOLD, "sh")
    for name in ("a", "b", "c"):
        run(lab, *words, name, cwd=tmp_path, check=True)
    lab.wait_until(lambda: (tmp_path / "got.b").exists(), "two run")
    lab.wait_until(  # the dispatcher restarts for the setting of the test before
        lambda: "memory free" in lab.lbctl_json("h1", "job", "last")["reason"], "it is said why"
    )
    (tmp_path / "end.a").touch()
    lab.wait_until(lambda: (tmp_path / "got.c").exists(), "the third has its turn")
    (tmp_path / "end.b").touch()
    (tmp_path / "end.c").touch()
    assert lab.run("h1", "lbctl", "wait", "--timeout", "30s", "last", timeout=50).returncode == 0

"""Every algorithm in a lab of real daemons: it moves commands, and is changed while they run."""

import re
import sys
import time
from pathlib import Path

import pytest

from lbd.config import ALGORITHMS

pytestmark = pytest.mark.alone

BUSY = Path(__file__).with_name("busy.py")
BALANCING = [name for name in ALGORITHMS if name != "NOLB"]
WHERE = ("lbrun", "sh", "-c", "echo $LBD_HOST")


@pytest.fixture(scope="module")
def busy_h1(lab):
    """h1 is above its threshold, the others are at rest."""
    lab.run("h1", "lbctl", "param", "local_threshold", "0.1", check=True)
    lab.run("h1", "lbctl", "param", "move_cost_s", "0", check=True)  # `sh -c echo` is short
    with lab.popen("h1", "lbrun", "--local", sys.executable, BUSY, "processes", "2") as job:
        try:
            lab.wait_until(lambda: loads(lab)["h1"] > 0.5, "h1 is seen to be busy", 30)
            yield lab
        finally:
            job.terminate()


def loads(lab):
    return {row["name"]: row["index"] for row in lab.ask("h2", "lim", "status")["hosts"]}


def switch(lab, name):
    lab.run("h3", "lbctl", "algorithm", name, check=True)
    for host in lab.hosts:
        lab.wait_until(
            lambda host=host: lab.lbctl_json(host, "algorithm")["algorithm"] == name,
            f"{host} follows to {name}",
        )


@pytest.mark.parametrize("name", BALANCING)
def test_commands_of_a_busy_host_are_moved(busy_h1, name):
    lab = busy_h1
    switch(lab, name)
    moved = lambda: lab.run("h1", *WHERE, check=True).stdout.strip() in ("h2", "h3")  # noqa: E731
    lab.wait_until(moved, f"{name} moves a command", 30)


def test_predict_keeps_what_is_known_to_be_shorter_than_the_way(busy_h1):
    lab = busy_h1
    switch(lab, "PREDICT")
    lab.run("h1", "lbrun", "--remote", "sh", "-c", "echo", check=True)  # what leaves is measured
    lab.run("h1", "lbctl", "param", "move_cost_s", "60", check=True)
    assert lab.run("h1", *WHERE, check=True).stdout == "h1\n"
    for explain in (("lbctl", "explain"), ("lbrun", "--explain")):
        said = lab.run("h1", *explain, "sh", "-c", "echo", check=True).stdout.splitlines()[0]
        assert re.search(r"runs here, on h1: no-gain \(.*; its CPU time is [0-9.]+ ms", said)
    lab.run("h1", "lbctl", "param", "move_cost_s", "0", check=True)
    assert lab.run("h1", *WHERE, check=True).stdout in ("h2\n", "h3\n")


def test_under_nolb_nothing_is_moved(busy_h1):
    switch(busy_h1, "NOLB")
    assert busy_h1.run("h1", *WHERE, check=True).stdout == "h1\n"


def test_no_command_is_lost_while_the_algorithm_changes(busy_h1):
    lab = busy_h1
    script = "for i in $(seq 40); do lbrun sh -c 'echo $LBD_HOST' || echo failed; done"
    with lab.popen("h1", "sh", "-c", script, stdout=-1, stderr=-1, text=True) as commands:
        for name in (*ALGORITHMS, *reversed(ALGORITHMS)):
            lab.run("h2", "lbctl", "algorithm", name, check=True)
            time.sleep(0.05)
        output, complaints = commands.communicate(timeout=120)
    assert complaints == ""
    places = output.split()
    assert len(places) == 40
    assert set(places) <= set(lab.hosts)

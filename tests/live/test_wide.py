"""`lbrun -n` without the queue: a command that needs several slots of one host."""

import time
from functools import partial

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.contract import assert_one_line, kill_tree

LAB = partial(Lab.up, 3, settings=(*FAST, "lbm.slots=3", "lim.hold_limit_s=1"))


@pytest.fixture
def start(lab):
    """start(host, *words): an lbrun in the background until the test is over."""
    started = []

    def begin(host, *words):
        command = "echo $LBD_HOST $LBD_SLOTS; exec sleep 60"
        started.append(lab.popen(host, "lbrun", *words, "sh", "-c", command, stdout=-1, text=True))
        return started[-1].stdout.readline().split()

    yield begin
    for process in started:
        kill_tree(process.pid)
        process.stdout.close()
        process.wait()
    lab.wait_until(lambda: used(lab) == [0, 0, 0], "all slots are free", 20, lambda: used(lab))


def used(lab):
    return [host["slots"]["used"] for host in lab.lbctl_json("h1", "status")["hosts"]]


def until_known(lab, *slots):
    """Waits until every host shows these numbers of used slots."""
    for name in ("h1", "h2", "h3"):
        lab.wait_until(
            lambda name=name: [host["slots"]["used"]
                               for host in lab.lbctl_json(name, "status")["hosts"]] == list(slots),
            f"{name} knows of {slots}",
        )  # fmt: skip


def slots_seen(lab, *words, host="h1"):
    result = lab.run(host, "lbrun", *words, "sh", "-c", "echo $LBD_HOST $LBD_SLOTS")
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.split()


def test_a_command_has_the_slots_it_asks_for_and_no_other_has_them(lab, start):
    first, slots = start("h1", "--remote", "-n", "2")
    assert (first in ("h2", "h3"), slots) == (True, "2")
    until_known(lab, *(2 if name == first else 0 for name in ("h1", "h2", "h3")))
    second, slots = start("h1", "--remote", "-n", "2")
    assert {first, second} == {"h2", "h3"}
    until_known(lab, 0, 2, 2)
    began_s = time.monotonic()
    result = lab.run("h1", "lbrun", "--remote", "-n2", "true")  # waits for room, and not for ever
    assert (result.returncode, time.monotonic() - began_s > 0.9) == (125, True)
    assert_one_line(result.stderr, "lbrun", "no host had room")
    assert slots_seen(lab, "--remote", "-n", "1-3")[1] == "1"  # what is free of the range


def test_a_command_stays_only_where_it_has_room(lab, start):
    assert slots_seen(lab, "-n", "2-8") == ["h1", "3"]
    assert slots_seen(lab, "-n", "2") == ["h1", "2"]
    assert slots_seen(lab, "--local", "-n", "2")[1] == "2"
    start("h2", "-H", "h1", "-n", "3")
    until_known(lab, 3, 0, 0)
    assert slots_seen(lab, "-n", "2")[0] in ("h2", "h3")


def test_a_command_of_several_slots_takes_its_files_along(lab, work):
    result = lab.run("h1", "lbrun", "-H", "h2", "-n", "2", "--send", "src", "--fetch", "out", "sh",
                     "-c", "cat src/a; echo $LBD_SLOTS > out", cwd=work)  # fmt: skip
    assert (result.returncode, result.stdout, result.stderr) == (0, "a\n", "")
    assert (work / "out").read_text() == "2\n"

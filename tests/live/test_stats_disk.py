"""The disk of a host's accounting is full for a while: what ends meanwhile is recorded later, also
by the next LBM, or else counted for good; and the queue's jobs are listed whatever happens."""

import csv
import shutil

import pytest
from contract import assert_one_line
from restarting import leave
from test_queue_disk import SETTINGS, fill, mounted
from test_stats import restart_lbm, stats

from tests.live.cluster import Lab

NOT_YET = "h2 has not yet recorded 3 commands that ended "


@pytest.fixture(scope="module")
def lab():
    lab = Lab.up(2, "none", "--mode", "fcfs", settings=SETTINGS)
    yield lab
    lab.down()


@pytest.fixture(scope="module")
def disk(lab, tmp_path_factory):
    """A small disk for the state of h2's daemons."""
    state, copy = lab.paths("h2").state, tmp_path_factory.mktemp("state") / "copy"
    leave(lab, "h2")
    shutil.copytree(state, copy)
    with mounted(state):
        shutil.copytree(copy, state, dirs_exist_ok=True)
        lab.start("h2", "lbm")
        is_there(lab)
        yield state


def is_there(lab):
    lab.wait_until(lambda: lab.ask("h2", "lbm", "status"), "the LBM of h2 is there")


def end_some(lab):
    """Ends two commands typed on h2 and a queued job there; returns the job's id."""
    for _ in range(2):
        lab.run("h2", "lbrun", "--local", "true", check=True)
    words = ("-d", "-H", "h2", "-o", "/dev/null")  # there may be no room for its output
    name = lab.run("h1", "lbrun", *words, "sleep", "0.2", check=True).stdout.strip()
    lab.run("h1", "lbctl", "wait", "--timeout", "20s", name, check=True)
    return name


def listed(lab, *words):
    result = lab.run("h1", "lbctl", "history", "--csv", *words, check=True)
    return [row["id"] for row in csv.DictReader(result.stdout.splitlines())], result.stderr


def restart(lab):
    leave(lab, "h2")
    lab.start("h2", "lbm")
    is_there(lab)


def test_what_ended_meanwhile_is_recorded_by_the_next_lbm(lab, disk):
    end_some(lab)
    before = stats(lab)["jobs"]
    fill(disk)
    try:
        restart(lab)  # without its log, where there was room for some more
        fill(disk)
        name = end_some(lab)
        assert_one_line(lab.run("h1", "lbctl", "stats").stderr, "lbctl", NOT_YET)
        ids, said = listed(lab, "--all")
        assert ids.count(name) == 1
        assert NOT_YET in said
        restart(lab)
    finally:
        (disk / "filler").unlink()
    lab.wait_until(lambda: stats(lab)["jobs"] == before + 3, "they are on record")
    assert (stats(lab)["not_recorded"], stats(lab)["gaps"]) == (0, [])
    ids, said = listed(lab, "--all")
    assert (ids.count(name), said) == (1, "")


def test_what_was_lost_with_an_lbm_that_was_killed_is_counted_for_good(lab, disk):
    before = stats(lab)["jobs"]
    fill(disk)
    try:
        restart(lab)
        fill(disk)
        name = end_some(lab)
        lab.run("h1", "lbctl", "stats")  # all that has ended is tried to be written
        lab.kill("h2", "lbm")
        lab.wait_until(lambda: lab.pids()["h2"]["lbm"] is None, "the LBM of h2 has ended")
    finally:
        (disk / "filler").unlink()
    lab.start("h2", "lbm")
    is_there(lab)
    for _ in range(2):
        result = lab.run("h1", "lbctl", "stats", check=True)
        assert result.stderr.startswith("lbctl: h2 could not record 3 commands that ended ")
        assert stats(lab)["not_recorded"] == 3
        assert stats(lab)["jobs"] == before
        ids, said = listed(lab, "--all")
        assert ids.count(name) == 1
        in_list, lost = said.splitlines()
        assert in_list.endswith("not in `lbctl stats`: 1 queued job that no host began or recorded")
        assert lost.startswith("lbctl: h2 could not record 3 commands that ended ")
        restart_lbm(lab, "h2")

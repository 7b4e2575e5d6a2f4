"""The queue while daemons of its hosts are started again: what was told them meanwhile counts."""

import os
import signal
import time

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.restarting import leave, restart
from tests.live.test_queue import job, submit, until_state, wait

SETTINGS = (*FAST, "dispatch.lease_s=20", "lbm.slots=2")


@pytest.fixture(scope="module")
def lab():
    lab = Lab.up(2, "none", "--mode", "fcfs", settings=SETTINGS)
    yield lab
    lab.down()


def test_an_lbm_that_is_restarted_goes_on_with_what_runs(lab, tmp_path):
    script = "echo begin >>did; sleep 2; echo end >>did; echo printed"
    name = submit(lab, "-H", "h2", "sh", "-c", script, cwd=tmp_path)
    lab.wait_until((tmp_path / "did").exists, "it runs")
    restart(lab, "h2")
    assert wait(lab, name) == 0
    assert (tmp_path / "did").read_text() == "begin\nend\n"
    assert lab.run("h1", "lbctl", "logs", name).stdout == "printed\n"
    assert [one["state"] for one in job(lab, name)["attempts"]] == ["done"]


def test_who_does_not_heed_term_is_killed_also_by_the_next_lbm(lab, tmp_path):
    script = "trap ': >told' TERM; : >began; while :; do sleep 0.05; done"
    name = submit(lab, "-H", "h2", "sh", "-c", script, cwd=tmp_path)
    lab.wait_until((tmp_path / "began").exists, "it has begun")
    lab.run("h1", "lbctl", "kill", name, check=True)
    lab.wait_until((tmp_path / "told").exists, "it was told to end")
    restart(lab, "h2")
    until_state(lab, name, "cancelled")
    assert job(lab, name)["exit_status"] == 137


@pytest.mark.parametrize("verb", ["kill", "requeue"])
def test_who_is_ended_while_the_lbm_is_restarted_ends(lab, tmp_path, verb):
    script = ": >began.$LBD_ATTEMPT; sleep 60"
    name = submit(lab, "-H", "h2", "sh", "-c", script, cwd=tmp_path)
    lab.wait_until((tmp_path / "began.1").exists, "it has begun")
    leave(lab, "h2")
    try:
        lab.run("h1", "lbctl", verb, name, check=True)
    finally:
        lab.start("h2", "lbm")
    if verb == "requeue":
        lab.wait_until((tmp_path / "began.2").exists, "it has begun again")
        lab.run("h1", "lbctl", "kill", name, check=True)
    until_state(lab, name, "cancelled")


def test_the_dispatcher_is_killed_and_nothing_is_lost(lab, tmp_path):
    """What runs runs on, what waits is started, and each once."""
    script = "echo $$ >> $LBD_ARRAY_INDEX; sleep 1; echo end >> $LBD_ARRAY_INDEX"
    names = submit(lab, "--array", "1-8", "sh", "-c", script, cwd=tmp_path)
    lab.wait_until(lambda: len(list(tmp_path.iterdir())) == 4, "four run")
    lab.kill("h1", "dispatcher")
    lab.start("h1", "dispatcher")
    assert wait(lab, names) == 0
    for path in tmp_path.iterdir():
        lines = path.read_text().splitlines()
        assert (len(lines), lines[1]) == (2, "end"), path
    assert len(list(tmp_path.iterdir())) == 8


@pytest.mark.parametrize(("verb", "state"), [("kill", "cancelled"), ("requeue", "running")])
def test_what_a_job_was_ended_for_outlives_the_dispatcher(lab, tmp_path, verb, state):
    """It does not heed TERM, so it ends after the grace, when nobody is there to hear of it."""
    script = "trap '' TERM; : >began.$LBD_ATTEMPT; while :; do sleep 0.1; done"
    name = submit(lab, "sh", "-c", script, cwd=tmp_path)
    lab.wait_until((tmp_path / "began.1").exists, "it has begun")
    dispatcher = lab.pids()["h1"]["dispatcher"]
    lab.run("h1", "lbctl", verb, name, check=True)
    os.kill(dispatcher, signal.SIGKILL)
    try:
        lab.wait_until(lambda: not lab.pids()["h1"]["dispatcher"], "it is gone")
        time.sleep(1.0)
    finally:
        lab.start("h1", "dispatcher")
    if verb == "requeue":
        lab.wait_until((tmp_path / "began.2").exists, "it has begun again")
    until_state(lab, name, state)
    first = job(lab, name)["attempts"][0]
    assert (first["state"], first["exit_status"]) == ("cancelled", 137)
    if verb == "requeue":
        lab.run("h1", "lbctl", "kill", name, check=True)
        until_state(lab, name, "cancelled")


def test_a_new_dispatcher_predicts_from_what_has_ended_however_many_wait(lab):
    assert wait(lab, submit(lab, "--array", "1-8", "true")) == 0
    words = ("lbrun", "-d", "-H", "h9", "--array", "1-1100", "true")  # no host is called so
    waiting = lab.run("h2", *words, check=True).stdout.strip()
    lab.kill("h1", "dispatcher")
    lab.start("h1", "dispatcher")
    lab.wait_until(lambda: not lab.run("h2", "lbctl", "job", "last").returncode, "it answers")
    running = submit(lab, "--array", "1-5", "sleep", "60")
    last = running.partition("-")[2]
    predicted = lab.wait_until(lambda: job(lab, last)["predicted_by"], "it is predicted")
    lab.run("h1", "lbctl", "kill", waiting, check=True)
    lab.run("h1", "lbctl", "kill", running, check=True)
    assert "jobs that ended" in predicted


def test_who_could_begin_nowhere_may_begin_there_once_it_is_queued_anew(lab, tmp_path):
    name = submit(lab, "./made-later", cwd=tmp_path)
    assert wait(lab, name) == 1
    first, *_, last = (one["host"] for one in job(lab, name)["attempts"])
    assert first != last
    (tmp_path / "made-later").write_text("#!/bin/sh\necho $LBD_HOST\n")
    (tmp_path / "made-later").chmod(0o755)
    lab.run("h1", "lbctl", "drain", last, check=True)
    try:
        lab.run("h2", "lbctl", "requeue", name, check=True)
        assert wait(lab, name) == 0
    finally:
        lab.run("h1", "lbctl", "undrain", last, check=True)
        lab.run("h1", "lbrun", "-q", "-H", last, "true", check=True)  # once it takes jobs again
    assert lab.run("h1", "lbctl", "logs", name).stdout == f"{first}\n"


def test_who_follows_its_output_sees_all_of_it_while_its_host_restarts(lab, tmp_path):
    script = "echo before; until [ -e go ]; do sleep 0.05; done; echo after"
    name = submit(lab, "-H", "h2", "sh", "-c", script, cwd=tmp_path)
    following = lab.popen("h1", "lbctl", "logs", "-f", name, stdout=-1, stderr=-1)
    try:
        assert following.stdout.readline() == b"before\n"
        leave(lab, "h2")
        try:
            of_now = lab.run("h1", "lbctl", "logs", name)  # who does not follow hears at once
        finally:
            lab.start("h2", "lbm")
        assert (of_now.returncode, len(of_now.stderr.splitlines())) == (1, 1)
        (tmp_path / "go").touch()
        rest, _ = following.communicate(timeout=20)
    finally:
        following.kill()
        following.wait()
    assert (following.returncode, rest) == (0, b"after\n")


def test_a_signal_that_cannot_be_sent_is_not_said_to_be(lab):
    name = submit(lab, "-H", "h2", "sleep", "60")
    until_state(lab, name, "running")
    leave(lab, "h2")
    try:
        told = lab.run("h1", "lbctl", "kill", "-s", "USR1", name)
    finally:
        lab.start("h2", "lbm")
    away = f"lbctl: job {name} was not signalled: h2 is out of contact\n"
    assert (told.returncode, told.stderr) == (1, away)
    lab.run("h1", "lbctl", "kill", name, check=True)
    until_state(lab, name, "cancelled")


def test_a_dispatcher_that_was_just_started_is_found_at_once(lab):
    """However long gRPC has been in vain, and so pauses before it tries again."""
    lab.kill("h1", "dispatcher")
    refused = lab.run("h2", "lbrun", "-d", "true")
    assert refused.returncode == 125
    assert refused.stderr == "lbrun: the dispatcher on h1 cannot be reached\n"
    time.sleep(5)
    lab.start("h1", "dispatcher")
    assert wait(lab, submit(lab, "true")) == 0

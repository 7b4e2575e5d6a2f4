"""The queue while daemons of its hosts restart: orders that arrive meanwhile still take effect."""

import subprocess
import time
from functools import partial

import pytest

from tests.live import restarting
from tests.live.cluster import Lab
from tests.live.queued_jobs import job, submit
from tests.live.restarting import leave, restart
from tests.live.test_queue import until_state, wait
from tests.live.test_queue_faults import COUNTED, check_counts

# Keepers and leases are both patient: a busy machine may take long to start an LBM.
SETTINGS = (*restarting.SETTINGS, "dispatch.lease_s=40", "lbm.slots=2")


LAB = partial(Lab.up, 2, "none", "--mode", "fcfs", settings=SETTINGS)


def test_a_job_that_ignores_term_is_killed_even_by_the_next_lbm(lab, tmp_path):
    script = "trap ': >told' TERM; : >began; while :; do sleep 0.05; done"
    name = submit(lab, "-H", "h2", "sh", "-c", script, cwd=tmp_path)
    lab.wait_until((tmp_path / "began").exists, "it has begun")
    lab.run("h1", "lbctl", "kill", name, check=True)
    lab.wait_until((tmp_path / "told").exists, "it was told to end")
    restart(lab, "h2")
    until_state(lab, name, "cancelled")
    assert job(lab, name)["exit_status"] == 137
    past = lab.lbctl_json("h1", "history", "--state", "cancelled")
    assert name in {str(one["id"]) for one in past}


@pytest.mark.parametrize("verb", ["kill", "requeue"])
def test_a_job_killed_while_its_lbm_restarts_ends(lab, tmp_path, verb):
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


def test_a_new_dispatcher_predicts_from_ended_jobs_however_many_wait(lab):
    assert wait(lab, submit(lab, "--array", "1-8", "true")) == 0
    words = ("lbrun", "-d", "-H", "h9", "--array", "1-1100", "true")  # no host has this name
    waiting = lab.run("h2", *words, check=True).stdout.strip()
    lab.kill("h1", "dispatcher")
    lab.start("h1", "dispatcher")
    lab.wait_until(lambda: not lab.run("h2", "lbctl", "job", "last").returncode, "it answers")
    running = submit(lab, "--array", "1-5", "sleep", "60")
    last = f"{running}_5"
    predicted = lab.wait_until(lambda: job(lab, last)["predicted_by"], "it is predicted")
    lab.run("h1", "lbctl", "kill", waiting, check=True)
    lab.run("h1", "lbctl", "kill", running, check=True)
    assert "ended jobs" in predicted


def restart_dispatcher(lab):
    lab.kill("h1", "dispatcher")
    lab.start("h1", "dispatcher")


def all_done(lab, name, timeout="120s"):
    waited = lab.run("h1", "lbctl", "wait", "--timeout", timeout, name, timeout=180)
    assert waited.returncode == 0, lab.run("h1", "lbctl", "job", name).stdout


def test_a_gang_whose_start_was_interrupted_starts_as_a_whole_and_once(lab, tmp_path):
    """Of two tasks one is held, and the other's LBM is stopped, as the dispatcher is killed."""
    (tmp_path / "counted.sh").write_text(COUNTED)
    lab.kill("h2", "lbm", "STOP")
    try:
        words = ("-d", "-n", "2", "--array", "1-2", "--gang", "sh", "counted.sh", "0.2")
        gang = lab.run("h1", "lbrun", *words, cwd=tmp_path, check=True).stdout.strip()
        tasks = [f"{gang}_1", f"{gang}_2"]

        def begins():
            reasons = [job(lab, name)["reason"] or "" for name in tasks]
            return any("whole gang is ready" in one or "together" in one for one in reasons)

        lab.wait_until(begins, "it is held, or waits as a whole", 60)
        lab.kill("h1", "dispatcher")
    finally:
        lab.kill("h2", "lbm", "CONT")
    lab.start("h1", "dispatcher")
    all_done(lab, gang)
    check_counts(tmp_path, tasks)
    attempts = [job(lab, name)["attempts"] for name in tasks]
    for name, own in zip(tasks, attempts, strict=True):
        assert [one["state"] for one in own].count("done") == 1
        begun = (tmp_path / f"did.{name}").read_text()
        assert begun == f"begin {own[-1]['number']}\nend {own[-1]['number']}\n"
    assert len({own[-1]["number"] for own in attempts}) == 1
    assert {own[-1]["host"] for own in attempts} == {"h1", "h2"}


def test_an_array_keeps_its_target_and_runs_each_task_once(lab, tmp_path):
    """Its first task has ended and others run when the dispatcher is killed."""
    waits = '[ "$LBD_ARRAY_INDEX" = 1 ] || until [ -e go ]; do sleep 0.05; done'
    (tmp_path / "counted.sh").write_text(COUNTED.replace('sleep "$1"', waits))
    words = ("--array", "1-12", "--target", "60s", "--work", "5s", "sh", "counted.sh")
    array = submit(lab, *words, cwd=tmp_path)
    until_state(lab, f"{array}_1", "done")
    before = job(lab, f"{array}_12")
    assert before["state"] == "pending"
    restart_dispatcher(lab)
    after = lab.wait_until(lambda: job(lab, f"{array}_12"), "it answers")
    assert after["target"]["by"] == before["target"]["by"]
    (tmp_path / "go").touch()
    all_done(lab, array)
    tasks = [f"{array}_{number}" for number in range(1, 13)]
    check_counts(tmp_path, tasks)
    for name in tasks:
        assert (tmp_path / f"did.{name}").read_text() == "begin 1\nend 1\n"
        assert [one["state"] for one in job(lab, name)["attempts"]] == ["done"]


def test_a_job_that_no_host_could_start_may_start_once_queued_again(lab, tmp_path):
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
        lab.run("h1", "lbrun", "-q", "-H", last, "true", check=True)  # until it takes jobs again
    assert lab.run("h1", "lbctl", "logs", name).stdout == f"{first}\n"


def test_a_client_that_follows_the_output_sees_all_of_it_while_the_host_restarts(lab, tmp_path):
    script = "echo before; until [ -e go ]; do sleep 0.05; done; echo after"
    name = submit(lab, "-H", "h2", "sh", "-c", script, cwd=tmp_path)
    following = lab.popen("h1", "lbctl", "logs", "-f", name, stdout=-1, stderr=-1)
    try:
        assert following.stdout.readline() == b"before\n"
        leave(lab, "h2")
        try:
            of_now = lab.run("h1", "lbctl", "logs", name)  # this answers at once
        finally:
            lab.start("h2", "lbm")
        assert (of_now.returncode, len(of_now.stderr.splitlines())) == (1, 1)
        (tmp_path / "go").touch()
        rest, remarks = following.communicate(timeout=60)
    finally:
        following.kill()
        following.wait()
    found = following.returncode, rest
    assert found == (0, b"after\n"), (remarks, job(lab, name)["attempts"])


def test_a_signal_that_cannot_be_sent_is_not_reported_as_sent(lab):
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


def test_a_job_of_a_killed_lbm_starts_again_once_the_next_has_seen_its_end(lab, tmp_path):
    name = submit(lab, "-H", "h2", "sh", "-c", ": >began.$LBD_ATTEMPT; sleep 60", cwd=tmp_path)
    lab.wait_until((tmp_path / "began.1").exists, "it has begun")
    lab.kill("h2", "lbm")
    lab.start("h2", "lbm")
    lab.wait_until((tmp_path / "began.2").exists, "it has begun again", 60)
    lab.run("h1", "lbctl", "kill", name, check=True)
    until_state(lab, name, "cancelled")
    found = lab.lbctl_json("h1", "job", name)["attempts"][0]["reason"]
    assert found == "h2 no longer has it: its LBM was killed or lost contact; the job begins again"


def test_a_dispatcher_that_was_just_started_is_found_at_once(lab):
    """However long gRPC's attempts have failed, after which it pauses before the next."""
    lab.kill("h1", "dispatcher")
    refused = lab.run("h2", "lbrun", "-d", "true")
    assert refused.returncode == 125
    may_be = "the job may be in the queue all the same: see `lbctl jobs`"
    away, closed = (
        "cannot be reached; see `lbctl doctor`",
        "does not answer: the connection was closed",
    )
    why = f"{away}; nothing was queued", f"{away}; {may_be}", f"{closed}; {may_be}"  # just now
    told = refused.stderr.splitlines()[-1]  # it may have said before that it waits
    assert told in [f"lbrun: the dispatcher on h1 {reason}" for reason in why]
    time.sleep(5)
    lab.start("h1", "dispatcher")
    assert wait(lab, submit(lab, "true")) == 0


def test_no_submission_fails_while_a_setting_of_the_queue_is_changed(lab, tmp_path):
    """The dispatcher restarts with the new setting, while other clients ask it."""
    submitting = "while [ ! -e stop ]; do lbrun -d true >>ids || exit 1; done"
    asking = "while [ ! -e stop ]; do lbctl jobs >/dev/null || exit 1; done"
    options = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    loops = [lab.popen("h2", "sh", "-c", one, **options) for one in (submitting, asking)]

    def queued():
        ids = tmp_path / "ids"
        return ids.read_text().split() if ids.exists() else []

    def until_queued(count):
        ended = lambda: any(one.poll() is not None for one in loops)  # noqa: E731
        lab.wait_until(lambda: ended() or len(queued()) >= count, "more are submitted")

    try:
        for turn in range(4):
            until_queued(5 * turn + 1)
            change = f"dispatch.user_slots {turn + 50} --cluster".split()
            lab.run("h1", "lbctl", "config", "set", *change, check=True)
        until_queued(len(queued()) + 5)
    finally:
        (tmp_path / "stop").touch()
        said = [one.communicate(timeout=120)[0].decode() for one in loops]
        lab.run("h1", "lbctl", "config", "set", "dispatch.user_slots", "--unset", "--cluster")
    assert [one.returncode for one in loops] == [0, 0], said
    assert said[0] == ""
    assert "did not answer" not in said[1]
    names = queued()
    all_done(lab, f"{names[0]}-{names[-1]}")
    assert list(map(int, names)) == [*range(int(names[0]), int(names[-1]) + 1)]  # each once

"""The queue: `lbrun -q`, `-d` and `lbctl` on real daemons, and that it forgets nothing."""

import functools
import json
import os
import random
import signal
import subprocess
import time
from functools import partial

import pytest

from lbd.dispatch.core.job_selection import no_last
from tests.live.cluster import FAST, Lab
from tests.live.queued_jobs import job, submit
from tests.live.terminal import Terminal

SETTINGS = (*FAST, "dispatch.lease_s=20", "lbm.slots=2")


LAB = partial(Lab.up, 2, "none", "--mode", "fcfs", settings=SETTINGS)


def wait(lab, *names):
    return lab.run("h1", "lbctl", "wait", "--timeout", "20s", *names).returncode


def until_state(lab, name, state):
    lab.wait_until(lambda: job(lab, name)["state"] == state, f"job {name} is {state}")


def test_a_submitted_job_runs_and_reports_its_end(lab):
    name = submit(lab, "--name", "first", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert name.isdecimal()
    assert wait(lab, name) == 1
    told = job(lab, name)
    assert (told["state"], told["exit_status"], told["name"]) == ("failed", 3, "first")
    assert (told["origin"], told["attempt"], told["tier"], told["slots"]) == ("h2", 1, 1, 1)
    assert told["submitted"] <= told["started"] <= told["finished"]
    assert [attempt["state"] for attempt in told["attempts"]] == ["failed"]
    logs = lab.run("h1", "lbctl", "logs", name)
    assert (logs.stdout, logs.stderr, logs.returncode) == ("out\n", "err\n", 0)


def test_a_queued_job_has_the_surroundings_it_would_have_here(lab, tmp_path):
    script = 'pwd; umask; cat; echo "$LBD_ATTEMPT $LBD_TIER $LBD_SLOTS $LBD_ORIGIN $OWN"'
    result = lab.run(
        "h2", "sh", "-c", 'umask 027; exec lbrun -q -e OWN=mine sh -c "$1"', "-", script,
        input="given\n", cwd=tmp_path,
    )  # fmt: skip
    assert result.stdout.splitlines() == [str(tmp_path), "0027", "given", "1 1 1 h2 mine"]


@pytest.mark.parametrize(
    ("script", "status"),
    [("true", 0), ("exit 7", 7), ("kill -TERM $$", -signal.SIGTERM), ("exec nosuch-program", 127)],
)
def test_the_exit_status_is_the_commands_own(lab, script, status):
    assert lab.run("h2", "lbrun", "-q", "sh", "-c", script).returncode == status


def test_a_program_that_does_not_exist(lab):
    result = lab.run("h2", "lbrun", "-q", "nosuch-program")
    assert result.returncode == 127
    assert "nosuch-program: not found" in result.stderr


def test_output_comes_as_it_is_produced(lab):
    job_ = lab.popen(
        "h2", "lbrun", "-q", "sh", "-c", "echo one; sleep 60", stdout=subprocess.PIPE, text=True
    )
    assert job_.stdout.readline() == "one\n"
    job_.send_signal(signal.SIGTERM)
    assert job_.wait(20) == -signal.SIGTERM
    job_.stdout.close()


def pending_jobs(lab, name):
    jobs = lab.lbctl_json("h1", "jobs")
    return [one for one in jobs if one["name"] == name and one["state"] == "pending"]


def test_a_client_that_waits_in_the_queue_and_goes_away_leaves_it(lab):
    blocks = [submit(lab, "sleep", "60") for _ in range(4)]
    waiting = lab.popen("h2", "lbrun", "-q", "--name", "leaver", "true")

    pending = functools.partial(pending_jobs, lab, "leaver")
    lab.wait_until(pending, "it waits")
    waiting.kill()
    waiting.wait()
    lab.wait_until(lambda: not pending(), "it has left")
    lab.run("h1", "lbctl", "kill", *blocks, check=True)
    assert wait(lab, *blocks) == 1
    assert {job(lab, name)["state"] for name in blocks} == {"cancelled"}


def test_a_client_that_goes_away_at_any_moment_takes_its_job_along(lab):
    """Even before it has been told that the job is queued."""
    rng = random.Random(1)
    for _ in range(12):
        caller = lab.popen("h1", "lbrun", "-q", "--name", "brief", "sleep", "600",
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
        time.sleep(rng.uniform(0, 0.06))
        caller.kill()
        caller.wait()

    def left():
        jobs = json.loads(lab.run("h1", "lbctl", "jobs", "--json", check=True).stdout)
        return [one for one in jobs if one["name"] == "brief"]

    time.sleep(0.5)  # the last request may still be on its way to the dispatcher
    lab.wait_until(lambda: not left(), "all have left", 15, left)


def test_an_array_runs_each_index_once(lab, tmp_path):
    names = submit(
        lab, "--array", "3-12", "-o", "%a.%j.%%", "sh", "-c", "echo $LBD_ARRAY_INDEX", cwd=tmp_path
    )
    assert wait(lab, names) == 0
    assert sorted(int(path.read_text()) for path in tmp_path.iterdir()) == list(range(3, 13))
    assert (tmp_path / f"3.{names}_3.%").exists()
    told = lab.lbctl_json("h1", "jobs", "--tasks", names)
    assert [one["array_index"] for one in told] == list(range(3, 13))


@pytest.mark.parametrize(
    "words", [("-o", "%h/taken"), ("--error", "%h/taken"), ("-o", "ok", "--error", "%h/taken")]
)
def test_output_that_cannot_be_written_does_not_change_the_status(lab, tmp_path, words):
    for host in ("h1", "h2"):
        (tmp_path / host / "taken").mkdir(parents=True)  # a directory of that name
    name = submit(lab, *words, "sh", "-c", "touch ran", cwd=tmp_path)
    assert wait(lab, name) == 1
    found = job(lab, name)
    assert found["exit_status"] == 125
    taken = f"{found['host']}/taken"
    assert found["reason"] == f"cannot open the output file {taken}: Is a directory"
    said = lab.run("h1", "lbctl", "logs", name)
    assert (said.stdout, said.stderr) == ("", f"lbctl: job {name} never ran: {found['reason']}\n")
    assert not (tmp_path / "ran").exists()


def test_a_key_used_for_another_command_names_that_job(lab):
    first = submit(lab, "--idempotency-key", "taken", "echo", "first")
    for words in (("echo", "second"), ("--array", "1-2", "echo", "first")):
        again = lab.run("h2", "lbrun", "-d", "--idempotency-key", "taken", *words, check=True)
        assert again.stdout.strip() == first
        assert again.stderr == (
            f"lbrun: --idempotency-key taken: job {first} has it, a different command: nothing new "
            "was queued\n"
        )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-q", "--error", "x"), "--error needs -d"),
        (("-d", "--status-file", "x"), "--status-file needs -q"),
        (
            ("-d", "--array", "1-99999999999"),
            "--array 1-99999999999: 99999999999 tasks are too many",
        ),
    ],
)
def test_options_that_would_have_no_effect_are_refused(lab, words, told, tmp_path):
    result = lab.run("h2", "lbrun", *words, "true", cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (125, "", 1)
    assert result.stderr.startswith(f"lbrun: {told}")
    assert list(tmp_path.iterdir()) == []


def test_all_of_mine_are_my_jobs_that_have_not_ended(lab):
    assert wait(lab, submit(lab, "--array", "1-3", "true")) == 0
    names = [submit(lab, "sleep", "60") for _ in range(2)]
    killed = lab.run("h2", "lbctl", "kill", "@me")
    said = f"killed {names[0]}-{names[1]}\n"
    assert (killed.returncode, killed.stdout, killed.stderr) == (0, said, "")
    assert wait(lab, *names) == 1
    again = lab.run("h2", "lbctl", "kill", "@me")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == "lbctl: nothing to kill: all these jobs have ended\n"
    of_one = lab.run("h2", "lbctl", "kill", names[0])
    assert (of_one.returncode, of_one.stderr) == (1, f"lbctl: job {names[0]} has ended\n")


def test_why_a_job_waits_and_about_how_long(lab):
    names = submit(lab, "--array", "1-6", "sleep", "0.1")
    assert wait(lab, names) == 0
    free = lab.lbctl_json("h1", "predict")
    assert (free["slots"], free["predicted_wait_s"], free["predicted_by"]) == (
        1, 0.0, "slots are free"
    )  # fmt: skip
    blocks = [submit(lab, "sleep", "60") for _ in range(4)]
    first, second = (submit(lab, "true") for _ in range(2))
    try:
        until_state(lab, blocks[3], "running")
        told = job(lab, second)
        assert told["predicted_wait_s"] > 0
        assert "1 job ahead, 4 slots" in told["predicted_by"]
        shown = lab.run("h1", "lbctl", "job", second).stdout
        assert "waits    1 job is ahead of it\nbegins   in " in shown
        table = lab.run("h1", "lbctl", "jobs").stdout
        assert "WAITS" in table
        assert "next, as soon as a slot is free on h1, h2" in table
        assert lab.lbctl_json("h1", "predict", "-n", "2")["predicted_wait_s"] > 0
        assert lab.run("h1", "lbctl", "predict", "-n", "9").stdout == (
            "unknown when a job of 9 slots, submitted now, would start: no host that accepts jobs "
            "now has 9 slots\n"
        )
        with Terminal(lab.command("h2", "lbrun", "-q", "true"), lab.environment("h2")) as person:
            person.wait_for("waits: 2 jobs are ahead of it; starts in ")
            lab.run("h1", "lbctl", "kill", first, check=True)
            person.wait_for("waits: 1 job is ahead of it")
    finally:
        lab.run("h1", "lbctl", "kill", *blocks, check=True)
    assert wait(lab, second) == 0


def test_the_status_file_names_the_attempt(lab, tmp_path):
    script = "test $LBD_ATTEMPT = 2 && exit 3; touch begun; sleep 60"
    words = ("lbrun", "-q", "--name", "again", "--status-file", tmp_path / "status")
    waiting = lab.popen("h2", *words, "sh", "-c", script, cwd=tmp_path)
    lab.wait_until((tmp_path / "begun").exists, "it runs")
    (found,) = lab.lbctl_json("h1", "jobs")
    lab.run("h1", "lbctl", "requeue", str(found["id"]), check=True)
    assert waiting.wait(20) == 3
    told = json.loads((tmp_path / "status").read_text())
    assert (told["attempt"], told["exit_status"], told["cause"]) == (2, 3, "exited")


@pytest.mark.root
def test_jobs_of_another_user_are_not_ones_own(lab):
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
              "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")  # fmt: skip
    if os.geteuid() != 0 or lab.run("h1", *nobody, "true").returncode != 0:
        pytest.skip("needs root and setpriv(1)")
    name = submit(lab, "-H", "h2", "sleep", "60")
    other = submit(lab, "--name", "second", "sleep", "60")
    for words, complaint in (
        (("kill", name), f"permission denied: job {name} is not yours"),
        (("hold", other), f"permission denied: job {other} is not yours"),
        (("kill", f"{name}-{other}"), "permission denied: these jobs are not yours"),
        (("logs", name), f"permission denied: job {name} is not yours"),
        (("job", name), f"permission denied: job {name} is not yours"),
        (("wait", name), f"permission denied: job {name} is not yours"),
        (("kill", "last"), no_last("nobody")),
    ):
        result = lab.run("h1", *nobody, "lbctl", *words)
        assert (result.returncode != 0, result.stdout) == (True, ""), words
        assert result.stderr == f"lbctl: {complaint}\n"
    assert job(lab, name)["state"] in ("pending", "running")
    lab.run("h1", "lbctl", "kill", name, other, check=True)
    assert wait(lab, name, other) == 1


def test_a_client_that_goes_away_with_the_dispatcher_still_leaves_the_queue(lab):
    blocks = [submit(lab, "sleep", "60") for _ in range(4)]
    waiting = lab.popen("h2", "lbrun", "-q", "--name", "gone", "true")

    pending = functools.partial(pending_jobs, lab, "gone")
    lab.wait_until(pending, "it waits")
    lab.kill("h1", "dispatcher", "STOP")
    waiting.kill()
    waiting.wait()
    lab.kill("h1", "dispatcher", "KILL")
    lab.start("h1", "dispatcher")
    lab.wait_until(lambda: not pending(), "it has left", timeout_s=90)
    lab.run("h1", "lbctl", "kill", *blocks, check=True)
    assert wait(lab, *blocks) == 1


def test_a_job_given_up_while_the_lbm_was_stopped_is_not_queued(lab):
    pid = lab.pids()["h2"]["lbm"]
    os.kill(pid, signal.SIGSTOP)
    try:
        told = lab.run("h2", "lbrun", "-d", "--name", "given-up", "true")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (told.returncode, told.stdout) == (125, "")
    assert (
        told.stderr
        == "lbrun: this host's LBM does not answer (stopped?), so the queue cannot be reached\n"
    )
    assert lab.run("h2", "lbrun", "-q", "true").returncode == 0
    names = [job["name"] for job in lab.lbctl_json("h2", "jobs", "--all")]
    assert "given-up" not in names


def test_others_may_not_touch_a_job(lab):
    refused = lab.run("h1", "lbctl", "kill", "99999")
    assert (refused.returncode, refused.stderr) == (
        1,
        "lbctl: no job 99999 in the queue\n",
    )
    backwards = lab.run("h1", "lbctl", "kill", "5-2")
    assert (backwards.returncode, "backwards" in backwards.stderr) == (2, True)

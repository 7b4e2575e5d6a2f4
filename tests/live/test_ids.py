"""Every id that `lbctl jobs` prints works: also that of a plain lbrun, from any host."""

import contextlib
import json
import os
import re
import signal
import sys
from functools import partial

import pytest

from lbd.local.json_socket import Refusal
from tests.live.cluster import FAST, Lab
from tests.live.contract import alive, assert_gone, assert_one_line
from tests.live.test_users import ANN, BOB, as_user, asked_by

SETTINGS = (*FAST, f'users.allow=["{ANN}", "{BOB}"]')
DENIED = "^permission denied: {} is not yours$"
WHERE = {"here": ("--local",), "away": ("-H", "h2")}
everywhere = pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
LAB, OPEN = partial(Lab.up, 2, "none", "--mode", "fcfs", settings=SETTINGS), True


@contextlib.contextmanager
def running(lab, name, *where, command=("sleep", "60"), user=()):
    """A plain command from h1 that has started: its object of `lbctl jobs` and its lbrun."""
    process = lab.popen("h1", *user, "lbrun", *where, "--name", name, *command, cwd="/",
                        process_group=0)  # fmt: skip
    try:
        yield lab.wait_until(lambda: begun(lab, name), f"{name} runs"), process
    finally:
        process.kill()
        process.wait()


def begun(lab, name):
    found = lab.lbctl_json("h1", "jobs", "--all")
    return next((job for job in reversed(found) if job["name"] == name and job["started"]), None)


def ended(lab, host, job):
    found = lab.lbctl_json(host, "job", job)
    return found if found["finished"] else None


@everywhere
def test_a_plain_command_is_shown_with_host_pid_and_directory(lab, where):
    with running(lab, "shown", *where) as (job, process):
        for host in lab.hosts:
            found = lab.lbctl_json(host, "job", job["id"])
            assert (found["schema"], found["id"], found["state"]) == (1, job["id"], "running")
            assert found["directory"] == "/"
            assert alive(found["pid"])
            assert found["pid"] == process.pid or where != WHERE["here"]
            assert found["host"] == ("h1" if where == WHERE["here"] else "h2")
            assert [one["state"] for one in found["attempts"]] == ["running"]
            shown = lab.run(host, "lbctl", "job", job["id"], check=True).stdout
            assert f"pid        {found['pid']} on {found['host']}\n" in shown
            assert f"from       / on {job['origin']}\n" in shown


@pytest.mark.parametrize("where", [("--local",), ("-H", "h2"), ("-q", "-H", "h2")], ids=" ".join)
def test_a_runaway_shows_what_it_has_used_so_far(lab, where):
    spin = ("sh", "-c", f"{sys.executable} -c 'while True: pass'; true")
    with running(lab, f"spin{len(where)}", *where, command=spin) as (job, _):

        def used(host):
            (listed,) = (one for one in lab.lbctl_json(host, "jobs") if one["id"] == job["id"])
            shown = lab.lbctl_json(host, "job", job["id"])
            figures = listed["cpu_s"], shown["cpu_s"], shown["attempts"][-1]["cpu_s"]
            return all(one is not None and one > 0.1 for one in figures)

        for host in lab.hosts:
            lab.wait_until(lambda host=host: used(host), f"{host} shows the CPU time", 20)


def test_the_output_of_a_plain_command_went_to_its_caller(lab):
    with running(lab, "logged", "-H", "h2") as (job, _):
        result = lab.run("h2", "lbctl", "logs", job["id"], check=True)
        assert result.stdout == ""
        assert_one_line(result.stderr, "lbctl", f"{job['id']} is a plain lbrun", "h1")


@everywhere
def test_a_plain_command_is_ended_from_any_host_and_waited_for(lab, where):
    with running(lab, "killed", *where) as (job, process):
        with lab.popen("h2", "lbctl", "wait", job["id"]) as waiting:
            result = lab.run("h2", "lbctl", "kill", job["id"], "--json", check=True)
            assert [one["id"] for one in json.loads(result.stdout)] == [job["id"]]
            assert process.wait(timeout=90) == -signal.SIGTERM
            assert waiting.wait(timeout=90) == 1
        found = ended(lab, "h2", job["id"])
        assert (found["state"], found["reason"]) == ("cancelled", "cancelled by root@h2")


@everywhere
def test_a_command_that_ignores_TERM_is_killed_after_the_grace_period(lab, where):
    script = "trap '' TERM; sleep 60 & echo $!; wait; wait; sleep 60"
    with running(lab, "stubborn", *where, command=("sh", "-c", script)) as (job, process):
        pid = lab.lbctl_json("h1", "job", job["id"])["pid"]
        lab.run("h2", "lbctl", "kill", job["id"], check=True)
        assert process.wait(timeout=90) in (-signal.SIGKILL, 128 + signal.SIGKILL)
        assert_gone([pid])


@everywhere
def test_one_signal_and_nothing_else(lab, where):
    script = "trap 'exit 7' USR1; while :; do sleep 0.05; done"
    with running(lab, "signalled", *where, command=("sh", "-c", script)) as (job, process):
        lab.run("h2", "lbctl", "kill", "-s", "USR1", job["id"], check=True)
        assert process.wait(timeout=90) == 7
        found = lab.wait_until(lambda: ended(lab, "h1", job["id"]), "its end is known")
        assert (found["state"], found["exit_status"]) == ("failed", 7)


@pytest.mark.parametrize(
    ("where", "status", "waited"), [(WHERE["here"], 3, 1), (WHERE["away"], 0, 0)]
)
def test_wait_gives_its_result_during_and_after(lab, where, status, waited):
    script = f"read line; exit {status}"
    ours, theirs = os.pipe()
    name = f"waited-{status}-{where[0]}"
    process = lab.popen("h1", "lbrun", *where, "--name", name, "sh", "-c", script, stdin=ours)
    os.close(ours)
    job = lab.wait_until(lambda: begun(lab, name), "it runs")["id"]
    with lab.popen("h2", "lbctl", "wait", job) as waiting:
        os.write(theirs, b"\n")
        os.close(theirs)
        assert process.wait(timeout=90) == status
        assert waiting.wait(timeout=90) == waited
    assert lab.run("h1", "lbctl", "wait", job).returncode == waited
    found = lab.lbctl_json("h2", "job", job)
    assert (found["state"], found["exit_status"]) == ("failed" if status else "done", status)


def test_a_wait_that_takes_too_long(lab):
    with running(lab, "long", "-H", "h2") as (job, _):
        result = lab.run("h2", "lbctl", "wait", "--timeout", "0.2", job["id"])
        assert result.returncode == 2
        assert_one_line(result.stderr, "lbctl", "not ended")


def test_a_verb_for_queued_jobs_alone_says_why_not(lab):
    result = lab.run("h1", "lbctl", "hold", "h1-1")
    assert (result.returncode, result.stdout) == (1, "")
    assert_one_line(result.stderr, "lbctl", "h1-1 is a plain lbrun", "queue")


@pytest.mark.parametrize("verb", ["kill", "wait"])
def test_an_id_that_is_not_a_job(lab, verb):
    for name, part in (("h1-987654", "h1-987654"), ("h9-1", "h9"), ("x", "'x'")):
        result = lab.run("h2", "lbctl", verb, name)
        assert (result.returncode, result.stdout) == (2 if verb == "wait" or name == "x" else 1, "")
        assert_one_line(result.stderr, "lbctl", part)


@pytest.mark.root
def test_other_users_jobs_are_out_of_reach(lab):
    with running(lab, "anns", "-H", "h2", user=as_user(ANN)) as (job, process):
        for host in lab.hosts:
            for verb in ("show", "kill", "wait"):
                with pytest.raises(Refusal, match=DENIED.format(job["id"])) as refused:
                    asked_by(lab, BOB, f"command.{verb}", host=host, id=job["id"])
                assert refused.value.code == "denied"
        assert process.poll() is None
        assert asked_by(lab, ANN, "command.kill", host="h2", id=job["id"])["job"]["user"] == ANN
        assert process.wait(timeout=90) == -signal.SIGTERM
    with pytest.raises(Refusal, match="permission denied"):
        asked_by(lab, BOB, "command.show", host="h2", id=job["id"])


def test_a_command_that_failed_here_is_not_done(lab):
    lab.run("h1", "lbrun", "--local", "--name", "nowhere", "no-such-command")
    lab.run("h1", "lbrun", "--local", "--name", "late", "--timeout", "0.1", "sleep", "5")
    found = {job["name"]: job for job in lab.lbctl_json("h1", "jobs", "--all")}
    assert found["nowhere"]["state"] in ("failed", "unknown")
    assert found["late"]["state"] in ("failed", "unknown")
    assert found["nowhere"]["exit_status"] in (127, None)


@everywhere
def test_a_stopped_command_is_suspended(lab, where):
    with running(lab, "stopped", *where) as (job, process):
        process.send_signal(signal.SIGTSTP)
        lab.wait_until(lambda: begun(lab, "stopped")["state"] == "suspended", "it is suspended")
        process.send_signal(signal.SIGCONT)
        lab.wait_until(lambda: begun(lab, "stopped")["state"] == "running", "it goes on")
        assert lab.lbctl_json("h2", "job", job["id"])["state"] == "running"


def test_kill_by_properties_of_jobs(lab):
    queued = lab.run("h1", "lbrun", "-d", "--name", "many-1", "sleep", "60", check=True).stdout
    with running(lab, "many-2", "-H", "h2") as (job, process), running(lab, "one") as (other, _):
        result = lab.run("h2", "lbctl", "kill", "--name", "many-*", "--json", check=True)
        ids = {one["id"] for one in json.loads(result.stdout)}
        assert ids == {queued.strip(), job["id"]}
        assert process.wait(timeout=90) == -signal.SIGTERM
        assert lab.lbctl_json("h1", "job", other["id"])["state"] == "running"
        assert lab.run("h1", "lbctl", "wait", queued.strip()).returncode == 1
        result = lab.run("h1", "lbctl", "kill", "--name", "none-*", "--json", check=True)
        assert json.loads(result.stdout) == []


def test_kill_without_anything_refuses(lab):
    result = lab.run("h1", "lbctl", "kill")
    assert (result.returncode, result.stdout) == (2, "")
    assert re.search("ID|--name", result.stderr)


def test_history_is_of_the_whole_cluster_and_outlives_its_lbm(lab):
    for host in lab.hosts:
        lab.run(host, "lbrun", "--remote", "--name", f"past-{host}", "sh", "-c", "exit 4")
    job = begun(lab, "past-h1")["id"]
    lab.kill("h1", "lbm", "TERM")
    lab.wait_until(lambda: lab.pids()["h1"]["lbm"] is None, "h1's LBM has ended")
    lab.start("h1", "lbm")
    lab.wait_until(lambda: lab.run("h1", "lbrun", "-H", "h2", "true").returncode == 0, "it is back")
    past = lab.lbctl_json("h2", "history", "--name", "past-*")
    assert {one["name"] for one in past} == {"past-h1", "past-h2"}
    for one in past:
        assert (one["state"], one["exit_status"], one["user"]) == ("failed", 4, "root")
        assert one["command"] == ["sh", "-c", "exit 4"]
    assert past == sorted(past, key=lambda one: one["finished"])
    assert len(lab.lbctl_json("h2", "history", "--name", "past-*", "--limit", "1")) == 1
    assert lab.lbctl_json("h2", "history", "--state", "done", "--name", "past-*") == []
    found = lab.lbctl_json("h2", "job", job)
    assert (found["state"], found["exit_status"]) == ("failed", 4)
    assert lab.run("h2", "lbctl", "wait", job).returncode == 1

"""The queue's promises while daemons and hosts are killed, stopped and cut off.

Each attempt holds a lock on a file for as long as it lives and complains if another attempt has it:
two attempts of a job are never alive at once. Every acknowledged job must end well. `lbd sim
faults` tries the decisions under many more schedules; here are keepers, wardens and kernels.
"""

import os
import signal
import socket
import subprocess
import time
from functools import partial

import pytest

from lbd.lab import hosts, processes
from tests.live.cluster import FAST, Lab
from tests.live.queued_jobs import job, running_on

SETTINGS = (
    *FAST, "dispatch.lease_s=2", "dispatch.aside_s=0.5", "dispatch.aside_max_s=1",
    "dispatch.crash_limit=1000", "lbm.slots=2",
)  # fmt: skip
# A job records what it did in its file; a second attempt beside it would leave a complaint.
COUNTED = """
exec 9>>"lock.$LBD_JOB_ID"
flock -n 9 || { echo "$LBD_JOB_ID $LBD_ATTEMPT" >>twice; exit 99; }
echo "begin $LBD_ATTEMPT" >>"did.$LBD_JOB_ID"
echo "words of $LBD_ATTEMPT"
sleep "$1"
echo "end $LBD_ATTEMPT" >>"did.$LBD_JOB_ID"
"""


LAB = partial(Lab.up, 3, "none", "--mode", "fcfs", settings=SETTINGS)


def put_script(where):
    """Once: written again, it would be empty for a moment for the jobs before."""
    if not (script := where / "counted.sh").exists():
        script.write_text(COUNTED)


def submit(lab, where, seconds, *words):
    put_script(where)
    command = ("sh", "counted.sh", seconds)
    return lab.run("h2", "lbrun", "-d", *words, *command, cwd=where, check=True).stdout.strip()


def wait(lab, *names, seconds=60):
    result = lab.run(
        "h1", "lbctl", "wait", "--timeout", f"{seconds}s", *names, timeout=seconds + 20
    )
    assert result.returncode == 0, [lab.run("h1", "lbctl", "job", n).stdout for n in names]


def check_counts(where, names):
    """Checks that no attempt met another of its job, and that the last one came to its end.

    A job whose end nobody heard, since its host died with it, has run again, too.
    """
    assert not (where / "twice").exists(), (where / "twice").read_text()
    for name in names:
        lines = (where / f"did.{name}").read_text().split()
        assert lines[-2:] == ["end", max(lines[1::2], key=int)], lines


def begin_elsewhere_than(lab, where, seconds, *hosts):
    """Starts a job that runs on none of these hosts; returns its host too."""
    words = [word for host in hosts for word in ("-x", host)]
    name = submit(lab, where, seconds, *words)
    return name, lab.wait_until(lambda: running_on(lab, name), f"job {name} runs")


@pytest.mark.parametrize(("part", "number"), [("lbm", "KILL"), ("lbm", "TERM"), ("keeper", "KILL")])
def test_a_job_on_a_host_whose_daemon_dies_runs_again(lab, tmp_path, part, number):
    name, host = begin_elsewhere_than(lab, tmp_path, "4", "h1")
    lab.kill(host, part, number)
    if part == "lbm":
        lab.wait_until(lambda: lab.pids()[host]["lbm"] is None, "it has ended")
        lab.start(host, "lbm")
    wait(lab, name)
    check_counts(tmp_path, [name])
    *lost, last = [one["state"] for one in job(lab, name)["attempts"]]
    assert (set(lost), last) == ({"lost"}, "done")  # a keeper that ends may take one more with it
    ends = "1", str(len(lost) + 1)
    for attempt, words in ((number, f"words of {number}\n") for number in ends):
        logs = lab.run("h1", "lbctl", "logs", "--attempt", attempt, name, check=True)
        assert logs.stdout == words, "what a lost attempt has printed is kept, too"


def test_an_order_that_meets_no_keeper_is_given_again(lab, tmp_path):
    """The order was not carried out, and the next keeper will be there in a moment."""
    keeper = hosts.keepers(lab.record)["h2"]
    path = lab.paths("h2").socket("keeper")
    lab.kill("h2", "lbm", "STOP")
    processes.send(keeper, signal.SIGKILL)
    path.unlink()
    path.mkdir()  # so that none can listen there
    lab.kill("h2", "lim", "STOP")  # else its LBM reports that, and it gets no orders
    lab.kill("h2", "lbm", "CONT")
    command = ("lbrun", "-d", "-H", "h2", "sh", "-c", "exit 0")
    name = lab.run("h1", *command, cwd=tmp_path, check=True).stdout.strip()
    lab.wait_until(lambda: job(lab, name)["attempt"], "it was tried")
    lab.kill("h2", "lim", "CONT")
    says = "h2: its keeper is not running, so nothing can start there"
    lab.wait_until(lambda: says in lab.run("h1", "lbctl", "status").stdout, "h1 says so")
    path.rmdir()
    wait(lab, name)
    refused, *_, done = job(lab, name)["attempts"]
    assert (refused["state"], done["state"]) == ("refused", "done")
    assert refused["reason"] == "h2: the keeper is not connected"


def test_jobs_of_a_keeper_that_dropped_its_lbm_run_again(lab, tmp_path):
    """The keeper lives on and ends all it had; the LBM takes another."""
    name, host = begin_elsewhere_than(lab, tmp_path, "4", "h1")
    keeper = hosts.keepers(lab.record)[host]
    with socket.socket(socket.AF_UNIX) as other:  # a keeper has one LBM: the last to connect
        other.connect(str(lab.paths(host).socket("keeper")))
    wait(lab, name)
    check_counts(tmp_path, [name])
    *lost, last = [one["state"] for one in job(lab, name)["attempts"]]
    assert (set(lost), last) == ({"lost"}, "done")
    lab.wait_until(lambda: hosts.keepers(lab.record)[host] != keeper, "another keeper is there")


def test_a_watching_client_is_told_that_an_attempt_starts_again(lab, tmp_path):
    script = 'echo "words of $LBD_ATTEMPT"; echo >>began; sleep 2'
    command = ("lbrun", "-q", "-H", "h2", "sh", "-c", script)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with lab.popen("h1", *command, cwd=tmp_path, **pipes) as watching:
        try:
            lab.wait_until(lambda: (tmp_path / "began").exists(), "it has begun")
            assert watching.stdout.readline() == "words of 1\n"
            lab.kill("h2", "keeper")
            out, err = watching.communicate(timeout=60)
        finally:
            watching.kill()  # if it goes on, nobody shall wait for it
    last = (tmp_path / "began").read_text().count("\n")
    assert (watching.returncode, out.splitlines()[-1]) == (0, f"words of {last}")
    assert err.splitlines()[0] == "lbrun: attempt 1 failed; this is attempt 2"


def test_an_lbm_that_hangs_longer_than_a_lease_leaves_no_second_attempt(lab, tmp_path):
    """The keeper ends an attempt whose lease is not renewed."""
    name, host = begin_elsewhere_than(lab, tmp_path, "3.5", "h1")
    lab.kill(host, "lbm", "STOP")
    time.sleep(4.0)
    lab.kill(host, "lbm", "CONT")
    wait(lab, name)
    check_counts(tmp_path, [name])
    fates = [one["state"] for one in job(lab, name)["attempts"]]
    assert ("lost" in fates, fates[-1]) == (True, "done")


def test_a_host_that_is_cut_off_ends_its_attempts_although_its_keeper_hangs(lab, tmp_path):
    name, host = begin_elsewhere_than(lab, tmp_path, "3.5", "h1")
    keeper = hosts.keepers(lab.record)[host].pid
    os.kill(keeper, signal.SIGSTOP)
    lab.cut("h1", host)
    try:
        wait(lab, name)
    finally:
        lab.heal()
        os.kill(keeper, signal.SIGCONT)
    check_counts(tmp_path, [name])
    assert job(lab, name)["host"] != host

"""`lbctl logs` of a job that never ran says why."""

import os
import pwd
import re
from functools import partial

import pytest

from tests.live.cluster import Lab
from tests.live.lbsh_programs import make_commands

OURSELVES = pwd.getpwuid(os.geteuid()).pw_name
LAB = partial(Lab.up, 2, "none", "--mode", "fcfs")


def queued(lab, *words):
    return lab.run("h2", "lbrun", "-d", *words, check=True).stdout.strip()


def cancelled(lab):
    job = queued(lab, "--begin", "+1h", "true")
    lab.run("h2", "lbctl", "kill", job, check=True)
    return job


def of_one_that_failed(lab):
    failed = queued(lab, "false")
    lab.run("h2", "lbctl", "wait", failed)
    return queued(lab, "--after", failed, "true")


CASES = {
    "cancelled": (cancelled, "was cancelled before it ran"),
    "refused": (
        lambda lab: queued(lab, "-H", "h1", "no-such-program"),
        "never ran: h1: no-such-program: not found",
    ),
    "dependency": (
        of_one_that_failed,
        "never ran: it was waiting for ",
    ),
}


@pytest.mark.parametrize("front", ["compiled", "python"])
@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (("--remote", "-H", "h1", "true"), 125,
         "it can only run here, on h1, but --remote forbids that"),
        (("-C", "/none", "true"), 125, "/none: No such file or directory"),
        (("--local", "-C", "/none", "true"), 125, "/none: No such file or directory"),
        (("--local", "no-such-program"), 127, "no-such-program: not found"),
        (("-H", "h1", "/etc/passwd"), 126, "/etc/passwd: Permission denied"),
        (("-H", "h1", "--timeout", "9", "no-such-program"), 127, "no-such-program: not found"),
        (("-H", "h1", "-t", "no-such-program"), 127, "no-such-program: not found"),
    ],
    ids=range(7),
)  # fmt: skip
def test_a_plain_command_that_could_not_begin_is_shown_as_never_begun(
    lab, front, words, status, why, tmp_path
):
    """It was shown as one that ran for some milliseconds, with the reason for its place."""
    environment = {"LBD_FRONT": "python"} if front == "python" else {}
    name = tmp_path.name  # no other job has it
    result = lab.run("h1", "lbrun", "--name", name, *words, env=environment)
    assert (result.returncode, result.stderr.replace("\r", "")) == (status, f"lbrun: {why}\n")
    for verb in (("jobs", "--all"), ("history",)):
        ended = (*verb, "--name", name, "--state", "failed")
        (job,) = lab.wait_until(partial(lab.lbctl_json, "h1", *ended), "it is recorded")
        seen = job["started"], job["host"], job["exit_status"], job["reason"]
        assert seen == (None, None, status, why), verb


@pytest.mark.parametrize("front", ["", "python"])
def test_nor_does_one_that_lbsh_could_not_begin_look_as_if_it_had(lab, front, tmp_path):
    """As `lbrun` of the same program; lbsh's was recorded as one that had run."""
    add = make_commands(tmp_path)
    name = f"bad-{tmp_path.name}"  # no other job has it
    add(name, "", shell="/no/such/interpreter")
    env = {"PATH": f"{add.directory}:{lab.environment('h1')['PATH']}", "LBD_FRONT": front}
    result = lab.run("h1", "lbsh", "-c", name, env=env)
    why = f"{name}: No such file or directory"
    assert (result.returncode, result.stderr) == (127, f"lbsh: {why}\n")

    def recorded():
        ended = lab.lbctl_json("h1", "history", "--state", "failed")
        return [job for job in ended if job["command"] == [name]]

    (job,) = lab.wait_until(recorded, "it is recorded")
    seen = job["started"], job["host"], job["exit_status"], job["reason"]
    assert seen == (None, None, 127, why)


def test_a_plain_command_that_never_ran_has_no_output_anywhere(lab, tmp_path):
    lab.run("h1", "lbrun", "--local", "--name", tmp_path.name, "no-such-program")
    ended = partial(lab.lbctl_json, "h1", "history", "--name", tmp_path.name)
    (job,) = lab.wait_until(ended, "it is recorded")
    result = lab.run("h1", "lbctl", "logs", job["id"])
    why = f"lbctl: job {job['id']} never ran: no-such-program: not found\n"
    assert (result.returncode, result.stdout, result.stderr) == (1, "", why)


@pytest.mark.parametrize("case", CASES)
def test_why_there_is_no_output(lab, case):
    make, why = CASES[case]
    job = make(lab)
    lab.run("h2", "lbctl", "wait", job)
    result = lab.run("h2", "lbctl", "logs", job)
    assert (result.returncode, result.stdout) == (1, ""), result.stderr
    assert result.stderr.startswith(f"lbctl: job {job} {why}"), result.stderr
    assert result.stderr.count("\n") == 1


def test_an_array_is_reported_once(lab):
    job = queued(lab, "--array", "1-3", "--begin", "+1h", "true")
    lab.run("h2", "lbctl", "kill", job, check=True)
    result = lab.run("h2", "lbctl", "logs", job)
    said = f"lbctl: 3 of these tasks never ran: cancelled before it ran, by {OURSELVES}@h2\n"
    assert result.stderr == said


def test_failed_tasks_that_never_ran_do_not_look_as_if_their_hosts_were_away(lab):
    job = queued(lab, "--array", "1-3", "-H", "h1", "no-such-program")
    lab.run("h2", "lbctl", "wait", job)
    result = lab.run("h2", "lbctl", "logs", "--failed", job)
    why = "h1: no-such-program: not found"
    said = f"lbctl: 3 of these tasks never ran: {why}\n"
    assert (result.returncode, result.stdout, result.stderr) == (0, "", said)


def test_a_list_of_ended_jobs_counts_those_that_never_ran(lab):
    words = "lbctl", "history", "--csv", "--since", "1h"
    counts = [0]
    for make, _ in CASES.values():
        lab.run("h2", "lbctl", "wait", make(lab))
        result = lab.run("h2", *words)
        assert result.returncode == 0
        [count] = re.findall(
            r"since no host began or recorded them: (\d+) queued job", result.stderr
        )
        counts.append(int(count))
    assert counts == sorted(set(counts)), "one more each time"

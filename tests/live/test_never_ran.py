"""`lbctl logs` of a job that never ran says why."""

import os
import pwd
import re
from functools import partial

import pytest

from tests.live.cluster import Lab

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

"""How arrays and jobs are shown in a list."""

import math

import pytest

from lbd.console.jobs import ran_s, short_state, shown_command, shown_state, shown_wait
from lbd.text.job_phrases import LAUNCHER


@pytest.mark.parametrize(
    ("tasks", "whole", "short"),
    [
        ({"pending": 293, "running": 4, "done": 3}, "293 pending, 4 running, 3 done",
         "3/300, 4 running"),
        ({"running": 2, "failed": 1, "lost": 1, "cancelled": 6},
         "2 running, 1 failed, 6 cancelled, 1 lost",
         "2/10, 1 failed, 1 lost, 6 cancelled, 2 running"),
        ({"done": 86, "cancelled": 114}, "86 done, 114 cancelled", "86/200, 114 cancelled"),
        ({"pending": 5, "done": 0}, "5 pending", "0/5"),
        ({}, "", "0/0"),
    ],
)  # fmt: skip
def test_an_array_in_long_and_short_form(tasks, whole, short):
    job = {"array": "1-300", "state": "pending", "tasks": tasks}
    assert (shown_state(job), short_state(job)) == (whole, short)


def test_held_tasks_are_not_counted_as_pending():
    job = {"array": "1-60", "tasks": {"pending": 57, "running": 3}, "held": 21}
    assert shown_state(job) == "36 pending, 21 held, 3 running"
    assert short_state(job) == "0/60, 21 held, 3 running"
    assert shown_state({"array": "1-5", "tasks": {"pending": 5}, "held": 5}) == "5 held"


def test_a_single_job_has_no_short_form():
    assert short_state({"state": "pending", "array": None}) == ""


def test_what_a_job_waits_for_is_shown_and_a_running_job_shows_that_its_host_is_silent():
    silent = "h4 not heard of for 12s; starts again in 20s if that lasts"
    unrecorded = (
        "the command has ended; it can be recorded once there is room on h1: /srv/ledger is full"
    )
    runs = "the command has ended", "it runs on h2"
    rows = [("pending", "1 job is ahead of it", True), ("running", silent, True),
            ("running", unrecorded, True), ("running", unrecorded.replace(*runs), True),
            ("running", "killed on h2", False), ("done", "x", False)]  # fmt: skip
    for state, reason, is_shown in rows:
        assert shown_wait({"state": state, "reason": reason}) == (reason if is_shown else "")


def test_for_a_job_of_sbatch_its_script_is_shown():
    words = [*LAUNCHER, "job.sh", "a b"]
    assert shown_command({"command": words}) == ["job.sh", "a b"]
    assert shown_command({"command": ["/bin/sh", "-c", "true"]}) == ["/bin/sh", "-c", "true"]


@pytest.mark.parametrize(
    ("state", "started", "finished", "ran"),
    [
        ("running", 10.0, None, 90.0),
        ("done", 10.0, 15.0, 5.0),
        ("pending", None, None, math.nan),
        ("unknown", 10.0, None, math.nan),  # it grew for ever
    ],
)
def test_how_long_a_job_has_run_is_not_known_if_nobody_saw_it_end(state, started, finished, ran):
    job = {"state": state, "started": started, "finished": finished}
    assert ran_s(job, 100.0) == pytest.approx(ran, nan_ok=True)

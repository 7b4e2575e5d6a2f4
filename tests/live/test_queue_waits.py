"""`lbrun -q` and `-d` while no dispatcher answers: one line says so, and Ctrl-C ends them."""

import re
import signal
from functools import partial

import pytest

from tests.live.cluster import FAST, Lab

FRONTS = ("lbrun", "lbrun-python")


LAB = partial(Lab.up, 2, "none", "--mode", "fcfs", settings=(*FAST, "dispatch.lease_s=8"))


@pytest.fixture
def silenced(lab):
    """Stops the dispatcher that h2 is connected to; it continues by `silenced()`, or at the end."""
    lab.run("h2", "lbrun", "-q", "true", check=True)
    lab.kill("h1", "dispatcher", "STOP")
    yield partial(lab.kill, "h1", "dispatcher", "CONT")
    lab.kill("h1", "dispatcher", "CONT")


def begun(lab, front, option, path, seconds=0):
    """Starts a client that waits, and whose one line says so."""
    command = "sh", "-c", f"sleep {seconds}; touch {path}"
    process = lab.popen("h2", front, option, *command, stdin=-3, stderr=-1, text=True)
    line = process.stderr.readline()
    assert re.fullmatch(
        r"lbrun: waiting for the dispatcher on h1, which has not answered yet\n", line
    )
    return process


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("option", ["-q", "-d"])
def test_a_client_that_waits_for_the_dispatcher_is_told_so_once(
    lab, silenced, front, option, tmp_path
):
    path = tmp_path / "did"
    process = begun(lab, front, option, path)
    silenced()
    _, more = process.communicate(timeout=60)
    assert (process.returncode, more) == (0, "")
    lab.wait_until(path.exists, "it has run")


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("option", ["-q", "-d"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_client_interrupted_while_it_waits_ends_at_once_and_nothing_runs(
    lab, silenced, front, option, number, tmp_path
):
    path = tmp_path / "did"
    process = begun(lab, front, option, path)
    process.send_signal(number)
    _, more = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert more == (
        "lbrun: interrupted: the dispatcher on h1 has not confirmed the job; "
        "if `lbctl jobs` lists it later, `lbctl kill` ends it\n"
    )
    silenced()
    lab.wait_until(lambda: not unfinished(lab), "all have ended")
    assert not path.exists()


@pytest.mark.parametrize("front", FRONTS)
def test_a_request_that_was_not_sent_yet_is_not_queued(lab, front, tmp_path):
    path = tmp_path / "did"
    before = jobs(lab)
    lab.kill("h1", "dispatcher")
    try:
        process = begun(lab, front, "-q", path)
        process.send_signal(signal.SIGINT)
        _, more = process.communicate(timeout=60)
        assert (process.returncode, more) == (130, "lbrun: interrupted: nothing was queued\n")
    finally:
        lab.start("h1", "dispatcher")
    lab.run("h2", "lbrun", "-q", "true", check=True)
    assert len(jobs(lab)) == len(before) + 1
    assert not path.exists()


@pytest.mark.parametrize("option", ["-q", "-d"])
def test_the_job_of_a_client_killed_while_it_waits_is_queued_only_if_detached(
    lab, silenced, option, tmp_path
):
    path = tmp_path / "did"
    process = begun(lab, "lbrun", option, path, 3)
    process.kill()  # perhaps it is seen only when the job has begun
    process.wait()
    silenced()
    if option == "-d":
        lab.wait_until(path.exists, "it has run")
    lab.wait_until(lambda: not unfinished(lab), "all have ended")
    assert path.exists() == (option == "-d")


def jobs(lab):
    return lab.lbctl_json("h1", "jobs", "--all")


def unfinished(lab):
    return [job for job in jobs(lab) if job["state"] in ("pending", "running")]

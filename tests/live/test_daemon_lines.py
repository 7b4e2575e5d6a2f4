"""The log lines of all hosts' daemons about one job, and the log level, changed while they run."""

from functools import partial

import pytest

from lbd.local.json_socket import Refusal
from tests.live.cluster import FAST, Lab
from tests.live.contract import assert_one_line
from tests.live.test_users import ANN, BOB, as_user, asked_by

SETTINGS = (*FAST, f'users.allow=["{ANN}", "{BOB}"]')
WAIT_S = 60.0
LAB, OPEN = partial(Lab.up, 2, "none", "--mode", "fcfs", settings=SETTINGS), True


def run_plain(lab, name, *user):
    """Runs a command from h1 on h2 to its end; returns its id."""
    lab.run("h1", *user, "lbrun", "-H", "h2", "--name", name, "true", check=True, cwd="/")
    (job,) = (one for one in lab.lbctl_json("h1", "jobs", "--all") if one["name"] == name)
    return job["id"]


def who_knows(lab, host, job):
    found = lab.lbctl_json(host, "logs", "--daemons", job)
    assert (found["id"], found["missing"], found["withheld"]) == (job, {}, {})
    lines = found["lines"]
    return {(one["host"], one["daemon"]) for one in lines}, lines


def test_every_daemon_that_handled_a_job_has_its_line(lab):
    plain = run_plain(lab, "seen")
    for host in lab.hosts:
        known, lines = who_knows(lab, host, plain)
        assert known >= {("h1", "lbm"), ("h2", "lbm")}
        assert {one["job"] for one in lines} == {plain}
    array = lab.run("h2", "lbrun", "-d", "--array", "1-2", "true", check=True).stdout.strip()
    lab.run(
        "h2", "lbctl", "wait", "--timeout", f"{WAIT_S}s", array, check=True, timeout=WAIT_S + 30
    )
    known, lines = who_knows(lab, "h2", f"{array}_2")
    assert {daemon for _, daemon in known} >= {"lbm", "dispatcher"}
    assert {one["job"] for one in lines} == {array, f"{array}_2"}
    of_array = {one["job"] for one in who_knows(lab, "h1", array)[1]}
    assert of_array == {array, f"{array}_1", f"{array}_2"}
    shown = lab.run("h1", "lbctl", "logs", "--daemons", array, check=True).stdout.splitlines()
    assert any(f" dispatcher debug: job {array}_1: attempt 1 goes to " in line for line in shown)


@pytest.mark.root
def test_those_about_a_job_of_others_are_nobodys_business(lab):
    plain = run_plain(lab, "anns", *as_user(ANN))
    for host in lab.hosts:
        with pytest.raises(Refusal, match="permission denied") as refused:
            asked_by(lab, BOB, "command.lines", host=host, id=plain)
        assert refused.value.code == "denied"
        assert asked_by(lab, ANN, "command.lines", host=host, id=plain)["lines"]
    assert who_knows(lab, "h1", plain)[1]  # an administrator
    with pytest.raises(Refusal, match="only root and the daemon"):
        asked_by(lab, ANN, "lines", daemon="lim", job=plain)


def test_the_log_level_is_changed_for_all_daemons_of_all_hosts(lab):
    def logs(part, text):
        hosts = ("h1",) if part == "dispatcher" else lab.hosts
        return all(text in lab.paths(host).log(part).read_text() for host in hosts)

    parts = ("lim", "lbm", "dispatcher")
    assert lab.run("h1", "lbctl", "param", "log.level", check=True).stdout == "log.level = info\n"
    for level in ("warning", "debug"):
        lab.run("h2", "lbctl", "param", "log.level", level, check=True)
        for part in parts:
            news = f"log.level = {level}"
            lab.wait_until(lambda part=part, news=news: logs(part, news), f"{part} follows", WAIT_S)
    plain = run_plain(lab, "logged")
    lab.wait_until(lambda: logs("lbm", f"lbd lbm: job {plain}: "), "each step is logged", WAIT_S)
    lab.run("h2", "lbctl", "param", "log.level", "--reset", check=True)
    result = lab.run("h1", "lbctl", "param", "log.level", "loud")
    assert_one_line(result.stderr, "lbctl", "debug")


def test_a_host_that_is_down_is_named_in_a_line(lab):
    plain = run_plain(lab, "before")
    lab.lab("kill", "h2", "host")
    try:
        lab.wait_until(lambda: lab.states("h1")["h2"] == "down", "h2 is down", WAIT_S)
        result = lab.run("h1", "lbctl", "logs", "--daemons", plain, check=True)
        assert_one_line(result.stderr, "lbctl", "h2 (down)")
        assert " h1 lbm debug: " in result.stdout
    finally:
        lab.lab("start", "h2")

"""`lbrun -q -n`: queued jobs of several slots."""

import json
import re

import pytest

from tests.live.cluster import FAST, Lab

SETTINGS = (*FAST, "dispatch.lease_s=20", "lbm.slots=3")


@pytest.fixture(scope="module")
def lab():
    lab = Lab.up(2, "none", "--mode", "fcfs", settings=SETTINGS)
    yield lab
    lab.down()


def submit(lab, *words):
    return lab.run("h2", "lbrun", "-d", *words, check=True).stdout.strip()


def job(lab, name):
    return lab.lbctl_json("h1", "job", name)


def until_running(lab, *names):
    for name in names:
        lab.wait_until(lambda name=name: job(lab, name)["state"] == "running", f"{name} runs")


def used_slots(lab):
    return [host["slots"]["used"] for host in lab.lbctl_json("h1", "status")["hosts"]]


def test_a_job_has_the_slots_it_asks_for_and_nobody_else_has_them(lab):
    a, b = (submit(lab, "-n", "2", "sh", "-c", "echo $LBD_SLOTS; sleep 60") for _ in "ab")
    until_running(lab, a, b)
    assert sorted(job(lab, name)["host"] for name in (a, b)) == ["h1", "h2"]
    lab.wait_until(lambda: used_slots(lab) == [2, 2], "both hosts tell of two slots in use")
    waits = submit(lab, "--slots=2", "true")
    small = submit(lab, "true")
    for name in (waits, small):  # who needs one does not pass the head who needs two
        assert job(lab, name)["state"] == "pending"
    assert "2 slots" in job(lab, waits)["reason"]
    assert lab.run("h1", "lbctl", "kill", a).returncode == 0
    assert lab.run("h1", "lbctl", "wait", "--timeout", "20s", waits, small).returncode == 0
    assert lab.run("h1", "lbctl", "logs", b).stdout == "2\n"
    assert lab.run("h1", "lbctl", "kill", b).returncode == 0
    lab.wait_until(lambda: used_slots(lab) == [0, 0], "all slots are free")


def test_of_a_range_it_gets_what_is_free(lab):
    most = submit(lab, "-n", "1-8", "sh", "-c", "echo $LBD_SLOTS; sleep 60")
    until_running(lab, most)
    told = job(lab, most)
    assert (told["slots"], told["attempts"][0]["slots"]) == (3, 3)
    other = submit(lab, "sleep", "60")
    until_running(lab, other)
    rest = submit(lab, "-n", "1-2", "sh", "-c", "echo $LBD_SLOTS; sleep 60")
    until_running(lab, rest)
    assert (job(lab, rest)["slots"], job(lab, other)["host"]) == (2, job(lab, rest)["host"])
    assert lab.run("h1", "lbctl", "logs", most).stdout == "3\n"
    assert lab.run("h1", "lbctl", "kill", most, other, rest).returncode == 0


def test_more_than_any_host_has_waits_and_says_so(lab):
    name = submit(lab, "-n", "5", "true")
    told = json.loads(lab.run("h1", "lbctl", "jobs", "--json", name).stdout)[0]
    assert told["reason"] == "it needs 5 slots on one host; the largest there has 3"
    assert lab.run("h1", "lbctl", "kill", name).returncode == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("-n", "0"), "lbrun: --slots 0: a job needs at least one"),
        (("-n", "4-2"), "lbrun: --slots 4-2: the range runs backwards; write how many, or "
                        "LEAST-MOST, like 4 or 2-8"),
        (("-n", "two"), "lbrun: --slots two: write how many, or LEAST-MOST, like 4 or 2-8"),
        (("-n", "-1"), "lbrun: --slots -1: write how many, or LEAST-MOST, like 4 or 2-8"),
        (("-n", "70000"), "lbrun: --slots 70000: no host has more than 65536"),
        (("--array", "5-1"), "lbrun: --array 5-1: the range runs backwards; write FIRST-LAST, "
                             "like 1-10"),
        (("--array", "1"), "lbrun: --array 1: write FIRST-LAST, like 1-10"),
        (("--array", "1-9999999999999999999"), "lbrun: --array 1-9999999999999999999: "
                                               "9999999999999999999 is too large"),
        (("--array", "1-200000"), "lbrun: an array of 200000 jobs; dispatch.max_array is 100000"),
        (("--mem", "lots"), "lbrun: --mem: 'lots' is not a size; allowed: 4096, 512K, 1.5M, 2G"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_said_in_one_line(lab, words, complaint):
    result = lab.run("h2", "lbrun", "-d", *words, "true")
    assert (result.returncode, result.stdout, result.stderr) == (125, "", complaint + "\n")


STUCK = [
    (("-n", "9"), "it needs 9 slots on one host; the largest there has 3"),
    (("-H", "nosuch"), "no host called nosuch has been heard of"),
    (("-x", "h1", "-x", "h2"), "no host that takes jobs now is fit for it"),
]


@pytest.mark.parametrize(("options", "why"), STUCK)
def test_what_could_wait_for_ever_is_told_at_once(lab, options, why):
    result = lab.run("h2", "lbrun", "-d", *options, "true")
    name = result.stdout.strip()
    assert result.returncode == 0
    assert result.stderr.startswith(f"lbrun: job {name} waits: {why}")
    assert result.stderr.count("\n") == 1
    told = job(lab, name)
    assert (told["state"], why in told["reason"]) == ("pending", True)
    assert lab.run("h2", "lbctl", "kill", name).returncode == 0


def test_of_an_array_it_is_told_once_for_all(lab):
    result = lab.run("h2", "lbrun", "-d", "--array", "1-3", "-n", "9", "true", check=True)
    names = result.stdout.strip()
    assert result.stderr.startswith(f"lbrun: jobs {names} wait: it needs 9 slots")
    assert lab.run("h2", "lbctl", "kill", names).returncode == 0
    key = ("lbrun", "-d", "--idempotency-key", "wording")
    names = lab.run("h2", *key, "--array", "1-2", "true", check=True).stdout.strip()
    other = lab.run("h2", *key, "false", check=True).stderr
    assert other.startswith(f"lbrun: --idempotency-key wording: jobs {names} have it, another")


@pytest.mark.parametrize("front", ["compiled", "python"])
def test_who_waits_for_an_array_is_told_of_it_as_of_several(lab, front):
    words = ("lbrun", "-q", "-v", "--array", "1-2", "sleep", "0.1")
    if front == "python":
        words = ("env", "LBD_FRONT=python", *words)
    assert re.search(r"(?m)^lbrun: jobs \d+-\d+$", lab.run("h2", *words, check=True).stderr)


def test_who_waits_for_it_is_told_so_once(lab):
    waiting = lab.popen("h2", "lbrun", "-q", "-n", "9", "true", stderr=-1, text=True)
    line = waiting.stderr.readline()
    waiting.terminate()
    rest = waiting.communicate(timeout=20)[1]
    assert "waits: it needs 9 slots" in line
    assert "9 slots" not in rest

"""Whose turn it is in the queue, and who shares a host's slots with it, on real daemons."""

import contextlib
import subprocess

import pytest

from tests.live.cluster import FAST, Lab

SETTINGS = (
    *FAST, "dispatch.lease_s=20", "lbm.slots=2", "dispatch.priorities=true",
    "dispatch.user_slots=3", 'dispatch.name_jobs=["solo-*:1"]', "dispatch.load_ceiling=1.2",
)  # fmt: skip


@pytest.fixture(scope="module")
def lab():
    lab = Lab.up(2, "none", "--mode", "fcfs", settings=SETTINGS)
    yield lab
    lab.down()


@pytest.fixture
def submit(lab):
    """The ids that `lbrun -d` prints; all is over at the end."""
    made = []

    def submit(*words):
        made.append(lab.run("h2", "lbrun", "-d", *words, check=True).stdout.strip())
        return made[-1]

    yield submit
    lab.run("h1", "lbctl", "kill", *made)
    lab.run("h1", "lbctl", "wait", "--timeout", "20s", *made)


def job(lab, name):
    return lab.lbctl_json("h1", "job", name)


def until(lab, name, state="running"):
    lab.wait_until(lambda: job(lab, name)["state"] == state, f"job {name} is {state}")


def began(lab, *names):
    """Those jobs in the order in which they began."""
    lab.run("h1", "lbctl", "wait", "--timeout", "20s", *names, check=True)
    jobs = lab.lbctl_json_any("h1", "jobs", *names)
    return [one["id"] for one in sorted(jobs, key=lambda one: one["started"])]


def test_a_user_has_no_more_slots_than_may_be(lab, submit):
    running = [submit("sleep", "60") for _ in range(3)]
    fourth = submit("true")
    for name in running:
        until(lab, name)
    told = job(lab, fourth)
    assert (told["state"], told["reason"]) == (
        "pending", "jobs of root hold 3 slots; 3 is the most for a user"
    )  # fmt: skip
    lab.run("h1", "lbctl", "kill", running[0], check=True)
    until(lab, fourth, "done")


def test_a_name_has_its_limit_and_others_pass(lab, submit):
    first, second = (submit("--name", "solo-a", "sleep", "60") for _ in "ab")
    until(lab, first)
    assert job(lab, second)["reason"] == "1 named solo-a run, the most at once"
    until(lab, submit("--name", "solo-b", "true"), "done")
    lab.run("h1", "lbctl", "kill", first, check=True)
    until(lab, second)


def test_priorities_go_first_and_arrays_take_turns(lab, submit):
    """Three slots are to be had; two of them are blocked, so one job runs at a time."""
    blocks = [submit("sleep", "60") for _ in range(3)]
    for name in blocks:
        until(lab, name)
    script = ("sh", "-c", "sleep 0.05")
    first, last = submit("--array", "1-3", *script).split("-")
    array = [str(n) for n in range(int(first), int(last) + 1)]
    single, low, high = (
        submit(*words, *script) for words in ((), ("--priority", "-1"), ("--priority", "5"))
    )
    lab.run("h1", "lbctl", "kill", blocks[0], check=True)
    expected = [high, array[0], single, array[1], array[2], low]
    assert began(lab, *expected) == expected


def refused_by_load(lab, submit):
    """A job for h2 that its load keeps waiting; None while it is not heavy, or not known to be."""
    name = submit("-H", "h2", "true")
    told = job(lab, name)
    is_closed = told["state"] == "pending" and "dispatch.load_ceiling, 1.2)" in told["reason"]
    return name if is_closed else None


def test_a_host_above_the_ceiling_begins_no_queued_jobs(lab, submit):
    spin = "import time; end = time.time() + 60\nwhile time.time() < end: pass"
    with contextlib.ExitStack() as stack:
        for _ in range(6):  # what stays takes no slot, but shows in the load
            busy = lab.popen("h2", "lbrun", "--local", "nice", "-n", "19", "python3", "-c", spin)
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        waits = lab.wait_until(lambda: refused_by_load(lab, submit), "h2 takes no more")
    until(lab, waits, "done")


def test_an_immediate_command_that_waits_goes_before_the_queue(lab, submit, tmp_path):
    """-H h2 waits for a slot there; the queue's head wants the same."""
    held = [submit("-H", "h2", "sleep", "60") for _ in range(2)]
    for name in held:
        until(lab, name)
    queued = submit("-H", "h2", "sh", "-c", f"echo queued >>{tmp_path}/order; sleep 60")
    script = f"echo immediate >>{tmp_path}/order"
    immediate = lab.popen("h1", "lbrun", "-H", "h2", "sh", "-c", script, stderr=subprocess.PIPE)
    try:
        waiting = lambda: lab.ask("h2", "lbm", "status")["waiting"]  # noqa: E731
        lab.wait_until(lambda: waiting() == 1 or immediate.poll() is not None, "it waits")
        lab.run("h1", "lbctl", "kill", held[0], check=True)
        assert immediate.wait(20) == 0
        until(lab, queued)
    finally:
        immediate.kill()
        immediate.communicate()
    assert (tmp_path / "order").read_text() == "immediate\nqueued\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--priority", "high"), "--priority high: write a whole number from -999 to 999"),
        (("-n", "4"), "--slots 4: no user may hold more than 3 (dispatch.user_slots)"),
    ],
)
def test_what_the_rules_forbid_is_refused_in_one_line(lab, words, complaint):
    result = lab.run("h2", "lbrun", "-d", *words, "true")
    assert (result.returncode, result.stdout, result.stderr) == (125, "", f"lbrun: {complaint}\n")

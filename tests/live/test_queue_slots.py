"""`lbrun -q -n`: queued jobs of several slots, or of `MIN-MAX` slots, which may wait for more
(`dispatch.malleable`); and arrays with a target time, which get as many slots as that takes."""

import json
import re
import subprocess
from functools import partial

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.queued_jobs import job, until_running

SETTINGS = (
    *FAST, "dispatch.lease_s=20", "lbm.slots=4", "dispatch.malleable=heur",
    "dispatch.load_ceiling=10000",
)  # fmt: skip


LAB = partial(Lab.up, 2, "none", "--mode", "fcfs", settings=SETTINGS)


def submit(lab, *words):
    return lab.run("h2", "lbrun", "-d", *words, check=True).stdout.strip()


def used_slots(lab):
    return [host["slots"]["used"] for host in lab.lbctl_json("h1", "status")["hosts"]]


def test_advice_covers_the_queues_jobs(lab):
    """This comes first: the daemons themselves report that there are too few jobs for more."""
    assert lab.run("h1", "lbctl", "wait", submit(lab, "true")).returncode == 0
    result = lab.run("h2", "lbctl", "advise", timeout=60)
    assert "of the queue" not in result.stderr
    assert "jobs" in result.stderr


def test_a_job_has_the_slots_it_asks_for_and_no_other_job_has_them(lab):
    a, b = (submit(lab, "-n", "3", "sh", "-c", "echo $LBD_SLOTS; sleep 60") for _ in "ab")
    until_running(lab, a, b)
    assert sorted(job(lab, name)["host"] for name in (a, b)) == ["h1", "h2"]
    lab.wait_until(lambda: used_slots(lab) == [3, 3], "both hosts tell of three slots in use")
    waits = submit(lab, "--slots=2", "true")
    small = submit(lab, "true")
    for name in (waits, small):  # a job of one slot does not pass the head that needs two
        assert job(lab, name)["state"] == "pending"
    assert "2 slots" in job(lab, waits)["reason"]
    assert lab.run("h1", "lbctl", "kill", a).returncode == 0
    assert lab.run("h1", "lbctl", "wait", "--timeout", "20s", waits, small).returncode == 0
    assert lab.run("h1", "lbctl", "logs", b).stdout == "3\n"
    assert lab.run("h1", "lbctl", "kill", b).returncode == 0
    lab.wait_until(lambda: used_slots(lab) == [0, 0], "all slots are free")
    lab.wait_until(lambda: slots_of(lab, "history", b) == 3, "the accounting has its slots")


def slots_of(lab, verb, name, *more):
    found = [row for row in lab.lbctl_json("h1", verb, *more) if row["id"] == name]
    return found[0]["slots"] if found else None


@pytest.mark.parametrize("slots", ["2", "2-3"])
def test_a_plain_command_of_several_slots_is_shown_with_that_number(lab, slots):
    command = "lbrun", "-H", "h2", "-n", slots, "sh", "-c", "read line"
    process = lab.popen("h1", *command, stdin=subprocess.PIPE)
    most = int(slots[-1])
    lab.wait_until(lambda: used_slots(lab) == [0, most], "h2 tells of them")
    (running,) = lab.lbctl_json("h1", "jobs")
    assert running["slots"] == most
    process.communicate(b"\n", timeout=20.0)
    lab.wait_until(
        lambda: slots_of(lab, "history", running["id"]) == most, "the accounting has them"
    )
    assert slots_of(lab, "jobs", running["id"], "--all") == most


STUCK = [
    (("-n", "9"), "it needs 9 slots on one host; the largest host has 4"),
    (("-H", "nosuch"), "no host named nosuch is known"),
    (("-x", "h1", "-x", "h2"), "all hosts that accept jobs now are excluded (-x): h1, h2"),
]


@pytest.mark.parametrize(("options", "why"), STUCK)
def test_a_job_that_could_wait_for_ever_says_so_at_once(lab, options, why):
    result = lab.run("h2", "lbrun", "-d", *options, "true")
    name = result.stdout.strip()
    assert result.returncode == 0
    assert result.stderr.startswith(f"lbrun: job {name} waits: {why}")
    assert result.stderr.count("\n") == 1
    told = job(lab, name)
    assert (told["state"], why in told["reason"]) == ("pending", True)
    assert lab.run("h2", "lbctl", "kill", name).returncode == 0


def test_an_array_says_it_once_for_all_tasks(lab):
    result = lab.run("h2", "lbrun", "-d", "--array", "1-3", "-n", "9", "true", check=True)
    names = result.stdout.strip()
    assert result.stderr.startswith(f"lbrun: job {names} waits: it needs 9 slots")
    assert lab.run("h2", "lbctl", "kill", names).returncode == 0
    key = ("lbrun", "-d", "--idempotency-key", "wording")
    names = lab.run("h2", *key, "--array", "1-2", "true", check=True).stdout.strip()
    other = lab.run("h2", *key, "false", check=True).stderr
    assert other.startswith(f"lbrun: --idempotency-key wording: job {names} has it, a different")


@pytest.mark.parametrize("front", ["compiled", "python"])
def test_a_client_that_waits_for_an_array_is_told_its_id(lab, front):
    words = ("lbrun", "-q", "-v", "--array", "1-2", "sleep", "0.1")
    if front == "python":
        words = ("env", "LBD_FRONT=python", *words)
    assert re.search(r"(?m)^lbrun: job \d+$", lab.run("h2", *words, check=True).stderr)


def test_a_client_that_waits_for_slots_is_told_so_once(lab):
    waiting = lab.popen("h2", "lbrun", "-q", "-n", "9", "true", stderr=-1, text=True)
    line = waiting.stderr.readline()
    waiting.terminate()
    rest = waiting.communicate(timeout=90)[1]
    assert "waits: it needs 9 slots" in line
    assert "9 slots" not in rest


def test_a_job_waits_for_more_slots_under_the_next_dispatcher_too(lab):
    here = "-H", "h1"
    narrow = submit(lab, *here, "-n", "3", "sleep", "300")
    lab.wait_until(lambda: job(lab, narrow)["state"] == "running", "the narrow job runs")
    wide = submit(lab, *here, "-n", "1-4", "--speedup", "4,0", "--work", "1h", "--",
                  "sh", "-c", "echo $LBD_SLOTS")  # fmt: skip
    behind = submit(lab, *here, "true")
    holds = "it could start on fewer slots, but is waiting for 4 on h1"
    assert job(lab, wide)["reason"] == holds
    lab.kill("h1", "dispatcher")
    lab.start("h1", "dispatcher")
    lab.wait_until(lambda: job(lab, wide)["reason"] == holds, "it holds out again", 60)
    assert job(lab, behind)["state"] == "pending"
    assert lab.run("h1", "lbctl", "kill", narrow).returncode == 0
    assert (
        lab.run("h1", "lbctl", "wait", "--timeout", "60s", wide, behind, timeout=90).returncode == 0
    )
    assert lab.run("h1", "lbctl", "logs", wide).stdout == "4\n"
    assert job(lab, wide)["slots"] == 4


def test_measured_speedups_are_shown_and_used_for_predictions(lab, short_dir, request):
    work = short_dir / "solve"
    work.write_text('#!/bin/sh\nsleep $(awk "BEGIN {print 2.4 / $LBD_SLOTS}")\n')
    work.chmod(0o755)
    names = [submit(lab, "-n", slots, work) for slots in ("1", "2", "4", "1", "2", "4")]
    assert lab.run("h1", "lbctl", "wait", "--timeout", "60s", *names, timeout=90).returncode == 0
    blocks = [submit(lab, "-n", "4", "sleep", "300") for _ in range(2)]
    last = submit(lab, "-n", "1-4", work)
    request.addfinalizer(lambda: lab.run("h1", "lbctl", "kill", *blocks, last))
    known = lab.wait_until(
        lambda: (found := job(lab, last)["speedup"]).get("runs") == 6 and found, "it is learnt"
    )
    assert known["source"] == "learnt"
    assert known["parallelism_90"][0] > 1
    assert known["work_s"] > 1.5
    assert "speedup  A " in lab.run("h1", "lbctl", "job", last).stdout
    said = lab.run("h1", "lbctl", "predict", "--json", "-n", "1-4", str(work), check=True)
    found = json.loads(said.stdout)
    assert [one["slots"] for one in found["choices"]] == [1, 2, 3, 4]
    assert found["choices"][0]["begins_in_s"] > 0
    assert found["choices"][0]["runs_s"] == pytest.approx(known["work_s"])
    assert found["choices"][3]["runs_s"] < found["choices"][0]["runs_s"] / 1.5
    assert found["slots"] == [1, 4]
    assert set(found["picks"]) == {"AVG", "PRED", "BIAS", "HEUR"}
    shown = lab.run("h1", "lbctl", "predict", "-n", "1-4", "--speedup", "3,0.5", "--work", "1h")
    assert "SLOTS  BEGINS IN" in shown.stdout
    assert "guess: " in " ".join(shown.stdout.split())
    linear = lab.run("h1", "lbctl", "predict", "-n", "1-4")
    assert "assumed to be linear up to 4 slots" in linear.stderr
    assert lab.run("h1", "lbctl", "kill", *blocks, last).returncode == 0
    lab.wait_until(lambda: lab.lbctl_json("h1", "predict", "--calibration")["jobs"] >= 4, "judged")
    assert set(lab.lbctl_json("h1", "predict", "--calibration")) == {
        "schema", "jobs", "slope", "intercept", "cc_raw", "cc_corrected", "covered_90", "short",
        "lately", "off_by", "intervals", "doubt", "width",
    }  # fmt: skip


def test_a_started_job_shows_what_was_predicted(lab):
    """Of an array the first task is compared, and the array shows that."""
    one, array = submit(lab, "true"), submit(lab, "--array", "1-3", "true")
    assert lab.run("h1", "lbctl", "wait", one, array).returncode == 0
    for name, count in ((one, 1), (f"{array}_1", 1), (f"{array}_2", 0), (array, 1)):
        shown = lab.run("h1", "lbctl", "job", name).stdout
        assert shown.count("(predicted: ") == count, shown


def test_an_impossible_target_is_accepted_with_a_line_and_a_past_one_is_not(lab):
    task = ("--name", "fit", "sleep", "0.4")
    earlier = submit(lab, "--array", "1-12", *task)
    lab.run("h1", "lbctl", "wait", "--timeout", "60s", earlier, check=True)
    found = lab.run("h2", "lbrun", "-d", "--array", "1-40", "--target", "0.5", *task)
    assert found.returncode == 0
    name = found.stdout.strip()
    assert found.stderr.startswith(f"lbrun: job {name}: the target (in ")
    assert "be met with 8 tasks at once: expected to end in " in found.stderr
    assert found.stderr.count("\n") == 1
    lab.run("h1", "lbctl", "kill", name)
    lab.run("h1", "lbctl", "wait", "--timeout", "60s", name)
    refused = lab.run("h2", "lbrun", "-q", "--array", "1-3", "--deadline", "2020-01-01T06:00", "id")
    assert (refused.returncode, refused.stdout) == (125, "")
    assert refused.stderr == "lbrun: --deadline: 2020-01-01T06:00 has passed\n"
    assert lab.lbctl_json("h1", "job", "last")["id"] == name

"""Arrays are one job with tasks: their ids, lists, what ^C does, and how their end is reported."""

import json
import signal
import subprocess
from functools import partial

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.queued_jobs import submit
from tests.live.terminal import Terminal

SETTINGS = (*FAST, "dispatch.lease_s=20", "lbm.slots=2", "dispatch.priorities=true")


LAB = partial(Lab.up, 2, "none", "--mode", "fcfs", settings=SETTINGS)


def wait(lab, *names):
    return lab.run("h1", "lbctl", "wait", "--timeout", "30s", *names).returncode


def array(lab, name):
    (found,) = lab.lbctl_json("h1", "jobs", name)
    return found


def tasks(lab, name):
    return lab.lbctl_json("h1", "jobs", "--tasks", name)


def test_an_array_is_one_job_with_tasks(lab, tmp_path):
    name = submit(
        lab, "--array", "1,3,10-30:10", "-o", "%j", "--name", "listed", "sh", "-c",
        'echo "$LBD_JOB_ID $LBD_ARRAY_ID $LBD_ARRAY_INDEX"; test $LBD_ARRAY_INDEX != 20',
        cwd=tmp_path,
    )  # fmt: skip
    assert name.isdecimal()
    assert wait(lab, name) == 1
    indexes = (1, 3, 10, 20, 30)
    ids = [f"{name}_{index}" for index in indexes]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(ids)
    for index in indexes:
        assert (tmp_path / f"{name}_{index}").read_text() == f"{name}_{index} {name} {index}\n"

    found = array(lab, name)
    assert (found["id"], found["array"]) == (name, "1,3,10-30:10")
    assert "array_index" not in found
    assert (found["state"], found["name"]) == ("failed", "listed")
    assert found["tasks"] == {"pending": 0, "running": 0, "suspended": 0, "done": 4, "failed": 1,
                              "cancelled": 0, "lost": 0, "unknown": 0}  # fmt: skip
    assert [one["id"] for one in tasks(lab, name)] == ids
    (task,) = lab.lbctl_json("h1", "jobs", f"{name}_20")
    assert (task["id"], task["array_id"], task["array_index"]) == (ids[3], name, 20)
    assert (task["state"], task["exit_status"]) == ("failed", 1)
    assert lab.lbctl_json("h1", "job", f"{name}_20")["attempts"][0]["state"] == "failed"
    told = lab.run("h1", "lbctl", "job", name, check=True).stdout
    assert f"failed   20 (exit 1); lbctl logs {name}_20\n" in told
    assert f"output   {tmp_path}/%j\n" in told

    done = lab.run("h2", "lbctl", "requeue", "--failed", name, "--json", check=True)
    assert [one["id"] for one in json.loads(done.stdout)] == [f"{name}_20"]
    assert wait(lab, name) == 1
    assert [one["attempt"] for one in tasks(lab, name)] == [1, 1, 1, 2, 1]
    nothing = lab.run("h2", "lbctl", "requeue", "--failed", f"{name}_1")
    assert (nothing.returncode, nothing.stderr) == (
        1, "lbctl: nothing to requeue: none of these jobs has failed\n")  # fmt: skip


def test_waiting_tasks_are_shown_on_one_line_and_selected_by_task(lab):
    name = submit(lab, "--array", "1-40%1", "sleep", "600")
    lab.wait_until(lambda: array(lab, name)["tasks"]["running"] == 1, "one runs")
    lines = [line for line in lab.run("h1", "lbctl", "jobs").stdout.splitlines() if name in line]
    assert len(lines) == 1
    assert f"{name}_[2-40]" in lines[0]
    assert "39 pending" in lines[0]
    assert "1 task of its array may run at once (%1)" in array(lab, name)["reason"]
    assert len([one for one in lab.lbctl_json("h1", "jobs", "--tasks") if one["array_id"]]) == 40

    lab.run("h2", "lbctl", "hold", f"{name}_[2-4]", check=True)
    assert [one["reason"][:4] for one in tasks(lab, f"{name}_2-4")] == ["held"] * 3
    lab.run("h2", "lbctl", "release", f"{name}_3", check=True)
    lab.run("h2", "lbctl", "kill", f"{name}_1", f"{name}_5", check=True)
    running = lambda: [  # noqa: E731
        one["id"] for one in tasks(lab, name) if one["state"] == "running"
    ]
    lab.wait_until(lambda: running() == [f"{name}_6"], "6 runs: 3 is behind, as after any release")
    changed = ("--priority", "-7", "--name", "later", "--timeout", "1h")
    lab.run("h2", "lbctl", "update", name, *changed, check=True)
    found = array(lab, name)
    assert (found["priority"], found["name"], found["waiting"]) == (-7, "later", "2-4,7-40")
    lab.run("h2", "lbctl", "kill", name, check=True)
    assert wait(lab, name) == 1
    again = lab.run("h2", "lbctl", "kill", name)
    assert (again.returncode, again.stderr) == (
        1, "lbctl: nothing to kill: all these jobs have ended\n")  # fmt: skip
    begun = lab.run("h2", "lbctl", "update", name, "--name", "x")
    assert begun.stderr == "lbctl: nothing to update: all these jobs have ended\n"


def test_a_limit_holds_while_slots_are_free(lab, tmp_path):
    script = "mkdir one || exit 9; sleep 0.2; rmdir one"
    name = submit(lab, "--array", "1-4%1", "sh", "-c", script, cwd=tmp_path)
    assert wait(lab, name) == 0


def test_the_end_names_the_tasks_that_failed(lab):
    script = "case $LBD_ARRAY_INDEX in 3) exit 5;; 7) kill -9 $$;; esac"
    result = lab.run("h2", "lbrun", "-q", "--array", "1-12", "sh", "-c", script)
    name = array(lab, "last")["id"] if result.stderr else ""
    assert result.stderr == (
        f"lbrun: 2 of 12 tasks failed: 3 (exit 5), 7 (signal 9); lbctl logs {name}_3\n"
    )
    assert (result.returncode, result.stdout) == (5, "")
    found = lab.lbctl_json("h2", "job", "last_7", "last_[3,4]")
    assert [one["id"] for one in found] == [f"{name}_{index}" for index in (3, 4, 7)]
    one = lab.run("h2", "lbrun", "-q", "--array", "4", "false")
    assert one.returncode == 1
    assert one.stderr.startswith("lbrun: 1 of 1 task failed: 4 (exit 1); lbctl logs ")


def interrupted(lab, script, path, *, often=False):
    """How `lbrun -q` of an array of 12 ends, of which four run at once."""
    words = ("lbrun", "-q", "--array", "1-12", "--name", script, "sh", "-c", script)
    caller = lab.popen("h2", *words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, cwd=path)  # fmt: skip
    lab.wait_until(lambda: len(list(path.iterdir())) == 4, "four run")
    running = lambda: array(lab, "last")["tasks"]["running"]  # noqa: E731
    lab.wait_until(lambda: running() == 4, "the dispatcher has heard of it")
    caller.send_signal(signal.SIGINT)
    while often:
        try:
            caller.wait(0.2)
            break
        except subprocess.TimeoutExpired:
            caller.send_signal(signal.SIGINT)
    out, err = caller.communicate(timeout=60)
    return caller.returncode, out, err


def test_an_interrupt_cancels_waiting_tasks_and_interrupts_running_ones(lab, tmp_path):
    script = 'trap "exit 3" INT; : >$LBD_ARRAY_INDEX; while :; do sleep 0.05; done'
    status, out, err = interrupted(lab, script, tmp_path)
    assert (status, out) == (130, "")
    assert err == "lbrun: interrupted: 4 failed, 8 cancelled (never started)\n"
    assert len(list(tmp_path.iterdir())) == 4  # no other has started


def test_two_interrupts_end_all(lab, tmp_path):
    script = 'trap "" INT TERM; : >$LBD_ARRAY_INDEX; while :; do sleep 0.05; done'
    status, _, err = interrupted(lab, script, tmp_path, often=True)
    assert status == 130
    assert err.startswith("lbrun: interrupted: ")
    assert len(list(tmp_path.iterdir())) == 4


def test_an_interrupt_of_one_waiting_job(lab):
    blocks = submit(lab, "--array", "1-4", "sleep", "600")
    lab.wait_until(lambda: array(lab, blocks)["tasks"]["running"] == 4, "all slots are taken")
    caller = lab.popen("h2", "lbrun", "-q", "--name", "behind", "true", stdin=subprocess.DEVNULL,
                       stderr=subprocess.PIPE, text=True)  # fmt: skip
    waits = lambda: any(one["name"] == "behind" for one in lab.lbctl_json("h1", "jobs"))  # noqa: E731
    lab.wait_until(waits, "it waits")
    caller.send_signal(signal.SIGINT)
    caller.communicate(timeout=60)
    assert caller.returncode == 130
    lab.run("h2", "lbctl", "kill", blocks, check=True)


def test_progress_is_shown_only_on_a_terminal(lab, tmp_path):
    script = "until test -e go; do sleep 0.05; done; echo out"
    words = ("--array", "1-6%2", "sh", "-c", script)

    def shown(command, last):
        with Terminal(lab.command("h2", *command), lab.environment("h2", TERM="linux"),
                      cwd=tmp_path) as terminal:  # fmt: skip
            terminal.wait_for("0/6 done, 2 running")
            (tmp_path / "go").touch()
            terminal.wait_for(last)
            assert terminal.process.wait(30) == 0
            terminal.settle()
            (tmp_path / "go").unlink()
            return terminal.lines()

    own = shown(("lbrun", "-q", *words), "out")
    assert own == ["out"] * 6  # the line is gone
    name = submit(lab, *words, cwd=tmp_path)
    assert shown(("lbctl", "wait", name), "all 6 are done") == ["lbctl: all 6 are done"]


def test_when_an_array_ends_is_said_before_it_begins(lab):
    words = "sleep", "0.15"
    assert wait(lab, submit(lab, "--array", "1-24", *words)) == 0
    blocks = submit(lab, "--array", "1-4", "sleep", "60")
    try:
        lab.wait_until(lambda: array(lab, blocks)["tasks"]["running"] == 4, "they run")
        name = submit(lab, "--array", "1-8", *words)
        (found,) = lab.lbctl_json("h1", "jobs", name)
        assert found["expected_end"] > found["submitted"] + found["predicted_wait_s"]
        low, high = found["expected_end_90"]
        assert low < found["expected_end"] < high
        shown = lab.run("h1", "lbctl", "job", name, check=True).stdout
        assert "\nbegins   in " in shown
        assert "\nends     in " in shown
        (running,) = lab.lbctl_json("h1", "jobs", blocks)
        assert running["expected_end"] > running["started"]
        assert running["expected_by"]
    finally:
        lab.run("h1", "lbctl", "kill", blocks, check=True)
    assert wait(lab, name) == 0
    assert array(lab, name)["expected_end"] is None


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("5-1", "5-1: 5-1 is backwards; use 1-5"),
        ("1-200000", ": 200000 tasks; dispatch.max_array is 100000"),
    ],
)  # fmt: skip
def test_a_senseless_option_is_one_line_and_queues_nothing(lab, given, line):
    before = submit(lab, "true")
    result = lab.run("h2", "lbrun", "-d", "--array", given, "true")
    assert (result.returncode, result.stdout) == (125, "")
    assert result.stderr in (f"lbrun: --array {line}\n", f"lbrun: --array{line}\n")
    assert str(array(lab, "last")["id"]) == before


def test_the_files_of_failed_tasks_are_shown(lab, tmp_path):
    script = "echo of $LBD_ARRAY_INDEX; test $LBD_ARRAY_INDEX = 2"
    name = submit(lab, "--array", "1-3", "-o", "run.%a", "sh", "-c", script, cwd=tmp_path)
    assert wait(lab, name) == 1
    told = lab.run("h1", "lbctl", "logs", "--failed", name, check=True)
    lines = told.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[::2]] == [f"==> {name}_1", f"==> {name}_3"]
    assert lines[1::2] == ["of 1", "of 3"]
    assert told.stderr == ""


def test_the_outputs_of_an_array_are_shown_in_order(lab):
    name = submit(lab, "--array", "8-11", "sh", "-c", "echo $LBD_ARRAY_INDEX is it")
    assert wait(lab, name) == 0
    for which, indexes in ((name, (8, 9, 10, 11)), (f"{name}_[9-10]", (9, 10))):
        lines = lab.run("h2", "lbctl", "logs", which, check=True).stdout.splitlines()
        assert lines[1::2] == [f"{index} is it" for index in indexes]
        assert [line.partition(":")[0] for line in lines[::2]] == [
            f"==> {name}_{index}" for index in indexes
        ]


def test_senseless_ids_are_one_line(lab):
    name = submit(lab, "--array", "1-3", "true")
    assert wait(lab, name) == 0
    cases = {
        ("logs", "-f", name): f"{name} is an array; name one of its tasks, like {name}_1",
        ("job", f"{name}_9"): f"array {name} has no task 9; its indexes are 1-3",
        ("update", f"{name}_1", "--name", "x"):
            f"{name}_1: the tasks of an array can only be changed together; name the array, {name}",
        ("update", name): "nothing to change: give --priority, --name, --timeout or --begin",
    }  # fmt: skip
    for words, line in cases.items():
        result = lab.run("h2", "lbctl", *words)
        assert (result.returncode > 0, result.stderr) == (True, f"lbctl: {line}\n")

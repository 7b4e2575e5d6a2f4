"""What a job needs, as the command-line contract has it: of its host, of other jobs, of time.

One file because all of it is asked of one lab, whose start takes longer than most of these tests.
"""

import re
import signal
import time
from functools import partial
from types import SimpleNamespace

import psutil
import pytest
from cluster import FAST, Lab, wait_until
from contract import assert_one_line, bounded

GIB = 2**30
# h1 and h2 differ in everything that a job can need.
HAS = (
    'h1:host.features=["big"]', "h1:host.memory=1G", "h1:resources.gpu=2",
    "h1:resources.scratch=200G",
    'h2:host.features=["small", "quiet"]', "h2:host.memory=512M", "h2:resources.licence=1",
)  # fmt: skip


WORDS = [word for one in HAS for word in ("--host-set", one)]
LAB = partial(Lab.up, 2, "none", "--mode", "fcfs", *WORDS, settings=(*FAST, "lbm.slots=8"))


def queued(lab, *words, host="h1"):
    """`lbrun -d …`: the id, which is all of its output, and its standard error."""
    result = lab.run(host, "lbrun", "-d", *words)
    assert result.returncode == 0, (words, result.stderr)
    assert re.fullmatch(r"[0-9]+\n", result.stdout), (words, result.stdout)
    return SimpleNamespace(id=result.stdout.strip(), said=result.stderr)


def rows(lab, *jobs):
    """Each job as `lbctl jobs` shows it."""
    ids = [one.id for one in jobs]
    found = {row["id"]: row for row in lab.lbctl_json("h1", "jobs", "--all", *ids)}
    return [found[one] for one in ids]


def ends(lab, *jobs):
    """The same rows once all jobs have ended."""
    result = lab.run("h1", "lbctl", "wait", "--timeout", "20s", *(one.id for one in jobs))
    assert result.returncode in (0, 1), result.stderr
    return rows(lab, *jobs)


def wait_for(lab, jobs, *parts):
    """Waits until the jobs are pending for these reasons."""

    def with_reasons():
        found = rows(lab, *jobs)
        return all(row["reason"] for row in found) and found

    found = lab.wait_until(with_reasons, "reasons to wait")
    assert states(found) == ["pending"] * len(found)
    assert not [row for row in found for part in parts if part not in row["reason"]], found


def states(found):
    return [row["state"] for row in found]


@pytest.fixture
def gate(tmp_path):
    """gate.argv runs until gate.open(), which the end of the test calls in any case."""
    path = tmp_path / "gate"
    script = f"until [ -e {path} ]; do sleep 0.05; done"
    yield SimpleNamespace(argv=("sh", "-c", script), script=script, open=path.touch)
    path.touch()


def used(lab, host="h1", name="gpu"):
    rows = lab.lbctl_json("h1", "status")["hosts"]
    return {row["name"]: row for row in rows}[host]["resources"][name]["used"]


# What hosts have


def test_status_has_memory_features_and_resources(lab):
    for asked in lab.hosts:
        hosts = {row["name"]: row for row in lab.lbctl_json(asked, "status")["hosts"]}
        assert {"big"} <= set(hosts["h1"]["features"])
        assert {"small", "quiet"} <= set(hosts["h2"]["features"])
        assert "big" not in hosts["h2"]["features"]
        kinds = {"gpu": {"total": 2, "used": 0}, "scratch": {"total": 200 * GIB, "used": 0}}
        assert hosts["h1"]["resources"].items() >= kinds.items()
        assert hosts["h2"]["resources"]["licence"] == {"total": 1, "used": 0}
        for row in hosts.values():
            assert row["memory"]["available"] > 0
            assert row["memory"]["total"] > 0


# Resources

WHAT = 'echo "$LBD_HOST $LBD_RESOURCE_GPU $CUDA_VISIBLE_DEVICES"'


@pytest.mark.parametrize("how", [(), ("-q",)], ids=["immediate", "queued"])
@pytest.mark.parametrize("origin", ["h1", "h2"])
def test_a_command_finds_what_it_got(lab, how, origin):
    one = lab.run(origin, "lbrun", *how, "--need", "gpu", "sh", "-c", WHAT)
    assert one.stdout in ("h1 0 0\n", "h1 1 1\n"), one
    both = lab.run(
        origin, "lbrun", *how, "--need", "gpu=2", "--need", "scratch=50G", "sh", "-c", WHAT
    )
    host, indices, cuda = both.stdout.split()
    assert (host, sorted(indices.split(",")), cuda) == ("h1", ["0", "1"], indices)
    licence = "echo $LBD_HOST $LBD_RESOURCE_LICENCE ${CUDA_VISIBLE_DEVICES-none}"
    other = lab.run(origin, "lbrun", *how, "--need", "licence", "sh", "-c", licence)
    assert other.stdout == "h2 0 none\n", other
    assert (one.stderr, both.stderr, other.stderr) == ("", "", "")


def test_a_resource_is_counted_over_queued_and_immediate_commands(lab, gate, tmp_path):
    holds = queued(lab, "--need", "gpu", *gate.argv)
    lab.wait_until(lambda: used(lab) == 1, "the queued one has it")
    script = "echo $LBD_RESOURCE_GPU; cat"
    attached = lab.popen("h2", "lbrun", "--need", "gpu", "sh", "-c", script, stdin=-1, stdout=-1)
    with bounded(attached):
        index = attached.stdout.readline().decode()
    lab.wait_until(lambda: used(lab) == 2, "the immediate one has the other")
    third = queued(lab, "--need", "gpu", "sh", "-c", "echo $LBD_RESOURCE_GPU")
    began = tmp_path / "began"
    fourth = lab.popen("h1", "lbrun", "--need", "gpu=2", "sh", "-c", f"date +%s.%N >{began}")
    wait_for(lab, [third], "gpu")
    assert not began.exists()
    with bounded(attached):
        attached.communicate()
    ends(lab, third)
    assert lab.run("h1", "lbctl", "logs", third.id).stdout == index  # the index that became free
    assert not began.exists()  # it needs both
    gate.open()
    [first] = ends(lab, holds)
    with bounded(fourth):
        assert fourth.wait() == 0
    assert float(began.read_text()) >= first["finished"] - 0.1
    lab.wait_until(lambda: used(lab) == 0, "all came back")


def test_no_index_is_given_to_two_tasks_at_once(lab, tmp_path):
    held = f"{tmp_path}/$LBD_RESOURCE_GPU"
    script = f"mkdir {held} || exit 9; sleep 0.1; rmdir {held}"
    array = queued(lab, "--need", "gpu", "--array", "1-6", "sh", "-c", script)
    [row] = ends(lab, array)
    assert (row["state"], row["tasks"]["done"]) == ("done", 6), row


UNMEETABLE = (
    ("--need", "gpu=3"), ("--need", "telescope"), ("--need", "scratch=1000G"),
    ("--need", "gpu", "--need", "licence"), ("--feature", "nowhere"),
    ("--feature", "big", "--feature", "small"),
    ("--not-feature", "big", "--not-feature", "small"),
    ("--feature", "small", "--need", "gpu"), ("-x", "h1", "--need", "gpu"),
)  # fmt: skip


def test_needs_that_no_host_can_meet(lab, tmp_path):
    ran = tmp_path / "ran"
    for needs in UNMEETABLE:  # refused at once: to wait for a slot would take longer
        refused = lab.run("h1", "lbrun", *needs, "touch", ran, timeout=90)
        assert (refused.returncode, refused.stdout) == (125, ""), needs
        assert_one_line(refused.stderr)
    taken = [queued(lab, *needs, "touch", ran) for needs in UNMEETABLE]
    for one in taken:
        assert_one_line(one.said)
    wait_for(lab, taken)
    lab.run("h1", "lbctl", "kill", *(one.id for one in taken), check=True)
    assert set(states(ends(lab, *taken))) == {"cancelled"}
    assert not ran.exists()


NOT_THERE = (
    ("-H", "h2", "--need", "gpu"), ("--local", "--need", "licence"),
    ("-H", "h2", "--feature", "big"), ("-H", "h1", "--not-feature", "big"),
    ("--remote", "--feature", "big"),
)  # fmt: skip


def test_a_need_that_the_only_permitted_host_lacks(lab):
    for words in NOT_THERE:
        refused = lab.run("h1", "lbrun", *words, "echo", "ran", timeout=90)
        assert (refused.returncode, refused.stdout) == (125, ""), words
        assert_one_line(refused.stderr)


# Features


@pytest.mark.parametrize("how", [(), ("-q",)], ids=["immediate", "queued"])
def test_only_hosts_that_have_or_lack_a_feature(lab, how):
    for words, host in (
        (("--feature", "big"), "h1"), (("--feature", "small"), "h2"),
        (("--not-feature", "big"), "h2"), (("--not-feature", "quiet"), "h1"),
        (("--feature", "small", "--feature", "quiet", "--not-feature", "big"), "h2"),
    ):  # fmt: skip
        for origin in lab.hosts:
            result = lab.run(origin, "lbrun", *how, *words, "sh", "-c", "echo $LBD_HOST")
            assert (result.stdout, result.stderr) == (f"{host}\n", ""), (words, origin)


# Memory


def test_memory_is_a_request_in_the_queue(lab, gate):
    first = queued(lab, "--mem", "700M", *gate.argv)
    beside = queued(lab, "--mem", "300M", "--feature", "big", *gate.argv)
    second = queued(lab, "--mem", "700M", "true")
    behind = queued(lab, "true")  # strictly first come, first served
    lab.wait_until(
        lambda: states(rows(lab, first, beside)) == ["running"] * 2, "both run: 1000M of 1024M"
    )
    wait_for(lab, [second], "mem")
    wait_for(lab, [behind])
    # Without the queue it is a limit only.
    limited = lab.run("h1", "lbrun", "-H", "h2", "--mem", "800M", "sh", "-c", "echo $LBD_HOST")
    assert limited.stdout == "h2\n", limited
    gate.open()
    found = ends(lab, first, beside, second, behind)
    assert states(found) == ["done"] * 4
    assert [row["host"] for row in found[:3]] == ["h1"] * 3
    freed = min(row["finished"] for row in found[:2])
    assert min(row["started"] for row in found[2:]) >= freed


def test_more_memory_than_any_host_has(lab):
    taken = queued(lab, "--mem", "2G", "true")
    assert_one_line(taken.said)
    wait_for(lab, [taken], "mem")
    lab.run("h1", "lbctl", "kill", taken.id, check=True)
    assert lab.run("h1", "lbrun", "--mem", "2G", "echo", "ran").stdout == "ran\n"


# After others


def test_after_others_that_ended_in_a_given_way(lab, gate):
    well = queued(lab, *gate.argv)
    badly = queued(lab, "sh", "-c", f"{gate.script}; exit 3")
    both = f"{well.id},{badly.id}"
    runs = {
        ("--after", well.id): [well], ("--after-ok", well.id): [well],
        ("--after-failed", badly.id): [badly], ("--after-any", both): [well, badly],
        ("--after", well.id, "--after-failed", badly.id): [well, badly],
    }  # fmt: skip
    cannot = (("--after", badly.id), ("--after-ok", both), ("--after-failed", well.id))
    running = [queued(lab, *words, "true") for words in runs]
    cancelled = [queued(lab, *words, "true") for words in cannot]
    cancelled.append(queued(lab, "--after", cancelled[0].id, "true"))
    running.append(queued(lab, "--after-any", cancelled[0].id, "true"))
    wait_for(lab, [*running, *cancelled])
    passes = queued(lab, "true")  # the waiting jobs do not hold it up
    assert states(ends(lab, passes)) == ["done"]
    gate.open()
    first, second, *found = ends(lab, well, badly, *running, *cancelled)
    assert states([first, second]) == ["done", "failed"]
    ran, rest = found[: len(running)], found[len(running) :]
    assert states(ran) == ["done"] * len(running)
    ended = {well.id: first["finished"], badly.id: second["finished"]}
    for row, others in zip(ran, runs.values(), strict=False):
        assert row["started"] >= max(ended[other.id] for other in others), row
    for row in rest:
        assert (row["state"], row["started"], row["exit_status"]) == ("cancelled", None, None)
        assert row["reason"]

    # All of them have ended: a condition already met starts its job, an impossible one cancels it.
    late = [("--after", badly.id), ("--after-failed", well.id), ("--after", well.id),
            ("--after-any", both), ("--after-failed", badly.id)]  # fmt: skip
    found = ends(lab, *[queued(lab, *words, "true") for words in late])
    assert states(found) == ["cancelled"] * 2 + ["done"] * 3
    assert all(row["reason"] for row in found[:2])
    attached = lab.run("h1", "lbrun", "-q", "--after", badly.id, "echo", "ran")
    assert (attached.returncode, attached.stdout) == (125, "")
    assert_one_line(attached.stderr)


def test_after_arrays_and_tasks(lab):
    script = "exit $((LBD_ARRAY_INDEX == 2))"
    array = queued(lab, "--array", "1-3", "sh", "-c", script)
    after = [
        queued(lab, option, which, "true")
        for option in ("--after", "--after-failed", "--after-any")
        for which in (array.id, f"{array.id}_1", f"{array.id}_2")
    ]
    assert states(ends(lab, *after)) == [
        "cancelled", "done", "cancelled", "done", "cancelled", "done", "done", "done", "done",
    ]  # fmt: skip


# At a given time


def local(seconds, form="%H:%M"):
    return time.strftime(form, time.localtime(time.time() + seconds))


def test_not_before_its_time(lab):
    past = queued(lab, "--begin", "2020-12-01T06:00", "true")
    assert_one_line(past.said)
    before_s = time.time()
    soon = queued(lab, "--begin", "+1s", "true")
    later = [
        queued(lab, "--begin", when, "true")
        for when in ("+2h", local(3600), local(-120), local(86400 * 40, "%Y-%m-%dT%H:%M"))
    ]
    assert {one.said for one in (soon, *later)} == {""}
    ran = ends(lab, past, soon)
    assert states(ran) == ["done", "done"]
    assert ran[1]["started"] >= before_s + 1
    wait_for(lab, later)
    lab.run("h1", "lbctl", "update", later[0].id, "--begin", "+0s", check=True)
    assert states(ends(lab, later[0])) == ["done"]
    lab.run("h1", "lbctl", "kill", *(one.id for one in later[1:]), check=True)
    assert states(ends(lab, *later[1:])) == ["cancelled"] * 3


# At the job's end


def test_notify_runs_where_it_was_submitted(lab, tmp_path):
    heard, notified = tmp_path / "heard", tmp_path / "pid"
    line = f'echo "$LBD_JOB_ID:$LBD_STATE:$LBD_EXIT_STATUS:$(id -u)" | cat >>{heard}'
    where = ("--notify", line)
    never = queued(lab, "--begin", "+2h", *where, "true", host="h2")
    lab.run("h1", "lbctl", "kill", never.id, check=True)
    well = queued(lab, *where, "true", host="h2")
    badly = queued(lab, *where, "sh", "-c", "exit 3", host="h2")
    killed = queued(lab, *where, "sh", "-c", "kill -TERM $$", host="h2")
    chained = queued(lab, "--after", badly.id, *where, "true", host="h2")
    script = 'test "$LBD_ARRAY_INDEX" != 2'
    array = queued(lab, "--array", "1-3", *where, "sh", "-c", script, host="h2")
    assert lab.run("h2", "lbrun", "-q", *where, "echo", "ran").stdout == "ran\n"
    ends(lab, never, well, badly, killed, chained, array)
    lab.wait_until(
        lambda: len(heard.read_text().split()) >= 7, "each was notified", see=heard.read_text
    )
    lines = {line.split(":")[0]: line.split(":")[1:] for line in heard.read_text().split()}
    user = str(psutil.Process().uids().real)
    assert lines[well.id] == ["done", "0", user]
    assert lines[badly.id] == ["failed", "3", user]
    assert lines[killed.id] == ["failed", "143", user]
    assert lines[never.id] == ["cancelled", "", user]
    assert lines[chained.id] == ["cancelled", "", user]
    assert lines[array.id][0] == "failed"
    assert len(heard.read_text().split()) == 7  # once each, an array too

    hold = f"echo $$ >{notified}.new; mv {notified}.new {notified}; exec sleep 30"
    queued(lab, "--feature", "big", "--notify", hold, "true", host="h2")
    pid = int(lab.wait_until(lambda: notified.exists() and notified.read_text(), "it runs"))
    parents = {process.pid for process in psutil.Process(pid).parents()}
    daemons = lab.pids()
    assert parents & set(daemons["h2"].values()), (parents, daemons)
    assert not parents & set(daemons["h1"].values())
    psutil.Process(pid).kill()


# Arrays


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [("5-7", {5, 6, 7}), ("0-10:5", {0, 5, 10}), ("1,3,7-9%2", {1, 3, 7, 8, 9}), ("4", {4})],
)
def test_the_indexes_of_an_array(lab, tmp_path, indexes, expected):
    script = "echo $LBD_ARRAY_ID $LBD_JOB_ID $LBD_ARRAY_INDEX"
    array = queued(lab, "--array", indexes, "-o", f"{tmp_path}/%j-%a", "sh", "-c", script)
    ends(lab, array)
    for index in expected:
        path = tmp_path / f"{array.id}_{index}-{index}"
        assert path.read_text() == f"{array.id} {array.id}_{index} {index}\n"
    assert len(list(tmp_path.iterdir())) == len(expected)


TASKS = {"pending", "running", "done", "failed", "cancelled", "lost"}


def tasks(row):
    """The number of its tasks in each state, as far as there are any."""
    assert row["tasks"].keys() >= TASKS
    return {state: count for state, count in row["tasks"].items() if count}


def test_the_number_of_tasks_at_once_is_limited(lab, tmp_path):
    """Each task marks that it runs, and fails if more run than may."""
    running = tmp_path / "running"
    running.mkdir()
    script = (f"touch {running}/$LBD_ARRAY_INDEX; sleep 0.1; set -- {running}/*; "
              f"rm {running}/$LBD_ARRAY_INDEX; [ $# -le 2 ]")  # fmt: skip
    array = queued(lab, "--array", "1-7%2", "sh", "-c", script)
    [row] = ends(lab, array)
    assert tasks(row) == {"done": 7}


def test_an_array_is_one_job(lab, gate):
    script = f"{gate.script}; [ $LBD_ARRAY_INDEX != 2 ]"
    array = queued(lab, "--array", "1-4%2", "sh", "-c", script)
    lab.wait_until(lambda: rows(lab, array)[0]["tasks"]["running"] == 2, "two run")
    [row] = [row for row in lab.lbctl_json("h1", "jobs") if row["id"] == array.id]
    assert tasks(row) == {"pending": 2, "running": 2}
    assert "array_index" not in row
    assert row["array"].startswith("1-4")
    shown = lab.run("h1", "lbctl", "jobs").stdout.splitlines()
    assert len([line for line in shown if f"{array.id}_" in line]) == 1
    assert [line for line in shown if f"{array.id}_[3-4]" in line], shown
    each = lab.lbctl_json("h1", "jobs", "--tasks", array.id)
    assert {(one["id"], one["array_id"], one["array_index"]) for one in each} == {
        (f"{array.id}_{index}", array.id, index) for index in range(1, 5)
    }
    [task] = lab.lbctl_json("h1", "jobs", f"{array.id}_3")
    assert (task["array_id"], task["array_index"], task["state"]) == (array.id, 3, "pending")
    lab.run("h1", "lbctl", "kill", f"{array.id}_3", check=True)
    gate.open()
    [row] = ends(lab, array)
    assert tasks(row) == {"done": 2, "failed": 1, "cancelled": 1}


def test_the_end_of_an_attached_array(lab):
    script = "case $LBD_ARRAY_INDEX in 7) exit 1;; 9) kill -9 $$;; esac; echo $LBD_ARRAY_ID"
    result = lab.run("h1", "lbrun", "-q", "--array", "6-9", "sh", "-c", script)
    [array, other] = result.stdout.split()
    assert array == other
    said = f"lbrun: 2 of 4 tasks failed: 7 (exit 1), 9 (signal 9); lbctl logs {array}_7\n"
    assert result.stderr == said
    assert result.returncode == 1


def test_an_interrupted_array(lab, tmp_path):
    script = (f"trap 'touch {tmp_path}/int; exit 7' INT; echo $LBD_ARRAY_ID >{tmp_path}/id; "
              "while :; do sleep 0.05; done")  # fmt: skip
    attached = lab.popen("h1", "lbrun", "-q", "--array", "1-3%1", "sh", "-c", script, stderr=-1)
    path = tmp_path / "id"
    array = wait_until(lambda: path.exists() and path.read_text().strip(), "a task begins")
    known = SimpleNamespace(id=array)
    lab.wait_until(lambda: tasks(*rows(lab, known)).get("running") == 1, "it is known to run")
    attached.send_signal(signal.SIGINT)
    with bounded(attached):
        attached.communicate()
    assert attached.returncode == 130
    assert (tmp_path / "int").exists()
    assert tasks(*rows(lab, known)) == {"failed": 1, "cancelled": 2}


# Faulty options

WRONG = (
    ("--need", "gpu=0"), ("--need", "gpu=-1"), ("--need", "gpu=some"), ("--need", "gpu="),
    ("--need", "=1"), ("--need", ""), ("--mem", "512"), ("--mem", "1023"), ("--mem", "0"),
    ("--feature", ""), ("--not-feature", ""),
    ("--array", "3-1"), ("--array", "1-5:0"), ("--array", "1-5%0"), ("--array", ""),
    ("--array", "a-b"), ("--array", "1,"), ("--array", "1-2,2-3"), ("--array", "1-5%"),
    ("--after", ""), ("--after", "x"), ("--after", "1,"), ("--after-any", "99999999"),
    ("--begin", "25:00"), ("--begin", "yesterday"), ("--begin", ""), ("--begin", "+"),
    ("--begin", "2026-13-01T06:00"), ("--begin", "2027-02-29T06:00"), ("--begin", "+2x"),
)  # fmt: skip


def test_nothing_is_queued_when_an_option_is_wrong(lab):
    kept = []
    for words in WRONG:
        result = lab.run("h1", "lbrun", "-d", "--name", "wrong", *words, "true")
        if (result.returncode, result.stdout) != (125, ""):
            kept.append((words, result))
        else:
            assert_one_line(result.stderr)
    assert not kept
    assert lab.lbctl_json("h1", "jobs", "--all", "--name", "wrong") == []
    for bare in ("512", "1023"):
        assert "unit" in lab.run("h1", "lbrun", "--mem", bare, "true").stderr
    assert queued(lab, "--mem", "1024", "true").said == ""


def test_options_that_only_the_queue_can_meet(lab):
    for words in (("--after", "1"), ("--after-any", "1"), ("--begin", "+2h"), ("--array", "1-3"),
                  ("--notify", "true")):  # fmt: skip
        result = lab.run("h1", "lbrun", *words, "echo", "ran")
        assert (result.returncode, result.stdout) == (125, ""), words
        assert_one_line(result.stderr)


def test_ctrl_c_interrupts_a_command_that_has_just_begun(lab, tmp_path):
    """It gets INT, not TERM, even if the dispatcher has not yet heard that it started."""
    for attempt in range(3):
        began, said = tmp_path / f"began{attempt}", tmp_path / f"said{attempt}"
        script = (f"trap 'echo int >{said}; exit 7' INT; trap 'echo term >{said}; exit 8' TERM; "
                  f"touch {began}; while :; do sleep 0.05; done")  # fmt: skip
        attached = lab.popen("h1", "lbrun", "-q", "sh", "-c", script, stderr=-1)
        lab.wait_until(began.exists, "it has begun")
        attached.send_signal(signal.SIGINT)
        with bounded(attached):
            attached.communicate()
        assert (said.read_text(), attached.returncode) == ("int\n", 7), attempt

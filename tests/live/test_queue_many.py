"""Very many jobs, or jobs with long commands: more than fits into one message."""

import json
import subprocess
import time
from functools import partial

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.queue_past import away
from tests.live.test_users import ANN, asked_by

MANY, PAST = 20_000, 100_001
SETTINGS = (
    *FAST, "dispatch.lease_s=20", "lbm.slots=2", f"dispatch.max_jobs={2 * MANY}",
    f'users.allow=["{ANN}"]',
)  # fmt: skip
LONG = "x" * 1000


LAB = partial(Lab.up, 2, "none", "--mode", "fcfs", settings=SETTINGS)


def test_an_array_of_long_commands_can_be_waited_for_and_shown(lab):
    words = ("--array", f"1-{MANY}", "--no-stdin", "-H", "h9", "--idempotency-key", "all")
    words = (*words, "echo", LONG)
    waiting = lab.popen("h2", "lbrun", "-q", *words, stdout=-1, stderr=subprocess.PIPE)
    try:
        assert b"no host named h9" in waiting.stderr.readline()
        told = lab.run("h2", "lbctl", "jobs", "--tasks", "--json")
        shown = len(json.loads(told.stdout))
        assert (told.returncode, shown > MANY // 2) == (1, True)
        assert told.stderr.startswith(f"lbctl: {MANY - shown} older jobs of the queue left out: ")
        (of_array,) = lab.lbctl_json("h2", "jobs", "1")
        assert of_array["tasks"]["pending"] == MANY
        of_all = lab.run("h2", "lbctl", "jobs", "--tasks", "1")
        assert (of_all.returncode, of_all.stdout) == (1, "")
        assert of_all.stderr.endswith("do not fit into one answer; name fewer at a time\n")
        of_some = lab.run("h2", "lbctl", "jobs", "--json", "1_2-4", check=True)
        assert [job["id"] for job in json.loads(of_some.stdout)] == ["1_2", "1_3", "1_4"]
        full = lab.run("h2", "lbrun", "-d", "--array", f"1-{MANY}", "true")
        complaint = f"lbrun: root has {MANY} jobs in the queue; the limit per user is "
        assert (full.returncode, full.stdout) == (125, "")
        assert full.stderr.startswith(complaint), full.stderr
        same = lab.run("h2", "lbrun", "-d", *words)  # it is queued already
        assert (same.returncode, same.stdout) == (0, "1\n")
        lab.run("h1", "lbctl", "kill", "1", check=True)
        _, complaints = waiting.communicate(timeout=40)
    finally:
        waiting.kill()
        waiting.wait()
    assert waiting.returncode == 125
    ends = f"lbrun: {MANY} of {MANY} tasks were cancelled"
    assert complaints.decode().splitlines() == [ends]


def test_jobs_can_be_acted_on_however_many_have_ended(lab):
    lab.run("h1", "lbctl", "wait", lab.run("h1", "lbrun", "-d", "true").stdout.strip(), check=True)
    with away(lab) as db:
        (first,) = db.execute("SELECT value FROM counters WHERE name = 'next_job'").fetchone()
        db.execute("BEGIN")
        (submission,) = db.execute(
            'INSERT INTO submissions ("user", origin, name, command, spec, slots, may_restart,'
            " only_host, idempotency_key, first_job, jobs, slots_most, priority, uid)"
            " SELECT 'root', origin, name, x'74727565', spec, slots, may_restart, '', '', ?, ?,"
            " slots_most, priority, uid FROM submissions LIMIT 1 RETURNING id", (first, PAST)
        ).fetchone()  # fmt: skip
        columns = "id, submission, state, tier, attempt, crashes, barred, reason, host, submitted"
        db.executemany(
            f"INSERT INTO jobs ({columns}, finished, signal, cause)"
            " VALUES (?, ?, 'done', 1, 1, 0, '', '', 'h1', ?, ?, 0, 'exited')",
            ((first + n, submission, time.time(), time.time()) for n in range(PAST)),
        )
        db.execute("UPDATE counters SET value = value + ? WHERE name = 'next_job'", (PAST,))
        db.execute("COMMIT")
    name = lab.run("h2", "lbrun", "-d", "-H", "h9", "true", check=True).stdout.strip()
    for verb, did in (("hold", "held"), ("release", "released"), ("kill", "killed")):
        acted = lab.run("h2", "lbctl", verb, "@me")
        said = f"{did} {name}\n"
        assert (acted.returncode, acted.stdout, acted.stderr) == (0, said, ""), verb
    again = lab.run("h2", "lbctl", "kill", f"{first}-{name}")
    assert again.stderr == "lbctl: nothing to kill: all these jobs have ended\n"
    beyond = lab.run("h2", "lbctl", "kill", f"{int(name) + 1}-{int(name) + 9}")
    assert beyond.stderr.startswith("lbctl: no job ")


@pytest.mark.root
def test_jobs_of_others_are_not_missed_in_ones_own_list(lab):
    """A long array of somebody's took all room in everybody's lists, and no list was whole."""
    lab.root.chmod(0o755)  # as /run/lbd
    words = ("--array", "1-2000", "-H", "h9", "echo", LONG * 10)
    array = lab.run("h2", "lbrun", "-d", *words, check=True).stdout.strip()
    assert lab.run("h2", "lbctl", "jobs", "--tasks", "--json").returncode == 1
    for ended_too in (False, True):
        told = asked_by(lab, ANN, "jobs", host="h2", all=ended_too, tasks=True)
        assert (told["jobs"], told["missing"], told["unlisted"]) == ([], [], 0)
    lab.run("h2", "lbctl", "kill", array, check=True)

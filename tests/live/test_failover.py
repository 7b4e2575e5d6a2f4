"""Several dispatchers with one PostgreSQL: whichever is killed, no job is forgotten or doubled.

A longer run: LBD_FAILOVER_S=600 LBD_FAILOVER_SEED=7 tests/run tests/live/test_failover.py
"""

import contextlib
import os
import random
import subprocess
import time

import pytest

from lbd.errors import LbdError
from lbd.text.job_phrases import ENDED_UNRECORDED
from tests.live.cluster import FAST, Lab
from tests.live.conftest import reloading
from tests.live.test_owner import OWNER, Terminal
from tests.live.test_queue_faults import COUNTED, check_counts, put_script
from tests.postgres import Postgres

SETTINGS = (
    *FAST, "dispatch.lease_s=6", "dispatch.leader_lease_s=1", "dispatch.aside_s=0.5",
    "dispatch.aside_max_s=1", "dispatch.crash_limit=1000", "dispatch.gang_drain_s=60",
    "lbm.slots=2",
)  # fmt: skip
# The tasks of a gang: each waits until all others of the same attempt are there.
MEETS = """
exec 9>>"lock.$LBD_JOB_ID"
flock -n 9 || { echo "$LBD_JOB_ID $LBD_ATTEMPT" >>twice; exit 99; }
echo "begin $LBD_ATTEMPT" >>"did.$LBD_JOB_ID"
: >"at.$LBD_ATTEMPT.$LBD_ARRAY_INDEX"
n=0
until [ "$(ls at."$LBD_ATTEMPT".* | wc -l)" = "$1" ]; do
    n=$((n + 1)); [ $n -lt 600 ] || exit 9; sleep 0.05
done
echo "end $LBD_ATTEMPT" >>"did.$LBD_JOB_ID"
"""
UNTIL = "until [ -e go ]; do sleep 0.05; done"
ONLY_ELSEWHERE = 'echo "$LBD_ATTEMPT $LBD_HOST" >>moved; [ "$LBD_HOST" != h2 ] || sleep 60'
SECONDS = float(os.environ.get("LBD_FAILOVER_S", "3"))


@pytest.fixture(scope="module")
def postgres():
    server = Postgres()
    yield server
    server.close()


@pytest.fixture(scope="module")
def lab(postgres):
    lab = Lab.up(3, "none", "--store", postgres.database(), settings=SETTINGS)
    yield lab
    lab.down()


def leaders(lab):
    """The hosts whose dispatcher says that it leads; those that hang or are dead say nothing."""
    found = []
    for host in lab.hosts:
        with contextlib.suppress(LbdError):
            told = lab.ask(host, "dispatcher", "status", timeout_s=0.5)
            found += [host] if told["leads"] else []
    return found


def leader(lab):
    return lab.wait_until(lambda: leaders(lab), "somebody leads")[0]


def submit(lab, where, host, seconds, *words):
    put_script(where)
    return lab.run(host, "lbrun", "-d", *words, "sh", "counted.sh", seconds, cwd=where)


def wait(lab, host, *names, seconds=60):
    found = lab.run(host, "lbctl", "wait", "--timeout", f"{seconds}s", *names, timeout=seconds + 20)
    if found.returncode != 0:
        told = lab.run(host, "lbctl", "job", *names)
        said = (
            (found.stderr or found.stdout).splitlines(),
            (told.stderr or told.stdout).splitlines(),
        )
        pytest.fail(f"lbctl wait: {found.returncode} {said}; lead: {leaders(lab)}\n{lab.logs()}")


def test_a_standby_takes_over_and_running_jobs_go_on(lab, tmp_path):
    old = leader(lab)
    asker, other = [host for host in lab.hosts if host != old]
    running = submit(lab, tmp_path, asker, "2", "-x", old).stdout.strip()
    lab.wait_until(
        lambda: lab.ask(asker, "lbm", "queue.jobs", ids=[running])["jobs"][0]["state"] == "running",
        "it runs",
    )
    words = ("lbrun", "-q", "-x", old, "sh", "-c", "echo one; sleep 2; echo two")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    watching = lab.popen(asker, *words, stdin=subprocess.DEVNULL, **pipes)
    assert watching.stdout.readline() == "one\n"
    lab.kill(old, "dispatcher")
    attached = lab.run(asker, "lbrun", "-q", "echo", "still")  # waits for the new leader
    assert (attached.returncode, attached.stdout, attached.stderr) == (0, "still\n", "")
    assert leader(lab) in (asker, other)
    assert (*watching.communicate(timeout=120), watching.returncode) == ("two\n", "", 0)
    wait(lab, asker, running)
    told = lab.lbctl_json(asker, "job", running)
    assert [one["state"] for one in told["attempts"]] == ["done"]
    check_counts(tmp_path, [running])
    lab.start(old, "dispatcher")
    status = lab.lbctl_json(old, "status")
    assert status["cluster"]["dispatcher"]["leader"] == leader(lab) != old


@pytest.fixture
def owner_of_h2(lab):
    """A terminal of somebody's on h2, and a rule by which h2 moves jobs when it is used."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a terminal to somebody")
    terminal = Terminal()
    with reloading(lab) as reload:
        reload("admission", owner_idle_s=600.0, owners=(OWNER,), owner_is_back="decide",
               decide_by="timer", decide_after_s=2.0)  # fmt: skip
        yield terminal
    terminal.close()


@pytest.mark.root
def test_a_gang_a_target_and_an_owners_pause_go_on_under_another_leader(lab, owner_of_h2, tmp_path):
    """The leader is killed as the slots that the gang waits for come free, while tasks of the array
    run, and while a job is suspended on a host whose owner is back."""
    old = leader(lab)
    asker = next(host for host in lab.hosts if host != old)

    def queue(*words):
        return lab.run(asker, "lbrun", "-d", *words, cwd=tmp_path, check=True).stdout.strip()

    def job(name):
        return lab.lbctl_json(asker, "job", name)

    def becomes(name, state):
        lab.wait_until(lambda: job(name)["state"] == state, f"{name} is {state}")

    (tmp_path / "counted.sh").write_text(COUNTED)
    (tmp_path / "meets.sh").write_text(MEETS)
    blocker = queue("-n", "2", "-x", "h1", "-x", "h2", "sh", "-c", UNTIL)
    becomes(blocker, "running")
    moved = queue("-x", "h1", "sh", "-c", ONLY_ELSEWHERE)
    becomes(moved, "running")
    words = ("--array", "1-16", "--target", "30s", "--work", "1s", "-x", "h3")
    array = queue(*words, "sh", "counted.sh", "0.5")
    becomes(f"{array}_1", "done")
    gang = queue("--array", "1-3", "--gang", "-x", "h2", "sh", "meets.sh", "3")
    lab.wait_until(lambda: " together and holds " in (job(f"{gang}_1")["reason"] or ""), "it holds")
    owner_of_h2.type()
    becomes(moved, "suspended")
    assert job(f"{array}_16")["state"] != "done"
    assert job(f"{array}_16")["target"]["kind"] == "target"
    (tmp_path / "go").touch()
    lab.kill(old, "dispatcher")
    wait(lab, asker, blocker, moved, array, gang)
    assert leader(lab) != old
    lab.start(old, "dispatcher")
    of_array, of_gang, ended = job(f"{array}_1-16"), job(f"{gang}_1-3"), job(moved)
    check_counts(tmp_path, [one["id"] for one in (*of_array, *of_gang)])
    for one in (job(blocker), ended, *of_array, *of_gang):
        *earlier, last = [attempt["state"] for attempt in one["attempts"]]
        assert (one["state"], last, "done" in earlier) == ("done", "done", False), one
        if one not in of_gang:  # only a gang's start is tried again
            assert set(earlier) <= {"evicted"}, one
    first, second = [attempt["host"] for attempt in ended["attempts"]]
    assert (tmp_path / "moved").read_text() == f"1 h2\n2 {second}\n"
    assert first == "h2" != second
    assert len({one["attempts"][-1]["number"] for one in of_gang}) == 1


def test_nothing_is_lost_while_the_database_is_down(lab, postgres, tmp_path):
    asker = "h2"
    running = submit(lab, tmp_path, asker, "2").stdout.strip()
    postgres.stop()
    try:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        submitting = lab.popen(asker, "lbrun", "-d", "true", stdin=subprocess.DEVNULL, **pipes)
        assert "the dispatcher" in lab.run(asker, "lbctl", "jobs").stderr
        waiting = lab.popen(asker, "lbctl", "wait", running, stdin=subprocess.DEVNULL, **pipes)
        asked = lab.run(asker, "lbctl", "job", running)
        assert (asked.returncode, len(asked.stderr.splitlines())) == (1, 1)
    finally:
        postgres.start()
    out, said = waiting.communicate(timeout=60)
    assert (out, waiting.returncode) == ("", 0)
    if said:  # if the database was down for long
        assert "trying again for" in said or said.startswith(f"lbctl: {ENDED_UNRECORDED}")
    acknowledged, said = submitting.communicate(timeout=60)
    if submitting.returncode:  # it was down for too long
        assert "nothing was queued" in said
        assert len(said.splitlines()) <= 2  # it may have said before that it waits
    wait(lab, asker, running, *acknowledged.split())
    check_counts(tmp_path, [running])


def misfortune(lab, postgres, rng):
    """A fault of the leader or of the database, over when this returns."""
    what = rng.choice(("kill", "kill", "kill", "stop", "database"))
    if what == "database":
        postgres.stop()
        time.sleep(rng.uniform(0.0, 1.0))
        postgres.start()
        return
    host = leader(lab)
    if what == "kill":
        lab.kill(host, "dispatcher")
        time.sleep(rng.uniform(0.0, 2.0))
        lab.start(host, "dispatcher")
    else:
        lab.kill(host, "dispatcher", "STOP")
        time.sleep(rng.uniform(1.0, 5.0))
        lab.kill(host, "dispatcher", "CONT")


def test_every_acknowledged_job_ends_once_while_leaders_are_killed(lab, postgres, tmp_path):
    seed = int(os.environ.get("LBD_FAILOVER_SEED", random.SystemRandom().randrange(1 << 30)))
    print(f"seed {seed}")
    rng = random.Random(seed)
    names, until_s = [], time.monotonic() + SECONDS
    (tmp_path / "counted.sh").write_text(COUNTED)
    while time.monotonic() < until_s:
        submitting = [
            lab.popen(
                host, "lbrun", "-d", "--array", "1-10", "sh", "counted.sh", "0.2",
                cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                stdin=subprocess.DEVNULL,
            )
            for host in lab.hosts
        ]  # fmt: skip
        misfortune(lab, postgres, rng)
        for one in submitting:
            acknowledged, said = one.communicate(timeout=60)
            assert bool(acknowledged) == (one.returncode == 0), said
            if acknowledged:
                names.append(acknowledged.strip())
    assert names
    wait(lab, "h1", *names, seconds=120)
    check_counts(tmp_path, [f"{name}_{n}" for name in names for n in range(1, 11)])
    for one in (one for name in names for one in lab.lbctl_json("h1", "job", f"{name}_1-10")):
        fates = [attempt["state"] for attempt in one["attempts"]]
        assert (one["state"], fates.count("done"), fates[-1]) == ("done", 1, "done"), one


def test_a_store_that_does_not_answer_is_reported_in_a_line(lab, tmp_path):
    own = {
        "dispatch.store": "postgresql://lbd:secret@127.0.0.1:1/x",
        "host.runtime_dir": tmp_path,
        "host.state_dir": tmp_path,
    }
    sets = [word for key, value in own.items() for word in ("--set", f"{key}={value}")]
    config = lab.paths("h1").config
    found = lab.run("h1", "lbd", "dispatcher", "--config", config, *sets)
    assert found.returncode == 1
    (line,) = found.stderr.splitlines()
    assert "dispatch.store postgresql://lbd@127.0.0.1:1/x does not answer" in line

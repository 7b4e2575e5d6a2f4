"""Jobs with countable effects, while every daemon is killed, stopped and cut off at random.

Each attempt holds a lock for as long as it lives and complains if another attempt of its job has
the lock: two are never alive at once. Some need a resource, and lock each index they were given, so
that no two have the same one. Every acknowledged job must end once, as its command says, or in a
final state with a reason; its output must be there to the last byte; nothing else may be queued. In
the end no slot and no resource is held.

A failure shows the seed: LBD_CRASH_SEED=S replays it. LBD_CRASH_S=600 goes on for ten minutes with
2,000 jobs, instead of some seconds. With LBD_CRASH_STORE=postgres the ledger is in PostgreSQL, each
host's dispatcher may lead, the leader is killed most often, and now and then the database is
stopped too.
"""

import base64
import os
import random
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.misfortunes import Misfortunes, set_right
from tests.postgres import Postgres

SEED = os.environ.get("LBD_CRASH_SEED") or os.urandom(4).hex()
SECONDS = float(os.environ.get("LBD_CRASH_S", "7"))
STORE = os.environ.get("LBD_CRASH_STORE", "sqlite")
JOBS = max(80, int(SECONDS * 2000 / 600))
ARRAY = 10
PATIENCE_S = 120.0
SETTINGS = (
    *FAST, "dispatch.lease_s=2", "dispatch.aside_s=0.5", "dispatch.aside_max_s=1",
    "dispatch.crash_limit=1000", "lbm.slots=2", "dispatch.load_ceiling=10000", "resources.gpu=2",
)  # fmt: skip
# A job records what it did in its file; a second attempt beside it would leave a complaint.
COUNTED = """
exec 9>>"lock.$LBD_JOB_ID"
flock -n 9 || { echo "$LBD_JOB_ID $LBD_ATTEMPT" >>twice; exit 99; }
taken() { echo "$LBD_JOB_ID $LBD_ATTEMPT: gpu $1 of $LBD_HOST" >>twice; exit 99; }
case $LBD_RESOURCE_GPU in *0*) exec 7>>"gpu.$LBD_HOST.0"; flock -n 7 || taken 0;; esac
case $LBD_RESOURCE_GPU in *1*) exec 8>>"gpu.$LBD_HOST.1"; flock -n 8 || taken 1;; esac
echo "begin $LBD_ATTEMPT" >>"did.$LBD_JOB_ID"
echo "first words of $LBD_JOB_ID.$LBD_ATTEMPT"
sleep "$1"
echo "an error of $LBD_JOB_ID.$LBD_ATTEMPT" >&2
echo "last words of $LBD_JOB_ID.$LBD_ATTEMPT"
echo "end $LBD_ATTEMPT" >>"did.$LBD_JOB_ID"
exit "$2"
"""
NO_RESTART = "--no-restart"
NEEDS = ((), (), ("--need", "gpu"), ("--need", "gpu=2"))


@pytest.fixture(scope="module")
def database():
    """None: the ledger is a file."""
    server = Postgres() if STORE == "postgres" else None
    yield server
    if server is not None:
        server.close()


@pytest.fixture(scope="module")
def lab(database):
    store = () if database is None else ("--store", database.database())
    lab = Lab.up(3, "none", "--mode", "fcfs", *store, settings=SETTINGS)
    yield lab
    lab.down()


@dataclass
class Submitter:
    """Sends arrays from any host, each again with the same key until it is acknowledged."""

    lab: Lab
    where: object
    rng: random.Random
    jobs: dict = field(default_factory=dict)  # id: its command's status, whether it may restart
    fault: str = ""

    def run(self, until_s):
        try:
            gap_s = (until_s - time.monotonic()) / (JOBS / ARRAY)
            for number in range(JOBS // ARRAY):
                self.submit(number)
                time.sleep(max(0.0, gap_s * self.rng.uniform(0.0, 1.5)))
        except Exception as problem:  # the test reports it
            self.fault = repr(problem)

    def submit(self, number):
        status = self.rng.choice((0, 0, 0, 3))
        words = self.rng.choice(((), (), (NO_RESTART,)))
        needs = NEEDS[number % len(NEEDS)]
        seconds = self.rng.choice((0.3, 1.0) if needs else (0.02, 0.3, 1.0))
        command = (
            "lbrun", "-d", "--idempotency-key", f"crash-{number}", "--array", f"1-{ARRAY}", *words,
            *needs, "sh", "counted.sh", seconds, status,
        )  # fmt: skip
        give_up_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                host = self.rng.choice(self.lab.hosts)
                told = self.lab.run(host, *command, cwd=self.where, timeout=60)
            except subprocess.TimeoutExpired as late:
                raise AssertionError(f"{host}: {late}") from late
            if told.returncode == 0:
                break
            # A client that was killed with its host could not say whether they are queued; the key
            # can.
            assert told.returncode in (125, -signal.SIGKILL), told
            assert time.monotonic() < give_up_s, told
            time.sleep(0.2)
        for index in range(1, ARRAY + 1):
            self.jobs[f"{told.stdout.strip()}_{index}"] = status, NO_RESTART not in words


def test_every_job_ends_once_whatever_is_killed_stopped_or_cut_off(lab, database, tmp_path):
    print(f"LBD_CRASH_SEED={SEED}, {JOBS} jobs in {SECONDS:g} s")
    (tmp_path / "counted.sh").write_text(COUNTED)
    until_s = time.monotonic() + SECONDS
    submitter = Submitter(lab, tmp_path, random.Random(f"{SEED}:jobs"))
    misfortunes = Misfortunes(lab, random.Random(f"{SEED}:misfortunes"), database)
    thread = threading.Thread(target=submitter.run, args=(until_s,))
    thread.start()
    try:
        misfortunes.run(until_s)
    finally:
        set_right(lab)
        thread.join()
    print(f"misfortunes: {len(misfortunes.told)}: {misfortunes.told}")
    assert not submitter.fault, submitter.fault
    told = ended(lab, submitter.jobs)
    assert not (tmp_path / "twice").exists(), (tmp_path / "twice").read_text()
    assert {job["id"] for job in told} == submitter.jobs.keys(), "these and no others"
    faults = [
        fault for job in told if (fault := wrong(lab, tmp_path, job, *submitter.jobs[job["id"]]))
    ]
    assert not faults, "\n".join(faults)
    assert list(tmp_path.glob("gpu.*.1")), "no job got a resource"
    lab.wait_until(lambda: not held(lab), "no slot and no resource is held")
    states = [job["state"] for job in told]
    print({state: states.count(state) for state in set(states)})
    attempts = [len(job["attempts"]) for job in told]
    print(f"attempts: {sum(attempts)}, of one job up to {max(attempts)}")


def ended(lab, jobs):
    """All jobs on the ledger, once these have ended."""
    last_array = max(int(job.partition("_")[0]) for job in jobs)
    last, until_s = 0, time.monotonic() + PATIENCE_S + SECONDS / 4
    while True:
        told = lab.ask(
            "h1",
            "lbm",
            "queue.jobs",
            ids=[f"1-{last_array + 1000}"],
            attempts=True,
            tasks=True,
            timeout_s=60,
        )["jobs"]
        waiting = [job for job in told if job["finished"] is None]
        if not waiting:
            return told
        if len(waiting) != last:
            last = len(waiting)
        assert time.monotonic() < until_s, f"{waiting[:5]}\n{lab.logs(20)}"
        time.sleep(0.3)


def held(lab):
    """Slots and resources in use, by host."""
    found = {}
    for host in lab.lbctl_json("h1", "status")["hosts"]:
        used = host["slots"]["used"], host["resources"]["gpu"]["used"]
        if any(used):
            found[host["name"]] = used
    return found


def wrong(lab, where, job, status, may_restart):
    """What is wrong with a job; "" if nothing is."""
    name, number = job["id"], job["attempt"]
    fates = [attempt["state"] for attempt in job["attempts"]]
    did = where / f"did.{name}"
    lines = did.read_text().split() if did.exists() else []
    begun = lines.count("begin")
    if not may_restart and begun > 1:
        return f"{job}: began again: {lines}"
    if job["state"] == "lost":
        return "" if not may_restart and job["reason"] else f"{job}: lost"
    good = "failed" if status else "done"
    if (job["state"], job["exit_status"]) != (good, status):
        return f"{job}: {job['state']}"
    if fates.count(good) != 1 or fates[-1] != good:
        return f"{job}: {fates}"
    if lines[-2:] != ["end", str(number)]:
        return f"{job}: {lines}"
    said = lab.ask("h1", "lbm", "queue.logs", ids=[name], at=[0, 0], timeout_s=20)["data"]
    output, error = (base64.b64decode(data).decode() for data in said)
    mark = f"{name}.{number}\n"
    if (output, error) != (f"first words of {mark}last words of {mark}", f"an error of {mark}"):
        return f"{job}: printed {output!r}, {error!r}"
    return ""

"""The ledger's disk is full for a while: no job is acknowledged that is not on disk, and ends that
occur meanwhile are recorded once there is room."""

import contextlib
import os
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.test_metrics import PORT, asked, scraped

SETTINGS = (*FAST, "lbm.slots=2", "dispatch.load_ceiling=10000", f"metrics.listen=:{PORT}")
FILLING_BYTES = 4096


@contextlib.contextmanager
def mounted(where):
    """Mounts a small disk at `where`."""
    mounting = ("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", where)
    if subprocess.run(mounting, capture_output=True).returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs to mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", where], check=True)


@pytest.fixture(scope="module")
def disk():
    """A small disk for the ledger alone."""
    where = Path(tempfile.mkdtemp(prefix="lbd-t-disk-"))
    with mounted(where):
        yield where
    where.rmdir()


@pytest.fixture(scope="module")
def lab(disk):
    lab = Lab.up(2, "none", "--mode", "fcfs", "--store", f"sqlite://{disk}/ledger.sqlite",
                 settings=SETTINGS)  # fmt: skip
    yield lab
    lab.down()


def fill(disk):
    with contextlib.suppress(OSError), (disk / "filler").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(FILLING_BYTES))


def test_a_full_disk_refuses_in_one_line_and_forgets_nothing(lab, disk, tmp_path):
    script = "while test ! -e go; do sleep 0.05; done; echo done"
    running = lab.run("h1", "lbrun", "-d", "sh", "-c", script, cwd=tmp_path, check=True)
    name = running.stdout.strip()
    lab.wait_until(lambda: lab.lbctl_json("h1", "job", name)["state"] == "running", "it runs")
    fill(disk)
    taken = []
    for _ in range(50):  # uses up what is left of the last pages
        refused = lab.run("h1", "lbrun", "-d", "true")
        if refused.returncode:
            break
        taken.append(refused.stdout.strip())
    assert (refused.returncode, refused.stdout) == (125, "")
    assert refused.stderr.count("\n") == 1
    assert "full" in refused.stderr
    (tmp_path / "go").touch()
    lab.wait_until(lambda: not lab.jobs_alive(), "it has ended while nothing can be recorded")
    (disk / "filler").unlink()
    ended = lab.run("h1", "lbctl", "wait", "--timeout", "20s", name, *taken)
    assert ended.returncode == 0, ended.stderr
    assert lab.run("h1", "lbctl", "logs", name, check=True).stdout == "done\n"
    assert lab.run("h1", "lbrun", "-q", "true").returncode == 0


def test_clients_are_told_that_the_end_cannot_be_recorded(lab, disk, tmp_path):
    script = "echo begun; while test ! -e go; do sleep 0.05; done; echo done"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    words = ("lbrun", "-q", "sh", "-c", script)
    with lab.popen("h1", *words, cwd=tmp_path, **pipes) as waiting:
        watch = threading.Timer(60, waiting.kill)
        watch.start()
        assert waiting.stdout.readline() == "begun\n"
        fill(disk)
        try:
            (tmp_path / "go").touch()
            told = waiting.stderr.readline()
            (name,) = [job["id"] for job in lab.lbctl_json("h1", "jobs")]
            why = lab.lbctl_json("h1", "job", name)["reason"]
            listed = lab.run("h1", "lbctl", "jobs", check=True).stdout
            waited = lab.run("h1", "lbctl", "wait", "--timeout", "1s", name)
            counted = lab.lbctl_json("h1", "queue")
        finally:
            (disk / "filler").unlink()
        assert (waiting.wait(20), waiting.stdout.read()) == (0, "done\n")
        assert waiting.stderr.read() == ""
        watch.cancel()
    assert (
        why == f"the command has ended; it can be recorded once there is room on h1: {disk} is full"
    )
    assert told == f"lbrun: {why}\n"
    assert "the command has ended" in listed
    assert waited.stderr == f"lbctl: {why}\nlbctl: 1 job has not ended yet\n"
    assert (counted["queued"], counted["running"]) == (0, 1)


def in_one_line(ran):
    return " ".join(ran.stdout.split())


def assert_cause_is_known(lab, cause, ready):
    """What people and monitors are told while the dispatcher waits for its ledger: on all hosts."""
    for host in ("h1", "h2"):
        said = f"the dispatcher on h1 waits: {cause}"
        lab.wait_until(lambda host=host, said=said: said in lab.run(host, "lbctl", "queue").stderr,
                       "the cause is known")  # fmt: skip
        assert said in lab.run(host, "lbctl", "jobs").stderr
        assert in_one_line(lab.run(host, "lbctl", "status")).count(said[4:]) == 1
        submitted = lab.run(host, "lbrun", "-d", "true")
        assert (submitted.returncode, said in submitted.stderr) == (125, True)
    lab.wait_until(lambda: scraped(lab, "h1").get(("lbd_ledger_trouble",)), "the alert goes on")
    assert scraped(lab, "h1")["lbd_dispatcher_leads",] == 0
    assert asked(lab, "h1", "/readyz") == (503, f"dispatcher waits: {ready}\n")
    enabled = lab.run("h2", "lbctl", "queue", "enable", "--force", "h1")
    assert enabled.returncode == 1
    assert f"the queue is assigned to h1, but its dispatcher waits: {cause}" in enabled.stderr
    doctor = lab.run("h2", "lbctl", "doctor")
    assert f"h1 waits: {cause}" in in_one_line(doctor), doctor.stdout


def test_the_cause_is_known_everywhere_while_the_ledger_is_not_there(lab, disk):
    """It was in the journal and the doctor of that host only, and the alert ended."""
    lab.kill("h1", "dispatcher")
    ledger = disk / "ledger.sqlite"
    ledger.rename(disk / "away")
    lab.start("h1", "dispatcher")
    cause = f"{ledger}, the ledger that was used last, is not there: mount its disk"
    assert_cause_is_known(lab, cause, "its ledger is not there")
    (disk / "away").rename(ledger)
    lab.wait_until(lambda: lab.run("h2", "lbrun", "-q", "true").returncode == 0, "it goes on")
    lab.wait_until(lambda: asked(lab, "h1", "/readyz") == (200, "ready\n"), "it is ready")
    assert scraped(lab, "h1")["lbd_ledger_trouble",] == 0


def test_the_cause_is_known_everywhere_while_its_disk_has_no_free_byte(lab, disk):
    lab.kill("h1", "dispatcher")
    (disk / "ledger.sqlite-shm").unlink()  # so that SQLite needs room to open the ledger
    fill(disk)
    lab.start("h1", "dispatcher")
    try:
        cause = f"the disk of the ledger is full: free some space in {disk}"
        assert_cause_is_known(lab, cause, "the disk of its ledger is full")
        assert scraped(lab, "h1")["lbd_disk_free_bytes", "holds=ledger"] == 0
    finally:
        (disk / "filler").unlink()
    lab.wait_until(lambda: lab.run("h2", "lbrun", "-q", "true").returncode == 0, "it goes on")


def test_orders_waiters_and_monitors_know_of_a_full_disk_before_a_write_has_failed(
    lab, disk, tmp_path
):
    """The first order hung for 20 s and was carried out much later; a waiter heard nothing."""
    script = "while test ! -e go; do sleep 0.05; done"
    array = lab.run("h1", "lbrun", "-d", "--array", "1-4", "sh", "-c", script, cwd=tmp_path,
                    check=True).stdout.strip()  # fmt: skip
    tasks = "jobs", "--tasks", "--state", "running"
    lab.wait_until(lambda: len(lab.lbctl_json("h1", *tasks)) == 4, "all slots are taken")
    name = lab.run("h1", "lbrun", "-d", "true", check=True).stdout.strip()
    fill(disk)
    try:
        why = f"there is room on h1: {disk} is full"
        for verb in ("kill", "hold"):
            ordered = lab.run("h1", "lbctl", verb, name)
            assert (ordered.returncode, ordered.stdout) == (1, "")
            assert ordered.stderr == f"lbctl: nothing was done; try again once {why}\n"
        waited = lab.run("h1", "lbctl", "wait", "--timeout", "8s", name).stderr.splitlines()
        assert waited[0] == f"lbctl: job {name} waits: it begins once {why}"
        unready = (503, "dispatcher waits: its ledger has no room\n")
        lab.wait_until(lambda: asked(lab, "h1", "/readyz") == unready, "it is not ready")
    finally:
        (disk / "filler").unlink()
        (tmp_path / "go").touch()
    # Until then a waiter is rightly told that there is no room.
    lab.wait_until(lambda: asked(lab, "h1", "/readyz")[0] == 200, "it is ready again")
    ended = lab.run("h1", "lbctl", "wait", "--timeout", "20s", array, name)
    assert (ended.returncode, ended.stderr) == (0, ""), "an order that was refused was carried out"

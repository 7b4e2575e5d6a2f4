"""A host's spool is full: no job begins there that would print to it, and the reader of the output
of one that ran already is told that it may be incomplete."""

import subprocess
from functools import partial

import pytest
from test_queue_disk import SETTINGS, fill, mounted

from tests.live.cluster import Lab

CUT = "the output may be incomplete: the disk of h1 was full while the job ran"


LAB = partial(Lab.up, 1, "none", "--mode", "fcfs", settings=SETTINGS)


@pytest.fixture(scope="module")
def disk(lab):
    where = lab.paths("h1").state / "spool"
    where.mkdir(mode=0o700)
    with mounted(where):
        yield where


def test_a_job_waits_for_room_for_its_output_unless_it_needs_none(lab, disk):
    fill(disk)
    try:
        name = lab.run("h1", "lbrun", "-d", "echo", "all", check=True).stdout.strip()
        why = f"h1: no room for its output: the disk of {disk} is full"
        lab.wait_until(lambda: lab.lbctl_json("h1", "job", name)["reason"].endswith(why), "told")
        assert lab.lbctl_json("h1", "job", name)["state"] == "pending"
        to_file = lab.run("h1", "lbrun", "-d", "-o", "/dev/null", "true", check=True).stdout.strip()
        assert lab.run("h1", "lbctl", "wait", "--timeout", "20s", to_file).returncode == 0
    finally:
        (disk / "filler").unlink()
    assert lab.lbctl_json("h1", "job", to_file)["reason"] is None
    assert lab.run("h1", "lbctl", "wait", "--timeout", "60s", name).returncode == 0
    shown = lab.run("h1", "lbctl", "logs", name)
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "all\n", "")


def test_output_while_there_is_room_is_not_marked(lab, disk):
    whole = lab.run("h1", "lbrun", "-q", "echo", "all")
    assert (whole.returncode, whole.stdout, whole.stderr) == (0, "all\n", "")


def test_a_disk_that_was_full_for_a_while_is_remembered(lab, disk, tmp_path):
    script = "echo $LBD_JOB_ID; while ! test -e go; do sleep 0.05; done; echo done"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with lab.popen("h1", "lbrun", "-q", "sh", "-c", script, cwd=tmp_path, **pipes) as running:
        (output,) = disk.glob(f"*/{running.stdout.readline().strip()}.1.out")
        fill(disk)
        lab.wait_until(lambda: output.stat().st_mode & 0o1000, "it is marked")
        (disk / "filler").unlink()
        (tmp_path / "go").touch()
        assert running.communicate(timeout=90) == ("done\n", f"lbrun: {CUT}\n")
    name = output.name.partition(".")[0]
    for follow in ((), ("-f",)):
        shown = lab.run("h1", "lbctl", "logs", *follow, name)
        assert shown.returncode == 0
        assert shown.stdout.endswith("done\n")
        assert shown.stderr == f"lbctl: {CUT}\n"
    job = lab.lbctl_json("h1", "job", name)
    assert (job["state"], job["exit_status"]) == ("done", 0)
    assert "may be incomplete" in job["reason"]

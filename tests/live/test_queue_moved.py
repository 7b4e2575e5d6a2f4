"""A host names itself dispatcher: in its ledger other jobs have the numbers of those that wait."""

import subprocess
import time
from functools import partial

from cluster import FAST, Lab

ASKED_AGAIN_S = 3.0  # after a queue that is away

LAB = partial(Lab.up, 2, "none", "--tls", "--mode", "fcfs", settings=FAST)


def name_dispatcher(lab, host):
    """`lbctl queue` would not do that while there are jobs; the LIM of a host can."""
    lab.ask("h2", "lim", "share", values={"dispatch.host": host})
    for one in lab.hosts:
        queue = partial(lab.lbctl_json, one, "queue")
        lab.wait_until(lambda queue=queue: queue()["leader"] == host, f"{one} asks {host}")


def test_who_waits_for_a_job_hears_nothing_of_anothers_of_that_number(lab, tmp_path):
    """`lbrun -q` ended with the exit status of the other job, `--notify` ran, and its outputs were
    what the other job had made."""
    lab.run("h1", "lbctl", "drain", "h1", check=True)
    (tmp_path / "in").write_text("given")
    files = "--send", "in", "--fetch", "out", "--notify", "echo $LBD_JOB_ID >> notes"
    waits = partial(lab.popen, "h1", cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    awaited = waits("lbrun", "-q", "-H", "h1", "echo", "right", text=True)
    lab.wait_until(lambda: len(lab.lbctl_json("h1", "jobs")) == 1, "the first is queued")
    detached = lab.run("h1", "lbrun", "-d", *files, "-H", "h1", "cp", "in", "out", cwd=tmp_path)
    assert detached.stdout == "2\n", detached

    name_dispatcher(lab, "h2")
    for text in ("first", "second"):  # and so they have the numbers 1 and 2
        other = lab.run("h2", "lbrun", "-q", "-H", "h2", "echo", text)
        assert other.stdout == f"{text}\n", other
    lab.wait_until(lambda: lab.lbctl_json("h1", "job", "2")["state"] == "done", "h1 asks h2")
    time.sleep(ASKED_AGAIN_S)
    assert awaited.poll() is None, awaited.communicate()
    assert not {*tmp_path.iterdir()} - {tmp_path / "in"}

    name_dispatcher(lab, "h1")
    lab.run("h1", "lbctl", "undrain", "h1", check=True)
    assert awaited.communicate(timeout=60)[0] == "right\n"
    assert awaited.returncode == 0
    lab.wait_until(lambda: (tmp_path / "notes").read_text() == "2\n", "it is notified of")
    lab.wait_until(lambda: (tmp_path / "out").read_text() == "given", "its output comes")

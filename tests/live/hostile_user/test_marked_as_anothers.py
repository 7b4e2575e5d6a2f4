"""Without cgroups a job's processes are recognised by a mark in their environment. Anybody can put
any mark into their own, so it counts only where it can be true."""

import contextlib
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from lbd.keeper import protocol as keeper
from lbd.keeper.limits.cgroups import name_of
from tests.live.cluster import wait_until
from tests.live.hostile_user.test_keeper_hangs import LoneKeeper, is_alive
from tests.live.privileged import ANN, MALLORY

pytestmark = pytest.mark.root
ROOT = Path(__file__).resolve().parents[3]
# A small keeper: below it are two processes with the mark of a job of Ann's, one of them hers.
KEEPER = """
import os, subprocess, sys, time
from lbd.keeper.limits.cgroups import Containment
runtime_dir, ann, mallory, mark = sys.argv[1:]
held = Containment(runtime_dir, False)
below = [
    subprocess.Popen(["sleep", "60"], user=int(uid), env={"LBD_KEPT": mark}, cwd="/")
    for uid in (ann, mallory)
]
said = []
while not (said and said[-1]):
    said.append(held.end_tree("1", 1 << 30, "", int(ann)))
    time.sleep(0.05)
print([process.poll() for process in below], flush=True)
below[1].kill()
"""


def test_a_mark_counts_below_the_keeper_and_with_a_process_of_the_jobs_user_alone(tmp_path):
    tmp_path.chmod(0o755)
    ann, mallory = (pwd.getpwnam(name).pw_uid for name in (ANN, MALLORY))
    mark = f"{name_of(str(tmp_path))}:1"
    beside = subprocess.Popen(["sleep", "60"], user=ann, env={"LBD_KEPT": mark}, cwd="/")
    try:
        words = (str(tmp_path), str(ann), str(mallory), mark)
        said = subprocess.run(
            [sys.executable, "-c", KEEPER, *words], cwd=ROOT, capture_output=True, text=True,
            timeout=120, check=True,
        ).stdout  # fmt: skip
        assert said == "[-9, None]\n"
        assert beside.poll() is None
    finally:
        beside.kill()
        beside.wait()


def test_a_process_that_left_its_session_still_ends_with_its_job(short_dir):
    read, write = os.pipe()
    with contextlib.closing(LoneKeeper(short_dir, "lbm.cgroup=off")) as lone:
        with open(read) as said, open(os.devnull, "rb+") as null:
            ready = short_dir / "ready"  # the job ends only after its child has left
            os.mkfifo(ready)
            ready.chmod(0o666)
            script = f"setsid sh -c 'echo $$ >&2; : >{ready}; exec sleep 60' & : <{ready}; exit 0"
            lone.begin("1", ANN, script, descriptors=[null, null, write])
            os.close(write)
            pid = int(said.readline())
            wait_until(lambda: not is_alive(pid), "it is ended")
        lone.hear(keeper.EXITED, "1")

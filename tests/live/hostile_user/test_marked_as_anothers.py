"""Without cgroups a job's processes are told by a mark in their environment, which anybody can put
into any other: it counts only where it can be true."""

import contextlib
import os
import pwd
import subprocess
import time

import pytest

from lbd.lbm import keeper_protocol as keeper
from lbd.lbm.spawn_order import JOB
from lbd.rpc import frames
from tests.live.cluster import wait_until
from tests.live.hostile_user.test_keeper_hangs import LoneKeeper, is_alive
from tests.live.privileged import ANN, MALLORY

pytestmark = pytest.mark.root
FORGES = "while :; do LBD_KEPT={mark} /bin/sleep 0.3 & LBD_KEPT={mark} /bin/sleep 0.1; done"
LOOPS = 4


@pytest.fixture
def lone(short_dir):
    with contextlib.closing(LoneKeeper(short_dir, "lbm.cgroup=off")) as lone:
        lone.mark = f"{short_dir}/h1/run:1"
        yield lone


@pytest.mark.parametrize("where", ["beside it", "as a job"])
def test_nobody_keeps_anothers_job_from_ending(lone, where):
    script = " & ".join([FORGES.format(mark=lone.mark)] * LOOPS)
    forger = None
    if where == "as a job":
        lone.begin("2", MALLORY, script)
    else:
        entry = pwd.getpwnam(MALLORY)
        forger = subprocess.Popen(
            ["sh", "-c", script], user=entry.pw_uid, group=entry.pw_gid, extra_groups=[],
            start_new_session=True, cwd="/",
        )  # fmt: skip
    try:
        time.sleep(0.5)
        begun_s = time.monotonic()
        lone.begin("1", ANN, "exit 5")
        assert int(lone.hear(keeper.EXITED, "1")[keeper.NUMBER]) == 5 << 8
        assert time.monotonic() - begun_s < 15
        if forger is not None:
            assert forger.poll() is None
    finally:
        if forger is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(forger.pid, 9)
            forger.wait()
        else:
            lone.socket.sendall(frames.pack(keeper.END_TREE, frames.field(JOB, b"2")))
            lone.hear(keeper.EXITED, "2")


def test_what_has_left_its_session_ends_with_its_job_all_the_same(lone):
    read, write = os.pipe()
    with open(read) as said, open(os.devnull, "rb+") as null:
        script = "setsid sh -c 'echo $$ >&2; exec sleep 60' & exit 0"
        lone.begin("1", ANN, script, descriptors=[null, null, write])
        os.close(write)
        pid = int(said.readline())
        wait_until(lambda: not is_alive(pid), "it is ended")
    lone.hear(keeper.EXITED, "1")

"""A user asks again and again whether a command could start in a directory of a file system of
their own that never answers. A process that waits for the answer never ends."""

import os
import pwd
import shutil
import tempfile
from pathlib import Path

import pytest

from lbd.lbm.keeper_link import ASKED_AT_ONCE
from lbd.load import process_table
from tests.live.cluster import FAST, Lab, close
from tests.live.hung_files import HungFiles
from tests.live.privileged import opened
from tests.live.test_users import ANN, BOB, as_user

pytestmark = pytest.mark.root
ROUNDS = 8  # each of which leaves four processes


@pytest.fixture
def lab():
    lab = Lab.up(2, settings=(*FAST, f'users.allow=["{ANN}", "{BOB}"]'))
    lab.root.chmod(0o755)
    yield lab
    lab.down()


@pytest.fixture
def hung(lab):
    if not Path("/dev/fuse").exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs /dev/fuse")
    where = tempfile.mkdtemp()
    with HungFiles(where, pwd.getpwnam(ANN).pw_uid, admits=False) as hung:
        yield hung
    shutil.rmtree(where)


def left_with(keeper):
    """The keeper's children that the kernel does not end."""
    pids = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    found = (process_table.task_of(int(pid)) for pid in pids)
    return [task for task in found if task is not None and task.state == b"D"]


def test_who_asks_about_a_directory_that_hangs_leaves_few_children_behind(lab, hung):
    """Each question once left a child, and the keeper killed all of them again ten times a
    second."""
    keeper = lab.pids()["h2"]["keeper"]
    ask = f"lbrun -H h2 --explain -C {hung.where} true"
    script = f"for _ in $(seq {ROUNDS}); do {' & '.join([ask] * 4)} & wait; done"
    asking = lab.popen("h1", *opened(), *as_user(ANN), "sh", "-c", script)
    try:
        lab.wait_until(lambda: asking.poll() is not None, "all have been answered")
        assert 0 < len(left_with(keeper)) <= ASKED_AT_ONCE
        done = lab.run("h1", *as_user(BOB), "lbrun", "-H", "h2", "echo", "served")
        assert done.stdout == "served\n", done
    finally:
        hung.stop()
        close(asking)

"""A local user abuses the output files of their queued commands: the files are the daemons', and
the commands have their descriptors."""

import contextlib
import os
import pwd
import shutil
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from lbd.dispatch.ledger.ledger_tokens import PART_BYTES, PARTS, ledger_token
from tests.live.cluster import FAST, Lab
from tests.live.hostile_user.test_spool import queue
from tests.live.hung_files import READ, HungFiles
from tests.live.test_queue_disk import mounted
from tests.live.test_users import ANN, BOB, as_user

pytestmark = pytest.mark.root

PYTHON = "/usr/bin/python3"
LIMIT_BYTES = 1 << 16
HALF_BLOCKS = 256  # of 2 MiB
SIZE = 4 * LIMIT_BYTES
PRINTS = f"head -c {SIZE} /dev/zero; while test ! -e {{go}}; do sleep 0.05; done"
HOLDS = """
import mmap, os
page = mmap.mmap(os.open({path!r}, os.O_RDWR), 4096)
os.write(1, bytes({size}))
os.write(1, page)
"""
FILLS = """
import os, socket, sys
if sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect({name!r})
        socket.send_fds(sock, [b"x"], [1])
        sock.recv(1)
    sys.exit()
listener = socket.socket(socket.AF_UNIX)
listener.bind({name!r})
listener.listen()
job = os.spawnvp(os.P_NOWAIT, "lbrun", ["lbrun", "-q", {python!r}, {script!r}, "job"])
sock, _ = listener.accept()
output = socket.recv_fds(sock, 1, 1)[1][0]
sock.send(b"y")
os.waitpid(job, 0)
print("filling", flush=True)
while True:
    try:
        os.write(output, bytes(1 << 20))
    except OSError:
        pass
"""


@pytest.fixture(scope="module")
def lab():
    settings = (
        *FAST,
        f'users.allow=["{ANN}", "{BOB}"]',
        f"dispatch.max_output_bytes={LIMIT_BYTES}",
    )
    lab = Lab.up(1, "none", "--mode", "fcfs", settings=settings)
    lab.root.chmod(0o755)
    yield lab
    lab.down()


@pytest.fixture
def where(lab):
    """A directory of ANN's."""
    where = lab.root / "anns"
    where.mkdir()
    shutil.chown(where, ANN)
    yield where
    shutil.rmtree(where)


def test_who_holds_the_lock_of_their_output_holds_up_nobody_else(lab, where):
    """The LBM needs that lock to cut a range out of the file."""
    if not Path("/dev/fuse").exists():
        pytest.skip("needs /dev/fuse")
    spool = lab.paths("h1").state / "spool"
    hung, go = where / "hung", where / "go"
    hung.mkdir()
    with HungFiles(hung, pwd.getpwnam(ANN).pw_uid, killable=True) as files:
        script, prints = HOLDS.format(path=files.path, size=SIZE), PRINTS.format(go=go)
        holds = lab.popen(
            "h1", *as_user(ANN), "lbrun", "-q", PYTHON, "-c", script, stdout=subprocess.DEVNULL
        )
        try:
            lab.wait_until(lambda: READ in [one for one, _ in files.asked], "a page is asked for")
            lab.wait_until(lambda: stuck_threads(lab), "a thread is stuck")
            printing = ["lbrun", "-q", "sh", "-c", prints]
            with lab.popen("h1", *as_user(BOB), *printing, stdout=subprocess.DEVNULL) as prints:
                lab.wait_until(lambda: cut_outputs(spool), "what another prints is cut")
                assert lab.ask("h1", "lbm", "status")
                go.touch()
                assert prints.wait(60) == 0
            assert queue(lab, BOB, "echo", "here") == "here\n"
        finally:
            files.stop()
            holds.wait(60)


def cut_outputs(spool):
    found = [note.with_suffix("") for note in spool.glob("*/*.cut")]
    return [one for one in found if 0 < one.stat().st_blocks * 512 <= LIMIT_BYTES]


def stuck_threads(lab):
    """The threads of the LBM that not even a signal wakes."""
    pid = int((lab.paths("h1").run / "lbm.pid").read_text())
    states = [
        one.read_text().rpartition(")")[2] for one in Path(f"/proc/{pid}/task").glob("*/stat")
    ]
    return [state for state in states if state.split()[0] == "D"]


def test_who_keeps_the_output_of_an_attempt_that_has_ended_fills_the_disk_but_once(lab, where):
    spool = lab.paths("h1").state / "spool"
    queue(lab, ANN, "true")
    script = where / "fills.py"
    script.write_text(FILLS.format(name=str(where / "s"), python=PYTHON, script=str(script)))
    with mounted(spool):
        filling = [*as_user(ANN), PYTHON, str(script)]
        with lab.popen("h1", *filling, stdout=subprocess.PIPE, text=True) as fills:
            try:
                assert fills.stdout.readline() == "filling\n"
                assert fills.wait(90) == -signal.SIGKILL
            finally:
                fills.kill()
        lab.wait_until(lambda: os.statvfs(spool).f_bavail > HALF_BLOCKS, "there is room again")
        assert queue(lab, BOB, "echo", "here") == "here\n"


def test_no_job_learns_the_token_that_its_host_obeys(lab):
    """It was in the name of the file that its output goes to. Who shows it is obeyed as the
    dispatcher."""
    path = lab.paths("h1").state / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as db:
        parts = [
            db.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()[0]
            for name in PARTS
        ]
    token = ledger_token(b"".join(part.to_bytes(PART_BYTES) for part in parts), "h1").hex()
    looks = "env; pwd; cd /proc/$$; tr '\\0' '\\n' <cmdline; ls -l fd; cat mountinfo cgroup"
    seen = queue(lab, BOB, "sh", "-c", looks)
    assert "/spool/" in seen
    assert token[:8] not in seen

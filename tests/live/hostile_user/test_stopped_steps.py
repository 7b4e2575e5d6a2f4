"""A local user stops the processes that the keeper starts to unpack and pack that user's files.

Such a process runs as the user, so nobody can keep the user from stopping it. It once held a slot
for ever, even when its job had been killed and its lease had expired.
"""

import contextlib
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.privileged import opened
from tests.live.test_users import ANN, BOB, as_user

pytestmark = pytest.mark.root

FILES = 3000  # enough that unpacking or packing takes a moment

# argv: the keeper. Stops the keeper's first child that belongs to this user and is no command.
STOP = """
import os, signal, sys, time
print("ready", flush=True)
until_s = time.monotonic() + 60
while time.monotonic() < until_s:
    for pid in open("/proc/%s/task/%s/children" % (sys.argv[1], sys.argv[1])).read().split():
        try:
            status = open(f"/proc/{pid}/status").read()
            if int(status.partition("\\nUid:")[2].split(None, 1)[0]) != os.getuid():
                continue
            if "keeper" in open(f"/proc/{pid}/cmdline").read():
                os.kill(int(pid), signal.SIGSTOP)
                sys.exit(f"stopped {pid}")
        except (OSError, ValueError, IndexError):
            pass
sys.exit("nothing came")
"""


@pytest.fixture
def work(short_dir):
    """A directory of Ann's."""
    short_dir.chmod(0o755)
    place = short_dir / "work"
    (place / "many").mkdir(parents=True)
    for number in range(FILES):
        (place / f"many/{number}").write_text("x")
    subprocess.run(["chown", "-R", ANN, place], check=True)
    return place


@contextlib.contextmanager
def stopping(lab):
    """A process of Ann's that stops her processes below the keeper."""
    who = ("setpriv", "--reuid", ANN, "--clear-groups")
    argv = (*opened(), *who, sys.executable, "-c", STOP, keeper_of(lab))
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def keeper_of(lab):
    return str(lab.ask("h1", "lbm", "status")["keeper"])


def submit(lab, work, *words):
    done = lab.run("h1", *opened(), *as_user(ANN), "-C", str(work), "lbrun", "-d", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def kill(lab, name):
    done = lab.run("h1", *opened(), *as_user(ANN), "lbctl", "kill", name)
    assert done.returncode == 0, done.stderr


def check_nobody_waits(lab):
    done = lab.run("h1", *opened(), *as_user(BOB), "lbrun", "-q", "echo", "served", timeout=120)
    assert (done.returncode, done.stdout) == (0, "served\n"), done.stderr
    lab.wait_until(lambda: not children_of_hers(keeper_of(lab)), "nothing of hers is left")


def children_of_hers(keeper):
    found = []
    for pid in Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split():
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            if status.partition("\nUid:")[2].split(None, 1)[0] == str(pwd.getpwnam(ANN).pw_uid):
                found.append(pid)
    return found


def test_one_that_unpacks_ends_with_its_job(queue_lab, work):
    first = submit(queue_lab, work, "sleep", "600")  # holds the slot until then
    name = submit(queue_lab, work, "--send", "many", "true")
    with stopping(queue_lab) as process:
        kill(queue_lab, first)
        assert process.stderr.readline().startswith("stopped")
    kill(queue_lab, name)
    check_nobody_waits(queue_lab)


def test_one_that_packs_ends_with_its_job(queue_lab, work):
    go, begun = work / "go", work / "begun"
    script = f"touch {begun}; while [ ! -e {go} ]; do sleep 0.1; done"
    name = submit(queue_lab, work, "--send", "many", "--fetch", "many", "sh", "-c", script)
    queue_lab.wait_until(begun.exists, "it runs")
    with stopping(queue_lab) as process:
        go.touch()
        assert process.stderr.readline().startswith("stopped")
    kill(queue_lab, name)
    queue_lab.wait_until(
        lambda: queue_lab.lbctl_json("h1", "job", name)["state"] == "cancelled", "it is over"
    )
    check_nobody_waits(queue_lab)

"""A user fills neither the LBM's memory nor its event loop with messages that never end."""

from pathlib import Path

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.hostile_user.test_other_users import under_way
from tests.live.privileged import ANN, MALLORY
from tests.live.test_limits import need_cgroup
from tests.live.test_users import BOB, as_user

pytestmark = pytest.mark.root

MIB = 1 << 20
HELD = 60  # connections
# Each connection announces the longest request allowed, keeps back its last byte, and says so.
FILL = """
import socket, sys, threading
body = bytes(8 << 20)
def fill():
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        try:
            sock.connect(sys.argv[1])
            sock.sendall(len(body).to_bytes(4, "little") + b"R" + body[:-1])
            print("sent", flush=True)
            sock.recv(4096)
        except OSError as problem:
            print(repr(problem), flush=True)
threads = [threading.Thread(target=fill) for _ in range(int(sys.argv[2]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
# A question as long as a request may be.
LONG = """
import socket, sys
body = b'{"id": 1, "op": "jobs", "x": [' + b"1," * (4 << 20)
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(30)
sock.connect(sys.argv[1])
try:
    sock.sendall(len(body).to_bytes(4, "little") + b"J" + body)
except OSError:
    pass
print(sock.recv(4096))
"""


def resident_bytes(two, daemon="lbm"):
    pid = int((two.root / f"h1/run/{daemon}.pid").read_text())
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


def program(two, name, text, daemon="lbm"):
    path = two.root / name
    path.write_text(text)
    path.chmod(0o644)
    return f"exec /usr/bin/env -i python3 {path} {two.root}/h1/run/{daemon}.sock"


def test_requests_that_are_never_whole(two):
    before = resident_bytes(two)
    with under_way(two, MALLORY, f"{program(two, 'fill.py', FILL)} {HELD}") as process:
        sent = 0
        while sent < HELD:  # all that can be held is held
            assert process.stdout.readline() == "sent\n"
            sent += 1
        grown = resident_bytes(two) - before
        result = two.run(ANN, "cd / && lbrun -H h2 echo mine")
    assert grown < 160 * MIB, f"{grown >> 20} MiB"
    assert (result.returncode, result.stdout) == (0, "mine\n")


def test_a_question_of_eight_mebibytes(two):
    before = resident_bytes(two)
    result = two.run(MALLORY, program(two, "long.py", LONG))
    assert "question too long" in result.stdout, result
    assert resident_bytes(two) - before < 16 * MIB
    result = two.run(ANN, "cd / && lbctl explain " + "x" * 70_000)
    assert (result.returncode, result.stdout) != (0, "")
    assert result.stderr.count("\n") == 1


# A great many questions at once, on as many connections as a user can have, with no answer read.
MANY = """
import socket, sys, time
body = b"{}".ljust(int(sys.argv[3]))
question = len(body).to_bytes(4, "little") + b"J" + body
sockets, flood = [], question * max(1, (1 << 16) // len(question))
for _ in range(int(sys.argv[2])):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(5)
    try:
        sock.connect(sys.argv[1])
        sockets.append(sock)
    except OSError:
        break
for sock in sockets:
    sock.setblocking(False)
until = time.monotonic() + 15
while time.monotonic() < until:
    for sock in sockets:
        try:
            sock.send(flood)
        except OSError:
            pass
print("sent", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("size", [2, 60_000])
@pytest.mark.parametrize("daemon", ["lim", "lbm"])
def test_very_many_questions_at_once(two, daemon, size):
    """Each question takes more than a hundred bytes while it waits for its turn."""
    before = resident_bytes(two, daemon)
    attack = program(two, "many.py", MANY, daemon)
    with under_way(two, MALLORY, f"{attack} 1000 {size}") as process:
        assert process.stdout.readline() == "sent\n"
        grown = resident_bytes(two, daemon) - before
        result = two.run(ANN, "cd / && lbrun -H h2 echo mine")
    assert grown < 160 * MIB, f"{grown >> 20} MiB"
    assert (result.returncode, result.stdout) == (0, "mine\n")


# Requests of 150,000 words each, one after the other on each of a few connections.
WORDS = """
import socket, sys, threading, time
def field(key, value):
    return key + len(value).to_bytes(4, "little") + value
body = field(b"m", b"auto") + field(b"f", b"s") + field(b"d", b"/") + field(b"c", b"7")
body += field(b"a", b"python3") + field(b"a", b"-x") * 150_000
until = time.monotonic() + 40
def ask():
    while time.monotonic() < until:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20)
            try:
                sock.connect(sys.argv[1])
                sock.sendall(len(body).to_bytes(4, "little") + b"R" + body)
                sock.recv(4096)
                print("answered", flush=True)
                sock.recv(4096)
            except OSError:
                pass
for _ in range(int(sys.argv[2])):
    threading.Thread(target=ask, daemon=True).start()
time.sleep(60)
"""


def test_very_many_words_again_and_again(two):
    """Each request once took the event loop half a second; other users were told that their LBM did
    not answer. Now the time that a user's requests take is counted."""
    with under_way(two, MALLORY, f"{program(two, 'words.py', WORDS)} 16") as process:
        assert process.stdout.readline() == "answered\n"
        for _ in range(5):
            result = two.run(ANN, "cd / && lbrun -H h2 echo mine")
            assert (result.returncode, result.stdout) == (0, "mine\n"), result


@pytest.fixture
def limited():
    together = f"limits.memory_bytes={256 * MIB}"
    lab = Lab.up(2, settings=(*FAST, together, f'users.allow=["{ANN}", "{BOB}"]'))
    lab.root.chmod(0o755)
    yield lab
    lab.down()


def test_what_a_command_leaves_in_memory_is_not_everybodys(limited):
    """A file in /dev/shm went on counting in the group of all commands, so that everybody's were
    killed, with nothing of its user's running."""
    need_cgroup(limited, "memory")
    left, large = f"/dev/shm/{limited.root.name}", "x = b'x' * 50_000_000"
    bobs = *as_user(BOB), "lbrun", "-H", "h2", "/usr/bin/python3", "-c", large
    try:
        fill = f"head -c 250000000 /dev/zero >{left}"
        done = limited.run("h1", *as_user(ANN), "lbrun", "-H", "h2", "sh", "-c", fill)
        assert done.returncode != 0, "she has a share of it"
        for _ in range(3):
            done = limited.run("h1", *bobs)
            assert (done.returncode, done.stderr) == (0, "")
    finally:
        Path(left).unlink(missing_ok=True)


# Commands without end, of whose output so much is read, and then nothing.
UNREAD = """
import subprocess, sys, time
count, some = int(sys.argv[1]), int(sys.argv[2])
command = ["lbrun", "-H", "h2", "sh", "-c", "exec yes"]
for again in (True, True, False):
    commands = [subprocess.Popen(command, cwd="/", stdout=subprocess.PIPE) for _ in range(count)]
    for one in commands:
        one.stdout.read(some)
    time.sleep(2)  # what may come comes
    for one in commands:
        if again:
            one.kill()
print("read", flush=True)
time.sleep(60)
"""


def test_output_that_nobody_reads(two):
    """It took 16 MiB of the LBM for each command, and for long after its client was killed."""
    count, path = 24, two.root / "unread.py"
    path.write_text(UNREAD)
    before = resident_bytes(two)
    with under_way(two, MALLORY, f"exec python3 {path} {count} {16 * MIB}") as process:
        assert process.stdout.readline() == "read\n"
        grown = resident_bytes(two) - before
        result = two.run(ANN, "cd / && lbrun -H h2 echo mine")
    assert grown < 160 * MIB, f"{grown >> 20} MiB"
    assert (result.returncode, result.stdout) == (0, "mine\n")

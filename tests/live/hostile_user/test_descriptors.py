"""A local user whose descriptors never answer, or allow less than the daemons may do."""

import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lbd.local import client_tags as tags
from lbd.local import frames
from tests.live.cluster import wait_until
from tests.live.hostile_user.test_other_users import under_way
from tests.live.hung_files import FLUSH, HungFiles
from tests.live.privileged import ANN, LBD, MALLORY
from tests.live.rogue import client_request

pytestmark = pytest.mark.root

LINE = "a line of Mallory's"
AS_STDIN = "os.dup2({made}, 0); os.execvp('lbrun', ['lbrun', '-H', 'h2', 'cat'])"
STRANGE = {
    "eventfd": "os.eventfd(0)",
    "eventpoll": "(made := select.epoll()).fileno()",
    "io_uring": "ctypes.CDLL(None).syscall(425, 1, ctypes.create_string_buffer(120))",
    "inotify": "ctypes.CDLL(None).inotify_init()",
    "timerfd": "ctypes.CDLL(None).timerfd_create(1, 0)",
}
MANY = 12  # more than a user's threads


def still_serves(two):
    """Checks that another user's command runs and that the LBM answers."""
    done = two.run(ANN, "cd / && lbrun -H h2 echo served")
    assert (done.returncode, done.stdout) == (0, "served\n"), done.stderr + two.logs()
    assert two.ask("h1", "lbm", "status")


@pytest.mark.parametrize("front", ["c", "python"])
@pytest.mark.parametrize("kind", STRANGE)
def test_what_is_no_file_is_refused_as_input(two, kind, front):
    script = f"import os, select, ctypes; {AS_STDIN.format(made=STRANGE[kind])}"
    done = two.run(MALLORY, f'cd / && LBD_FRONT={front} timeout 15 {sys.executable} -c "{script}"')
    still_serves(two)
    assert done.returncode == 125, done
    assert "standard input is not a file, pipe, socket or terminal" in done.stderr
    assert kind in done.stderr


CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
AS_STDOUT = (
    "import os, socket; s = socket.socket(socket.AF_UNIX, socket.{kind}); s.connect('{path}'); "
    "os.dup2(s.fileno(), 1); os.execvp('lbrun', ['lbrun', '-H', 'h2', 'printf', '{text}'])"
)


@pytest.mark.parametrize("front", ["c", "python"])
@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM], ids=["dgram", "stream"])
def test_a_service_is_shown_the_user_and_not_the_lbm(two, kind, front):
    """systemd killed an LBM that had sent its own notify socket what a command printed: any user
    could end everybody's commands so."""
    path, text = two.root / f"notify-{kind.name}-{front}", "WATCHDOG=trigger"
    with socket.socket(socket.AF_UNIX, kind) as service:
        service.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        service.bind(str(path))
        path.chmod(0o666)
        if kind is socket.SOCK_STREAM:
            service.listen()
        script = AS_STDOUT.format(kind=kind.name, path=path, text=text)
        done = two.run(MALLORY, f'cd / && LBD_FRONT={front} {sys.executable} -c "{script}"')
        assert (done.returncode, done.stderr) == (0, ""), two.logs()
        reader = service.accept()[0] if kind is socket.SOCK_STREAM else service.dup()
        with reader:
            data, more, _, _ = reader.recvmsg(100, socket.CMSG_SPACE(CREDENTIALS.size))
    assert data.decode() == text
    assert CREDENTIALS.unpack(more[0][2])[1] == pwd.getpwnam(MALLORY).pw_uid


@pytest.mark.parametrize("front", ["c", "python"])
def test_what_a_command_prints_into_memory_is_not_the_lbms(two, front):
    """A file there counts as the memory of who writes it, also when the command has ended: any user
    could have the kernel end the LBM for using too much."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        os.chown(file.name, pwd.getpwnam(MALLORY).pw_uid, -1)
        script = "for n in 1 2 3; do echo out $n; echo err $n >&2; done; exit 3"
        for redirected, lines in (">{} 2>&1", 6), (">{}", 3), (">>{}", 6), ("2>{}", 3):
            told = f"cd /; LBD_FRONT={front} lbrun -H h2 sh -c '{script}' "
            done = two.run(MALLORY, told + redirected.format(file.name))
            assert done.returncode == 3, (done, two.logs())
            found = Path(file.name).read_text().split("\n")
            assert found.pop() == ""
            assert len(found) == lines
            if "&" in redirected:
                assert found == [f"{what} {n}" for n in (1, 2, 3) for what in ("out", "err")]


@pytest.fixture(params=[False])
def hung(two, request):
    if not Path("/dev/fuse").exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs /dev/fuse")
    where = two.root / "hung"
    where.mkdir()
    try:
        uid = pwd.getpwnam(MALLORY).pw_uid
        with HungFiles(where, uid, killable=request.param) as hung:
            yield hung
    finally:
        where.rmdir()


# Hangs in exec; meanwhile its child uses the connection.
HANGS_IN_EXEC = """
import os, socket, sys, time
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
if os.fork():
    os.open(sys.argv[2], os.O_RDONLY | os.O_CLOEXEC)
    os.execv("/bin/sleep", ["sleep", "60"])
sys.stdin.readline()
sock.sendall(bytes.fromhex(sys.argv[3]))
print("sent", flush=True)
sock.recv(100)
"""


@pytest.mark.parametrize("given", [b"", tags.FLAG_CHDIR], ids=["its own", "another"])
def test_a_client_that_hangs_in_exec_holds_up_nobody_else(two, given):
    """Newer kernels show its working directory and its root to nobody meanwhile."""
    if not Path("/dev/fuse").exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs /dev/fuse")
    where, program = two.root / "never-closed", two.root / "hangs.py"
    where.mkdir(exist_ok=True)
    program.write_text(HANGS_IN_EXEC)
    request = client_request("true", DIRECTORY=b"/tmp", FLAGS=given)
    path, uid = two.root / "h1/run/lbm.sock", pwd.getpwnam(MALLORY).pw_uid
    with HungFiles(where, uid, closes=False, killable=True) as hung:
        words = f"{program} {path} {hung.path} {frames.pack(tags.RUN, request).hex()}"
        script = f"cd /tmp && exec /usr/bin/env -i python3 {words}"
        with under_way(two, MALLORY, script, stdin=subprocess.PIPE) as process:
            try:
                wait_until(lambda: (FLUSH, uid) in hung.asked, "it hangs", 20)
                process.stdin.write("now\n")
                process.stdin.flush()
                assert process.stdout.readline() == "sent\n"
                done = two.run(ANN, "cd / && timeout 10 lbrun -H h2 echo served")
                assert done.stdout == "served\n", done
            finally:
                hung.stop()
                process.stdin.close()


@pytest.mark.parametrize("way", ["cat <{}", "echo text 1<>{}", "sh -c 'echo text >&2' 2<>{}"])
def test_files_that_never_answer_hang_their_own_user_alone(two, hung, way):
    command = f"lbrun -H h2 {way.format(hung.path)}"
    script = " & ".join([command] * MANY) + " & wait"
    with under_way(two, MALLORY, script):
        lbm = pwd.getpwnam(LBD).pw_uid
        wait_until(lambda: any(uid == lbm for _, uid in hung.asked), "it is asked", see=two.logs)
        still_serves(two)
    still_serves(two)


@pytest.fixture
def fifo(two):
    """A FIFO that the daemons' account may open and ordinary users may not."""
    path = two.root / "fifo"
    os.mkfifo(path, 0o600)
    shutil.chown(path, LBD)
    end = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    yield path, end
    os.close(end)
    path.unlink()


def test_a_fifo_that_its_user_may_not_write_is_not_written_for_him(two, fifo):
    path, end = fifo
    script = (
        f"import os; os.dup2(os.open('{path}', os.O_PATH), 1);"
        f"os.execvp('lbrun', ['lbrun', '-H', 'h2', 'echo', \\\"{LINE}\\\"])"
    )
    done = two.run(MALLORY, f'cd / && timeout 15 {sys.executable} -c "{script}"')
    with pytest.raises(BlockingIOError):
        os.read(end, 100)
    assert done.returncode == 125, done


def test_a_fifo_that_its_user_may_not_read_is_not_read_for_him(two, fifo):
    path, end = fifo
    os.write(end, b"a secret\n")
    script = f"import os; {AS_STDIN.format(made=f'os.open({str(path)!r}, os.O_PATH)')}"
    done = two.run(MALLORY, f'cd / && timeout 15 {sys.executable} -c "{script}"')
    assert "secret" not in done.stdout
    assert os.read(end, 100) == b"a secret\n"


def test_a_handover_does_not_wait_for_a_file_that_never_answers(two, hung):
    """The kernel keeps a process alive while a FUSE has read its request and not answered: the next
    LBM starts beside the remains of the old one."""
    pid_file = two.root / "h1/run/lbm.pid"
    with under_way(two, MALLORY, f"lbrun -H h2 cat <{hung.path}"):
        wait_until(lambda: hung.asked, "it is asked", see=two.logs)
        before = pid_file.read_text()
        os.kill(int(before), signal.SIGUSR2)
        wait_until(lambda: "handed over" in two.logs(), "it hands over", see=two.logs)
        wait_until(lambda: pid_file.read_text() not in ("", before), "the next", see=two.logs)
        assert Path(f"/proc/{before.strip()}").exists()  # otherwise this test checks nothing
        wait_until(lambda: two.ask("h1", "lbm", "status"), "it answers", see=two.logs)
        still_serves(two)
        assert "lbm does not end" in two.logs()

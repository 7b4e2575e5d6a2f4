"""A user holds the lock of a pipe or socket indefinitely: the kernel keeps it while it copies to or
from a page of the user's, and that page belongs to a file that never answers."""

import contextlib
import os
import signal

import pytest

from tests.live.cluster import wait_until
from tests.live.hostile_user.test_descriptors import hung, still_serves
from tests.live.hostile_user.test_other_users import pids_of, under_way
from tests.live.hung_files import READ
from tests.live.privileged import MALLORY, opened

__all__ = ("hung",)  # the fixture

pytestmark = pytest.mark.root

PYTHON = "/usr/bin/python3"
PAGE = "import mmap, os, socket, time; f = os.open({path!r}, os.O_RDWR); page = mmap.mmap(f, 4096);"
WRITES = "os.write({to}, b'x'); os.write({to}, page)"
READS = "os.readv(0, [page])"
AS_INPUT = """
{page}
{made}
if os.fork() == 0:
    {hangs}
    os._exit(0)
time.sleep(0.3)
os.dup2(theirs, 0)
os.execvp("lbrun", ["lbrun", "-H", "h2", "cat"])
"""
PIPE = "theirs, ours = os.pipe()"
SOCKETS = "a, b = socket.socketpair(); b.send(b'some'); theirs = a.fileno()"
WAYS = {
    "pipe": (PIPE, WRITES.format(to="ours")),
    "socket": (SOCKETS, "a.recv_into(page)"),
}
AS_OUTPUT = """
{page}
import fcntl, threading
theirs, ours = os.pipe()
fcntl.fcntl(ours, 1031, 1 << 12)
def hang():
    time.sleep(1)
    os.write(ours, page)
threading.Thread(target=hang).start()
os.dup2(ours, 1)
says = "sleep 2; echo one; sleep 1; echo two"
os.spawnvp(os.P_WAIT, "lbrun", ["lbrun", "-H", "h2", "sh", "-c", says])
"""
GIVES_FILE = """
import os, socket, subprocess, time
listener = socket.socket(socket.AF_UNIX)
listener.bind({name!r})
listener.listen()
argv = ["lbrun", "-H", "h2", {python!r}, {command!r}]
running = subprocess.Popen(argv, stdin=subprocess.PIPE)
socket.send_fds(listener.accept()[0], [b"x"], [os.open({path!r}, os.O_RDWR)])
while running.poll() is None:
    running.stdin.write(b"tick")
    running.stdin.flush()
    time.sleep(0.1)
"""
AS_TERMINAL = """
{page}
import fcntl, pty
master, slave = pty.openpty()
os.write(master, b"line\\n")
if os.fork() == 0:
    os.close(master)
    os.readv(slave, [page])
    os._exit(0)
if os.fork() == 0:
    os.close(master)
    os.dup2(slave, 1)
    os.execvp("lbrun", ["lbrun", "-H", "h2", "sh", "-c", "while sleep 0.2; do echo tick; done"])
while b"tick" not in os.read(master, 100):
    pass
parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:  # while it waits for the reader nobody gets at the terminal
        try:
            fcntl.ioctl(slave, 0x5423, bytes(4))  # TIOCSETD
        except OSError:
            pass
while True:
    os.read(master, 100)
"""
GIVES_FILE_AND_TERMINAL = """
import fcntl, os, pty, select, socket, struct, termios, threading
listener = socket.socket(socket.AF_UNIX)
listener.bind({name!r})
listener.listen()
pid, master = pty.fork()
if pid == 0:
    os.execvp("lbrun", ["lbrun", "-t", "-H", "h2", {python!r}, {command!r}])
def give():
    socket.send_fds(listener.accept()[0], [b"x"], [os.open({path!r}, os.O_RDWR)])
threading.Thread(target=give, daemon=True).start()
lines = 20
while True:
    if select.select([master], [], [], 0.1)[0]:
        os.write(1, os.read(master, 1000))
    lines += 1
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", lines, 80, 0, 0))
"""
GIVES_FILE_AND_TYPES = """
import os, pty, select, socket, threading
listener = socket.socket(socket.AF_UNIX)
listener.bind({name!r})
listener.listen()
pid, master = pty.fork()
if pid == 0:
    os.execvp("lbrun", ["lbrun", "-t", "-H", "h2", {python!r}, {command!r}])
def give():
    socket.send_fds(listener.accept()[0], [b"x"], [os.open({path!r}, os.O_RDWR)])
threading.Thread(target=give, daemon=True).start()
while True:
    if select.select([master], [], [], 0.1)[0]:
        os.write(1, os.read(master, 1000))
    os.write(master, b"typed\\x01")  # what a terminal's modes may make something else of
"""
HOLDS_MODES = """
import array, fcntl, termios, time, tty
tty.setraw(0)
modes, there = termios.tcgetattr(0), array.array("i", [0])
while there[0] < 65:  # a reader of more than 64 bytes keeps the lock between two pieces
    time.sleep(0.05)
    fcntl.ioctl(0, termios.FIONREAD, there)
if os.fork() == 0:
    os.readv(0, [page])
    os._exit(0)
time.sleep(0.3)
termios.tcsetattr(0, termios.TCSANOW, modes)  # it waits, and who asks for the modes waits for it
"""
ASKS_FOR_SIZE = """
import ctypes
place = ctypes.addressof(ctypes.c_char.from_buffer(page))
ctypes.CDLL(None).ioctl(0, 0x5413, ctypes.c_void_p(place))
"""
TAKES_FILE = """
import mmap, os, socket
sock = socket.socket(socket.AF_UNIX)
sock.connect({name!r})
page = mmap.mmap(socket.recv_fds(sock, 1, 1)[1][0], 4096)
{hangs}
"""


@pytest.fixture(autouse=True)
def no_attacker_left(two):
    yield
    for pid in pids_of(f"{PYTHON}\0{two.root}/"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def attack(two, name, text):
    """Writes the attack's script and returns the command that runs it."""
    path = two.root / name
    path.write_text(text)
    path.chmod(0o755)
    return f"{PYTHON} {path}"


def is_held(hung):
    """Whether a page fault waits for the file."""
    return any(operation == READ for operation, _ in hung.asked)


@pytest.mark.parametrize("way", WAYS)
def test_who_holds_the_lock_of_his_input_holds_up_himself_alone(two, hung, way):
    made, hangs = WAYS[way]
    page = PAGE.format(path=hung.path)
    script = attack(two, f"by_{way}.py", AS_INPUT.format(page=page, made=made, hangs=hangs))
    with under_way(two, MALLORY, f"cd /; exec {script}"):
        wait_until(lambda: is_held(hung), "a page is asked for", see=two.logs)
        wait_until(lambda: " cat" in jobs_seen(two), "it runs", see=two.logs)
        still_serves(two)
        hung.stop()


@pytest.mark.parametrize("name", ["output", "terminal"])
def test_who_holds_the_lock_of_where_his_output_goes_holds_up_himself_alone(two, hung, name):
    page = PAGE.format(path=hung.path)
    text = {"output": AS_OUTPUT, "terminal": AS_TERMINAL}[name]
    script = attack(two, f"{name}.py", text.format(page=page))
    with under_way(two, MALLORY, f"cd /; exec {script}"):
        wait_until(lambda: is_held(hung), "a page is asked for", see=two.logs)
        wait_until_stuck(two, "h1")
        still_serves(two)
        hung.stop()


def commands_attack(two, hung, gives, hangs):
    """An attack by a command on h2. It is handed the file's descriptor, since it does not see a
    mount of another namespace."""
    name = f"\0{two.root}.{os.urandom(4).hex()}"
    text = TAKES_FILE.format(name=name, hangs=hangs)
    command = attack(two, "command.py", text).split()[1]
    text = gives.format(name=name, path=hung.path, python=PYTHON, command=command)
    return attack(two, "gives.py", text)


@pytest.mark.parametrize("to", [0, 1])
def test_a_command_that_holds_the_lock_of_its_pipe_holds_up_its_user_alone(two, hung, to):
    hangs = (READS, WRITES.format(to=1))[to]
    with under_way(two, MALLORY, f"cd /; exec {commands_attack(two, hung, GIVES_FILE, hangs)}"):
        wait_until(lambda: is_held(hung), "a page is asked for", see=two.logs)
        if to == 0:  # otherwise it may be read before the lock is taken
            wait_until_stuck(two, "h2")
        still_serves(two)
        hung.stop()


@pytest.mark.parametrize("hung", [True], indirect=True)
def test_what_hangs_by_a_command_ends_with_it(two, hung):
    script = commands_attack(two, hung, GIVES_FILE, READS)
    with under_way(two, MALLORY, f"cd /; exec {script}"):
        wait_until(lambda: is_held(hung), "a page is asked for", see=two.logs)
        lbm = wait_until_stuck(two, "h2")
        still_serves(two)
        for pid in pids_of(f"-H h2 {PYTHON}".replace(" ", "\0")):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not stuck_threads(lbm), "none is any more", see=two.logs)
        wait_until(lambda: "command.py" not in jobs_seen(two), "it ends", see=two.logs)
        hung.stop()


OF_TERMINAL = {
    "size": (GIVES_FILE_AND_TERMINAL, ASKS_FOR_SIZE), "modes": (GIVES_FILE_AND_TYPES, HOLDS_MODES)
}  # fmt: skip


@pytest.mark.parametrize("what", OF_TERMINAL)
def test_a_command_that_holds_its_terminal_holds_up_its_user_alone(two, hung, what):
    script = commands_attack(two, hung, *OF_TERMINAL[what])
    with under_way(two, MALLORY, f"cd /; exec {script}", opened()):  # -t needs Python
        wait_until(lambda: is_held(hung), "a page is asked for", see=two.logs)
        wait_until_stuck(two, "h2")
        for _ in range(3):
            still_serves(two)
        hung.stop()


def wait_until_stuck(two, host):
    """Waits until a thread of the host's LBM is stuck; returns the LBM's pid."""
    lbm = int((two.root / f"{host}/run/lbm.pid").read_text())
    wait_until(lambda: stuck_threads(lbm), "a thread is stuck", see=two.logs)
    return lbm


def stuck_threads(pid):
    """The threads of a process that not even a signal wakes."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/stat") as file:
            found += [task] if file.read().rpartition(")")[2].split()[0] == "D" else []
    return found


def test_the_next_lbm_starts_while_a_lock_is_held(two, hung):
    made, hangs = WAYS["pipe"]
    page = PAGE.format(path=hung.path)
    script = attack(two, "restart.py", AS_INPUT.format(page=page, made=made, hangs=hangs))
    pid_file = two.root / "h1/run/lbm.pid"
    with under_way(two, MALLORY, f"cd /; exec {script}"):
        wait_until(lambda: is_held(hung), "a page is asked for", see=two.logs)
        before = str(wait_until_stuck(two, "h1"))
        os.kill(int(before), signal.SIGUSR2)
        wait_until(
            lambda: pid_file.read_text().strip() not in ("", before), "the next", see=two.logs
        )
        wait_until(lambda: two.ask("h1", "lbm", "status"), "it answers", see=two.logs)
        still_serves(two)
        hung.stop()


def jobs_seen(two):
    """The command lines of h2's jobs."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    found.append(" " + file.read().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
    return "\n".join(line.rstrip() for line in found)

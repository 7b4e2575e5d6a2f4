"""Nothing that a user or an LBM does, or leaves undone, blocks a host's keeper; and if the keeper
hangs all the same, jobs that must end still end."""

import contextlib
import os
import pwd
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lbd.keeper import protocol as keeper
from lbd.keeper.limits.time_limits import LEASE, OVER, limit_frame
from lbd.keeper.spawn_order import JOB, Order, pack_order
from lbd.local import frames
from lbd.process.boot_clock import clock_s
from lbd.process.self_start import command
from lbd.process.service_manager import NotifySocket
from tests.live.cluster import client_environment, wait_until
from tests.live.hung_files import FLUSH, HungFiles
from tests.live.privileged import ANN, CONFIG, LBD, MALLORY, opened

pytestmark = pytest.mark.root
PATH = {b"PATH": b"/usr/bin:/bin"}


class LoneKeeper:
    """`lbd keeper` as root, and a socket connected to it as the LBM's user would connect."""

    def __init__(self, root, *settings, **environment):
        root.chmod(0o755)
        run = root / "h1/run"
        run.mkdir(parents=True)
        config = root / "lbd.toml"
        config.write_text(
            CONFIG.format(name="h1", root=root, lbd=LBD, ann=ANN, mallory=MALLORY, hosts="")
        )
        sets = [word for setting in settings for word in ("--set", setting)]
        self.process = subprocess.Popen(
            [*opened(), *command("keeper", "--config", str(config), *sets)],
            stdin=subprocess.DEVNULL, env=client_environment(**environment),
        )  # fmt: skip
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        wait_until(lambda: self._connects(run / "keeper.sock"), "it listens", 30)
        self._split, self._heard = frames.Splitter(1 << 20), []
        self.pid = int(self.hear(keeper.HELLO)[keeper.PID])

    def _connects(self, path):
        """Whether the LBM's user can connect: the keeper gives that user the socket once it
        exists."""
        os.seteuid(pwd.getpwnam(LBD).pw_uid)
        try:
            self.socket.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError, PermissionError):
            return False
        finally:
            os.seteuid(0)
        return True

    def spawn(self, job, user, script, limit=b"", descriptors=(), terminal=0):
        entry = pwd.getpwnam(user)
        argv = [b"/bin/sh", b"-c", script.encode()] if isinstance(script, str) else script
        order = Order(job=job, argv=argv, user=(entry.pw_uid, entry.pw_gid), environment=PATH)
        order.closed_fds, order.terminal = 0 if descriptors else 7, terminal
        data = frames.pack(keeper.SPAWN, pack_order(order)) + limit
        numbers = [one if isinstance(one, int) else one.fileno() for one in descriptors]
        socket.send_fds(self.socket, [data], numbers)

    def hear(self, tag, job=None):
        """The next frame with this tag; earlier frames with other tags are retained."""
        while True:
            for at, (found, given) in enumerate(self._heard):
                if found == tag and job in (None, given.get(JOB, b"").decode()):
                    return self._heard.pop(at)[1]
            data = self.socket.recv(1 << 16)
            assert data, "the keeper is gone"
            self._heard += [
                (one, dict(frames.fields(body))) for one, body in self._split.feed(data)
            ]

    def begin(self, *words, **more):
        self.spawn(*words, **more)
        return int(self.hear(keeper.BEGUN, words[0])[keeper.PID])

    def close(self):
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGCONT)
            self.socket.sendall(frames.pack(keeper.QUIT))
        self.socket.close()
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.process.kill()
        self.process.wait()


@pytest.fixture
def lone(short_dir):
    with contextlib.closing(LoneKeeper(short_dir)) as lone:
        yield lone


HANG_IN_EXEC = """
import os, sys
os.open(sys.argv[1], os.O_RDONLY | os.O_CLOEXEC)
os.execv("/bin/sleep", ["sleep", "600"])
"""


def test_a_process_that_hangs_in_exec_holds_up_no_lease_without_cgroups(short_dir, tmp_path):
    """Newer kernels show /proc/PID/stat only when no exec is under way, and without cgroups the
    keeper and its warden read everybody's: no job on that host ended any more."""
    if not Path("/dev/fuse").exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs /dev/fuse")
    where = short_dir / "fuse"
    where.mkdir()
    ann = pwd.getpwnam(ANN).pw_uid
    with (
        HungFiles(where, ann, closes=False, killable=True) as hung,
        contextlib.closing(LoneKeeper(short_dir, "lbm.cgroup=off")) as lone,
    ):
        words = (sys.executable, "-I", "-S", "-c", HANG_IN_EXEC, hung.path)
        lone.begin("1", ANN, [word.encode() for word in words])
        wait_until(lambda: (FLUSH, ann) in hung.asked, "it hangs", 20)
        limit = limit_frame("2", clock_s() + 1, 9)
        lone.begin("2", MALLORY, "setsid sleep 600 & wait", limit=limit)
        try:
            assert lone.hear(keeper.EXITED, "2")[OVER].decode() == LEASE
        finally:
            hung.stop()


def is_alive(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] not in b"ZX"
    return False


# The processes it is given stay as they are when they end, as if their user stopped them then.
TRACER = """
import ctypes, signal, sys
libc = ctypes.CDLL(None)
SEIZE, TRACE_EXIT = 0x4206, 0x40
how = ctypes.c_void_p(TRACE_EXIT if sys.argv[1] == "stopped" else 0)
seized = [libc.ptrace(SEIZE, int(pid), None, how) for pid in sys.argv[2:]]
print(*seized, flush=True)
signal.pause()
"""


@contextlib.contextmanager
def held_as_they_end(pids, how="stopped"):
    words = [sys.executable, "-c", TRACER, how, *map(str, pids)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as tracer:
        try:
            assert set(tracer.stdout.readline().split()) == {"0"}
            yield
        finally:
            tracer.kill()


def children(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if is_alive(int(child))]


def test_a_child_that_has_failed_and_does_not_end_holds_up_nobody(lone):
    lone.begin("1", ANN, "exit 0")
    lone.hear(keeper.EXITED, "1")
    wait_until(lambda: len(children(lone.pid)) >= 3, "it has forked ahead")
    with held_as_they_end(children(lone.pid)):
        lone.spawn("2", MALLORY, [b"/nonexistent"])
        assert lone.hear(keeper.FAILED, "2")[keeper.PHASE] == b"exec"
        lone.begin("3", ANN, "sleep 60")
        lone.socket.sendall(frames.pack(keeper.END_TREE, frames.field(JOB, b"3")))
    assert int(lone.hear(keeper.EXITED, "3")[keeper.NUMBER]) == signal.SIGKILL


def test_an_end_that_a_tracer_keeps_to_itself_is_known(lone):
    """Its user traces it from elsewhere. The job kept its slot after it was killed, and a keeper
    that was to stop refused everybody's commands meanwhile and did not stop."""
    pid = lone.begin("1", ANN, "sleep 61")
    with held_as_they_end([pid], "as zombies"):
        lone.socket.sendall(frames.pack(keeper.END_TREE, frames.pack_fields([(JOB, b"1")])))
        assert int(lone.hear(keeper.EXITED, "1")[keeper.NUMBER]) == signal.SIGKILL
        assert Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] == b"Z"
        lone.begin("2", ANN, "sleep 61")
        os.kill(lone.pid, signal.SIGTERM)
        lone.hear(keeper.EXITED, "2")
        lone.process.wait(20)


def test_a_keeper_leaves_behind_what_a_tracer_keeps_from_ending(lone):
    """The kernel drops every further SIGKILL to a process that is on its way out. A keeper that was
    to stop refused everybody's commands for as long as the tracer liked."""
    pid = lone.begin("1", ANN, "sleep 61")
    with held_as_they_end([pid]):
        os.kill(lone.pid, signal.SIGTERM)
        lone.process.wait(60)
        assert is_alive(pid)


def test_a_job_that_stops_and_continues_for_ever_while_the_lbm_hangs(lone):
    """The keeper cannot send its reports, and a lease still expires on time."""
    restless = "while :; do kill -STOP $PPID; kill -CONT $PPID; done"
    lone.begin("1", MALLORY, f"sh -c '{restless}' & wait")
    pid = lone.begin("2", ANN, "sleep 60", limit=limit_frame("2", clock_s() + 4.0, 0.0))
    time.sleep(3.0)  # nobody reads; the keeper has long sent all it can
    wait_until(lambda: not is_alive(pid), "its lease is over", 20)
    assert lone.hear(keeper.EXITED, "2")[OVER] == LEASE.encode()
    lone.socket.sendall(frames.pack(keeper.END_TREE, frames.field(JOB, b"1")))
    lone.hear(keeper.EXITED, "1")


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_an_attempt_ends_with_its_lease_also_if_the_keeper_does_nothing(lone, number):
    """Its whole process tree ends, which the LBM has no right to kill."""
    both = "sleep 61 & echo $! >&3; wait"
    read, write = os.pipe()
    with open(read) as said, open(os.devnull, "rb+") as null:
        descriptors = [null, null, write]
        script = both.replace("&3", "&2")
        pid = lone.begin("1", ANN, script, limit_frame("1", clock_s() + 3.0, 0.0), descriptors)
        os.close(write)
        child = int(said.readline())
    begun_s = time.monotonic()
    os.kill(lone.pid, number)
    wait_until(lambda: not is_alive(pid) and not is_alive(child), "both are gone", 20)
    if number == signal.SIGSTOP:
        assert time.monotonic() - begun_s > 1.0, "not before its lease is over"
        os.kill(lone.pid, signal.SIGCONT)
        assert lone.hear(keeper.EXITED, "1")[OVER] == LEASE.encode()
        assert int(lone.begin("2", ANN, "exit 0")) > 0


def test_a_renewed_lease_has_not_expired(lone):
    pid = lone.begin("1", ANN, "sleep 60", limit=limit_frame("1", clock_s() + 2.0, 0.0))
    lone.socket.sendall(limit_frame("1", clock_s() + 60.0, 0.0))
    lone.begin("2", ANN, "sleep 4")
    os.kill(lone.pid, signal.SIGSTOP)
    time.sleep(3.5)
    assert is_alive(pid)
    os.kill(lone.pid, signal.SIGCONT)
    lone.hear(keeper.EXITED, "2")
    assert is_alive(pid)


def test_a_keeper_that_hangs_is_ended(short_dir):
    with contextlib.closing(LoneKeeper(short_dir, "up.watchdog_s=1")) as lone:
        time.sleep(2.0)
        assert lone.process.poll() is None
        lone.begin("1", ANN, "sleep 60")
        os.kill(lone.pid, signal.SIGSTOP)
        assert lone.process.wait(30) == -signal.SIGKILL


def test_the_keeper_feeds_the_watchdog_of_the_process_that_started_it(short_dir, tmp_path):
    notices = NotifySocket(str(tmp_path / "notify"))
    with contextlib.closing(notices):
        variables = notices.environment(1.0)
        with contextlib.closing(LoneKeeper(short_dir, **variables)) as lone:
            fed = []
            until_s = time.monotonic() + 20
            while fed.count(lone.pid) < 3 and time.monotonic() < until_s:
                select.select([notices.socket], [], [], 1.0)
                fed += [pid for pid, lines in notices.received() if "WATCHDOG=1" in lines]
            assert fed.count(lone.pid) >= 3
            os.kill(lone.pid, signal.SIGSTOP)
            notices.received()
            time.sleep(1.5)
            assert not notices.received()

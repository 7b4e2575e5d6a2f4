"""Which terminals show that the owner is present."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from lbd.lbm.owner import signs as signs_module
from lbd.lbm.owner.signs import Signs, last_used
from lbd.load import process_table, procfs
from lbd.load.kernel_threads import KernelThreads
from lbd.model import JobId

TIOCGPTN = 0x80045430
# A small keeper: its child is a foreign command, which opens a terminal. The terminal's last use is
# set far into the future, later than that of any other here, and the look is even later.
LATER_S = 5e9
KEEPER = """
import os, subprocess, sys
command = [sys.executable, "-c", sys.argv[1]]
subprocess.run(command, start_new_session=True)
"""
COMMAND = """
import os, sys
_, terminal = os.openpty()
name = os.ttyname(terminal)
os.utime(name, (4e9, 4e9))
print(os.getpid(), name, flush=True)
sys.stdin.read()
"""


@contextmanager
def command_that(does):
    """Runs a foreign command; yields its pid and the terminal that it has opened."""
    words = [sys.executable, "-c", KEEPER, does]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        pid, name = keeper.stdout.readline().split()
        try:
            yield int(pid), name.decode().removeprefix("/dev/")
        finally:
            keeper.stdin.close()


async def terminal_seen(pid):
    signs = Signs()
    if pid:
        signs.job_began(JobId("h2-1"), pid, "")
    try:
        last_used(None, signs._foreign(), LATER_S)
        await signs.look_elsewhere()
        return last_used(None, signs._foreign(), LATER_S)[0]
    finally:
        signs.close()


async def test_one_that_a_foreign_command_makes_for_itself_is_not_the_owners():
    with command_that(COMMAND) as (pid, terminal):
        assert await terminal_seen(0) == terminal
        assert await terminal_seen(pid) != terminal


@contextmanager
def shell_with_terminal():
    """Yields the terminal's name. It is used later than any other."""
    shell, master = pty.fork()
    if shell == 0:
        os.write(1, b".")
        signal.pause()
    try:
        assert os.read(master, 1) == b"."  # by now it is its terminal
        (number,) = struct.unpack("=i", fcntl.ioctl(master, TIOCGPTN, bytes(4)))
        name = f"/dev/pts/{number}"
        os.utime(name, (4.1e9, 4.1e9))
        yield name.removeprefix("/dev/")
    finally:
        os.kill(shell, signal.SIGKILL)
        os.waitpid(shell, 0)
        os.close(master)


async def test_one_of_the_same_user_in_which_somebody_is_at_work_is():
    with command_that(COMMAND) as (pid, terminal), shell_with_terminal() as own:
        assert await terminal_seen(pid) == own != terminal


async def test_a_process_that_hangs_in_exec_holds_up_no_look(monkeypatch):
    """The kernel shows its stat to nobody. The LBM read that of each command once a second."""
    loop, let_go, task_of = threading.current_thread(), threading.Event(), process_table.task_of
    hangs = threading.Event()

    def shown(pid):
        assert threading.current_thread() is not loop, "the LBM would have hung"
        if hangs.is_set():
            let_go.wait()
        return task_of(pid)

    monkeypatch.setattr(process_table, "task_of", shown)
    signs = Signs()
    with command_that(COMMAND) as (pid, _), shell_with_terminal() as own:
        signs.job_began(JobId("h2-1"), pid, "")
        try:
            for _ in range(3):
                signs.see((), input_too=False)
                found, _ = last_used(None, signs._foreign(), LATER_S)
                await signs.look_elsewhere()
                hangs.set()
            assert found == own, "what was found before counts"
        finally:
            let_go.set()
            signs.close()


def test_a_date_in_the_future_is_no_sign():
    """The owner of a terminal can set it, and could keep others' jobs away for ever."""
    with command_that(COMMAND) as (_, terminal):
        signs = Signs()
        seen = signs.see((), input_too=False)
        signs.close()
        assert seen.terminal != terminal
        assert last_used(None, lambda _: False, LATER_S)[0] == terminal


def test_use_during_the_start_of_the_daemons_does_not_count_as_that_of_the_owner(monkeypatch):
    used_s = iter((10.0, 12.0, 12.0))
    monkeypatch.setattr(procfs, "tasks_cpu_s", lambda: next(used_s))
    signs = Signs()
    loads = [signs.see((), input_too=False).load for _ in range(3)]
    signs.close()
    assert loads[0] == loads[2] == 0.0
    assert loads[1] > 0.0


def test_short_commands_do_not_count_as_the_owners_load(monkeypatch):
    """No look sees all of a command of less than a second. Whoever ran one after the other had
    everybody's commands suspended, as the owner's load."""
    busy_s, owner_s, used_s = 100.0, 0.0, {1: 0.0, 2: 0.0}
    monkeypatch.setattr(procfs, "tasks_cpu_s", lambda: busy_s + sum(used_s.values()) + owner_s)
    monkeypatch.setattr(signs_module, "cpu_s_of", lambda pid, _: used_s[pid])
    signs = Signs()

    def load():
        then_s = signs._busy[1] if signs._busy else 0.0
        seen = signs.see((), input_too=False)
        return seen.load * max(0.01, signs._busy[1] - then_s)  # in CPU seconds

    load()
    signs.job_began(JobId("between looks"), 1, "")
    used_s[1] = 0.5
    signs.job_ended(JobId("between looks"), 0.5)
    signs.job_began(JobId("seen once"), 2, "")
    used_s[2] = 0.3
    assert load() == 0.0
    used_s[2] = 0.7
    signs.job_ended(JobId("seen once"), 0.7)
    assert load() == 0.0
    owner_s = 5.0
    assert load() == pytest.approx(5.0, abs=0.5), "the LBM's own time aside"
    signs.close()


def test_the_kernels_own_work_is_not_the_owners_load(monkeypatch):
    """A command that makes and drops network namespaces keeps a thread of the kernel busy."""
    used_s, busy_s = iter((0.0, 3.0)), iter((10.0, 13.0))
    monkeypatch.setattr(procfs, "tasks_cpu_s", lambda: next(busy_s))
    monkeypatch.setattr(KernelThreads, "used_s", lambda _: next(used_s))
    signs = Signs()
    for _ in range(2):
        assert signs.see((), input_too=False).load == 0.0
    signs.close()

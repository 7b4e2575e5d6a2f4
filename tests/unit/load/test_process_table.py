"""Which processes may begin others."""

import os
import signal
import subprocess
import sys
import time

import pytest

from lbd.load import process_table

BUSY = "while True: pass"
FIRST_THREAD_ENDS = """
import ctypes, threading
def busy():
    while True: pass
threading.Thread(target=busy).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture(params=[BUSY, FIRST_THREAD_ENDS], ids=["one thread", "without its first"])
def busy(request):
    with subprocess.Popen([sys.executable, "-c", request.param]) as process:
        yield process
        process.kill()


def until(happens):
    while not happens():
        time.sleep(0.01)


def test_who_has_stopped_begins_no_others(busy):
    until(lambda: process_table.task_of(busy.pid).cpu_s > 0.1)
    assert process_table.may_fork(busy.pid)
    busy.send_signal(signal.SIGSTOP)
    until(lambda: not process_table.may_fork(busy.pid))
    busy.send_signal(signal.SIGCONT)
    until(lambda: process_table.may_fork(busy.pid))


def test_who_was_killed_begins_no_others_though_it_is_there(busy):
    busy.kill()
    until(lambda: not process_table.may_fork(busy.pid))
    os.waitid(os.P_PID, busy.pid, os.WEXITED | os.WNOWAIT)
    status = process_table.status_of(busy.pid)
    assert status.has_ended
    busy.wait()
    assert process_table.status_of(busy.pid) is None
    assert not process_table.may_fork(busy.pid)
    assert process_table.session_of(busy.pid) == -1


def test_a_status_says_what_a_stat_does():
    own, both = os.getpid(), process_table.status_of(os.getpid())
    task = process_table.task_of(own)
    assert (both.parent, both.threads) == (task.parent, task.threads)
    assert process_table.session_of(own) == task.session
    assert (both.is_killed, both.has_ended) == (False, False)


def test_a_kill_that_has_not_been_heard_counts(monkeypatch):
    """As while it waits in the kernel, or for a processor."""
    real = process_table.read_small(f"/proc/{os.getpid()}/status", process_table.STATUS_BYTES)
    before, _, after = real.partition(b"SigPnd:\t")
    pending = before.replace(b"S (sleeping)", b"R (running)") + b"SigPnd:\t%016x" + after[16:]
    monkeypatch.setattr(process_table, "read_small", lambda *_: pending % (1 << 8))
    assert process_table.status_of(1).is_killed
    monkeypatch.setattr(process_table, "read_small", lambda *_: pending % (1 << 18))
    assert not process_table.status_of(1).is_killed


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may set groups here")
@pytest.mark.parametrize("groups", [3000, 65536])
def test_who_is_in_very_many_groups_is_not_overlooked(groups):
    """With subordinate group ids any user may be. The groups come before the number of threads, and
    only the first 16 KiB were read: so such a process was gone for the warden."""
    join = f"import os, time; os.setgroups(range(100000, {100000 + groups})); print(flush=True)"
    code = f"{join}; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        status = process_table.status_of(process.pid)
        process.kill()
    assert (status.parent, status.threads, status.has_ended) == (os.getpid(), 1, False)


NAMED = """
import ctypes, signal, sys
name = ctypes.create_string_buffer(sys.argv[1].encode())
assert ctypes.CDLL(None).prctl(15, name) == 0  # PR_SET_NAME
print(flush=True)
signal.pause()
"""


@pytest.mark.parametrize("end", ["\r", "\n", "\x0b", "\x0c", "\x1c"])
def test_whose_a_process_is_is_not_for_its_name_to_say(end):
    """Its name comes first, and may hold most of what ends a line elsewhere."""
    words = [sys.executable, "-c", NAMED, f"a{end}Uid:\t4711"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert process_table.uid_of(process.pid) == os.getuid()
        assert process_table.status_of(process.pid).parent == os.getpid()
        process.kill()

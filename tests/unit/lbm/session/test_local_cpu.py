"""The CPU time and the result of commands that stay here."""

import asyncio
import os
import select
import shlex
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from lbd.lbm.link.user_threads import THREADS_MAX, Threads
from lbd.lbm.session.local_cpu import LocalCpu, cpu_used_s, knows_results
from lbd.load.process_table import task_of

BUSY = "import os\nwhile sum(os.times()[:2]) < 0.2: pass"


def watched(pid, age_s, before_s=0.0):
    job = SimpleNamespace(pid=pid, cpu_before_s=before_s)
    return LocalCpu(job, age_s, Threads(), is_new=False)


@pytest.fixture
def ended():
    """Returns a process that has ended without being waited for."""
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    handle = os.pidfd_open(process.pid)
    select.select([handle], [], [])
    os.close(handle)
    yield process.pid
    process.wait()
    assert task_of(process.pid) is None


async def test_cpu_time_of_a_process_that_nobody_has_waited_for(ended):
    assert 0.15 <= watched(ended, 0.5).ended() <= 0.6


@pytest.mark.parametrize(("script", "status"), [("exit 7", 7), ("kill -9 $$", 137), ("true", 0)])
@pytest.mark.parametrize("is_reaped", [False, True])
async def test_the_end_of_a_process_that_was_no_child_here(script, status, is_reaped):
    process = subprocess.Popen(["sh", "-c", script])  # noqa: ASYNC220  # it ends at once
    handle = os.pidfd_open(process.pid)
    try:
        select.select([handle], [], [])
        if is_reaped:
            process.wait()
        cpu = watched(process.pid, 0.5)
        await cpu.watch(handle)
        assert cpu.status == (status if knows_results() or not is_reaped else None)
    finally:
        process.wait()
        os.close(handle)


BURN = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"


async def test_the_work_of_a_command_s_children_is_seen_before_they_end():
    """As of a compiler, which works in a child of its driver and is waited for by make at once."""
    line = f"{shlex.quote(sys.executable)} -c {shlex.quote(BURN)} <&3 & wait"
    keep, give = os.pipe()
    process = subprocess.Popen(  # noqa: ASYNC220  # read at once
        ["sh", "-c", f"exec 3<&0; {line}"], stdin=keep, stdout=subprocess.PIPE
    )
    cpu = watched(process.pid, 1.0)
    try:
        process.stdout.readline()
        await cpu.look()
        assert cpu._cpu_s >= 0.25
    finally:
        os.close(give)
        os.close(keep)
        process.stdout.close()
        process.wait()
    assert cpu.ended() >= 0.25


async def test_what_a_shell_has_run_before_it_becomes_the_command_does_not_count():
    """`sh -c 'python3 burn.py 1; exec lbrun --local python3 burn.py 0.5'` had 3 s in the bills."""
    burn = f"{shlex.quote(sys.executable)} -c {shlex.quote(BUSY)}"
    script = f"{burn}; echo; read go; exec {burn}"
    process = subprocess.Popen(  # noqa: ASYNC220  # read at once
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with os.fdopen(os.pidfd_open(process.pid)) as handle:
        process.stdout.readline()
        before_s = cpu_used_s(process.pid)
        cpu = watched(process.pid, 0.5, before_s)
        process.stdin.write(b"go\n")
        process.stdin.flush()
        select.select([handle], [], [])
        assert before_s >= 0.15
        assert 0.15 <= cpu.ended() <= 0.6
    process.stdin.close()
    process.stdout.close()
    process.wait()


async def test_what_a_command_has_used_does_not_fall_when_it_is_killed_before_its_child():
    """The process that has ended, and is not waited for yet, knows nothing of that child."""
    process = subprocess.Popen(["true"])  # noqa: ASYNC220  # it ends at once
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
    cpu = watched(process.pid, 0.5)
    cpu._cpu_s = 99.0
    assert cpu.ended() == 99.0
    process.wait()


async def test_who_looks_at_very_much_holds_up_nobody():
    """700 commands that stayed here, each of 90 processes of ten threads, held up the LBM for ten
    seconds: it looked at all of them in its event loop."""
    job, threads = SimpleNamespace(pid=os.getpid(), cpu_before_s=0.0), Threads()
    go_on, looked = threading.Event(), []
    for _ in range(THREADS_MAX):  # all threads of that user are busy
        threads.start(go_on.wait)
    cpu = LocalCpu(job, 0.0, threads, is_new=True)
    looking = asyncio.create_task(cpu.look())
    looking.add_done_callback(looked.append)
    for _ in range(10):
        await asyncio.sleep(0)
    assert (job.cpu_before_s, looked) == (0.0, [])
    go_on.set()
    await looking
    assert job.cpu_before_s > 0
    assert cpu.ended() is not None


async def test_of_an_invisible_process_nothing_is_known():
    assert watched(0, 0.0).ended() is None

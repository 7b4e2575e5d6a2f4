"""What the commands that run here have used, counted by their cgroups or process by process."""

import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

from lbd.lbm.session import cpu_used
from lbd.lbm.session.cpu_used import CpuUsed, Root, used_s

SPIN = """
import subprocess, sys, time
child = "while __import__('time').process_time() < 0.2: pass"
subprocess.run([sys.executable, "-c", child])
print(flush=True)
time.sleep(60)
"""


def test_without_cgroups_a_tree_counts_with_its_ended_children():
    words = [sys.executable, "-c", SPIN]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as leader:
        leader.stdout.read(1)
        roots = {"7": Root(leader.pid), "8": Root(2**22 + 1)}
        found = used_s(roots | {"h1-1": Root(os.getpid(), is_leader=False)})
        leader.kill()
    assert 0.15 <= found["7"] < 60, "the kernel counts in hundredths"
    assert found["8"] == 0.0
    assert found["h1-1"] >= found["7"], "it is below us"


async def test_many_questions_take_one_look(monkeypatch):
    looks = []
    monkeypatch.setattr(cpu_used, "used_s", lambda roots: looks.append(roots) or {"7": 1.0})
    monkeypatch.setattr(cpu_used, "KEPT_S", 1000.0)
    process = SimpleNamespace(pid=os.getpid(), group="")
    running = SimpleNamespace(id="a-1", shown="7", execution=SimpleNamespace(process=process))
    waits = SimpleNamespace(id="h2-3", shown="", execution=SimpleNamespace(process=None))
    here = SimpleNamespace(pid=17, is_there=True)
    gone, unseen = SimpleNamespace(pid=18, is_there=False), SimpleNamespace(pid=0, is_there=True)
    used = CpuUsed([running, waits], {"h1-1": here, "h1-2": gone, "h1-3": unseen})
    assert [await used.by_job() for _ in range(3)] == [{"7": 1.0}] * 3
    assert looks == [{"7": Root(os.getpid()), "h1-1": Root(17, is_leader=False)}]


async def test_a_look_is_not_kept_for_long(monkeypatch):
    looks = []
    monkeypatch.setattr(cpu_used, "used_s", lambda roots: looks.append(time.monotonic()) or {})
    monkeypatch.setattr(cpu_used, "KEPT_S", 0.0)
    used = CpuUsed([], {})
    await used.by_job()
    await used.by_job()
    assert len(looks) == 2


async def test_who_holds_up_a_look_holds_up_no_list(monkeypatch):
    """While an exec of a user's process was under way, everybody's list of jobs failed."""
    held, looks = threading.Event(), iter(({"7": 1.0}, {"7": 2.0}))
    monkeypatch.setattr(cpu_used, "used_s", lambda _: held.wait(60) and next(looks))
    monkeypatch.setattr(cpu_used, "KEPT_S", 0.0)
    monkeypatch.setattr(cpu_used, "PATIENCE_S", 0.0)
    used = CpuUsed([], {})
    assert [await used.by_job() for _ in range(3)] == [{}] * 3
    look = used._look
    held.set()
    await look
    monkeypatch.setattr(cpu_used, "PATIENCE_S", 60.0)
    assert await used.by_job() == {"7": 2.0}

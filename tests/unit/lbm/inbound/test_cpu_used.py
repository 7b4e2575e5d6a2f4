"""What the commands that run here have used, counted by their cgroups or process by process."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

from lbd.lbm.inbound import cpu_used
from lbd.lbm.inbound.cpu_used import CpuUsed, used_s

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
        found = used_s({"7": (leader.pid, ""), "8": (2**22 + 1, "")})
        leader.kill()
    assert 0.2 <= found["7"] < 60
    assert found["8"] == 0.0


async def test_many_questions_are_one_look(monkeypatch):
    looks = []
    monkeypatch.setattr(cpu_used, "used_s", lambda roots: looks.append(roots) or {"7": 1.0})
    monkeypatch.setattr(cpu_used, "KEPT_S", 1000.0)
    process = SimpleNamespace(pid=os.getpid(), group="")
    running = SimpleNamespace(id="a-1", shown="7", execution=SimpleNamespace(process=process))
    waits = SimpleNamespace(id="h2-3", shown="", execution=SimpleNamespace(process=None))
    used = CpuUsed([running, waits])
    assert [await used.by_job() for _ in range(3)] == [{"7": 1.0}] * 3
    assert looks == [{"7": (os.getpid(), "")}]


async def test_a_look_is_not_kept_for_long(monkeypatch):
    looks = []
    monkeypatch.setattr(cpu_used, "used_s", lambda roots: looks.append(time.monotonic()) or {})
    monkeypatch.setattr(cpu_used, "KEPT_S", 0.0)
    used = CpuUsed([])
    await used.by_job()
    await used.by_job()
    assert len(looks) == 2

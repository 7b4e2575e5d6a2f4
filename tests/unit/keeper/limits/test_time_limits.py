"""What the keeper measures: leases on its clock, and CPU time of a whole tree without cgroups."""

import os
import signal
import subprocess
import sys
import time

from lbd.keeper.limits import process_reads
from lbd.keeper.limits import time_limits as limits_module
from lbd.keeper.limits.time_limits import (
    CPU,
    CPU_US,
    GRACE_S,
    LEASE,
    LEASE_UNTIL_MS,
    Limit,
    Limits,
    Used,
    limit_frame,
)
from lbd.load import process_table
from lbd.local import frames
from lbd.process.boot_clock import clock_s

FAR_MS = 60_000
BURN = "import time\nwhile time.process_time() < 60: pass"


def given(lease_ms=FAR_MS, cpu_us=0):
    return {LEASE_UNTIL_MS: b"%d" % (clock_s() * 1e3 + lease_ms), CPU_US: b"%d" % cpu_us}


def until_over(limits, timeout_s=90.0):
    until_s = time.monotonic() + timeout_s
    while not (found := limits.over()):
        assert time.monotonic() < until_s
        time.sleep(limits.sooner_ms(100) / 1000)
    return found


def test_a_lease_expires_unless_it_is_renewed():
    limits = Limits()
    limits.set("a", 1, "", given(30))
    limits.set("b", 1, "", given(30))
    limits.set("b", 1, "", given())
    assert limits.sooner_ms(-1) <= 31
    assert until_over(limits) == ["a"]
    limits.set("a", 1, "", given())
    assert limits.over() == ["a"], "what is over stays so"
    assert (limits.ended("a"), limits.ended("b"), limits.ended("c")) == (LEASE, "", "")
    assert limits.sooner_ms(-1) == -1


def test_a_lease_counts_while_the_keeper_does_not_read_its_orders():
    """Its LBM may hang, too, and another attempt may have started elsewhere by then."""
    limits = Limits()
    frame = limit_frame("a", clock_s() - 1.0, 0.0)
    ((_, body),) = frames.Splitter(1 << 16).feed(frame)
    told = dict(frames.fields(body))
    assert int(told[LEASE_UNTIL_MS]) < clock_s() * 1e3
    limits.set("a", 1, "", told)
    assert until_over(limits) == ["a"]


def test_a_keeper_that_is_late_leaves_it_to_the_warden_for_a_moment(monkeypatch):
    """It got no processor beside a fork bomb. Both killed then, and each what the other had not
    found all of, so that the rest had lost their parents and ran on."""
    now_s = 1000.0
    monkeypatch.setattr(limits_module, "clock_s", lambda: now_s)
    limits = Limits()
    for job, left_s in ("late", -GRACE_S), ("in time", 0.0):
        limits.set(job, 1, "", {LEASE_UNTIL_MS: b"%d" % ((now_s + left_s) * 1e3), CPU_US: b"0"})
    assert limits.over() == limits.over() == ["in time"]
    now_s += limits_module.LOOK_S_MAX
    assert limits.over() == ["late", "in time"]
    assert limits.ended("late") == LEASE


def test_the_cpu_time_of_a_child_counts_for_its_tree():
    shell = subprocess.Popen(
        ["sh", "-c", f"{sys.executable} -c '{BURN}' & wait"], start_new_session=True
    )
    try:
        limits = Limits()
        limits.set("a", shell.pid, "", given(cpu_us=300_000))
        assert limits.over() == []
        assert until_over(limits) == ["a"]
        assert limits.ended("a") == CPU
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def test_who_hangs_in_exec_holds_up_no_limit(monkeypatch):
    """The kernel shows the stat of one to nobody. That stopped the keeper, and so each lease."""
    task_of, keeper = process_table.task_of, os.getpid()

    def shown(pid):
        if pid == hung.pid:
            assert os.getpid() != keeper, "it would have hung"
            signal.pause()
        return task_of(pid)

    monkeypatch.setattr(process_table, "task_of", shown)
    monkeypatch.setattr(process_reads, "PATIENCE_S", 0.2)
    burn = [sys.executable, "-c", BURN]
    hung, other = (subprocess.Popen(burn, start_new_session=True) for _ in range(2))
    limits = Limits()
    try:
        limits.set("leased", 1, "", given(300))
        limits.set("hung", hung.pid, "", given(cpu_us=200_000))
        limits.set("other", other.pid, "", given(cpu_us=200_000))
        over = set()
        while over != {"leased", "hung", "other"}:
            over |= set(until_over(limits))
        assert (limits.ended("leased"), limits.ended("hung")) == (LEASE, CPU)
    finally:
        for process in (hung, other):
            process.kill()
            process.wait()


def test_an_expired_limit_stays_expired_whatever_is_said_later():
    """Not a moment longer, and for the first reason."""
    limits = Limits()
    limits.set("a", 1, "", given(0))
    assert limits.over() == ["a"]
    before_s = limits.sooner_ms(-1)
    limits.set("a", 1, "", given())
    assert limits.sooner_ms(-1) <= before_s
    assert limits.over() == ["a"]
    assert limits.ended("a") == LEASE


def test_the_cpu_time_of_vanished_processes_is_not_forgotten():
    """This includes a process whose parent is gone: no process has it in its own count."""
    limit = Limit(10, "")
    seen = [
        {10: Used(1, 1.0), 11: Used(10, 2.0), 12: Used(1, 4.0)},
        {10: Used(1, 1.0), 11: Used(10, 2.5)},  # 12 is gone, and not below one of the others
        {10: Used(1, 3.6)},  # 11 is gone, and 10 has waited for it
    ]
    assert list(map(limit.added_up_s, seen)) == [7.0, 7.5, 7.6]


def test_no_lease_is_too_long_to_wait_for():
    """poll() takes 24 days at most: one longer lease ended the keeper, and all commands with it."""
    limits = Limits()
    limits.set("1.1", os.getpid(), "", {LEASE_UNTIL_MS: b"1" + b"0" * 300, CPU_US: b"0"})
    wait_ms = limits.sooner_ms(-1)
    assert 0 < wait_ms < 1 << 31
    assert limits.over() == []


def test_one_look_at_all_processes_serves_all_jobs_and_takes_a_part_of_the_time(monkeypatch):
    """Any user may have ten thousand: without cgroups each job had them all read twice a second."""
    now_s, looks = [100.0], []

    def entries_of(_):
        looks.append(now_s[0])
        now_s[0] += 0.2
        return {}
        yield

    monkeypatch.setattr(limits_module, "clock_s", lambda: now_s[0])
    monkeypatch.setattr(limits_module, "entries_of", entries_of)
    limits = Limits()
    for n in range(8):
        limits.set(f"{n}", 1, "", {LEASE_UNTIL_MS: b"1000000", CPU_US: b"%d" % (n + 1)})
        now_s[0] += 0.01
    while now_s[0] < 120.0:
        assert limits.over() == []
        now_s[0] += 0.01
    assert 0.2 * len(looks) <= 0.11 * 20.0

"""Which groups and processes a keeper takes for its own, or for leftovers of the one before."""

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from lbd.keeper.limits import cgroups, process_reads
from lbd.keeper.limits.cgroups import MARK, Containment, clear_leftovers
from lbd.keeper.limits.portions import at_once, entries_of, lives_in
from lbd.load import process_table


def job_of(held: Containment) -> "subprocess.Popen[bytes]":
    name, _, mark = held.mark.partition(b"=")
    assert name == MARK
    return subprocess.Popen(["sleep", "60"], env={name: mark + b"1"})


def test_a_new_keeper_ends_leftovers_but_no_job_of_another_directory_of_the_same_name(
    tmp_path,
):
    """For example in a container, whose processes its host sees: each has its own /run/lbd."""
    directory = tmp_path / "lbd"
    directory.mkdir()
    containers = job_of(Containment(str(directory), False))
    directory.rename(tmp_path / "of the container")
    directory.mkdir()
    left = job_of(Containment(str(directory), False))
    try:
        Containment(str(directory), False).clear_leftovers()
        assert left.wait() == -9
        assert containers.poll() is None
    finally:
        for process in (containers, left):
            process.kill()
            process.wait()


def test_who_holds_the_lock_of_their_memory_keeps_no_keeper_from_starting(tmp_path, monkeypatch):
    """Any process on the host can do so: reading its environment then takes forever."""
    read = cgroups._environment
    hung = subprocess.Popen(["sleep", "60"])
    held = Containment(str(tmp_path), False)
    left = job_of(held)
    monkeypatch.setattr(process_reads, "PATIENCE_S", 0.2)
    both = {pid: process_table.life_of(pid) for pid in (hung.pid, left.pid)}
    monkeypatch.setattr(cgroups, "_others", lambda: both)
    monkeypatch.setattr(cgroups, "uid_of", lambda pid: pid)
    monkeypatch.setattr(
        cgroups, "_environment", lambda pid: signal.pause() if pid == hung.pid else read(pid)
    )
    try:
        held.clear_leftovers()
        assert left.wait() == -9
        assert hung.poll() is None
    finally:
        for process in (hung, left):
            process.kill()
            process.wait()


def test_who_cannot_be_killed_is_not_waited_for_and_has_its_group_alone(tmp_path, monkeypatch):
    """A process that waits for a file of its user's own (FUSE) stays after SIGKILL. A new keeper
    looked at all processes a hundred times before it took orders, which is most of a minute on a
    busy host, and then put its first command into that process's group."""
    held = Containment(str(tmp_path), True)
    left = job_of(held)
    group = held.new_group()
    if group:
        Path(group, "cgroup.procs").write_text(str(left.pid))
    monkeypatch.setattr(cgroups, "CLEAR_GRACE_S", 0.2)
    monkeypatch.setattr(process_table, "signal_life", lambda *_: None)
    try:
        new, began_s = Containment(str(tmp_path), True), time.monotonic()
        new.clear_leftovers()
        assert time.monotonic() - began_s < 2.0
        assert left.poll() is None
        if group:
            own = new.new_group()
            new.forget(own)
            assert own != group
    finally:
        left.kill()
        left.wait()
        held.forget(group)
        held.close()


def test_nobody_but_the_daemons_lists_the_groups_of_jobs(tmp_path):
    """A process that reads a directory holds its lock as long as one of its own pages is not
    answered. The keeper could then no longer create or remove a group."""
    if os.geteuid():
        pytest.skip("the keeper of a user has nobody to keep out")
    held = Containment(str(tmp_path), True, 64001)
    if held.base is None:
        pytest.skip("no cgroups here")
    try:
        job = Path(held.new_group())
        found = [(one.stat().st_mode & 0o777, one.stat().st_gid) for one in (held.base, job)]
        assert found == [(0o751, 64001), (0o711, 0)]
        held.forget(str(job))
    finally:
        held.close()


def test_a_process_that_reuses_the_pid_of_a_marked_one_is_not_ended(tmp_path, monkeypatch):
    """A user can delay the search for seconds; meanwhile processes end and others start."""
    held = Containment(str(tmp_path), False)
    later = job_of(held)  # in the place of one that started before
    before = process_table.life_of(later.pid) - 1
    monkeypatch.setattr(cgroups, "_others", lambda: {later.pid: before})
    monkeypatch.setattr(cgroups, "CLEAR_TRIES", 1)
    try:
        held.clear_leftovers()
        assert process_table.task_of(later.pid).state not in b"ZT"
    finally:
        later.kill()
        later.wait()


@pytest.mark.parametrize("by_start", [True, False], ids=["by its start", "by its life"])
def test_a_signal_goes_to_the_process_that_was_examined(by_start):
    process = subprocess.Popen(["sleep", "60"])
    if by_start:
        send, known = process_table.send_signal, process_table.task_of(process.pid).started_ticks
    else:
        send, known = process_table.signal_life, process_table.life_of(process.pid)
    try:
        with pytest.raises(ProcessLookupError):
            send(process.pid, known + 1, signal.SIGKILL)
        assert process.poll() is None
        send(process.pid, known, signal.SIGKILL)
        assert process.wait() == -9
    finally:
        process.kill()
        process.wait()


def test_a_process_that_reuses_the_pid_of_a_member_is_no_member():
    """Without cgroup.kill each is killed by its pid, which the job can free as it likes."""
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            life = process_table.life_of(process.pid)
            readings = iter([[process.pid], []])
            assert at_once(lives_in(lambda: next(readings))) == {}
            assert at_once(lives_in(lambda: [process.pid])) == {process.pid: life}
        finally:
            process.kill()


class SlowLook:
    """A search for marks during which one process ends and another appears."""

    def __init__(self, meanwhile):
        self._meanwhile = meanwhile

    def __call__(self, pids, is_marked, *_):
        self._pids, self._is_marked, self._answers = list(pids), is_marked, 0
        return self

    def answers(self):
        self._answers += 1
        if self._answers > 1:
            return {pid: self._is_marked(pid) for pid in self._pids}
        self._meanwhile()

    def close(self):
        pass


def test_who_appears_during_a_search_for_those_of_a_job_is_not_left(tmp_path, monkeypatch):
    """All who had been there when it began were gone: so the end of the job was reported, while a
    fork bomb ran on."""
    held = Containment(str(tmp_path), False)
    children = [job_of(held)]

    def meanwhile():
        if len(children) == 1:
            children[0].kill()
            children[0].wait()
            children.append(job_of(held))

    monkeypatch.setattr(cgroups, "ProcessReads", SlowLook(meanwhile))
    try:
        while not held.end_tree("1", 1 << 22, "", os.getuid()):
            pass
        assert len(children) == 2
        assert children[1].wait(60) == -9
    finally:
        for process in children:
            process.kill()
            process.wait()


ROUNDS = 50


def test_a_session_that_reuses_the_number_of_the_leader_is_not_ended(tmp_path, monkeypatch):
    """What is left of a job may take long to end, and its user can have pids used up meanwhile, so
    that the next command of another user, or a daemon, has the number of the job's leader."""
    held = Containment(str(tmp_path), False)
    leader = subprocess.Popen(["true"], start_new_session=True)
    leader.wait()
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    stray = job_of(held)

    def noted_entries(pids):
        found = yield from entries_of(pids)
        if killed:
            found[leader.pid] = replace(found.pop(other.pid), session=leader.pid)
        return found

    killed = set()
    monkeypatch.setattr(cgroups, "entries_of", noted_entries)
    monkeypatch.setattr(cgroups, "kill_lives", lambda lives, *_: iter(killed.update(lives) or ()))
    try:
        while not killed:
            held.end_tree("1", leader.pid, "", os.getuid())
        for _ in range(ROUNDS):  # the stray does not die of it
            held.end_tree("1", leader.pid, "", os.getuid())
            time.sleep(0.01)
        assert killed == {stray.pid}
    finally:
        for process in (other, stray):
            process.kill()
            process.wait()


def test_a_keeper_starts_although_what_is_left_holds_up_who_looks(monkeypatch):
    killed, kill = [], os.kill
    monkeypatch.setattr(cgroups, "CLEAR_MOST_S", 0.3)
    monkeypatch.setattr(os, "kill", lambda *sent: killed.append(sent) or kill(*sent))
    clear_leftovers(SimpleNamespace(clear_leftovers=lambda: time.sleep(600)))
    ((child, number),) = killed
    assert number == signal.SIGKILL
    with contextlib.suppress(ChildProcessError):  # it may have been reaped
        os.waitpid(child, 0)

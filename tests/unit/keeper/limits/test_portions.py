"""A job of many processes is ended in portions."""

import os
import signal
import subprocess

import pytest

from lbd.keeper.limits import cgroups, portions
from lbd.keeper.limits.cgroups import Containment
from lbd.load import process_table
from lbd.load.process_table import TaskStat

PORTION, MANY = 4, 18
ENDED = b"ZX"


@pytest.fixture(autouse=True)
def _small_portions(monkeypatch):
    monkeypatch.setattr(portions, "PORTION", PORTION)


class Crowd:
    """Idle processes, as the members of a group."""

    def __init__(self):
        self.all = [self.another() for _ in range(MANY)]

    def another(self):
        return subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)

    def members(self):
        return [process.pid for process in self.all if state_of(process.pid) not in ENDED]

    def close(self):
        for process in self.all:
            process.kill()
            process.wait()


def state_of(pid):
    status = process_table.status_of(pid)
    return status.state if status is not None else b"X"


def wait_for(pids, states):
    while any(state_of(pid) not in states for pid in pids):
        os.sched_yield()


@pytest.fixture
def crowd():
    made = Crowd()
    yield made
    made.close()


@pytest.fixture
def sent(monkeypatch):
    """Records each process and the signal sent to it, in order."""
    found, send = [], process_table.signal_life

    def noted(pid, life, number):
        found.append((pid, number))
        send(pid, life, number)

    monkeypatch.setattr(process_table, "signal_life", noted)
    return found


def test_after_each_portion_the_keeper_serves_the_others(crowd, sent):
    of_a_turn, before = [], 0
    lives = portions.at_once(portions.lives_in(crowd.members))
    for _ in portions.kill_lives(lives):
        of_a_turn.append(len(sent) - before)
        before = len(sent)
    assert max(of_a_turn) == PORTION
    assert sum(of_a_turn) == len(sent) == 2 * MANY
    wait_for([process.pid for process in crowd.all], ENDED)


def test_a_few_are_ended_in_one_step(crowd):
    few = crowd.members()[:PORTION]
    lives = portions.at_once(portions.lives_in(lambda: few))
    assert list(portions.kill_lives(lives)) == []
    wait_for(few, ENDED)


def test_all_are_stopped_before_one_is_killed_and_the_leader_is_killed_last(crowd, sent):
    """No shell may see its child die; and while the leader exists its children are its own."""
    leader = crowd.all[MANY // 2].pid
    lives = portions.at_once(portions.lives_in(crowd.members))
    portions.at_once(portions.kill_lives(lives, leader))
    assert [number for _, number in sent] == [signal.SIGSTOP] * MANY + [signal.SIGKILL] * MANY
    assert sent[0] == (leader, signal.SIGSTOP)
    assert sent[-1] == (leader, signal.SIGKILL)


def test_who_was_begun_while_others_were_stopped_is_stopped_before_one_is_killed(crowd, sent):
    """Each that is killed makes room for another, so a fork bomb at its limit never ended."""
    first = portions.at_once(portions.lives_in(crowd.members))
    looks = []

    def look(known):
        looks.append(set(known))
        if len(looks) <= 2:
            crowd.all.append(crowd.another())
        return (yield from portions.lives_in(crowd.members))

    portions.at_once(portions.kill_lives(first, look=look))
    pids = {process.pid for process in crowd.all}
    assert [len(known) for known in looks] == [MANY, MANY + 1, MANY + 2]
    assert {pid for pid, number in sent[: len(pids)] if number == signal.SIGSTOP} == pids
    assert {pid for pid, number in sent[len(pids) :] if number == signal.SIGKILL} == pids
    wait_for(pids, ENDED)


def test_who_is_begun_by_a_fork_that_a_stop_did_not_end_is_stopped_before_one_is_killed(
    crowd, sent, monkeypatch
):
    """A process that was sent SIGSTOP ends its fork first, and without a processor that takes long.
    The look was over by then, so the child outlived its job, and went on with the bomb."""
    forking, questions = crowd.all[0].pid, iter(range(3))

    def may_fork(pid):
        if pid != forking or (question := next(questions, None)) is None:
            return False
        if question == 2:
            crowd.all.append(crowd.another())
        return question < 2

    monkeypatch.setattr(process_table, "may_fork", may_fork, raising=False)
    first = portions.at_once(portions.lives_in(crowd.members))
    portions.at_once(portions.kill_lives(first, look=lambda _: portions.lives_in(crowd.members)))
    assert len(crowd.all) == MANY + 1
    numbers = [number for _, number in sent]
    assert numbers == [signal.SIGSTOP] * (MANY + 1) + [signal.SIGKILL] * (MANY + 1)
    wait_for([process.pid for process in crowd.all], ENDED)


def test_a_child_is_stopped_with_its_parent_without_another_look_at_all(sent):
    """Until that look a process of a fork bomb begins dozens of others."""
    words = ["sh", "-c", "setsid sleep 60 >/dev/null & echo $!; wait"]
    pipe = {"stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, start_new_session=True, **pipe) as leader:
        child = int(leader.stdout.readline())
        lives = {leader.pid: process_table.life_of(leader.pid)}
        killed = portions.at_once(portions.kill_lives(lives, leader.pid, lambda _: iter_of({})))
    assert killed.keys() == {leader.pid, child}
    assert sent[:2] == [(leader.pid, signal.SIGSTOP), (child, signal.SIGSTOP)]
    wait_for([child], ENDED)


def iter_of(found):
    return found
    yield


def test_looks_come_to_an_end_though_nobody_stops(crowd, sent, monkeypatch):
    now_s = iter(range(1000))
    monkeypatch.setattr(portions, "clock_s", lambda: float(next(now_s)))
    monkeypatch.setattr(process_table, "may_fork", lambda _: True)
    first = portions.at_once(portions.lives_in(crowd.members))
    portions.at_once(portions.kill_lives(first, look=lambda _: portions.lives_in(crowd.members)))
    wait_for([process.pid for process in crowd.all], ENDED)


def test_nothing_is_read_that_a_process_can_hold_back(monkeypatch):
    """One that is in exec, and gets no processor there, shows /proc/PID/stat to nobody: that kept
    the warden from a fork bomb for seconds. One that hung there kept it, and the keeper, from all
    jobs."""

    def read(pid):
        raise AssertionError(f"the stat of {pid} was read")

    monkeypatch.setattr(process_table, "task_of", read)
    words = ["sh", "-c", "sleep 60 & echo $!; wait"]
    pipe = {"stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, start_new_session=True, **pipe) as leader:
        child = int(leader.stdout.readline())
        found = portions.at_once(portions.lives_of(leader.pid, {}))
        portions.at_once(portions.kill_lives(found, leader.pid))
    assert set(found) == {leader.pid, child}
    wait_for([child], ENDED)


def test_looks_for_those_that_others_continue_and_start_come_to_an_end(crowd, sent):
    def look(_):
        crowd.all.append(crowd.another())
        return (yield from portions.lives_in(crowd.members))

    first = portions.at_once(portions.lives_in(crowd.members))
    portions.at_once(portions.kill_lives(first, look=look))
    assert [number for _, number in sent].count(signal.SIGKILL) >= MANY


def test_all_members_are_stopped_at_a_glance_and_nobody_else(crowd):
    """Nobody who has the pid of one that is no longer a member."""
    gone, readings = crowd.all[0].pid, [crowd.members()]

    def members():
        return readings.pop() if readings else set(crowd.members()) - {gone}

    portions.at_once(portions.signal_members(members, signal.SIGSTOP))
    wait_for([process.pid for process in crowd.all[1:]], b"T")
    assert state_of(gone) != b"T"


def test_to_end_a_group_nothing_is_read_that_a_member_can_hold_up(crowd, monkeypatch, tmp_path):
    """The stat of one that hung in execve held up the keeper of all jobs, where a job had more
    than a hundred processes."""

    def read(pid):
        raise AssertionError(f"the stat of {pid} was read")

    monkeypatch.setattr(portions.process_table, "task_of", read)
    monkeypatch.setattr(portions.cgroup, "members", lambda _: [one.pid for one in crowd.all])
    leader = crowd.all[3].pid
    portions.at_once(portions.kill_group(str(tmp_path), leader, has_kill=False))
    for process in crowd.all:
        assert process.wait(20) == -signal.SIGKILL


@pytest.mark.parametrize(("name", "text"), [("cgroup.freeze", "1"), ("pids.max", "0")])
def test_a_group_is_held_still_as_far_as_it_can_be(tmp_path, name, text):
    (tmp_path / name).write_text("")
    portions.hold(str(tmp_path))
    assert (tmp_path / name).read_text() == text
    assert [found.name for found in tmp_path.iterdir()] == [name]


def test_who_was_begun_meanwhile_is_ended_in_the_next_round(tmp_path, crowd, monkeypatch):
    """With a keeper that kills each one: after each portion of a round another process starts."""
    held = Containment(str(tmp_path), False)
    monkeypatch.setattr(cgroups, "_members", lambda _: crowd.members())
    monkeypatch.setattr(portions.cgroup, "members", lambda _: crowd.members())
    turns = between = 0
    while not held.end_tree("1.1", crowd.all[0].pid, str(tmp_path), os.getuid()):
        turns += 1
        if held.is_between_portions("1.1"):
            between += 1
            if turns < 2 * MANY:
                crowd.all.append(crowd.another())
    assert between > MANY // PORTION
    assert len(crowd.all) > MANY
    assert not crowd.members()
    assert not held.is_between_portions("1.1")


def test_without_cgroups_all_that_there_is_is_read_by_portions(tmp_path, crowd, monkeypatch):
    """All processes are read at the end of any job, and one user may have ten thousand."""
    held = Containment(str(tmp_path), False)
    read, of_a_turn = [], []
    entry_of = process_table.entry_of
    monkeypatch.setattr(process_table, "entry_of", lambda pid: read.append(pid) or entry_of(pid))
    monkeypatch.setattr(process_table, "pids", crowd.members)
    while not held.is_between_portions("1.1"):
        held.end_tree("1.1", 1 << 30, "", os.getuid())
    for _ in range(MANY // PORTION - 1):
        before = len(read)
        assert not held.end_tree("1.1", 1 << 30, "", os.getuid())
        of_a_turn.append(len(read) - before)
    assert max(of_a_turn) <= PORTION
    held.ended("1.1")
    assert not held.is_between_portions("1.1")


def test_descendants_are_found_however_deep_they_are():
    """In a chain as long as the limit of processes, each has the one before as its parent."""
    deep = 20_000
    tasks = {pid: TaskStat(b"S", pid - 1, 0, 1, 0) for pid in range(2, deep)}
    assert len(process_table.with_descendants([1], tasks)) == deep - 1
    assert process_table.with_descendants([deep - 2], tasks) == {deep - 2, deep - 1}


class Strays:
    """Children of the keeper that belong to no job any more, and one that it needs."""

    def __init__(self, tmp_path, monkeypatch, crowd):
        self.spare = crowd.all.pop()
        self.held = Containment(str(tmp_path), False)
        self.held.others = lambda: {self.spare.pid}
        monkeypatch.setattr(cgroups, "_children", lambda: {self.spare.pid, *crowd.members()})

    def turns(self):
        count = 0
        while self.held.has_strays:
            self.held.go_on()
            count += 1
        return count

    def close(self):
        self.spare.kill()
        self.spare.wait()


@pytest.fixture
def strays(tmp_path, monkeypatch, crowd):
    made = Strays(tmp_path, monkeypatch, crowd)
    yield made
    made.close()


def test_what_jobs_have_left_is_ended_by_portions(strays, crowd, sent):
    """A user's thousands of processes that hid their origin took the keeper seconds."""
    strays.held.end_strays()
    strays.held.end_strays()  # another job has ended
    assert not sent
    assert strays.turns() > 2 * len(crowd.all) / PORTION
    wait_for([process.pid for process in crowd.all], ENDED)
    assert state_of(strays.spare.pid) not in ENDED
    strays.held.end_strays()
    assert not strays.held.has_strays


def test_a_process_that_reuses_the_pid_of_a_stray_is_none(strays, crowd, monkeypatch):
    """Jobs start in the meantime."""
    with monkeypatch.context() as earlier:
        earlier.setattr(process_table, "life_of", lambda _: 1)  # all that exists started later
        strays.held.end_strays()
    strays.turns()
    assert len(crowd.members()) == len(crowd.all)

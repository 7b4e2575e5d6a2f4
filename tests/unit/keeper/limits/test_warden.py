"""What the warden knows of the keeper's jobs, and when it is woken to learn it."""

import os
import signal
import socket
import subprocess
import time

import pytest

from lbd.keeper.limits import portions, warden
from lbd.keeper.limits.portions import AGAIN_S, AGAIN_S_MAX
from lbd.keeper.limits.warden import (
    ENDED_AT_ONCE,
    GRACE_S,
    HANGS_S,
    SURVIVORS_SHARE,
    TOGETHER_S,
    Lease,
    Warden,
    Watch,
)
from lbd.load import process_table
from lbd.process.boot_clock import clock_s

SILENT_S = 30.0


class Pair:
    """A keeper's side and the warden's own, in one process; `learn` is the warden's turn."""

    def __init__(self, silent_s):
        ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._theirs.setblocking(False)
        self.warden = Warden(None, silent_s)
        self.warden.socket, self.warden.pid = ours, os.getpid()
        self.watch = Watch(self._theirs, os.getpid(), silent_s)

    def learn(self):
        """Returns how many messages there were."""
        heard = []
        hear = Watch._hear.__get__(self.watch)
        self.watch._hear = lambda data, leased: (heard.append(data), hear(data, leased))
        assert self.watch._hear_all()
        return len(heard)

    @property
    def known(self):
        return set(self.watch._leases)

    def close(self):
        self.warden.socket.close()
        self._theirs.close()


@pytest.fixture
def make_pair():
    made = []

    def make(silent_s):
        made.append(Pair(silent_s))
        return made[-1]

    yield make
    for pair in made:
        pair.close()


@pytest.fixture
def pair(make_pair):
    return make_pair(SILENT_S)


def leader():
    """A process that leads a session, as each job does."""
    return subprocess.Popen(["sleep", "600"], start_new_session=True)


def far_s():
    return clock_s() + 1000.0


def test_an_end_travels_with_the_next_lease(pair):
    pair.warden.lease(11, far_s(), os.getuid(), "")
    pair.warden.lease(12, far_s(), os.getuid(), "")
    assert pair.learn() == 2
    pair.warden.ended(11)
    assert pair.learn() == 0
    pair.warden.lease(13, far_s(), os.getuid(), "/a/group")
    assert pair.learn() == 1
    assert pair.known == {12, 13}


def test_an_end_travels_with_the_next_sign_of_life(pair):
    pair.warden.lease(11, far_s(), os.getuid(), "")
    pair.warden.ended(11)
    pair.warden.alive()
    assert pair.learn() == 2
    assert not pair.known


def test_what_has_ended_before_it_is_heard_of_costs_no_descriptors(pair, monkeypatch):
    looked = []
    monkeypatch.setattr(warden, "_descriptors", lambda pid, _: looked.append(pid) or (-1, -1))
    for pid in (11, 12, 11):
        pair.warden.lease(pid, far_s(), os.getuid(), "")
        pair.warden.ended(pid)
    pair.warden.lease(12, far_s(), os.getuid(), "")
    assert pair.learn() == 4
    assert looked == [12]
    assert pair.known == {12}


def test_a_keeper_without_watchdog_reports_each_end(make_pair):
    pair = make_pair(0.0)
    pair.warden.lease(11, far_s(), os.getuid(), "")
    pair.warden.ended(11)
    assert pair.learn() == 2
    assert not pair.known


def test_many_ends_do_not_wait(pair):
    for pid in range(11, 11 + ENDED_AT_ONCE):
        pair.warden.lease(pid, far_s(), os.getuid(), "")
    for pid in range(11, 11 + ENDED_AT_ONCE):
        pair.warden.ended(pid)
    assert pair.learn() == ENDED_AT_ONCE + 1
    assert not pair.known


def test_a_pid_that_is_used_again_gets_a_new_lease(pair):
    with leader() as first:
        pair.warden.lease(first.pid, far_s(), os.getuid(), "")
        pair.learn()
        before = pair.watch._leases[first.pid].process
        pair.warden.ended(first.pid)
        pair.warden.lease(first.pid, clock_s() - 2 * GRACE_S, os.getuid(), "")
        pair.learn()
        assert pair.watch._leases[first.pid].until_s < clock_s()
        assert before >= 0
        pair.watch._end_overdue()
        assert first.wait() == -9


def test_what_has_ended_is_not_killed(pair):
    with leader() as ended, leader() as late:
        for process in (ended, late):
            pair.warden.lease(process.pid, clock_s() - 2 * GRACE_S, os.getuid(), "")
        pair.warden.ended(ended.pid)
        pair.warden.alive()
        pair.learn()
        pair.watch._end_overdue()
        assert late.wait() == -9
        assert ended.poll() is None
        ended.kill()


def test_what_a_leader_has_left_in_its_session_is_killed(pair):
    """A keeper that has no processor kills the leader first, and then comes to nothing else."""
    words = ["sh", "-c", "sleep 60 >/dev/null & echo $!; read end"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, start_new_session=True, text=True, **pipes) as process:
        left = int(process.stdout.readline())
        pair.warden.lease(process.pid, clock_s() - 2 * GRACE_S, os.getuid(), "")
        pair.learn()
        process.communicate("\n")
        assert not has_ended(left)
        pair.watch._end_overdue()
        while not has_ended(left):
            time.sleep(0.01)


def test_what_a_killed_process_has_begun_is_found_by_it_in_the_next_kill(pair):
    """It has a session of its own, and the leader is gone."""
    words = ["sh", "-c", "setsid sleep 60 >/dev/null & echo $!; wait"]
    with (
        subprocess.Popen(
            words, start_new_session=True, text=True, stdout=subprocess.PIPE
        ) as killed,
        leader() as process,
    ):
        left = int(killed.stdout.readline())
        pair.warden.lease(process.pid, clock_s() - 2 * GRACE_S, os.getuid(), "")
        pair.learn()
        life = process_table.life_of(killed.pid)
        pair.watch._leases[process.pid].killed = {killed.pid: life}
        pair.watch._end_overdue()
        while not has_ended(left):
            time.sleep(0.01)


def has_ended(pid):
    task = process_table.task_of(pid)
    return task is None or task.has_ended


def test_it_kills_all_of_a_group_of_more_than_a_page_of_pids(pair, tmp_path, monkeypatch):
    """A read of cgroup.procs returns 4 KiB, some 700 pids; the others had a tenth of a second to
    start more."""
    signalled = {signal.SIGSTOP: [], signal.SIGKILL: []}

    def signal_members(members, number, _=0):
        signalled[number] += members()
        return signalled[number]
        yield

    monkeypatch.setattr(portions, "signal_members", signal_members)
    many = list(range(1 << 22, (1 << 22) + 20_000))
    (tmp_path / "cgroup.procs").write_text("\n".join(map(str, many)))
    with leader() as process:
        pair.warden.lease(process.pid, clock_s() - 2 * GRACE_S, os.getuid(), str(tmp_path))
        pair.learn()
        pair.watch._end_overdue()
        process.kill()
    assert signalled == {signal.SIGSTOP: many, signal.SIGKILL: many}


def test_messages_that_come_close_together_wake_it_once(pair, monkeypatch):
    """Each wake-up cost it as much as a tenth of what a short task costs all daemons."""
    jobs, known = [leader() for _ in range(4)], []

    def rest(pause_s):
        if pause_s == TOGETHER_S:
            known.append(len(pair.known))
            if len(known) > 1:
                return pair.warden.socket.close()
            for job in jobs[1:]:
                pair.warden.lease(job.pid, far_s(), os.getuid(), "")

    monkeypatch.setattr(warden.time, "sleep", rest)
    pair.warden.lease(jobs[0].pid, far_s(), os.getuid(), "")
    pair.watch.run()
    assert known == [1, 4]
    assert [job.wait() for job in jobs] == [-9] * 4  # the keeper is gone


def test_with_very_many_leases_it_leaves_none_in_its_socket(pair, monkeypatch):
    """They may all be renewed at once, and what does not fit there would end the warden."""
    rests = []
    monkeypatch.setattr(warden, "TOGETHER_LEASES", 0)
    monkeypatch.setattr(warden.time, "sleep", rests.append)
    monkeypatch.setattr(Watch, "_look_at_keeper", lambda _: pair.warden.socket.close())
    with leader() as job:
        pair.warden.lease(job.pid, far_s(), os.getuid(), "")
        pair.watch.run()
        assert job.wait() == -9
    assert TOGETHER_S not in rests


def test_a_new_warden_knows_all_leases_however_many(monkeypatch):
    """They did not all fit into its socket, so that it was ended, and the next one, too."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    keepers, leases = Warden(None, SILENT_S), {1 << 22 | n: (far_s(), 1, "") for n in range(1000)}
    keepers._leases |= leases

    def fork(self):
        self.socket = ours
        return ours

    monkeypatch.setattr(Warden, "fork", fork)
    with ours, theirs:
        keepers.stand_by()
        assert keepers.socket is ours
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        assert keepers.watch(theirs, os.getpid())._leases.keys() == leases.keys()


def test_a_lease_that_it_learns_after_the_leaders_end_counts_for_the_rest(pair):
    """It took the user from the leader, which was gone: so it left alone what was there."""
    words = ["sh", "-c", "sleep 60 >/dev/null & echo $!"]
    with subprocess.Popen(
        words, start_new_session=True, text=True, stdout=subprocess.PIPE
    ) as process:
        left = int(process.stdout.readline())
        pair.warden.lease(process.pid, clock_s() - 2 * GRACE_S, os.getuid(), "")
        process.wait()
        pair.learn()
        assert not has_ended(left)
        pair.watch._end_overdue()
        while not has_ended(left):
            time.sleep(0.01)


class Overdue:
    """A warden with overdue leases, at a time of our own. `there` is what each one's session holds,
    and `look_s` how long a look at all processes takes."""

    def __init__(self, monkeypatch, pair, *sessions):
        self.now_s, self.look_s, self.kills = 1000.0, 0.0, {}
        self.pair, self.there = pair, {session: {session: 1} for session in sessions}
        monkeypatch.setattr(warden, "clock_s", lambda: self.now_s)
        monkeypatch.setattr(Lease, "_tree", lambda lease, _: self._look(lease.pid))
        monkeypatch.setattr(warden, "kill_lives", self._kill)
        for session in sessions:
            self.lease(session)

    def lease(self, session):
        self.there.setdefault(session, {session: 1})
        self.pair.watch.learn(session, self.now_s - 2 * GRACE_S, os.getuid(), b"")

    def _look(self, session):
        self.now_s += self.look_s
        return dict(self.there[session])
        yield

    def _kill(self, began, leader, _):
        self.kills[leader] = self.kills.get(leader, 0) + 1
        return dict(began)
        yield

    def turns(self, lasting_s):
        """Runs the warden's turns for so long. Returns how many sessions it has killed in all."""
        before, until_s = sum(self.kills.values()), self.now_s + lasting_s
        while self.now_s < until_s:
            self.pair.watch._end_overdue()
            self.now_s += self.pair.watch._pause_ms() / 1e3
        return sum(self.kills.values()) - before


HUNG = [1 << 22 | number for number in range(40)]  # nobody's pids


@pytest.fixture
def overdue(monkeypatch, make_pair):
    return lambda *sessions: Overdue(monkeypatch, make_pair(0.0), *sessions)


def test_what_hangs_for_as_long_as_its_user_likes_takes_no_time_of_the_wardens(overdue):
    """It looked at all processes ten times a second, before all others, for as long as one hung."""
    ending = overdue(HUNG[0])
    assert ending.turns(1.0) >= 3
    ending.turns(HANGS_S + 10.0)
    assert ending.turns(60.0) <= 60.0 / AGAIN_S_MAX + 1


def test_what_begins_others_all_the_time_is_killed_often_though_a_look_may_miss_them(
    overdue,
):
    """A fork bomb: its new sessions are not seen in every look."""
    ending = overdue(HUNG[0])
    for number in range(20):
        before = ending.kills.get(HUNG[0], 0)
        ending.turns(HANGS_S / 2)
        assert ending.kills[HUNG[0]] - before >= 0.9 * HANGS_S / 2 / AGAIN_S
        ending.there[HUNG[0]][number] = 2
        ending.turns(AGAIN_S)


def test_many_that_hang_together_take_a_small_share_of_its_time(overdue):
    """Each had its own time to be killed again, and they came to half of a core or more."""
    ending = overdue(*HUNG)
    ending.look_s = 0.02
    ending.turns(60.0)
    assert ending.turns(60.0) * ending.look_s <= 60.0 * SURVIVORS_SHARE * 1.1
    assert min(ending.kills.values()) > 2


def test_a_session_that_is_newly_overdue_is_killed_at_once_beside_many_that_hang(overdue):
    ending = overdue(*HUNG)
    ending.look_s = 0.02
    ending.turns(60.0)
    new = HUNG[-1] + 1
    ending.lease(new)
    ending.pair.watch._end_overdue()
    assert ending.kills[new] == 1


def test_what_was_begun_since_the_last_kill_is_killed_as_often_as_at_first(overdue):
    """It may go on beginning others, unlike what was killed and is still there."""
    ending = overdue(HUNG[0])
    ending.turns(60.0)
    before = ending.kills[HUNG[0]]
    for number in range(1000):
        ending.there[HUNG[0]][number] = 2
        ending.turns(0.01)
    assert ending.kills[HUNG[0]] - before >= 70


def test_a_lease_that_is_renewed_and_runs_out_again_counts_as_a_new_one(overdue):
    ending = overdue(HUNG[0])
    ending.turns(60.0)
    before = ending.kills[HUNG[0]]
    ending.pair.watch._survivors_at_s = ending.now_s + 1000.0
    ending.lease(HUNG[0])
    ending.pair.watch._end_overdue()
    assert ending.kills[HUNG[0]] == before + 1

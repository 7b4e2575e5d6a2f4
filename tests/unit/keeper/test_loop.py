"""The keeper's loop."""

import fcntl
import resource
import socket
import subprocess
from types import SimpleNamespace as Fake

import pytest

from lbd.keeper import loop
from lbd.keeper.job import NO_USAGE, URGENT_S, Running
from lbd.keeper.limits.portions import AGAIN_S_MAX
from lbd.keeper.loop import POLL_ENDING_MS, Keeper
from lbd.local.descriptors import is_readable

HIGH = 1500  # select(2) knows only the first 1024


def test_it_can_check_any_descriptor_for_input():
    """It held that many while one LBM followed another: checking the next one with select(2) would
    have ended the keeper, and everybody's commands."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, HIGH + 1), hard))
    ours, theirs = socket.socketpair()
    try:
        number = fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, HIGH)
        with ours, theirs, socket.socket(fileno=number) as high:
            assert not is_readable(high)
            theirs.send(b"x")
            assert is_readable(high)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Ending:
    """A keeper with a job of which something hangs in the kernel, at a time of our own."""

    def __init__(self, monkeypatch, job):
        self.now_s, self.looks, self.urgent = 1000.0, 0, None
        clock = Fake(monotonic=lambda: self.now_s)
        monkeypatch.setattr(loop, "time", clock)
        monkeypatch.setattr(loop, "signal_group", lambda *_: None)
        monkeypatch.setattr("lbd.keeper.job.is_withheld", lambda _: False)
        self.keeper = keeper = object.__new__(Keeper)
        keeper.jobs = keeper._busy = {"h1-1": job}
        keeper.quitting, keeper._lbm = False, Fake()
        spares = Fake(quiet_ms=lambda: -1)
        keeper._beginnings = Fake(spares=spares)
        keeper._watchdogs, keeper._limits = Fake(due_s=list), Fake(over=list)
        keeper._urgency = Fake(become=self._become, is_raised=False)
        keeper._containment = Fake(
            has_strays=False,
            ceilings=Fake(was_over=lambda _: False),
            removes=lambda *_: False,
            end_tree=self._end_tree,
            is_between_portions=lambda _: False,
        )

    def _become(self, *, urgent):
        self.urgent = urgent

    def _end_tree(self, *_):
        self.looks += 1
        return False

    def turns(self, lasting_s):
        """Runs the loop's turns for so long. Returns how often it has looked at the job."""
        before, until_s = self.looks, self.now_s + lasting_s
        while self.now_s < until_s:
            self.keeper._finish()
            self.now_s += self.keeper._poll_ms([]) / 1e3
        return self.looks - before


def has_left_something():
    """A job whose leader has ended by itself."""
    return Running(1, "", 1000, begun=True, ended=(0, NO_USAGE))


def is_killed():
    return Running(1, "", 1000, begun=True, kill_at_s=0.0)


@pytest.mark.parametrize("job", [has_left_something, is_killed])
def test_what_hangs_for_as_long_as_its_user_likes_takes_no_time_of_the_keepers(monkeypatch, job):
    """It looked 200 times a second at what an ended job had left, and ran before all others."""
    ending = Ending(monkeypatch, job())
    ending.turns(URGENT_S + 5.0)
    assert ending.turns(60.0) <= 60.0 / AGAIN_S_MAX + 1
    assert not ending.urgent


def test_what_is_to_end_is_looked_at_often_at_first_and_before_all_others(monkeypatch):
    ending = Ending(monkeypatch, has_left_something())
    assert ending.turns(1.0) >= 0.8 / (POLL_ENDING_MS / 1e3)
    ending = Ending(monkeypatch, is_killed())
    ending.turns(1.0)
    assert ending.urgent


@pytest.mark.parametrize("is_leased", [False, True])
def test_only_a_command_at_which_somebody_can_type_is_asked_what_it_ignores(monkeypatch, is_leased):
    """The answer is a file of /proc, which took a twentieth of the keeper's time for a short task
    of an array, and told nobody anything."""
    asked = []
    monkeypatch.setattr("lbd.keeper.job.ignored_by", lambda pid: asked.append(pid) or 0)
    keeper, process = object.__new__(Keeper), subprocess.Popen(["true"])
    keeper.jobs = {"h1-1": Running(process.pid, "", 1000, is_leased=is_leased)}
    keeper._busy = {}
    keeper._beginnings, keeper._warden = Fake(spares=Fake(reaped=lambda _: None)), Fake(pid=0)
    while not keeper.jobs["h1-1"].ended:
        keeper._reap()
    assert asked == [process.pid] * (not is_leased)
    process.returncode = 0  # the keeper has reaped it

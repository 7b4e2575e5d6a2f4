"""The keeper's spare children."""

import errno
import itertools
import os
import socket
from types import SimpleNamespace

import pytest

from lbd.keeper import preforked
from lbd.keeper.child import Spare
from lbd.keeper.preforked import (
    FEW_SPARES,
    NURSERY_SPARES,
    PAUSE_S,
    PAUSE_S_MAX,
    SHORT_MS,
    SPARES,
    SPARES_AT_ONCE,
    Spares,
)


def test_where_no_process_can_be_had_the_keeper_does_not_try_without_a_pause(monkeypatch):
    """It tried three hundred times a second, with a new cgroup for each, while one user had all
    processes."""
    spares, forks = Spares(SimpleNamespace(), b""), []

    def fork(parent):
        forks.append(parent)
        if len(forks) < 3:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return SimpleNamespace(pid=1)

    monkeypatch.setattr(preforked, "fork_spare", fork)
    assert spares.quiet_ms() == 0
    spares.fork_ahead()
    assert spares.quiet_ms() == SHORT_MS
    spares.fork_ahead()
    spares.fork_ahead()
    assert spares.quiet_ms() == 0
    assert len(forks) == 3


class Host:
    """Spares on a host whose clock we move, with what they said."""

    def __init__(self, monkeypatch):
        self.now_s, self.forked_s, self.said, self.pids = 0.0, [], [], itertools.count(1)
        parent = SimpleNamespace(containment=SimpleNamespace(forget=lambda _: None))
        monkeypatch.setattr(preforked.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(preforked, "fork_spare", self.fork)
        self.spares = Spares(parent, b"", self.said.append)

    def fork(self, _parent):
        self.forked_s.append(self.now_s)
        return Spare(next(self.pids), socket.socket(), "")

    def run(self, until_s, *, dies):
        """Forks ahead as often as the loop may; a spare dies as soon as it is forked."""
        while self.now_s < until_s and (wait_ms := self.spares.quiet_ms()) >= 0:
            self.spares.fork_ahead()  # the loop may have woken for something else
            if dies:
                self.spares.reaped(len(self.forked_s))
            self.now_s += max(wait_ms, 1) / 1e3


@pytest.fixture
def host(monkeypatch):
    made = Host(monkeypatch)
    yield made
    for spare in made.spares._waiting:
        spare.socket.close()


def test_while_spares_die_at_birth_the_keeper_forks_them_less_and_less_often(host):
    """It forked 2,400 of them a second, in a cgroup whose processes were killed at birth."""
    host.run(120.0, dies=True)
    waits_s = [after - before for before, after in itertools.pairwise(host.forked_s)]
    assert waits_s == pytest.approx(
        [min(PAUSE_S * 2**n, PAUSE_S_MAX) for n in range(len(waits_s))], abs=0.01
    )
    assert len(waits_s) < 35
    assert host.said == [True]  # once


def test_once_a_spare_lives_there_is_no_pause_any_more(host):
    host.run(30.0, dies=True)
    host.run(60.0, dies=False)
    assert host.said == [True, False]
    assert host.spares.quiet_ms() == -1
    assert len(host.spares._waiting) == SPARES >= FEW_SPARES


def test_once_a_command_has_started_there_is_no_pause_any_more(host):
    host.run(30.0, dies=True)
    host.spares.fork_ahead()
    assert host.spares.quiet_ms() > 0
    host.spares.lived()
    assert host.spares.quiet_ms() == 0
    assert host.said == [True, False]


def test_an_order_does_not_wait_for_the_pause(host):
    host.run(30.0, dies=True)
    host.spares.take(plain=True).socket.close()
    assert host.forked_s[-1] == host.now_s


def test_spares_that_die_together_make_a_short_pause_and_are_nothing_to_tell(host):
    """The kernel ends them first if memory runs out."""
    host.run(30.0, dies=False)
    for pid in range(1, SPARES + 1):
        host.spares.reaped(pid)
    assert 0 < host.spares.quiet_ms() <= 2 * PAUSE_S * 1e3 + 1
    host.run(30.0 + host.now_s, dies=False)
    assert host.spares.quiet_ms() == -1
    assert host.said == []


class Nursery:
    """A nursery that has what it is asked for."""

    def __init__(self):
        self.asked, self._pids = [], itertools.count(1)

    def spares(self, count):
        self.asked.append(count)
        return [SimpleNamespace(pid=next(self._pids)) for _ in range(count)]


def test_the_nursery_is_asked_for_several_at_once_and_never_for_more_than_are_wanted():
    spares = Spares(SimpleNamespace(), b"/nursery")
    spares._nursery = nursery = Nursery()
    for _ in range(4):
        spares.fork_ahead()
    assert nursery.asked == [SPARES_AT_ONCE, NURSERY_SPARES - SPARES_AT_ONCE]
    del spares._waiting[2:]
    spares.fork_ahead()
    assert len(spares._waiting) == 2 + SPARES_AT_ONCE


def test_while_spares_die_at_birth_they_are_forked_one_by_one():
    spares = Spares(SimpleNamespace(), b"/nursery")
    spares._nursery = nursery = Nursery()
    spares._pause_s = 0.001
    spares.fork_ahead()
    assert nursery.asked == [1]

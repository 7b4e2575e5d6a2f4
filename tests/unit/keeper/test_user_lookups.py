"""Asking the user database by a child that may get no answer."""

import os
import select
import time

import pytest

from lbd.keeper import user_lookups as user_looks
from lbd.keeper.child import Parent
from lbd.keeper.gate import AGING_S, KNOWN_S, Gate
from lbd.keeper.limits.cgroups import Containment
from lbd.keeper.user_lookups import UserLooks

PACKED = "0\n1000\n0"
ANN, BOB, CAROL = (1001, 1001), (1002, 1002), (1003, 1003)


class Database(Gate):
    """It knows Ann, does not know Carol, and does not answer for Bob."""

    def look(self, user):
        while user == BOB:
            time.sleep(60)
        return "" if user == ANN else "user"


@pytest.fixture
def looks(tmp_path, monkeypatch):
    monkeypatch.setattr(user_looks, "LOOK_S", 0.2)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    gate = Database(PACKED, "/var/lib/lbd/spool")
    looks = UserLooks(Parent.of_this_process(Containment(str(tmp_path), False)), gate)
    yield looks
    for pid in looks.pids:
        os.kill(pid, 9)


def known(looks, user):
    return looks._gate.verdict(user, time.monotonic())


def heard(looks, descriptor):
    answered = select.poll()  # select.select takes no descriptor above 1023
    answered.register(descriptor, select.POLLIN)
    answered.poll(30_000)
    pids = looks.pids
    user = looks.hear(descriptor)
    for pid in pids - looks.pids:
        os.waitpid(pid, 0)
    return user


def test_who_is_admitted_and_who_is_not(looks):
    for user, verdict in ((ANN, ""), (CAROL, "user")):
        assert known(looks, user) is None
        assert heard(looks, looks.look(user)) == user
        assert known(looks, user) == verdict


def test_an_unanswered_question_delays_no_other(looks):
    late = looks.look(BOB)
    assert looks.look(BOB) is None, "it is under way"
    assert heard(looks, looks.look(ANN)) == ANN
    while late not in looks.late():
        time.sleep(0.01)
    (pid,) = looks.pids
    assert looks.hear(late) == BOB
    assert known(looks, BOB) is None
    assert os.waitpid(pid, 0)[1] == 9, "it is not left behind"


def test_only_so_many_lookups_run_at_once(looks, monkeypatch):
    monkeypatch.setattr(user_looks, "LOOKS", 1)
    late = looks.look(BOB)
    with pytest.raises(BlockingIOError):
        looks.look(ANN)
    while not looks.late():
        time.sleep(0.01)
    (pid,) = looks.pids
    looks.hear(late)
    os.waitpid(pid, 0)
    assert heard(looks, looks.look(ANN)) == ANN


def test_answers_expire(looks):
    """After half a minute, as users are told: a locked one's next command ran all the same."""
    gate = looks._gate
    assert KNOWN_S <= 30.0
    gate.learn(ANN, "", 100.0)
    assert gate.verdict(ANN, 100.0 + KNOWN_S - 1) == ""
    assert gate.verdict(ANN, 100.0 + KNOWN_S) is None
    assert not gate.is_aging(ANN, 100.0 + AGING_S - 1)
    assert gate.is_aging(ANN, 100.0 + AGING_S + 1)

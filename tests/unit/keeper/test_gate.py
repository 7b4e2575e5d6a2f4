"""As whom a keeper lets its LBM run commands: by its own look at the user database."""

import os

import pytest

from lbd.config.access import UsersConfig
from lbd.keeper import gate as gate_module
from lbd.keeper.gate import LATELY_S, LEFT, LEFT_MAX, REFUSED, Gate, as_allowed, pack_gate
from lbd.keeper.local_account import LocalUser, Standing
from lbd.keeper.user_lookups import ANSWER_BYTES

BOB = LocalUser("bob", 1002, 1002, (1002, 4, 24), "/home/bob", "/bin/sh")


@pytest.fixture
def gate(monkeypatch):
    monkeypatch.setattr(gate_module, "find_account", lambda uid: BOB if uid == BOB.uid else None)
    monkeypatch.setattr(gate_module, "standing_of", lambda name: Standing("$6$x"))
    return Gate(pack_gate(UsersConfig(), os.geteuid()), "/spool")


@pytest.mark.parametrize(("user", "verdict", "becomes"), [
    ((1002, 1002, 1002, 4), "", (1002, 1002, 1002, 4)),
    ((1002, 1002, 1002, 27, 4, 29), f"{LEFT}27 29", (1002, 1002, 1002, 4)),
    ((1002, 4, 1002), REFUSED, None),
    ((1003, 1003), REFUSED, None),
    ((1002, 1002, *range(2000, 2000 + LEFT_MAX + 1)), REFUSED, None),
])  # fmt: skip
def test_a_user_has_no_group_that_they_have_left(gate, user, verdict, becomes):
    """For half a minute their commands were refused, as if the keeper had other settings."""
    assert gate.look(user) == verdict
    allowed, fault = as_allowed(user, verdict)
    assert (allowed if not fault else None) == becomes


def test_a_group_that_an_lbm_makes_up_is_refused(gate, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    user, left = (1002, 1002, 1002, 27), f"{LEFT}27"
    gate.learn(user, left, 100.0)
    assert gate.verdict(user, 100.0) == REFUSED
    gate.learn(user, "", 140.0)
    gate.learn(user, left, 165.0)
    assert gate.verdict(user, 165.0) == left
    gate.learn(user, left, 165.0 + LATELY_S)
    assert gate.verdict(user, 165.0 + LATELY_S) == REFUSED


def test_an_answer_has_room_for_all_groups_that_somebody_may_have_left():
    assert len(LEFT + " ".join([str(2**32 - 2)] * LEFT_MAX)) < ANSWER_BYTES

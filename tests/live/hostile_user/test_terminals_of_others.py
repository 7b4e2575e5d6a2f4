"""The keeper gives a command's user the terminal that the LBM has made for it, and no other."""

import contextlib
import os
import pwd
import stat

import pytest

from lbd.keeper import protocol as keeper
from lbd.keeper.spawn_order import IN_FRONT
from tests.live.hostile_user.test_keeper_hangs import LoneKeeper
from tests.live.privileged import ANN, LBD

pytestmark = pytest.mark.root


@pytest.fixture
def lone(short_dir):
    with contextlib.closing(LoneKeeper(short_dir)) as lone:
        yield lone


@contextlib.contextmanager
def unchanged(descriptor):
    """Restores the terminal's owner, whatever happens."""
    before = os.fstat(descriptor)
    try:
        yield
        after = os.fstat(descriptor)
        assert (after.st_uid, after.st_mode) == (before.st_uid, before.st_mode)
    finally:
        os.fchown(descriptor, before.st_uid, before.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def test_a_terminal_that_somebody_sits_at_stays_theirs(lone):
    """Such as root's own, passed by a compromised LBM as a command's standard input."""
    master, slave = os.openpty()
    try:
        with unchanged(slave):
            lone.spawn("1", ANN, "exit 0", descriptors=[slave] * 3, terminal=IN_FRONT)
            assert keeper.PHASE in lone.hear(keeper.FAILED, "1")
    finally:
        os.close(master)
        os.close(slave)


def test_the_device_that_makes_terminals_keeps_its_owner(lone):
    multiplexer = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    try:
        with unchanged(multiplexer):
            lone.spawn("1", ANN, "exit 0", descriptors=[multiplexer] * 3, terminal=IN_FRONT)
            assert keeper.PHASE in lone.hear(keeper.FAILED, "1")
    finally:
        os.close(multiplexer)


def test_a_terminal_that_the_lbm_made_becomes_the_users(lone):
    master, slave = os.openpty()
    os.fchown(slave, pwd.getpwnam(LBD).pw_uid, -1)
    try:
        lone.begin("1", ANN, "exit 0", descriptors=[slave] * 3, terminal=IN_FRONT)
        lone.hear(keeper.EXITED, "1")
        assert os.fstat(slave).st_uid == pwd.getpwnam(ANN).pw_uid
    finally:
        os.close(master)
        os.close(slave)

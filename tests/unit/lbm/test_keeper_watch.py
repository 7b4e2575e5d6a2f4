"""Whose the keeper's socket is."""

import os
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config, DaemonsConfig
from lbd.lbm.keeper_watch import KeeperWatch


@pytest.mark.parametrize(("keeper", "ours"), [("apart", ()), ("own", ("keeper.sock",))])
def test_an_lbm_that_ends_removes_the_socket_of_its_own_keeper_alone(keeper, ours):
    """One that was root took that of a keeper apart, which was root's as well, for its own."""
    watch = KeeperWatch(Config(daemons=DaemonsConfig(keeper=keeper)), None, SimpleNamespace())
    watch.link.uid = os.geteuid()
    assert watch.own_socket() == ours

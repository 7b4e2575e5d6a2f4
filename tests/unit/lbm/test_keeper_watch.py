"""Which keeper a socket belongs to."""

import os
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config, DaemonsConfig
from lbd.lbm.keeper_watch import KeeperWatch


@pytest.mark.parametrize(("keeper", "ours"), [("apart", ()), ("own", ("keeper.sock",))])
def test_an_ending_lbm_removes_only_the_socket_of_its_own_keeper(keeper, ours):
    """An LBM that was root mistook the socket of a separate keeper, also root's, for its own."""
    watch = KeeperWatch(Config(daemons=DaemonsConfig(keeper=keeper)), None, SimpleNamespace())
    watch.link.uid = os.geteuid()
    assert watch.own_socket() == ours

"""Which keeper a socket belongs to, and how a new one takes the place of one that has ended."""

import asyncio
import os
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config, DaemonsConfig
from lbd.errors import ConfigError
from lbd.lbm import keeper_watch
from lbd.lbm.keeper_watch import KeeperWatch


@pytest.mark.parametrize(("keeper", "ours"), [("apart", ()), ("own", ("keeper.sock",))])
def test_an_ending_lbm_removes_only_the_socket_of_its_own_keeper(keeper, ours):
    """An LBM that was root mistook the socket of a separate keeper, also root's, for its own."""
    watch = KeeperWatch(Config(daemons=DaemonsConfig(keeper=keeper)), None, SimpleNamespace())
    watch.link.uid = os.geteuid()
    assert watch.own_socket() == ours


async def test_an_lbm_tries_for_a_new_keeper_for_as_long_as_it_takes(monkeypatch, caplog):
    """An LBM that gave up after four seconds needed somebody to start it again."""
    monkeypatch.setattr(keeper_watch, "PAUSES_S", (0.0, 0.0))
    watch = KeeperWatch(Config(), None, asyncio.Event())
    problems = [ConfigError("no room")] * 20 + [OSError("no process")]

    async def connect():
        if problems:
            raise problems.pop(0)
        watch.link.pid, watch.link.lost_pid = 2, 1

    monkeypatch.setattr(watch, "connect", connect)
    watch._lost()
    await watch._restarting
    assert not problems
    said = [line for line in caplog.messages if line.startswith("no keeper yet")]
    assert said == ["no keeper yet: no room", "no keeper yet: no process"]


async def test_an_ending_lbm_tries_no_longer(monkeypatch):
    watch = KeeperWatch(Config(), None, asyncio.Event())
    watch._lost()
    watch._stop.set()
    await watch._restarting
    assert watch.link.pid == 0

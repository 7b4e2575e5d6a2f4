"""A LIM that has just started says that there is no host for a command only when it has heard of
the others, or has waited for them."""

import asyncio
from dataclasses import replace

import pytest

from lbd.config.schema import ClusterConfig
from lbd.lim.core import membership
from lbd.lim.daemon import more_is_known
from lbd.local.json_socket import Refusal
from tests.unit.lim.daemons import LBM, LIM, PLACE, Daemon, config, running, up
from tests.unit.until import until

AWAY = {**PLACE, "must_leave": True}
RARELY = replace(LIM, exchange_period_s=60.0, keepalive_s=60.0)  # nothing is sent without a reason


@pytest.fixture
async def pair(tmp_path):
    """Two hosts that have heard of each other, and a way to restart the LIM of one of them."""
    async with running(*(config(tmp_path, name, lim=RARELY) for name in ("h1", "h2"))) as daemons:
        one, two = daemons
        await until(lambda: up(one, "h2") and up(two, "h1"))

        async def anew(name, **changes):
            (old,) = (one for one in daemons if one.lim.state.me == name)
            daemons.remove(old)
            await old.network.cut({"h1", "h2"})  # it sends no goodbye
            old.stop.set()
            await old.task
            fresh = Daemon(replace(old.lim.config, **changes), old.network._exchange)
            daemons.append(fresh)
            await fresh.start()
            return fresh

        yield {"h1": one, "h2": two}, anew


@pytest.mark.parametrize(("name", "other"), [("h1", "h2"), ("h2", "h1")])
async def test_a_command_that_must_leave_waits_for_reports_of_the_others(pair, name, other):
    """Whether the new LIM is the centre or not."""
    hosts, anew = pair
    await hosts[other].ask(LBM)
    fresh = await anew(name)
    assert (await fresh.ask(PLACE))["verdict"] == "here"
    assert not up(fresh, other), "what may stay has not waited"
    assert (await fresh.ask(AWAY))["host"] == other
    assert fresh.lim.state.placer.decisions["nowhere"] == 0


async def test_so_does_a_command_that_names_a_host_or_needs_more_slots_than_are_known(pair):
    hosts, anew = pair
    await hosts["h1"].ask({**LBM, "slots_total": 64})
    join = ClusterConfig(join="127.0.0.1:7901")
    fresh = await anew("h2", cluster=join)
    assert "h1" not in fresh.lim.state.table.entries
    assert (await fresh.ask({**PLACE, "wanted": "h1"}))["host"] == "h1"
    status = await fresh.ask({"op": "status", "slots": 64})
    assert status["hosts"][0]["slots"]["total"] == 64


async def test_the_wait_is_bounded(pair, monkeypatch):
    hosts, anew = pair
    monkeypatch.setattr(membership, "FIRST_NEWS_S", 0.2)
    await hosts["h1"].network.cut({"h2"})
    fresh = await anew("h2")
    with pytest.raises(Refusal, match="no other host is up"):
        await fresh.ask(AWAY)
    with pytest.raises(Refusal, match='no host "h3"'):
        await fresh.ask({**PLACE, "wanted": "h3"})
    await fresh.ask({"op": "status", "slots": 64})


async def test_a_host_on_its_own_waits_for_nobody(tmp_path):
    async with running(config(tmp_path, hosts=("h1",)), alone=True) as (one,):
        assert not await more_is_known(one.lim.state)
        with pytest.raises(Refusal, match="no other host is up"):
            await one.ask(AWAY)


@pytest.mark.parametrize("sight", ["left", "skew"])
async def test_nor_is_a_host_waited_for_that_is_known_to_be_gone(pair, sight):
    _, anew = pair
    fresh = await anew("h2")
    setattr(fresh.lim.state.table.entries["h1"], sight, sight)
    assert not await asyncio.wait_for(more_is_known(fresh.lim.state), 5.0)

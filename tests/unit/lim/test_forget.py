"""A host that is gone for good is removed everywhere; one that is still heard is not."""

import time
from dataclasses import replace

import pytest

from lbd.lim.core import messages as m
from lbd.lim.core.events import Received
from lbd.lim.core.ways_in import WaysIn
from lbd.local.json_socket import HEARD, Refusal
from lbd.model import HostId
from tests.unit.lim.daemons import NOBODY, config, running, up
from tests.unit.until import until

LOST = HostId("h3")


def knows(daemon):
    return LOST in daemon.lim.state.table.entries


@pytest.fixture
async def lost(tmp_path):
    """Yields h1 and h2, which both know of a joined h3 that nobody hears."""
    async with running(config(tmp_path, "h1"), config(tmp_path, "h2")) as (one, other):
        await until(lambda: up(one, "h2") and up(other, "h1"))
        member = m.Member(LOST, "127.0.0.3", 7901, 7902, 1 << 30, 5)
        for daemon in (one, other):
            daemon.lim.state.table.add(member, listed=False, now_s=time.monotonic() - 1000)
        yield one, other


async def test_it_is_forgotten_by_all_and_gossip_does_not_bring_it_back(lost):
    one, other = lost
    member = one.lim.state.table.entries[LOST].member
    reply = await one.ask({"op": "forget", "host": "h3"})
    assert reply == {"host": "h3", "hosts": 2, "missing": [], "listed": False, "revoked": False}
    assert not knows(one)
    assert not knows(other)
    one.lim.state.membership.members_from([member], time.monotonic())
    assert not knows(one)


async def test_the_dispatcher_is_told_of_it_until_it_joins_again(lost):
    one, other = lost
    member = one.lim.state.table.entries[LOST].member
    assert (await one.ask({"op": "removed"}))["hosts"] == []
    await one.ask({"op": "forget", "host": "h3"})
    for daemon in (one, other):
        assert (await daemon.ask({"op": "removed"}))["hosts"] == ["h3"]
    again = replace(member, incarnation=member.incarnation + 1)
    one.lim.state.membership.members_from([again], time.monotonic())
    assert knows(one)
    assert (await one.ask({"op": "removed"}))["hosts"] == []


async def test_a_host_that_has_forgotten_it_already_is_not_asked_to(lost):
    one, other = lost
    other.lim.perform(other.lim.state.left(LOST, time.monotonic()))
    assert (await one.ask({"op": "forget", "host": "h3"}))["missing"] == []


async def test_its_drain_and_the_reason_are_still_known(lost):
    """The machine may come back, and is drained then; only an undrain ends that."""
    one, other = lost
    await one.ask({"op": "drain", "host": "h3", "drained": True, "reason": "disk"})
    await one.ask({"op": "forget", "host": "h3"})
    settings = one.lim.state.settings
    assert settings.drains == {"h3": True}
    assert settings.drain_notes["h3"].reason == "disk"
    await until(lambda: other.lim.state.settings == settings)
    (found,) = (await other.ask({"op": "drains"}))["drains"]
    assert (found["host"], found["reason"], found["until"]) == ("h3", "disk", None)


@pytest.mark.parametrize("is_out", [True, False])
async def test_of_one_known_from_before_our_start_it_is_known_whether_it_is_revoked(lost, is_out):
    """`lbctl forget` advised to revoke what had just been revoked."""
    one, _ = lost
    before = m.Member(HostId("h7"), "127.0.0.7", 7901, 7902, 1 << 30, 5)
    one.lim.state.membership.ways_in = WaysIn("", (before,))
    one.operations._is_out = lambda name, _heard_s: is_out and name == "h7"
    reply = await one.ask({"op": "forget", "host": "h7"})
    assert (reply["hosts"], reply["revoked"]) == (1, is_out)


async def test_a_host_that_is_up_is_not_forgotten(lost):
    one, other = lost
    heard = r"h2 is up, last heard from \d+ s ago: run `lbctl leave` there"
    with pytest.raises(Refusal, match=heard) as refused:
        await one.ask({"op": "forget", "host": "h2"})
    assert refused.value.code == HEARD, "h2 may have died just now"
    with pytest.raises(Refusal, match=r"h1 is this host: use `lbctl leave`") as refused:
        await one.ask({"op": "forget", "host": "h1"})
    assert refused.value.code != HEARD
    # nor does a host that hears it comply
    state = one.lim.state
    for name in (HostId("h1"), HostId("h2"), HostId("h9")):
        body = m.Message(state.identity.cluster, HostId("h2"),
                         state.table.entries[HostId("h2")].member.incarnation,
                         m.Forget(name))  # fmt: skip
        state.handle(Received(body), time.monotonic())
    assert {"h1", "h2"} <= state.table.entries.keys()
    assert up(other, "h1")


async def test_only_administrators_may_forget_and_no_host_with_the_queue(lost):
    one, _ = lost
    with pytest.raises(Refusal, match="only root and administrators"):
        await one.ask({"op": "forget", "host": "h3"}, NOBODY)
    for host in ("h3", "h2"):  # refused before anybody waits for it to be silent
        await one.ask({"op": "share", "values": {"dispatch.host": host}})
        with pytest.raises(Refusal, match=f"the queue is on {host}"):
            await one.ask({"op": "forget", "host": host})
    assert knows(one)

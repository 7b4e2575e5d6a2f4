"""The streams to other LBMs, whatever these claim about themselves."""

import asyncio
from types import SimpleNamespace

import grpc
import pytest

from lbd.errors import LostContact, Unavailable
from lbd.lbm.link import opened_links
from lbd.lbm.link import wire as tags
from lbd.lbm.link.opened_links import PeerLinks

LIMITS_S = 0.01, 0.05  # to connect, to resume
TEST_S = 3.0


class PausingHost:
    """The far end of each call: from `pauses` on it only reports that its LBM restarts."""

    def __init__(self):
        self.trust = SimpleNamespace(generation=0)
        self.metadata, self.cuts = (), set()
        self.pauses = asyncio.Event()

    def channel(self, _host, _address):
        return self

    def get_state(self, *, try_to_connect):
        return grpc.ChannelConnectivity.READY

    def stream_stream(self, _method):
        return lambda metadata: Call(self.pauses)


class Call:
    def __init__(self, pauses):
        self._pauses = pauses
        self._said = [tags.pack(0, tags.PAUSE)]

    async def initial_metadata(self):
        return None

    async def write(self, message):
        pass

    async def read(self):
        await self._pauses.wait()
        return self._said.pop() if self._said else await asyncio.Event().wait()


@pytest.fixture
async def host():
    return PausingHost()


@pytest.fixture
async def links(host):
    links = PeerLinks(host, *LIMITS_S)
    yield links
    await links.close()


async def test_a_host_that_says_it_restarts_and_does_not_has_lost_its_commands(host, links):
    begun = await links.converse("h2", "address")
    host.pauses.set()
    async with asyncio.timeout(TEST_S):
        with pytest.raises(LostContact, match="its LBM announced a restart but did not come back"):
            await begun.read()


async def test_a_host_that_always_says_so_keeps_no_command_waiting(host, links):
    host.pauses.set()
    async with asyncio.timeout(TEST_S):
        with pytest.raises(Unavailable, match="cannot be reached"):
            await links.converse("h2", "address")


@pytest.mark.parametrize("fault", ["", "the certificate of this host, h1, has expired"])
async def test_that_a_host_cannot_be_reached_may_be_this_hosts_own_fault(
    host, links, monkeypatch, fault
):
    async def ready():
        await asyncio.Event().wait()

    host.channel_ready = ready
    monkeypatch.setattr(opened_links, "own_fault", lambda _: fault)
    host.get_state = lambda *, try_to_connect: grpc.ChannelConnectivity.CONNECTING
    with pytest.raises(Unavailable) as refused:
        await links.converse("h2", "address")
    assert str(refused.value) == (fault or "h2 (address) cannot be reached")

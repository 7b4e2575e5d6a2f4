"""How many channels there are to other hosts."""

import asyncio

import pytest

from lbd.net import transport
from lbd.net.peers import PLACES, SPARE, Peers

OPTIONS = transport.options(1 << 20, 10.0)


@pytest.fixture
async def peers():
    made = Peers(transport.Plain("h2", "k" * 40), OPTIONS)
    yield made
    await made.close()


async def are_open(peers, channels):
    await asyncio.gather(*peers._closing)
    return [not channel._channel.closed() for channel in channels]


async def test_a_host_that_is_elsewhere_each_time_has_few_channels(peers):
    """It says itself where it is: each place had a channel for ever."""
    channels = [peers.channel("h1", f"127.0.0.1:{port}") for port in range(1, 100)]
    assert peers.channel("h1", "127.0.0.1:99") is channels[-1]
    assert await are_open(peers, channels) == [False] * (99 - PLACES) + [True] * PLACES


async def test_hosts_that_were_named_and_forgotten_again_have_few_channels(peers):
    """A host that was taken over makes up others, without end."""
    joined, known = peers.channel("", "127.0.0.1:1"), peers.channel("h1", "127.0.0.1:2")
    peers.known = ["h1", "h3"]
    made_up = [peers.channel(f"x{number}", "127.0.0.1:3") for number in range(3 * SPARE)]
    assert await are_open(peers, [joined, known]) == [True, True]
    assert sum(await are_open(peers, made_up)) <= SPARE + 4

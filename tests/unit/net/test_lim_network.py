"""What one host may say, and how much of it."""

import asyncio
import math
import time

import pytest

from lbd.errors import PeerError
from lbd.lim.core import messages as m
from lbd.model import HostId, JobId
from lbd.net.lim_network import TURN_BYTES, LimNetwork, check_words
from lbd.net.transport import Plain
from lbd.testing.builders import member, sample


class Refused(Exception):
    pass


class Context:
    """The context of a call, as far as it is needed."""

    async def abort(self, code, text):
        raise Refused(text)


@pytest.fixture
async def network():
    made = LimNetwork(Plain("key", "h1"), 1 << 20, 5.0, rate_per_s=100)
    yield made
    await made.close()


async def test_long_messages_count_by_their_cost_of_reading(network):
    for _ in range(2):
        await network._await_turn("h3", 90 * TURN_BYTES, Context())
    waits = asyncio.create_task(network._await_turn("h3", 90 * TURN_BYTES, Context()))
    await asyncio.sleep(0)  # it has got its turn, in most of a second
    with pytest.raises(Refused, match="h3 sends more than 100 messages a second"):
        await network._await_turn("h3", 90 * TURN_BYTES, Context())
    waits.cancel()
    assert network.traffic.refused == 1
    await network._await_turn("h2", 100, Context())


async def test_the_longest_message_of_a_quiet_host_is_accepted(network):
    await network._await_turn("h3", 1 << 28, Context())


async def test_a_host_has_half_of_the_time_however_short_its_messages_are(network):
    """By number and bytes alone, one host's deltas, members or vectors took all of a LIM's time."""
    network._seconds.turn_s("h3", time.monotonic(), math.inf, 1000.0)  # as if it had cost that much
    with pytest.raises(Refused, match="h3 uses more than its share of this LIM's time"):
        await network._await_turn("h3", 100, Context())
    assert network.traffic.refused == 1
    await network._await_turn("h2", 100, Context())


def of(name):
    """Returns everything that a host says of itself."""
    own = sample(name, 1)
    ask = m.AskCentre(JobId("1"), frozenset(), False, False, False, own, 0.0)
    said = m.Report(own), m.ProbeReply(own), ask, m.Reserve(own), m.ReserveReply(True, own)
    return m.Hello(member(name), wants_members=False), *said


@pytest.mark.parametrize("number", range(len(of("h2"))))
def test_a_host_speaks_only_for_itself(number):
    """Its certificate names the caller; the sender and the subject must be that host."""
    for caller, sender, told in (("h3", "h2", "h2"), ("h3", "h3", "h2"), ("", "h3", "h2")):
        with pytest.raises(PeerError, match=r"h3 (speaks for|introduces itself|reports the load)"):
            check_words(m.Message("c", HostId(sender), 1, of(told)[number]), caller)
    for caller in ("h2", ""):
        check_words(m.Message("c", HostId("h2"), 1, of("h2")[number]), caller)

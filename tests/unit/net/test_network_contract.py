"""What a LIM may expect of its network, checked on gRPC over loopback and on the memory network."""

import asyncio
import socket
import time
from contextlib import asynccontextmanager

import pytest

from lbd.errors import NoAddress, PeerError, Unavailable
from lbd.lim.core import messages as m
from lbd.local.rate_limit import TimeShares
from lbd.model import HostId
from lbd.net.lim_network import METHOD, LimNetwork
from lbd.net.transport import Plain
from lbd.testing.memory_network import Exchange, MemoryNetwork

KEY = "k" * 40


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def said(body: m.Body, sender: str = "h1") -> m.Message:
    return m.Message("lbd", HostId(sender), 1, body)


@asynccontextmanager
async def grpc_pair():
    nets = [LimNetwork(Plain(name, KEY), 1 << 20, 10.0) for name in ("h1", "h2")]
    yield nets, free_port()
    for net in nets:
        await net.close()


@asynccontextmanager
async def memory_pair():
    exchange = Exchange()
    nets = [MemoryNetwork(name, exchange) for name in ("h1", "h2")]
    yield nets, 7901
    for net in nets:
        await net.close()


@pytest.fixture(params=[grpc_pair, memory_pair])
async def pair(request):
    async with request.param() as found:
        yield found


def echo(message: m.Message) -> m.Message:
    return m.Message("lbd", HostId("h2"), 5, m.Ack(error=type(message.body).__name__))


async def test_a_message_is_answered(pair):
    (one, two), port = pair
    await two.serve("127.0.0.1", port, echo)
    reply = await one.ask("h2", f"127.0.0.1:{port}", said(m.Drain(True)), 2.0)
    assert reply == m.Message("lbd", HostId("h2"), 5, m.Ack(error="Drain"))


async def test_an_absent_host_is_reported_before_the_deadline(pair):
    (one, _), port = pair
    began = time.monotonic()
    with pytest.raises(Unavailable):
        await one.ask("h2", f"127.0.0.1:{port}", said(m.Ping()), 30.0)
    assert time.monotonic() - began < 20.0


async def test_simultaneous_questions_each_get_their_own_reply(pair):
    (one, two), port = pair
    await two.serve("127.0.0.1", port, echo)
    bodies = [m.Ping(), m.Drain(True), m.Leave(), m.Probe()] * 10
    replies = await asyncio.gather(
        *(one.ask("h2", f"127.0.0.1:{port}", said(body), 5.0) for body in bodies)
    )
    assert [reply.body.error for reply in replies] == [type(body).__name__ for body in bodies]


@pytest.mark.parametrize("side", [0, 1])
async def test_a_cut_works_from_either_side_and_heals(pair, side):
    nets, port = pair
    await nets[1].serve("127.0.0.1", port, echo)
    target = f"127.0.0.1:{port}"
    await nets[side].cut({"h2" if side == 0 else "h1"})
    with pytest.raises(Unavailable):
        await nets[0].ask("h2", target, said(m.Ping()), 1.0)
    await nets[side].cut(set())
    assert (await nets[0].ask("h2", target, said(m.Ping()), 5.0)).sender == "h2"


# -- what only the real one can get wrong --------------------------------------------------------


async def test_silence_ends_at_the_deadline():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # the kernel accepts the connection; nobody speaks
    net = LimNetwork(Plain("h1", KEY), 1 << 20, 10.0)
    port = listener.getsockname()[1]
    with pytest.raises(Unavailable):
        await net.ask("h2", f"127.0.0.1:{port}", said(m.Ping()), 0.3)
    await net.close()
    listener.close()


async def test_a_wrong_key_is_refused():
    async with grpc_pair() as ((_, two), port):
        await two.serve("127.0.0.1", port, echo)
        stranger = LimNetwork(Plain("h3", "x" * 40), 1 << 20, 10.0)
        with pytest.raises(Unavailable, match="key"):
            await stranger.ask("h2", f"127.0.0.1:{port}", said(m.Ping()), 2.0)
        await stranger.close()


async def test_garbage_and_oversize_are_refused_and_the_server_survives():
    async with grpc_pair() as ((one, two), port):
        await two.serve("127.0.0.1", port, echo)
        target = f"127.0.0.1:{port}"
        call = one.peers.channel("h2", target).unary_unary(METHOD)
        one._encoder.encode = lambda _message: b"\xff\xff\xff"
        with pytest.raises(PeerError, match="not a LIM message"):
            await one.ask("h2", target, said(m.Ping()), 2.0)
        one._encoder.encode = lambda _message: b"x" * (3 << 20)
        with pytest.raises(Unavailable):
            await one.ask("h2", target, said(m.Ping()), 2.0)
        del one._encoder.encode
        assert (await one.ask("h2", target, said(m.Ping()), 2.0)).sender == "h2"
        assert call is not None


async def test_a_port_in_use_is_reported_in_one_line():
    async with grpc_pair() as ((one, two), port):
        await two.serve("127.0.0.1", port, echo)
        with pytest.raises(NoAddress, match=f"cannot listen on 127.0.0.1:{port}"):
            await one.serve("127.0.0.1", port, echo)


async def test_traffic_is_counted_by_kind():
    async with grpc_pair() as ((one, two), port):
        await two.serve("127.0.0.1", port, echo)
        await one.ask("h2", f"127.0.0.1:{port}", said(m.Drain(True)), 2.0)
        assert one.traffic.messages_out == {"Drain": 1}
        assert one.traffic.messages_in == {"Ack": 1}
        assert one.traffic.bytes_out == two.traffic.bytes_in
        assert one.traffic.bytes_in == two.traffic.bytes_out


async def test_who_costs_much_time_has_no_more_of_it_and_others_do():
    """One host kept a LIM busy with deltas and members alone, none too many or too long."""

    def burns(message):
        until_s = time.thread_time() + 0.05
        while time.thread_time() < until_s:
            pass
        return echo(message)

    async with grpc_pair() as ((one, two), port):
        two._seconds = TimeShares(share=0.001, burst_s=0.001)
        await two.serve("127.0.0.1", port, burns)
        target = f"127.0.0.1:{port}"
        await one.ask("h2", target, said(m.Ping()), 20.0)
        with pytest.raises(Unavailable, match="h1 uses more than its share of this LIM's time"):
            await one.ask("h2", target, said(m.Ping()), 20.0)
        await one.ask("h2", target, said(m.Ping(), "h3"), 20.0)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (m.Probe(), m.Members((), m.Settings())),
        (m.Drain(True), m.Members((), m.Settings())),
        (m.Ping(), m.Delta(0, 0, 0, (0, ""))),
    ],
    ids=["probe", "drain", "ping"],
)
async def test_nothing_is_read_of_an_answer_that_answers_something_else(question, answer):
    """A list of all hosts takes a second to read, and a host could answer anything with it."""
    async with grpc_pair() as ((one, two), port):
        reply = m.Message("lbd", HostId("h2"), 5, answer)
        await two.serve("127.0.0.1", port, lambda _: reply)
        target = f"127.0.0.1:{port}"
        with pytest.raises(PeerError, match="is no answer to what was asked"):
            await one.ask("h2", target, said(question), 20.0)

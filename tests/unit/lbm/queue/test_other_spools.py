"""What another host says of what it keeps, without end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

import pytest

from lbd.lbm.queue import other_spools
from lbd.lbm.queue.other_spools import LOGS, NotKept, OtherSpools, first_piece
from lbd.lbm.session.cluster import NotInCluster
from lbd.local.json_socket import AWAY, Refusal
from lbd.net.gen import dispatch_pb2 as pb

FOR_EVER_S = float("inf")


class Endless:
    """A call on which pieces come for ever."""

    def __init__(self, piece):
        self._piece = piece.SerializeToString()

    async def __aiter__(self):
        while True:
            await asyncio.sleep(0)
            yield self._piece

    def cancelled(self):
        return False

    def cancel(self):
        pass


class Peers:
    metadata = ()

    def channel(self, _host, _target):
        return self

    def unary_stream(self, method):
        piece = pb.LogsPiece() if method == LOGS else pb.FilesPiece()
        return lambda _data, metadata: Endless(piece)


class Cluster:
    async def lbm_of(self, host):
        return f"{host}:7902"


@pytest.mark.parametrize("ask", ["logs", "files"])
async def test_a_host_that_sends_empty_pieces_has_its_share_of_the_time(monkeypatch, ask):
    """An LBM whose user follows a job there did nothing but read them."""
    monkeypatch.setattr(other_spools, "PIECE_S", 10.0, raising=False)  # as if each cost so much
    spools = OtherSpools("h1", Peers(), Cluster())
    asked = pb.LogsRequest(job="7") if ask == "logs" else pb.FilesRequest(job="7")
    pieces, others = getattr(spools, ask)("h2", asked), getattr(spools, ask)("h3", asked)
    await anext(pieces)
    following = asyncio.create_task(anext(pieces))
    await anext(others)
    for _ in range(100):
        await asyncio.sleep(0)
    assert not following.done()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


class WithoutH1(Cluster):
    async def lbm_of(self, host):
        raise NotInCluster(f"host {host} is not in this cluster")


async def test_of_output_on_a_host_that_was_removed_it_is_said_that_it_is_lost():
    """`lbctl logs` only said `host h1 is not in this cluster`, as of a host that may come back."""
    spools = OtherSpools("h2", Peers(), WithoutH1())
    with pytest.raises(NotKept) as said:
        await first_piece(spools, "h1", pb.LogsRequest(), FOR_EVER_S)
    assert str(said.value) == (
        "the output was kept on h1, which is no longer in this cluster, so it is lost"
    )


@dataclass
class Call:
    pieces: AsyncIterator[bytes]
    cancel: Callable[[], None]

    def __aiter__(self):
        return self.pieces


class Silent(Peers):
    """Of a host that takes the call, and never answers."""

    def __init__(self):
        self.cancelled = []

    def unary_stream(self, method):
        async def never():
            await asyncio.Event().wait()
            yield b""

        cancel = partial(self.cancelled.append, method)
        return lambda _data, metadata: Call(never(), cancel)


async def test_a_host_that_never_answers_about_output_counts_as_away():
    """1,540 such questions, given up by their clients, locked their user out of the LBM."""
    peers = Silent()
    spools, now_s = OtherSpools("h1", peers, Cluster()), asyncio.get_running_loop().time()
    async with asyncio.timeout(20):
        with pytest.raises(Refusal, match="cannot get output from h2") as said:
            await first_piece(spools, "h2", pb.LogsRequest(), now_s + 0.05)
    assert said.value.code == AWAY
    assert peers.cancelled == [LOGS]

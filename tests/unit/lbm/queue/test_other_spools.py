"""What another host says of what it keeps, without end."""

import asyncio

import pytest

from lbd.lbm.queue import other_spools
from lbd.lbm.queue.other_spools import LOGS, NotKept, OtherSpools, pieces_of
from lbd.lbm.session.cluster import NotInCluster
from lbd.net.gen import dispatch_pb2 as pb


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
        await anext(pieces_of(spools, "h1", pb.LogsRequest()))
    assert str(said.value) == (
        "the output was kept on h1, which is no longer in this cluster, so it is lost"
    )

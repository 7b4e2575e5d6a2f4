"""Files that another host keeps, as fast as it sends them."""

import asyncio

import pytest

from lbd.config.schema import StageConfig
from lbd.errors import Unavailable
from lbd.lbm.staging import pack_transfer
from lbd.lbm.staging.pack_transfer import SLOWEST_BYTES_PER_S, receive_pack
from lbd.net.gen import dispatch_pb2 as pb


class Client:
    """Of a host that sends these, and nothing more."""

    def __init__(self, *pieces, ends=True, pause_s=0.0):
        self._pieces, self._ends, self.pause_s = pieces, ends, pause_s

    async def files(self, _host, _request):
        for piece in self._pieces:
            yield piece
            await asyncio.sleep(self.pause_s)
        if not self._ends:
            await asyncio.Event().wait()


async def received(client, directory):
    return await receive_pack(client, "h2", pb.FilesRequest(), str(directory), StageConfig())


async def test_who_sends_a_byte_a_minute_is_given_up(tmp_path, monkeypatch):
    """Nothing else came home to that user meanwhile."""
    monkeypatch.setattr(pack_transfer, "PATIENCE_S", 0.1)
    with pytest.raises(Unavailable, match="h2 sends less than 65536 bytes a second"):
        await received(Client(b"x", ends=False), tmp_path)


async def test_who_sends_much_may_take_longer(tmp_path, monkeypatch):
    monkeypatch.setattr(pack_transfer, "PATIENCE_S", 0.5)
    much = bytes(60 * SLOWEST_BYTES_PER_S)
    client = Client(much, b"x", pause_s=0.6)
    with await received(client, tmp_path) as file:
        assert len(file.read()) == len(much) + 1

"""Transfers of files that another host keeps, at the speed at which it sends them."""

import asyncio

import pytest

from lbd.config.schema import StageConfig
from lbd.errors import Unavailable
from lbd.lbm.staging import pack_transfer
from lbd.lbm.staging.pack_transfer import SLOWEST_BYTES_PER_S, receive_pack
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.disk_space import Shortage


class Client:
    """A client of a host that sends these pieces, and nothing more."""

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
    """No other files reached that user meanwhile."""
    monkeypatch.setattr(pack_transfer, "PATIENCE_S", 0.1)
    with pytest.raises(Unavailable, match="h2 sends less than 65536 bytes a second"):
        await received(Client(b"x", ends=False), tmp_path)


async def test_a_large_transfer_may_take_longer(tmp_path, monkeypatch):
    monkeypatch.setattr(pack_transfer, "PATIENCE_S", 0.5)
    much = bytes(60 * SLOWEST_BYTES_PER_S)
    client = Client(much, b"x", pause_s=0.6)
    with await received(client, tmp_path) as file:
        assert len(file.read()) == len(much) + 1


async def test_the_last_of_the_disk_is_for_the_jobs_that_are_there(tmp_path, monkeypatch):
    """A host that sends a gibibyte for each user's job must not fill it."""
    free_bytes = iter((900, 600, 300))
    disk = lambda _root: Shortage(1000 - next(free_bytes), 0, wanted_bytes=1000)  # noqa: E731
    monkeypatch.setattr(pack_transfer, "shortage_of", disk, raising=False)
    with pytest.raises(Unavailable, match=f"the disk of {tmp_path} has no room for them"):
        await received(Client(*[bytes(300)] * 4), tmp_path)
    assert list(free_bytes) == [300]


async def test_a_disk_that_does_not_report_its_size_is_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(pack_transfer, "shortage_of", lambda _: Shortage(0, 0), raising=False)
    with await received(Client(b"x"), tmp_path) as file:
        assert file.read() == b"x"

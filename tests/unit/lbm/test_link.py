"""The LBM's line to one keeper after another."""

import asyncio
import contextlib
import socket

from lbd.config import Config
from lbd.lbm import keeper_protocol as keeper
from lbd.lbm.holding import frame_of
from lbd.lbm.link import KeeperLink


def hello(pid):
    kind = (keeper.KIND, "none"), (keeper.UID, 0)
    return frame_of(keeper.HELLO, (keeper.PID, pid), *kind)


async def test_half_a_frame_of_one_keeper_is_nothing_of_the_next(tmp_path):
    path, lost = tmp_path / "keeper.sock", asyncio.Event()
    link = KeeperLink(lost.set)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.setblocking(False)

        async def keeper_of(pid, last_words=b""):
            connecting = asyncio.create_task(link.connect(path, Config()))
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            connection.send(hello(pid) + last_words)
            return connecting, connection

        connecting, first = await keeper_of(7, hello(8)[:-4])
        await asyncio.wait_for(connecting, 5)
        assert link.pid == 7
        first.close()
        await asyncio.wait_for(lost.wait(), 5)
        connecting, second = await keeper_of(9)
        with second, contextlib.closing(link):
            await asyncio.wait_for(connecting, 5)
            assert link.pid == 9

"""A refused request for the queue is not kept in memory: it may be megabytes."""

import asyncio
import gc
import socket

from lbd.errors import Unavailable
from lbd.lbm.queue import submit
from lbd.local import client_tags as tags
from lbd.local import frames


class Home:
    queue = files = True


def count(*names):
    return sum(type(one).__name__ in names for one in gc.get_objects())


async def test_one_that_was_refused_holds_nothing(monkeypatch):
    """`taking` held the exception, which held the frame, which held `taking`: the memory was kept
    until Python's next search for cycles, after some hundred requests of any length."""

    async def refuse(*_):
        raise Unavailable("no")

    monkeypatch.setattr(submit, "take", refuse)
    gc.collect()
    gc.disable()
    try:
        before = count("SubmitOptions", "ClientRequest")
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            body = frames.field(tags.ARGUMENT, b"true") + frames.field(tags.AFTER, b"ok:1")
            client, ends = (None, None), (ours, asyncio.Event().wait)
            asked = submit.read_queued(body)
            await submit.serve_queued(Home, client, ends, asked, [], lambda: None)
            del asked
            await asyncio.sleep(0)
            assert theirs.recv(1000)
        assert count("SubmitOptions", "ClientRequest") == before
    finally:
        gc.enable()

"""The command's standard input and outputs, on the host where it runs."""

import asyncio
import os

import pytest

from lbd.lbm.ends import JobEnds
from lbd.rpc import job_stream as tags
from lbd.rpc.gen import lbm_pb2


class Talk:
    def __init__(self):
        self.sent = []

    def put(self, tag, body=b"", linger_s=0.0):
        self.sent.append((tag, bytes(body)))

    async def flush(self):
        pass


@pytest.fixture
async def ends():
    made = JobEnds(lbm_pb2.RunRequest(wants_stdin=True), Talk(), 1 << 16)
    made.make()
    yield made
    made.close()
    made.close_childs()


async def test_input_that_came_is_not_unheard_by_what_comes_after_it(ends):
    """An owner's return sends away only what nothing has come in or out of."""
    ends.hear(tags.STDIN, memoryview(b""))
    assert ends.is_untouched
    ends.hear(tags.STDIN, memoryview(b"x"))
    assert not ends.is_untouched
    ends.hear(tags.GROUND, memoryview(b"\0"))
    assert not ends.is_untouched


async def test_what_was_printed_before_a_stop_is_told_before_it(ends):
    pumps = ends.pump(0, lambda: None, lambda _: asyncio.sleep(0, result=False))
    os.write(ends.childs[1], b"printed")
    ends.stopped()
    assert ends._talk.sent == [(tags.STDOUT, b"printed"), (tags.STOPPED, b"")]
    for task in pumps:
        task.cancel()
    await asyncio.wait(pumps)
    ends.stop()

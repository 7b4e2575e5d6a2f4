"""Whether a command that was ended could begin again elsewhere, by what went through our hands."""

import asyncio
import os

import pytest

from lbd.config.schema import LbmConfig
from lbd.lbm.link import wire
from lbd.lbm.link.conversation import Stream
from lbd.lbm.link.user_threads import StdFds, UserThreads
from lbd.lbm.outbound.remote_run import RemoteRun
from lbd.net.gen import lbm_pb2

ENDED = lbm_pb2.Ended(exit_status=0, cause="evicted").SerializeToString()


class FarHost:
    """Answers on the one conversation that is opened."""

    def __init__(self):
        self.stream = Stream(self.take)
        self.typed = b""
        self.has_input = asyncio.Event()

    async def take(self, message):
        for _, tag, body in wire.unpack(message):
            if tag == wire.RUN:
                self.says(wire.STARTED)
            elif tag == wire.STDIN and body:
                self.typed += bytes(body)
                self.has_input.set()

    async def converse(self, _host, _address):
        return self.stream.converse(1)

    async def lacking(self, *_about):
        return ""

    def says(self, tag, body=b""):
        self.stream.deliver(1, tag, memoryview(body))


async def ended(given=b"", printed=b""):
    """A run that has read and printed so much."""
    far = FarHost()
    run = RemoteRun(LbmConfig(), far, "h2", "h2:1", UserThreads().of(os.getuid()))
    await run.start(lbm_pb2.RunRequest(job_id="1"))
    reading, writing = os.pipe()
    shown, printing = os.pipe()
    run.attach(StdFds(reading, printing, None))
    following = asyncio.create_task(run.follow(None))
    if given:
        os.write(writing, given)
        await asyncio.wait_for(far.has_input.wait(), 10)
    if printed:
        far.says(wire.STDOUT, printed)
    far.says(wire.ENDED, ENDED)
    await following
    assert far.typed == given
    run.close()
    os.close(writing)
    assert os.read(shown, 100) == printed
    os.close(shown)
    return run


@pytest.mark.parametrize(
    ("given", "printed", "untouched"),
    [(b"", b"", True), (b"in", b"", False), (b"", b"out", False), (b"in", b"out", False)],
)
async def test_what_has_read_or_printed_is_not_untouched(given, printed, untouched):
    assert (await ended(given, printed)).is_untouched is untouched

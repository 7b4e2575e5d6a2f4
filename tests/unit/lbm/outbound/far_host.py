"""A host as the run of a command there sees it: it says what a test has it say."""

import asyncio
import contextlib
import os
from functools import partial

from lbd.config.schema import LbmConfig
from lbd.lbm.link import wire
from lbd.lbm.link.conversation import Stream
from lbd.lbm.link.user_threads import StdFds, UserThreads
from lbd.lbm.link.window import budget_of_windows
from lbd.lbm.outbound.remote_run import RemoteRun
from lbd.lbm.outbound.remote_stdio import RemoteStdio
from lbd.local.budget import Share
from lbd.local.rate_limit import TimeShares
from lbd.net.gen import lbm_pb2


class FarHost:
    """Answers on the single conversation that is opened."""

    def __init__(self):
        self.stream = Stream(self.take)
        self.shares = TimeShares()
        self.typed = b""
        self.starts = True
        self.started = lbm_pb2.Started()
        self.granted = {}
        self.has_input = asyncio.Event()

    async def take(self, message):
        for _, tag, body in wire.unpack(message):
            if tag in (wire.RUN, wire.WORKDIR) and self.starts:
                self.says(wire.STARTED, self.started.SerializeToString())
            elif tag == wire.STDIN and body:
                self.typed += bytes(body)
                self.has_input.set()
            elif tag == wire.DELIVERED:
                number, _, self.granted[number] = wire.read_delivered(bytes(body))

    async def converse(self, _host, _address):
        return self.stream.converse(1)

    def says(self, tag, body=b""):
        self.stream.deliver(1, tag, memoryview(body))


def run_on(far, windows=None):
    threads = UserThreads().of(os.getuid())
    shares = partial(Share, windows or budget_of_windows(), os.getuid())
    move = partial(RemoteStdio, threads, shares)
    return RemoteRun(LbmConfig(), far, "h2", "h2:1", move)


@contextlib.asynccontextmanager
async def with_an_output(far, windows=None):
    """Yields a run that has started, what follows it, and a pipe's end to read its output from."""
    run = run_on(far, windows)
    await run.start(lbm_pb2.RunRequest(job_id="1"))
    shown, printing = os.pipe()
    run.attach(StdFds(None, printing, None))
    following = asyncio.create_task(run.follow(None))
    try:
        yield run, following, shown
    finally:
        following.cancel()
        await asyncio.wait([following])
        run.close()
        os.close(shown)

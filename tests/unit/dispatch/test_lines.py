"""What goes to a host in one message."""

import asyncio

from lbd.dispatch.lines import STARTS_BYTES, Line
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.job_stream import MESSAGE_LIMIT_BYTES


class Far:
    """The host's end, which takes a message only when it is let."""

    def __init__(self):
        self.messages = asyncio.Queue()
        self.open = asyncio.Event()

    async def write(self, data):
        await self.open.wait()
        assert len(data) <= MESSAGE_LIMIT_BYTES
        self.messages.put_nowait(pb.WorkDown.FromString(data))

    async def all(self, count):
        self.open.set()
        async with asyncio.timeout(5):
            return [await self.messages.get() for _ in range(count)]


def start(number, input_bytes=0):
    spec = pb.StoredSpec(input=bytes(input_bytes))
    return pb.Start(job=str(number), attempt=1, spec=spec)


async def test_short_news_travels_together():
    far = Far()
    line = Line(far.write)
    for number in range(1, 4):
        line.start(start(number))
        line.settled(f"{number + 10}", 1)
    line.reply(pb.BeatReply(number=7))
    (message,) = await far.all(1)
    assert [one.job for one in message.starts] == ["1", "2", "3"]
    assert (len(message.settled), message.reply.number) == (3, 7)


async def test_attempts_with_large_inputs_fit_the_message_that_a_host_takes():
    """All the jobs of an array that begin at once, each with the same megabytes."""
    far = Far()
    line = Line(far.write)
    for number in range(8):
        line.start(start(number, 4 << 20))
    line.start(start(8, STARTS_BYTES // 2))
    line.start(start(9, STARTS_BYTES // 3))
    messages = await far.all(9)
    jobs = [[one.job for one in message.starts] for message in messages]
    assert jobs == [*([str(n)] for n in range(8)), ["8", "9"]]


async def test_what_stops_an_attempt_comes_after_it():
    far = Far()
    line = Line(far.write)
    line.start(start(1))
    line.stop("1", 1, 0, "cancel")
    line.start(start(2))
    line.stop("2", 1, 0, "cancel")
    heard = []
    for message in await far.all(3):  # of one message a host takes the stops first
        heard += [f"stop {one.job}" for one in message.stops]
        heard += [f"start {one.job}" for one in message.starts]
    assert heard == ["start 1", "stop 1", "start 2", "stop 2"]

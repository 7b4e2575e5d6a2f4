"""What is sent to a host in one message."""

import asyncio

import pytest

from lbd.dispatch import host_connection as lines
from lbd.dispatch.host_connection import (
    LINES_AT_ONCE,
    STARTS_BYTES,
    HostConnection,
    HostLines,
    Paces,
)
from lbd.lbm.link.wire import MESSAGE_LIMIT_BYTES
from lbd.net.gen import dispatch_pb2 as pb

BEHIND, HEARD = 8 << 20, 2 << 20


class Far:
    """The host's end, which takes a message only when the test lets it."""

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


async def test_short_messages_are_sent_together():
    far = Far()
    line = HostConnection(far.write, BEHIND)
    for number in range(1, 4):
        line.start(start(number))
        line.settled(f"{number + 10}", 1)
    line.reply(pb.HeartbeatReply(number=7))
    (message,) = await far.all(1)
    assert [one.job for one in message.starts] == ["1", "2", "3"]
    assert (len(message.settled), message.reply.number) == (3, 7)


async def test_attempts_with_large_inputs_fit_the_message_that_a_host_accepts():
    """All the jobs of an array that start at once, each with the same megabytes."""
    far = Far()
    line = HostConnection(far.write, BEHIND)
    for number in range(8):
        line.start(start(number, 4 << 20))
    line.start(start(8, STARTS_BYTES // 2))
    line.start(start(9, STARTS_BYTES // 3))
    messages = await far.all(9)
    jobs = [[one.job for one in message.starts] for message in messages]
    assert jobs == [*([str(n)] for n in range(8)), ["8", "9"]]


async def test_a_stop_comes_after_the_start_of_its_attempt():
    far = Far()
    line = HostConnection(far.write, BEHIND)
    line.start(start(1))
    line.stop("1", 1, 0, "cancel")
    line.start(start(2))
    line.stop("2", 1, 0, "cancel")
    heard = []
    for message in await far.all(3):  # a host handles the stops of a message first
        heard += [f"stop {one.job}" for one in message.stops]
        heard += [f"start {one.job}" for one in message.starts]
    assert heard == ["start 1", "stop 1", "start 2", "stop 2"]


async def test_what_a_host_does_not_read_is_bounded():
    """A host may claim thousands of slots, and queue an array with a large input."""
    far = Far()
    line = HostConnection(far.write, BEHIND)
    count = 0
    while not line.is_behind:
        line.start(start(count, 1 << 20))
        count += 1
    assert count <= 10
    await far.all(count)
    assert not line.is_behind


async def test_a_host_that_reads_nothing_loses_its_connection(monkeypatch):
    """The dispatcher must answer for each attempt that it names and that is not its own."""
    monkeypatch.setattr(lines, "DEAF_BYTES", 1 << 16)
    for order in (lambda line: line.stop("1", 1, 9, ""), lambda line: line.settled("1", 1)):
        line = HostConnection(Far().write, 0)
        for _ in range((1 << 16) // lines.ORDER_BYTES):
            order(line)
        assert not line.broken.is_set()
        order(line)
        assert line.broken.is_set()


async def test_a_host_is_read_at_a_limited_rate_and_others_meanwhile():
    paces, line = Paces(1 << 20, HEARD), HostConnection(Far().write, BEHIND)
    burst = lines.AT_ONCE_S * (1 << 20) // HEARD
    for _ in range(burst):
        assert await paces.turn("h2", HEARD, line)
    late = asyncio.create_task(paces.turn("h2", HEARD, line))
    assert await paces.turn("h3", 100, line)
    assert not late.done()
    line.broken.set()
    assert await late is False


async def test_many_short_reports_wait_as_what_has_to_be_recorded():
    """A message of 2 MiB can hold a hundred thousand, each a change in the ledger."""
    paces, line = Paces(1 << 20, HEARD), HostConnection(Far().write, BEHIND)
    few = lines.AT_ONCE_S * (1 << 20) // lines.REPORT_BYTES
    assert await paces.reports_turn("h2", few, 0, line)
    late = asyncio.create_task(paces.reports_turn("h2", few, 0, line))
    assert await paces.reports_turn("h3", few, 0, line)
    assert await paces.reports_turn("h4", 0, 100, line)
    assert not late.done()
    line.broken.set()
    assert await late is False


async def test_a_message_that_is_too_long_counts_all_the_same():
    """Otherwise a host could keep opening connections and sending such messages."""
    paces, line = Paces(1 << 20, HEARD), HostConnection(Far().write, BEHIND)
    with pytest.raises(ValueError, match="a message of 15000000 bytes"):
        await paces.turn("h2", 15_000_000, line)
    again = asyncio.create_task(paces.turn("h2", lines.OPENING_BYTES, line))
    await asyncio.sleep(0)
    assert not again.done()
    line.broken.set()
    await again


async def test_the_settlement_of_an_end_is_sent_with_the_next_message(monkeypatch):
    """For jobs one after another it would be a message of its own, as much work as a start."""
    monkeypatch.setattr(lines, "SETTLED_WITHIN_S", 3600.0)
    far = Far()
    far.open.set()
    line = HostConnection(far.write, BEHIND)
    line.settled("1", 1)
    await asyncio.sleep(0)
    assert far.messages.empty()
    line.start(start(2))
    (message,) = await far.all(1)
    assert (len(message.settled), len(message.starts)) == (1, 1)
    line.settled("2", 1)
    await line.close()
    (message,) = await far.all(1)
    assert [one.job for one in message.settled] == ["2"]


async def test_the_settlement_of_an_end_is_sent_soon_all_the_same(monkeypatch):
    monkeypatch.setattr(lines, "SETTLED_WITHIN_S", 0.001)
    far = Far()
    line = HostConnection(far.write, BEHIND)
    line.settled("1", 1)
    (message,) = await far.all(1)
    assert [one.job for one in message.settled] == ["1"]


def test_a_host_that_connects_and_disconnects_without_end_does_not_fill_the_log(caplog):
    """Two hosts once wrote 160 lines a second each, among which those about others were lost."""
    caplog.set_level("INFO")
    said = HostLines()
    for _ in range(1000):
        said.say("h9", "connected")
        said.say("h9", "disconnected")
    said.say("h8", "connected")
    assert len([line for line in caplog.messages if "h9" in line]) in range(int(LINES_AT_ONCE), 200)
    assert "host h8 connected" in caplog.messages


async def test_before_a_call_is_aborted_nothing_is_being_sent(monkeypatch):
    """gRPC refuses to abort a call on which a message is being sent. A host that sent nonsense just
    then had the dispatcher log a traceback each time."""
    far = Far()
    line = HostConnection(far.write, BEHIND)
    line.start(start(1))
    await asyncio.sleep(0)  # it is being sent
    line.start(start(2))
    line.stop("1", 1, 0, "")
    stopping = asyncio.create_task(line.stop_sending())
    await asyncio.sleep(0.01)
    assert not stopping.done()
    await far.all(1)
    await stopping
    line.start(start(3))
    await asyncio.sleep(0.01)
    assert far.messages.empty()
    monkeypatch.setattr(lines, "STOPPING_S", 0.05)
    far.open.clear()
    line = HostConnection(far.write, BEHIND)
    line.start(start(1))
    await line.stop_sending()  # its host does not read

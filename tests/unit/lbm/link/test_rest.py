"""A stream that pauses and is resumed elsewhere: messages arrive once and in order, or not at
all."""

import asyncio
import contextlib
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbd.lbm.link import pump
from lbd.lbm.link import wire as tags
from lbd.lbm.link.conversation import Stream
from lbd.lbm.link.nonblocking_fd import Descriptor
from lbd.lbm.link.outbox import Outbox
from lbd.lbm.link.pump import Sink, Source
from lbd.lbm.link.window import Window, budget_of_windows
from lbd.local.budget import Share
from tests.unit.lbm.handover.passing import handed_over


@pytest.fixture(scope="module", autouse=True)
def small_pieces():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pump, "CHUNK_BYTES", 7000)
        yield


async def settle():
    for _ in range(30):
        await asyncio.sleep(0)


class Wire:
    """What one end has written, for the other to take."""

    def __init__(self):
        self.messages = []

    async def write(self, message):
        self.messages.append(message)


def pair():
    wires = Wire(), Wire()
    return wires, [Stream(wire.write) for wire in wires]


def deliver(wire, stream):
    taken = [item for message in wire.messages for item in stream.take(message)]
    wire.messages.clear()
    return [(number, tag, bytes(body)) for number, tag, body in taken]


async def test_messages_after_the_pause_wait_for_the_next_stream():
    (near, far), (one, other) = pair()
    talk = one.converse(1)
    talk.put(b"a")
    one.rest()
    talk.put(b"b")
    await settle()
    assert deliver(near, other) == [(1, b"a", b"")]
    other.converse(1).put(b"c")
    await settle()
    assert deliver(far, one) == []  # PAUSED, and then nothing
    assert one.confirmed.is_set()
    assert one.agrees(other.counts())
    assert other.agrees(one.counts())
    wires = Wire(), Wire()
    one.go_on(wires[0].write)
    other.go_on(wires[1].write)
    await settle()
    assert deliver(wires[0], other) == [(1, b"b", b"")]
    assert deliver(wires[1], one) == [(1, b"c", b"")]


async def test_both_may_pause_at_once():
    (near, far), (one, other) = pair()
    one.converse(1).put(b"a")
    other.converse(1).put(b"b")
    one.rest()
    other.rest()
    await settle()
    assert deliver(near, other) == [(1, b"a", b"")]
    assert deliver(far, one) == [(1, b"b", b"")]
    await settle()
    deliver(near, other)
    deliver(far, one)
    assert one.confirmed.is_set()
    assert other.confirmed.is_set()
    assert one.agrees(other.counts())


async def test_the_counts_disagree_if_something_is_missing():
    (near, _), (one, other) = pair()
    one.converse(1).put(b"a")
    one.rest()
    await settle()
    near.messages.pop(0)
    deliver(near, other)
    assert not one.agrees(other.counts())
    assert not other.agrees(one.counts())


async def test_the_remainder_of_an_earlier_stream_goes_first():
    wire = Wire()
    outbox = Outbox(wire.write, [tags.pack(1, b"a")])
    outbox.put(tags.pack(1, b"b"))
    await settle()
    assert wire.messages == []
    outbox.go_on(wire.write)
    await settle()
    assert [tag for message in wire.messages for _, tag, _ in tags.unpack(message)] == [b"a", b"b"]


@pytest.mark.parametrize("body", [b"", bytes(15), bytes(17)])
def test_malformed_counts(body):
    with pytest.raises(ValueError, match="malformed"):
        tags.read_counts(body)


def drain(reader):
    found = b""
    with contextlib.suppress(BlockingIOError):
        while data := os.read(reader, 1 << 16):
            found += data
    return found


@settings(deadline=None, max_examples=50)
@given(
    pieces=st.lists(st.binary(min_size=1, max_size=90_000), max_size=8),
    steps=st.lists(st.integers(0, 40), min_size=1, max_size=4),
)
async def test_a_sink_saved_at_any_moment_writes_the_rest_and_nothing_twice(pieces, steps):
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    acknowledged, got = [], b""
    note = lambda count, _granted_bytes: acknowledged.append(count)  # noqa: E731
    windows = budget_of_windows()
    sink = Sink(Descriptor(writer), note, lambda: None, Window(Share(windows, 0), 1 << 18))
    task = sink.start()
    waiting = list(pieces)
    try:
        for step in steps:
            for _ in range(step):
                if waiting:
                    sink.put(waiting.pop(0))
                await asyncio.sleep(0)
            left = handed_over(sink.left())
            task.cancel()
            await asyncio.wait([task])
            descriptor = Descriptor.given(left.descriptor)
            window = Window(Share(windows, 0), 1 << 18, left_bytes=left.window_bytes)
            sink = Sink(descriptor, note, lambda: None, window, left=left)
            task = sink.start()
            got += drain(reader)
        for piece in [*waiting, b""]:
            sink.put(piece)
        while not task.done():
            await asyncio.sleep(0)
            got += drain(reader)
        assert got + drain(reader) == b"".join(pieces)
        assert sum(acknowledged) <= len(got)
    finally:
        task.cancel()
        os.close(reader)


@settings(deadline=None, max_examples=50)
@given(
    pieces=st.lists(st.binary(min_size=1, max_size=30_000), max_size=8),
    steps=st.lists(st.integers(0, 12), min_size=1, max_size=4),
)
async def test_a_source_saved_at_any_moment_has_read_nothing_that_it_does_not_send(pieces, steps):
    reader, writer = os.pipe()
    sent = []

    async def flush():
        await asyncio.sleep(0)

    source = Source(Descriptor(reader), sent.append, flush, 1 << 16)
    task = source.start()
    waiting = list(pieces)
    for step in steps:
        for _ in range(step):
            if waiting and sum(map(len, pieces)) - sum(map(len, waiting)) < 30_000:
                os.write(writer, waiting.pop(0))
            await asyncio.sleep(0)
        left = handed_over(source.left())
        task.cancel()
        before = list(sent)
        await asyncio.wait([task])
        sent[:] = before  # the process that saved it would have taken no further step
        descriptor = Descriptor.given(left.descriptor)
        source = Source(descriptor, sent.append, flush, 1 << 16, left=left)
        task = source.start()
    written = b"".join(pieces[: len(pieces) - len(waiting)])
    os.close(writer)
    while not task.done():
        source.delivered(source._state.under_way_bytes)
        await asyncio.sleep(0)
    assert b"".join(sent) == written
    assert sent.count(b"") == 1

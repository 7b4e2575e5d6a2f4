"""Moving bytes over real pipes: windows, slow readers, readers that go away."""

import asyncio
import contextlib
import gc
import os
import select
import socket
import time
import tracemalloc
import weakref

import pytest

from lbd.lbm.link import pump
from lbd.lbm.link.ferry import unread_bytes
from lbd.lbm.link.nonblocking_fd import Descriptor
from lbd.lbm.link.pump import CRUMB_BYTES, CRUMBS, Sink, Source
from lbd.lbm.link.user_threads import Threads
from lbd.lbm.link.window import Window, budget_of_windows
from lbd.lbm.link.wire import STDIN, WINDOW_BYTES, pack, pack_batch, unpack
from lbd.local.budget import Share
from tests.unit.until import until

CHUNK = 1 << 16


def wide():
    """A window that has grown."""
    return Window(Share(budget_of_windows(), 0), left_bytes=WINDOW_BYTES)


def counts():
    """Returns a list, and the call that notes there what was delivered."""
    found = []
    return found, lambda count, _granted_bytes: found.append(count)


def ignored(_count, _granted_bytes):
    """Nobody wants to know what was delivered."""


async def settle():
    """Lets every task run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def at_once():
    """Returns a stream that accepts everything."""


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    ends = {"r": reader, "w": writer}
    yield ends
    for descriptor in ends.values():
        with contextlib.suppress(OSError):
            os.close(descriptor)


def taken(pipe, end):
    """Gives an end away: its receiver closes it."""
    descriptor = pipe[end]
    pipe[end] = -1
    return descriptor


async def test_an_acknowledgement_of_more_than_was_sent_is_refused(pipe):
    """Another host says so; the number goes on to the next LBM."""
    source = Source(Descriptor(taken(pipe, "r")), bytes, at_once, 100)
    for count in (1, (1 << 64) - 1):
        with pytest.raises(ValueError, match="more than was sent"):
            source.delivered(count)


async def test_of_notices_that_wait_for_what_was_printed_only_the_last_is_given(pipe):
    """A host that sends a hundred thousand of them held up everybody by a timer for each."""
    sink, given = Sink(Descriptor(taken(pipe, "w")), ignored, pytest.fail, wide()), []
    sink.put(b"x")
    sink.then(lambda: given.append(1), 0.0)
    sink.then(lambda: given.append(-1), 0.0)
    sink.start()
    await settle()
    assert given == [-1]
    sink.then(lambda: given.append(-2), 100.0)
    assert given == [-1, -2], "nothing waits any more"
    sink.put(b"")
    await settle()


async def test_a_notice_waits_no_longer_than_the_first_that_waited(pipe):
    sink, given = Sink(Descriptor(taken(pipe, "w")), ignored, pytest.fail, wide()), []
    sink.put(b"x")  # and nobody writes it
    sink.then(lambda: given.append(1), 0.0)
    sink.then(lambda: given.append(2), 100.0)
    await asyncio.sleep(0.01)
    assert given == [2]
    sink.close()


async def test_a_source_stops_at_its_window_and_continues_when_delivered(pipe, monkeypatch):
    monkeypatch.setattr(pump, "CHUNK_BYTES", 60)
    sent = []
    source = Source(Descriptor(taken(pipe, "r")), sent.append, at_once, 100)
    task = asyncio.create_task(source.run())
    os.write(pipe["w"], bytes(1000))
    await settle()
    assert sum(map(len, sent)) == 120  # the window may be exceeded by less than one chunk
    source.delivered(60)
    await settle()
    assert sum(map(len, sent)) == 180
    os.close(taken(pipe, "w"))
    for _ in range(30):
        source.delivered(source._state.under_way_bytes)
        await settle()
    await asyncio.wait_for(task, 10)
    assert sum(map(len, sent)) == 1000
    assert sent[-1] == b""  # end of file


async def test_a_writer_in_step_with_the_source_falls_out_of_step(pipe):
    sent = []
    source = Source(Descriptor(taken(pipe, "r")), sent.append, at_once, 1 << 30)
    task = asyncio.create_task(source.run())
    page = bytes(4096)
    written = 0
    os.set_blocking(pipe["w"], False)
    while max(map(len, sent), default=0) <= CRUMB_BYTES and written < 10_000:
        with contextlib.suppress(BlockingIOError):  # the moment is long, and the pipe full
            written += os.write(pipe["w"], page) // len(page)
        await asyncio.sleep(0)
    assert written > CRUMBS
    assert written < 10_000
    os.close(taken(pipe, "w"))
    await asyncio.wait_for(task, 10)
    assert sum(map(len, sent)) == written * len(page)


async def test_once_the_writers_are_dead_only_existing_data_is_read(pipe):
    sent = []
    source = Source(Descriptor(taken(pipe, "r")), sent.append, at_once, 1 << 20)
    task = asyncio.create_task(source.run())
    await settle()
    os.write(pipe["w"], b"last words")
    source.writers_gone()  # though an escaped process still holds the other end
    await asyncio.wait_for(task, 10)
    assert sent == [b"last words"]


async def in_a_call(descriptor):
    """Returns once a thread has made its call, of which the event loop does not know yet."""
    while descriptor._last is None:  # noqa: ASYNC110
        await asyncio.sleep(0)
    while not descriptor._last.is_made:
        time.sleep(0.0001)  # noqa: ASYNC251


async def test_data_written_after_the_last_look_of_a_thread_is_read(pipe):
    """A busy host learns that the writers are dead before it learns that nothing was there."""
    sent, descriptor = [], Descriptor(taken(pipe, "r"), Threads(), ours=True)
    descriptor.flows = True  # so a thread waits a moment for more
    source = Source(descriptor, sent.append, at_once, 1 << 20)
    task = asyncio.create_task(source.run())
    await in_a_call(descriptor)
    os.write(pipe["w"], b"last words")
    source.writers_gone()
    await asyncio.wait_for(task, 10)
    assert sent == [b"last words"]


async def test_what_a_thread_has_read_comes_before_what_is_there_at_a_stop(pipe):
    sent, descriptor = [], Descriptor(taken(pipe, "r"), Threads(), ours=True)
    source = Source(descriptor, sent.append, at_once, 1 << 20)
    os.write(pipe["w"], b"a" * CHUNK)
    task = asyncio.create_task(source.run())
    await in_a_call(descriptor)
    os.write(pipe["w"], b"b")
    os.close(taken(pipe, "w"))
    source.read_what_is_there()
    assert source.is_behind
    await asyncio.wait_for(task, 10)
    assert b"".join(sent) == b"a" * CHUNK + b"b"


async def test_a_source_whose_reader_is_gone_tells_the_writer_while_it_waits(pipe):
    sent = []
    source = Source(Descriptor(taken(pipe, "r")), sent.append, at_once, 100)
    task = asyncio.create_task(source.run())
    await settle()
    source.reader_gone()
    with pytest.raises(BrokenPipeError):
        os.write(pipe["w"], b"for nobody")
    await asyncio.wait_for(task, 10)
    assert sent == []


async def test_a_sink_acknowledges_in_large_steps_and_closes_at_the_end(pipe):
    acknowledged, note = counts()
    sink = Sink(Descriptor(taken(pipe, "w")), note, pytest.fail, wide())
    task = asyncio.create_task(sink.run())
    total = 3 * (WINDOW_BYTES // 4)
    for _ in range(total // CHUNK):
        sink.put(bytes(CHUNK))
    sink.put(b"")
    count = 0
    while data := await asyncio.to_thread(os.read, pipe["r"], 1 << 20):
        count += len(data)
    await asyncio.wait_for(task, 10)
    assert count == total
    assert acknowledged
    assert sum(acknowledged) == total
    assert len(acknowledged) <= 3


async def test_a_reader_that_goes_away_is_reported_once_and_the_rest_is_discarded(pipe):
    gone, (acknowledged, note) = [], counts()
    sink = Sink(Descriptor(taken(pipe, "w")), note, lambda: gone.append(1), wide())
    os.close(taken(pipe, "r"))
    task = asyncio.create_task(sink.run())
    for _ in range(64):
        sink.put(bytes(CHUNK))
    sink.put(b"")
    await asyncio.wait_for(task, 10)
    assert gone == [1]
    # otherwise the far side would wait for its window for ever
    assert sum(acknowledged) == 64 * CHUNK


async def test_a_borrowed_pipe_keeps_its_flags(pipe):
    descriptor = Descriptor(os.dup(pipe["w"]), Threads())
    await descriptor.write(b"x")
    assert os.get_blocking(pipe["w"])  # the client's shell shares that description
    descriptor.close()
    assert os.read(pipe["r"], 10) == b"x"


@pytest.mark.parametrize("make", [socket.socketpair, os.pipe])
async def test_a_borrowed_descriptor_that_is_full_does_not_block_the_loop(make):
    reader, writer = (end if isinstance(end, int) else end.detach() for end in make())
    descriptor = Descriptor(os.dup(writer), Threads())
    task = asyncio.create_task(descriptor.write(bytes(4 << 20)))
    await settle()
    assert not task.done()
    count = 0
    while count < 4 << 20:
        count += len(await asyncio.to_thread(os.read, reader, 1 << 20))
    await asyncio.wait_for(task, 10)
    descriptor.close()
    os.close(reader)
    os.close(writer)


async def test_devices_and_files_are_read_to_their_end(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    for path, expected in (("/dev/null", b""), (tmp_path / "file", b"abc")):
        descriptor = Descriptor(os.open(path, os.O_RDONLY), Threads())
        assert await descriptor.read(100) == expected
        assert await descriptor.read(100) == b""
        descriptor.close()


async def test_what_waits_to_be_written_takes_its_bytes_however_small_the_pieces(pipe):
    """The reader is stuck. Each byte came as a message of its own, beside megabytes in one
    batch."""
    sink = Sink(Descriptor(taken(pipe, "w")), ignored, pytest.fail, wide())
    batch = [pack(1, STDIN, b"x") for _ in range(1000)]
    tracemalloc.start()
    try:
        for _ in range(100):
            for _, _, body in unpack(pack_batch([*batch, bytes(1 << 20)]))[: len(batch)]:
                sink.put(body)
        held_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held_bytes < 1 << 20
    sink.close()


async def test_small_pieces_are_written_in_order(pipe):
    acknowledged, note = counts()
    window = Window(Share(budget_of_windows(), 0), 4)
    window.size_bytes = WINDOW_BYTES  # and it acknowledges each byte
    sink = Sink(Descriptor(taken(pipe, "w")), note, pytest.fail, window)
    pieces = [b"a", b"b", b"c" * (1 << 14), b"d", memoryview(b"e" * (1 << 15)), b"f"]
    for piece in pieces:
        sink.put(piece)
    sink.put(b"")
    reading = asyncio.create_task(asyncio.to_thread(os.read, pipe["r"], 1 << 20))
    task = asyncio.create_task(sink.run())
    found = await reading
    while data := await asyncio.to_thread(os.read, pipe["r"], 1 << 20):
        found += data
    await asyncio.wait_for(task, 10)
    assert found == b"".join(pieces)
    assert sum(acknowledged) == len(found)


@pytest.mark.parametrize("ends_first", [False, True], ids=["still open", "end of file passed on"])
async def test_what_an_ended_command_has_left_unread_is_dropped(ends_first):
    """A process that the command had passed its input to could keep it: memory of the LBM, a
    megabyte for each command, until the kernel ended the LBM."""
    reader, writer = os.pipe()
    sink = Sink(
        Descriptor(writer, Threads(), ours=True), ignored, pytest.fail, wide(), of_command=True
    )
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    running = sink.start()
    try:
        sink.put(b"x" * 50_000)
        if ends_first:
            sink.put(b"")
        await until(lambda: unread_bytes(reader) == 50_000)
        if ends_first:
            await running
            assert unread_bytes(reader) == 50_000, "the command may yet read it"
        assert await sink.taken_bytes() == 0
        running.cancel()
        sink.close(has_ended=True)
        await until(lambda: unread_bytes(reader) == 0)
        await until(lambda: [True for _, events in poll.poll(0) if events & select.POLLHUP])
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


async def test_no_more_is_read_while_others_messages_fill_the_outbox(pipe):
    """Each ended command of an origin that read nothing left up to a megabyte of each output."""
    sent, full, emptied = [], [True], asyncio.Event()
    os.write(pipe["w"], b"x" * 1000)
    source = Source(
        Descriptor(taken(pipe, "r"), ours=True),
        sent.append,
        emptied.wait,
        1 << 20,
        is_full=lambda: full[0],
    )
    os.close(taken(pipe, "w"))
    source.writers_gone()
    assert not source.drain()
    task = source.start()
    await settle()
    assert sent == []
    full[0] = False
    emptied.set()
    await asyncio.wait_for(task, 10)
    assert b"".join(sent) == b"x" * 1000


async def test_of_a_stream_that_is_given_up_no_data_is_kept(pipe):
    """Its task, exception and frames made a cycle of megabytes, which was collected late."""
    gc.collect()
    gc.disable()
    try:
        sink = Sink(Descriptor(taken(pipe, "w"), ours=True), ignored, pytest.fail, wide())
        task, kept = sink.start(), bytearray(CHUNK * 4)
        kept_ref = weakref.ref(data := Data(kept))
        sink.put(data)
        await settle()
        del data
        sink.put(bytes(CHUNK))
        task.cancel()
        await asyncio.wait([task])
        await settle()
        assert kept_ref() is None
        assert not sink._queue
    finally:
        gc.enable()


class Data(bytearray):
    """Can be referred to weakly."""

import asyncio
import contextlib
import errno
import os
import pty
import select
import socket
import termios
import threading
from types import SimpleNamespace

import pytest
import uvloop

from lbd.launch.outputs import shows_writer
from lbd.lbm.handover.fds import NotNow
from lbd.lbm.link import user_threads
from lbd.lbm.link.descriptor_kinds import DescriptorKind, kind_of, why_not
from lbd.lbm.link.nonblocking_fd import Descriptor
from lbd.lbm.link.user_threads import THREADS_MAX, Threads, UserThreads
from tests.unit.until import until

LINE = b"a secret line\n"


@pytest.fixture
def blocked():
    """Makes a pipe whose reader hangs, for use in a thread."""
    reader, writer = os.pipe()
    yield SimpleNamespace(reader=reader, writer=writer, hang=lambda: os.read(reader, 1))
    os.close(writer)
    os.close(reader)


async def test_hung_calls_of_one_user_take_no_threads_of_others(blocked):
    users, others = UserThreads(), threading.active_count()
    hung = [asyncio.create_task(users.of(1).run(blocked.hang)) for _ in range(3 * THREADS_MAX)]
    late = asyncio.create_task(users.of(1).run(lambda: "late"))
    assert await asyncio.wait_for(users.of(2).run(lambda: "done"), 10) == "done"
    assert not late.done()
    assert threading.active_count() < others + 2 * THREADS_MAX
    os.write(blocked.writer, bytes(len(hung)))
    assert await asyncio.wait_for(late, 10) == "late"
    await asyncio.gather(*hung)


async def test_nobody_waits_for_threads_that_hang(blocked, monkeypatch):
    threads = Threads()
    hung = asyncio.create_task(threads.run(blocked.hang))
    await until(lambda: threads._under_way)
    assert all(t.daemon for t in threading.enumerate() if t.name == "lbm-user")
    threads.rest()
    assert not threads.is_settled()  # it may end in a moment
    monkeypatch.setattr(user_threads, "HUNG_S", 0.0)
    assert threads.is_settled()  # it hung before: a hand-over does not wait for it
    assert not hung.done()
    os.write(blocked.writer, b"x")
    assert await hung == b"x"


async def test_a_resting_descriptor_starts_nothing_and_loses_nothing(blocked):
    threads = Threads(most=1)
    first = asyncio.create_task(threads.run(blocked.hang))
    made = []
    second = asyncio.create_task(threads.run(lambda: made.append(1)))
    await until(lambda: not blocked_is_pending(threads))
    threads.rest()
    assert not threads.is_settled()
    os.write(blocked.writer, b"x")
    assert await asyncio.wait_for(first, 10) == b"x"
    assert threads.is_settled()
    await asyncio.to_thread(lambda: None)
    assert not made
    second.cancel()


def blocked_is_pending(threads):
    return threads._calls.qsize() != 1


async def test_a_call_that_is_given_up_before_it_starts_is_never_made(blocked):
    threads = Threads(most=1)
    hung, made = asyncio.create_task(threads.run(blocked.hang)), []
    late = asyncio.create_task(threads.run(lambda: made.append(1)))
    await asyncio.sleep(0)
    late.cancel()
    await asyncio.wait((late,))
    os.write(blocked.writer, b"x")
    await hung
    await threads.run(lambda: None)
    assert not made


async def test_a_descriptor_in_a_call_is_closed_after_it(blocked):
    """By the time of the call its number could belong to another user's descriptor."""
    threads = Threads()
    call = threads.start(blocked.hang)
    await until(lambda: call.began_s)
    number = os.dup(blocked.writer)
    threads.close(number, call)
    os.fstat(number)
    os.write(blocked.writer, b"x")
    await until(lambda: not is_open(number))


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


async def test_a_user_whose_descriptors_hang_on_close_gets_no_more_of_them_accepted(
    blocked, tmp_path
):
    threads = Threads()
    for _ in range(THREADS_MAX):
        threads.start(blocked.hang)
    path = tmp_path / "file"
    for _ in range(user_threads.CLOSING_MAX):
        assert not threads.are_stuck
        threads.close(os.open(path, os.O_CREAT | os.O_RDWR))
    assert threads.are_stuck
    os.write(blocked.writer, bytes(THREADS_MAX))
    await until(lambda: not threads.are_stuck)


async def test_whose_calls_all_hang_gets_no_more_descriptors_taken(blocked, monkeypatch):
    users = UserThreads()
    for _ in range(THREADS_MAX):
        users.of(1).start(blocked.hang)
    assert not users.of(1).why_stuck()  # they may be slow
    monkeypatch.setattr(user_threads, "STUCK_S", 0.0)
    await until(lambda: users.of(1).why_stuck())
    assert not users.of(2).why_stuck()
    os.write(blocked.writer, bytes(THREADS_MAX))
    await until(lambda: not users.of(1).why_stuck())


async def test_a_connection_is_closed_with_everything_in_transit_in_it():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    reader, writer = os.pipe()
    for _ in range(3):
        socket.send_fds(theirs, [b"x"], [writer])
    os.close(writer)
    threads = Threads()
    threads.finish(ours)
    assert await asyncio.to_thread(os.read, reader, 1) == b""
    assert await asyncio.to_thread(theirs.recv, 1) == b""
    os.close(reader)
    theirs.close()


async def test_a_stopped_terminal_occupies_no_thread_that_others_need():
    """And it is written to as soon as it continues."""
    threads = Threads(most=1)
    master, slave = pty.openpty()
    termios.tcflow(slave, termios.TCOOFF)
    descriptor = Descriptor(os.dup(slave), threads)
    writing = asyncio.create_task(descriptor.write(LINE))
    await until(lambda: threads._watch.is_busy)
    assert await asyncio.wait_for(threads.run(lambda: "another"), 10) == "another"
    assert not writing.done()
    termios.tcflow(slave, termios.TCOON)
    await asyncio.wait_for(writing, 10)
    assert os.read(master, 100) == LINE.replace(b"\n", b"\r\n")
    descriptor.close()
    await until(lambda: not threads._watch.is_busy)
    os.close(master)
    os.close(slave)


def test_kinds_of_descriptors(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_bytes(b"")
    left, right = socket.socketpair()
    master, slave = pty.openpty()
    epoll = select.epoll()
    made = {
        os.open(tmp_path / "fifo", os.O_RDWR): DescriptorKind.PIPE,
        os.open(tmp_path / "file", os.O_RDWR): DescriptorKind.REGULAR,
        os.open(tmp_path, os.O_RDONLY): DescriptorKind.OTHER,
        os.open("/dev/null", os.O_RDWR): DescriptorKind.MEMORY,
        os.open("/proc/self/status", os.O_RDONLY): DescriptorKind.REGULAR,
        os.eventfd(0): DescriptorKind.NONE,
        epoll.fileno(): DescriptorKind.NONE,
        left.fileno(): DescriptorKind.SOCKET,
        master: DescriptorKind.TERMINAL,
        slave: DescriptorKind.TERMINAL,
    }
    assert {fd: kind_of(fd) for fd in made} == made
    refused = [fd for fd in made if why_not("standard input", fd)]
    assert [made[fd] for fd in refused] == [DescriptorKind.NONE, DescriptorKind.NONE]
    assert "eventfd" in why_not("standard input", refused[0])
    right.close()
    for descriptor in made:
        if descriptor not in (epoll.fileno(), left.fileno()):
            os.close(descriptor)
    epoll.close()
    left.close()


def fifo(path):
    os.mkfifo(path, 0o600)
    return path, os.open(path, os.O_RDWR | os.O_NONBLOCK)


@pytest.mark.parametrize("flags", [os.O_PATH, os.O_WRONLY])
async def test_what_the_client_may_not_read_is_not_read_for_it(tmp_path, flags):
    path, end = fifo(tmp_path / "fifo")
    os.write(end, LINE)
    descriptor = Descriptor(os.open(path, flags), Threads())
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        await asyncio.wait_for(descriptor.read(100), 10)
    descriptor.close()
    assert os.read(end, 100) == LINE
    os.close(end)


@pytest.mark.parametrize("flags", [os.O_PATH, os.O_RDONLY | os.O_NONBLOCK])
async def test_what_the_client_may_not_write_is_not_written_for_it(tmp_path, flags):
    path, end = fifo(tmp_path / "fifo")
    descriptor = Descriptor(os.open(path, flags), Threads())
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        await asyncio.wait_for(descriptor.write(LINE), 10)
    descriptor.close()
    with pytest.raises(BlockingIOError):
        os.read(end, 100)
    os.close(end)


@pytest.mark.parametrize("size", [1, 5000, 65_536, 3_000_000])
async def test_a_shared_pipe_carries_everything_in_order(size):
    reader, writer = os.pipe()
    data = os.urandom(size)
    source, sink = Descriptor(reader, Threads()), Descriptor(os.dup(writer), Threads())
    writing, got = asyncio.create_task(sink.write(data)), b""
    while len(got) < size:
        got += await asyncio.wait_for(source.read(100_000), 10)
    await writing
    assert got == data
    assert os.get_blocking(writer)
    sink.close()
    os.close(writer)
    assert await asyncio.wait_for(source.read(10), 10) == b""
    source.close()


@pytest.mark.parametrize(
    "make", [os.pipe, pty.openpty, lambda: pair()], ids=["pipe", "pty", "socket"]
)
def test_waiting_for_a_shared_pipe_leaves_its_flags_unchanged(make):
    """In the event loop of the daemons, which sets O_NONBLOCK on what it watches."""

    async def wait(number):
        descriptor = Descriptor(number, Threads())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(descriptor.read(10), 0.05)
        descriptor.close()

    ours, theirs = make()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(wait(os.dup(ours)))
    assert os.get_blocking(ours)
    os.close(ours)
    os.close(theirs)


def pair():
    return tuple(sock.detach() for sock in socket.socketpair())


async def test_a_packet_pipe_is_read_in_full():
    reader, writer = os.pipe2(os.O_DIRECT)
    source = Descriptor(reader, Threads())
    for word in (b"one ", b"two ", b"three"):
        os.write(writer, word)
    os.close(writer)
    got = b""
    while piece := await source.read(100):
        got += piece
    assert got == b"one two three"
    source.close()


async def test_a_call_in_a_thread_cannot_be_handed_over_and_what_it_read_is_not_lost(blocked):
    threads = Threads()
    master, slave = pty.openpty()
    os.write(master, b"line\n")
    descriptor = Descriptor(os.dup(slave), threads)
    assert await descriptor.read(100) == b"line\n"
    hung = asyncio.create_task(descriptor._in_thread(blocked.hang))
    await until(lambda: descriptor._last.began_s and descriptor._is_awaited)
    with pytest.raises(NotNow):
        descriptor.left()
    hung.cancel()
    await asyncio.wait((hung,))
    os.write(blocked.writer, b"x")
    assert await asyncio.wait_for(descriptor.lost_bytes(), 10) == 1
    descriptor.close()
    os.close(master)
    os.close(slave)


def test_an_output_whose_reader_could_take_the_lbm_for_its_user_is_refused(tmp_path):
    own, kinds = os.geteuid(), (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM)
    for kind in kinds:
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        with ours, theirs:
            # A datagram socket can be connected to another reader at any time.
            assert shows_writer(ours.fileno(), own) is (kind is socket.SOCK_DGRAM)
            assert shows_writer(ours.fileno(), own + 1)
            assert not why_not("standard input", ours.fileno())
            assert "take this LBM for you" in why_not("standard error", ours.fileno(), own + 1)
    with socket.socket(socket.AF_UNIX) as unconnected, socket.socket() as other:
        assert shows_writer(unconnected.fileno(), own)
        assert not shows_writer(other.fileno(), own)
    with open(tmp_path / "file", "w") as file:
        assert not shows_writer(file.fileno(), own + 1)


def test_a_file_in_memory_is_no_output():
    """What an LBM wrote there counted as its own memory, until the kernel ended it for that."""
    memory = os.memfd_create("output")
    try:
        assert "in memory" in why_not("standard output", memory, os.geteuid())
        assert not why_not("standard input", memory)
    finally:
        os.close(memory)

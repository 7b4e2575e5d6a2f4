"""Bytes through a pipe by handing over pages (vmsplice) instead of copying them."""

import errno
import os
from threading import Thread

import pytest

from lbd.python import pipes
from lbd.python.pipes import lend, read_exactly


@pytest.fixture
def pipe():
    reader, writer = os.pipe2(os.O_NONBLOCK)
    yield reader, writer
    for end in (reader, writer):
        os.close(end)


@pytest.fixture(params=["by the kernel", "copied"])
def way(request, monkeypatch):
    """Sandboxes that emulate the kernel may lack these calls."""

    class Libc:
        def vmsplice(self, *_):
            pipes.ctypes.set_errno(errno.ENOSYS)
            return -1

        madvise = vmsplice

    if request.param == "copied":
        monkeypatch.setattr(pipes, "LIBC", Libc())


@pytest.mark.usefixtures("way")
def test_lent_bytes_arrive_from_the_offset_on_as_far_as_there_is_room(pipe):
    reader, writer = pipe
    data = os.urandom(300_000)
    at, found = 7, b""
    while at < len(data):
        sent = lend(writer, data, at)
        assert 0 < sent < 150_000
        at += sent
        found += read_exactly(reader, sent)
    assert found == data[7:]
    os.write(writer, bytes(1 << 16))
    with pytest.raises(BlockingIOError):
        lend(writer, data, 0)


@pytest.mark.usefixtures("way")
def test_lending_without_a_reader_is_a_broken_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        lend(writer, b"data", 0)
    os.close(writer)


def test_an_exact_read_leaves_the_rest(pipe):
    reader, writer = pipe
    os.write(writer, b"content" + b"next")
    assert read_exactly(reader, 7) == b"content"
    assert os.read(reader, 99) == b"next"


def written_to(descriptor, data):
    with open(descriptor, "wb", closefd=True) as file:
        file.write(data)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("size", [(1 << 20) + 1, (3 << 20) - 33, 5 << 20])
def test_of_a_large_amount_each_byte_arrives_and_the_rest_is_left(size):
    reader, writer = os.pipe()
    data = os.urandom(size)
    thread = Thread(target=written_to, args=(writer, data + b"next"))
    thread.start()
    assert read_exactly(reader, size) == data
    assert os.read(reader, 99) == b"next"
    thread.join()
    os.close(reader)


@pytest.mark.parametrize("size", [100, 3 << 20])
def test_an_end_before_everything_has_arrived_is_an_error(size):
    reader, writer = os.pipe()
    thread = Thread(target=written_to, args=(writer, bytes(size - 1)))
    thread.start()
    with pytest.raises(EOFError):
        read_exactly(reader, size)
    thread.join()
    os.close(reader)


def test_a_size_beyond_all_memory_is_an_error_before_anything_is_read(pipe):
    reader, writer = pipe
    os.write(writer, b"next")
    with pytest.raises(MemoryError):
        read_exactly(reader, 1 << 60)
    assert os.read(reader, 99) == b"next"

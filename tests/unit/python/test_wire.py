"""Frames between executor and worker. What comes from a worker is bounded and checked."""

import pytest

from lbd.local.frames import pack
from lbd.python import wire
from lbd.python.wire import Incoming, TaskFrame


def test_a_task_round_trip():
    task = TaskFrame(7, b"function", b"arguments")
    frame = wire.pack_task(task)
    size, tag = wire.HEADER.unpack_from(frame)
    assert (tag, size) == (wire.TASK, len(frame) - wire.HEADER.size)
    assert wire.read_task(frame[wire.HEADER.size :]) == task


@pytest.mark.parametrize("body", [b"", b"short", wire.TASK_HEAD.pack(1, 99) + b"less"])
def test_a_truncated_task_is_refused(body):
    with pytest.raises(ValueError, match="a task"):
        wire.read_task(body)


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_frames_are_reassembled_however_they_arrive(step):
    data = pack(wire.HELLO, b"{}") + pack(wire.RESULT, b"x" * 50) + b"\0"
    incoming = Incoming(1000)
    found = [f for at in range(0, len(data), step) for f in incoming.feed(data[at : at + step])]
    assert found == [(wire.HELLO, b"{}"), (wire.RESULT, b"x" * 50)]


@pytest.mark.parametrize(
    "header",
    [
        wire.HEADER.pack(1, b"?"),
        wire.HEADER.pack(wire.SMALL_LIMIT_BYTES + 1, wire.HELLO),
        wire.HEADER.pack(wire.SMALL_LIMIT_BYTES + 1001, wire.RESULT),
    ],
    ids=["tag", "greeting", "result"],
)
def test_an_impossible_frame_is_refused_before_it_has_arrived(header):
    incoming = Incoming(1000)
    assert incoming.feed(pack(wire.HELLO, b"{}") + header) == [(wire.HELLO, b"{}")]
    assert "a frame" in incoming.fault
    assert incoming.feed(pack(wire.HELLO)) == []


def test_numbers_of_tasks():
    assert wire.read_ids(wire.pack_ids([1, 2**40])) == [1, 2**40]
    with pytest.raises(ValueError, match="half"):
        wire.read_ids(b"123")

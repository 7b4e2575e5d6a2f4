"""Reading an attempt's output, and recording that it was shown to a waiting user."""

import asyncio
import time
from functools import partial
from types import SimpleNamespace

import pytest

from lbd.lbm.queue.logs import LOOKS_AT_ONCE, LOOKS_PER_S, output_of, serve_logs
from lbd.local.rate_limit import Rates
from lbd.net.gen import dispatch_pb2 as pb


class Attempts:
    """An attempt that has printed, and lives for one more look."""

    def __init__(self, printed_bytes=5):
        read = lambda job, number, name, at, waits: SimpleNamespace(  # noqa: E731
            data=b"hello"[at:] if name == "out" else b"", next_at=5 if name == "out" else 0,
            dropped_bytes=0, cut=False,
        )  # fmt: skip
        self.spool = SimpleNamespace(
            exists=lambda *_: True, read=read, was_shown=self._shown,
            printed_bytes=lambda *_: printed_bytes, was_dropped=lambda *_: False,
            in_thread=lambda _, __, call: asyncio.to_thread(call),
        )  # fmt: skip
        self.shown = set()
        self.looks = 0

    def _shown(self, job, number):
        self.shown.add((job, number))

    def alive(self, job, number):
        self.looks += 1
        return self.looks < 4

    def is_awaited_by(self, reader, job, number):
        return reader == "h1"


@pytest.mark.parametrize(("follow", "at"), [(True, 0), (True, 5), (False, 0)])
@pytest.mark.parametrize("printed_bytes", [5, 10**9])  # read here, or in a thread
async def test_a_follower_counts_as_having_been_shown_the_output(follow, at, printed_bytes):
    attempts = Attempts(printed_bytes)
    asked = pb.LogsRequest(job="7", attempt=2, follow=follow, output_at=at)
    pieces = [piece.output async for piece in output_of(attempts, "h1", asked)]
    assert b"".join(pieces) == b"hello"[at:]
    assert attempts.shown == ({("7", 2)} if follow and not at else set())


@pytest.mark.parametrize(("name", "is_shown"), [("h1", True), ("h2", False)])
async def test_what_another_host_reads_was_shown_to_nobody(name, is_shown):
    """One call of any host for each job of the cluster, and none was moved any more when the owner
    of its host came back."""

    async def reader(context):
        return name

    attempts, asked = Attempts(), pb.LogsRequest(job="7", attempt=2, follow=True)
    looks = Rates(LOOKS_PER_S, LOOKS_AT_ONCE)
    await serve_logs(reader, attempts, looks, asked.SerializeToString(), Call())
    assert bool(attempts.shown) == is_shown


class Call:
    def __init__(self):
        self.written = 0

    async def write(self, data):
        self.written += 1


class Aborted(Exception):
    pass


class Refusing(Call):
    async def abort(self, code, text):
        raise Aborted(code, text)


@pytest.mark.parametrize("place", ["output_at", "error_at"])
async def test_a_position_beyond_any_file_is_refused(place):
    """The kernel takes none of 2^63: each such question left a traceback in the log."""

    async def reader(context):
        return "h2"

    asked = pb.LogsRequest(job="7", attempt=2, **{place: 1 << 63})
    looks = Rates(LOOKS_PER_S, LOOKS_AT_ONCE)
    with pytest.raises(Aborted, match="not a LogsRequest"):
        await serve_logs(reader, Attempts(), looks, asked.SerializeToString(), Refusing())


async def test_who_follows_on_thousands_of_streams_looks_no_oftener():
    """A host has this many streams: each looked every quarter of a second, or fifty times a second
    while something was printed, and nothing else was done here."""
    looks = Rates(LOOKS_PER_S, LOOKS_AT_ONCE)
    attempts, asked = Attempts(), pb.LogsRequest(job="7", attempt=2, follow=True)
    attempts.alive = lambda *_: True

    async def reader(name, context):
        return name

    def follow(name):
        check = partial(reader, name)
        return asyncio.create_task(
            serve_logs(check, attempts, looks, asked.SerializeToString(), Call())
        )

    many = [follow("h2") for _ in range(4 * int(LOOKS_AT_ONCE))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    now_s = time.monotonic()
    assert looks.turn_s("h2", now_s, 1e9, 0.0) > 1.0
    assert looks.turn_s("h3", now_s, 1e9, 0.0) == 0.0
    for task in many:
        task.cancel()
    await asyncio.gather(*many, return_exceptions=True)

"""What is read of an attempt's output, and that it was shown to somebody who waits for it."""

from types import SimpleNamespace

import pytest

from lbd.lbm.queue.logs import output_of
from lbd.net.gen import dispatch_pb2 as pb


class Attempts:
    """One that has printed, and lives for one more look."""

    def __init__(self):
        read = lambda job, number, name, at: SimpleNamespace(  # noqa: E731
            data=b"hello"[at:] if name == "out" else b"", next_at=5 if name == "out" else 0,
            dropped_bytes=0, cut=False,
        )  # fmt: skip
        self.spool = SimpleNamespace(exists=lambda *_: True, read=read, was_shown=self._shown)
        self.shown = set()
        self.looks = 0

    def _shown(self, job, number):
        self.shown.add((job, number))

    def alive(self, job, number):
        self.looks += 1
        return self.looks < 4


@pytest.mark.parametrize(("follow", "at"), [(True, 0), (True, 5), (False, 0)])
async def test_who_follows_has_been_shown_its_output(follow, at):
    attempts = Attempts()
    asked = pb.LogsRequest(job="7", attempt=2, follow=follow, output_at=at)
    pieces = [piece.output async for piece in output_of(attempts, asked)]
    assert b"".join(pieces) == b"hello"[at:]
    assert attempts.shown == ({("7", 2)} if follow else set())

"""The messages of a step that packs or unpacks, wherever it ran."""

import asyncio
import errno
import os

import pytest

from lbd.errors import Unavailable
from lbd.keeper.spawn_order import Order
from lbd.lbm.keeper_link import ARE_KILLED, Forked, ProcessExit, Spawned, SpawnFailed
from lbd.lbm.link.nonblocking_fd import Descriptor
from lbd.lbm.link.pump import Sink
from lbd.lbm.link.window import Window, budget_of_windows
from lbd.lbm.link.wire import WINDOW_BYTES
from lbd.lbm.staging.step import complaint_file, complaint_in, failure_of_step
from lbd.local.budget import Share


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (b"a/b: No such file or directory\n", "a/b: No such file or directory"),
        (b"", "ended with 3"),
        (b"\n", "ended with 3"),
    ],
)
def test_a_step_reports_why_it_failed_or_its_status(said, shown):
    assert complaint_of(said) == shown


@pytest.mark.parametrize("said", [b"\x1b[2Ja: gone", b"a\nb: gone", b"\xff\x00: gone"])
def test_the_message_from_another_host_is_one_printable_line(said):
    """It is shown to the user, and names of files may be anything."""
    assert complaint_of(said).isprintable()


def complaint_of(said):
    descriptor = complaint_file()
    try:
        os.write(descriptor, said)
        return complaint_in(descriptor, 3)
    finally:
        os.close(descriptor)


async def test_a_host_that_complains_without_end_fills_no_memory():
    """What it sent was kept as it came, 300 MB/s of it."""
    descriptor, acknowledged, gone = complaint_file(), [], []
    window = Window(Share(budget_of_windows(), 0), left_bytes=WINDOW_BYTES)
    note = lambda count, _granted_bytes: acknowledged.append(count)  # noqa: E731
    sink = Sink(Descriptor(os.dup(descriptor)), note, lambda: gone.append(1), window)
    moving = sink.start()
    for number in range(64):
        sink.put(b"no room%d\n" % number + bytes(1 << 18))
        await asyncio.sleep(0.001)
    sink.put(b"")
    await moving
    assert sum(acknowledged) > 1 << 23, "it may go on"
    assert gone == [1]
    assert os.fstat(descriptor).st_blocks * 512 <= 4096
    assert complaint_in(descriptor, 1) == "no room0"
    os.close(descriptor)


class Link:
    """The link to a keeper that has an end, or trouble, for each step."""

    def __init__(self, end):
        self._end = end

    async def spawn(self, _order, descriptors, stopped, _limit=b""):
        if isinstance(self._end, Exception):
            raise self._end
        spawned = Spawned(stopped)
        spawned.begun.set_result(Forked(1, ""))
        os.write(descriptors[2], b"big: it failed\n")
        spawned.exited.set_result(ProcessExit(self._end << 8, 0.0, 0.0, 0, False))
        return spawned


@pytest.mark.parametrize(
    ("end", "failure"),
    [
        (0, ("", 0)),
        (errno.ENOSPC, ("big: it failed", errno.ENOSPC)),
        (1, ("big: it failed", 0)),  # it has no errno
        (137, ("big: it failed", 0)),  # by a signal
        (SpawnFailed("spawn", errno.EAGAIN),
         ("spawn: Resource temporarily unavailable", errno.EAGAIN)),
        (SpawnFailed("spawn", errno.EPIPE), (ARE_KILLED, errno.EAGAIN)),
        (Unavailable("its keeper is being replaced"),
         ("its keeper is being replaced", errno.EAGAIN)),
    ],
)  # fmt: skip
async def test_a_failure_has_the_errno_behind_it(end, failure):
    assert await failure_of_step(Link(end), Order(argv=[b"unpack"]), None, None) == failure

"""Runs the keeper's child that does a step of file_worker.py, with the given files."""

import asyncio
import errno
import fcntl
import os
from collections.abc import Iterable, Sequence

from lbd.config.schema import StageConfig
from lbd.errors import LbdError
from lbd.keeper.spawn_order import Order
from lbd.lbm.keeper_link import KeeperLink, ProcessExit, Spawned, SpawnFailed, end_soon
from lbd.model import JobId
from lbd.text.one_line import one_line

COMPLAINT_BYTES = 4096
SIGNALLED = 128  # an exit status from there on says by which signal it ended


def step_words(
    step: bytes, limits: StageConfig, send: Sequence[bytes], fetch: Iterable[bytes]
) -> list[bytes]:
    """The words of a step that packs or unpacks."""
    numbers = limits.max_bytes, limits.max_files, len(send)
    return [step, *(b"%d" % number for number in numbers), *send, *fetch]


async def run_step(link: KeeperLink, order: Order, source: int | None, output: int | None) -> str:
    """Runs a step. Returns why it failed, "" if it did not. The descriptors stay the caller's. The
    step ends if it is cancelled."""
    return (await failure_of_step(link, order, source, output))[0]


async def failure_of_step(
    link: KeeperLink, order: Order, source: int | None, output: int | None
) -> tuple[str, int]:
    """Like `run_step`; with the errno behind it, 0 if there is none."""
    complaint, number, _ = await outcome_of_step(link, order, source, output)
    return complaint, number


async def outcome_of_step(
    link: KeeperLink,
    order: Order,
    source: int | None,
    output: int | None,
    said_bytes: int = COMPLAINT_BYTES,
) -> tuple[str, int, str]:
    """Like `failure_of_step`; with what a step that has not failed says, at most so much."""
    said = complaint_file(said_bytes)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    order.closed_fds = 0
    try:
        ends = [null if source is None else source, null if output is None else output, said]
        ended = await run_worker(link, order, ends)
        if ended.status == 0:
            return "", 0, text_in(said)
        return complaint_in(said, ended.status), errno_of(ended), ""
    except SpawnFailed as problem:
        return str(problem), problem.number, ""
    except LbdError as problem:
        return str(problem), errno.EAGAIN, ""  # its keeper is being replaced
    finally:
        os.close(said)
        os.close(null)


def errno_of(ended: ProcessExit) -> int:
    """Returns the errno that a failed step ended with; 0: none. Not all have one: then it is 1."""
    return ended.status if 1 < ended.status < SIGNALLED else 0


def complaint_file(size: int = COMPLAINT_BYTES) -> int:
    """Returns a file for a step's stderr, which does not grow: it is memory of this LBM, and the
    host that does the step may send what it likes. Writing beyond its end fails."""
    said = os.memfd_create("complaint", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(said, size)
    fcntl.fcntl(said, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    return said


def complaint_in(said: int, status: int) -> str:
    """Returns what a failed step has written to its `complaint_file`, for people."""
    return one_line(text_in(said)[:COMPLAINT_BYTES]) or f"ended with {status}"


def text_in(said: int) -> str:
    """Returns what a step has written to its `complaint_file`."""
    return os.pread(said, os.fstat(said).st_size, 0).rstrip(b"\0").decode(errors="replace").strip()


async def run_worker(
    link: KeeperLink, order: Order, descriptors: list[int], limit: bytes = b""
) -> ProcessExit:
    """Returns how the child ended; if its waiter leaves first, ends it. Raises LbdError."""
    order.worker = True
    spawned: Spawned | None = None
    try:
        spawned = await link.spawn(order, descriptors, lambda _: None, limit)
        await asyncio.shield(spawned.begun)
        return await asyncio.shield(spawned.exited)
    finally:
        if spawned is not None and not spawned.exited.done():
            end_soon(link, JobId(order.job))
        del spawned  # breaks the cycle of its exception, the traceback, this frame and it
